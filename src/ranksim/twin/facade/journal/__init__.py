"""A world that outlives its process: every input in a file before its effect is seen."""
