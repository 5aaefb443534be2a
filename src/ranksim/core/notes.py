"""Notes that one program leaves in a recording for another to read."""

ALONE = "the run is gone that the webhook receiver is for"
"""What the receiver of a run notes last where that ended without stopping it."""
