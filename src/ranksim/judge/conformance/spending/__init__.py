"""What accounts spend: the six checks, and what is left of each allowance."""
