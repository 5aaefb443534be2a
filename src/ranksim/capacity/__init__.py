"""Answers to the questions of capacity planners: slots, syncs, workers, outages and portfolios."""
