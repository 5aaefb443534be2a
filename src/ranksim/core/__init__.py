"""The core: what the service does, and who calls it; it knows no wing."""
