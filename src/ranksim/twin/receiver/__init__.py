"""The recording webhook receiver, as a program, an ASGI app and an object in a test."""
