"""Webhook attempts one by one, their timeline, what never came, and auto-disable."""
