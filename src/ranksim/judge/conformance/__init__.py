"""Judging a recorded trace: for every rule, whether the deployment behaved as the model says."""
