"""The pytest plugin: collects scenario files as tests. Loading it imports nothing of the simulation."""
