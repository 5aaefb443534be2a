"""The HTTP surface of a fake deployment: requests in, calls; replies out, bytes."""
