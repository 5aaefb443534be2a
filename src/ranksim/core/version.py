"""Which version of ranksim this is."""

VERSION = "0.1.0"
