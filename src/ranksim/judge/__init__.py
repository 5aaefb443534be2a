"""The judge: does a deployment do what it promises? Load, a trace, and a verdict on every rule."""
