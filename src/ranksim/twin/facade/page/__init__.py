"""The live page: what a browser shows of a deployment, and the state behind it."""
