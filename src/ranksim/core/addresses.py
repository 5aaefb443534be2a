"""Addresses of this machine, and those that webhooks go to."""

from typing import Literal

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Names and addresses under which a machine reaches itself."""

Receivers = Literal["public", "others", "any"]
"""Which addresses webhooks go to: public ones; all but link-local ones and the server's own; all."""
