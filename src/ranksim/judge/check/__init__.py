"""A deployment checked in one command: planned by reading, run by what is undecided, judged meanwhile."""
