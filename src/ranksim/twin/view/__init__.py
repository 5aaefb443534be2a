"""Recorded and simulated runs on the live page: events in order of time, and the state beside them."""
