"""The planner: what to offer, buy and build. Studies, fleets, and the questions of capacity and pricing."""
