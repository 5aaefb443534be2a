"""Loading a deployment: the recorder, the session under it, and Locust users that play profiles."""
