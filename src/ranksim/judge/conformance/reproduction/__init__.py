"""Findings as shell scripts, which make what they need, show the deviation and remove what they made."""
