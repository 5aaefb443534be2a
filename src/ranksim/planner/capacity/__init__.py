"""Answers to the questions of capacity planners, by computing and by simulated worlds."""
