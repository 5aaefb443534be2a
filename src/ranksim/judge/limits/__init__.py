"""What anybody's rate limit really does: calls observed or probed, judged by the readings of rate windows."""
