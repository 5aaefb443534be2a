"""The rules: pure decisions over integers and plain data."""
