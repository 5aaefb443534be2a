"""Loading a deployment: profiles, the recorder, and Locust users that drive them."""
