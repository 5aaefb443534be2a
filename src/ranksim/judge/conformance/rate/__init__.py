"""Rate windows: five algorithms as necessary conditions, and what the headers of replies say."""
