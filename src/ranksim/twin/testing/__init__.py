"""The fake deployment inside a test; its public names stand in `ranksim.testing`."""
