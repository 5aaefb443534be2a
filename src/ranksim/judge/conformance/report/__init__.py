"""A judgement as plain rows, what went over the wire, and the measured beside the simulated."""
