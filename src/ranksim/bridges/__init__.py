"""What joins two wings, so that the wings need not know each other; only the shell imports it.

A check beside its twin, a mirror that is served, a load by the clients of a scenario, a load under way on the
live page, and load profiles in virtual time against the rulebook.
"""
