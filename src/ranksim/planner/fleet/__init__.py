"""Fleets: whole populations of accounts, generated and judged account by account in compiled code."""
