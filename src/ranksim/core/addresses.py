"""Addresses of this machine."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Names and addresses under which a machine reaches itself."""
