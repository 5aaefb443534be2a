"""Answers to the questions of pricing: what another catalogue would have earned, cost and refused."""
