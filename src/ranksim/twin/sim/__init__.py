"""The simulation driver: scenarios, the worlds made of them, and what a run of one shows."""
