"""The twin: what will happen, and does my code cope? A simulation and a fake deployment."""
