"""Calibration: what a trace excludes, what survives, and the policy file it makes."""
