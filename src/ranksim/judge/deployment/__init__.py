"""Calling somebody's deployment: what keys reach, what may be spent and touched, lost calls, cleaning up."""
