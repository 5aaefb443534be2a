"""The control API of a fake deployment, everything under /_ranksim."""
