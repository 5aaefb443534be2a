"""A judgement as text, page, figures and JUnit XML, from its plain rows."""
