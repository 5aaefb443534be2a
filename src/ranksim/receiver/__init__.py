"""The recording webhook receiver, as a program, an ASGI app and an object in a test."""

ALONE = "the run is gone that the webhook receiver is for"
"""What the receiver of a run notes last where that ended without stopping it."""
