"""Whoever calls the API, written once: programs without sockets or clocks, which three runners play.

The simulated world plays them in virtual time, with or without a network, and `ranksim check load` over HTTP.
"""
