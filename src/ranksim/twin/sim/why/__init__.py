"""Why something happened in a run: when it became inevitable, and what would have prevented it."""
