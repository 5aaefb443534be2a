"""Verdicts and their evidence; what a policy pins and what is open."""
