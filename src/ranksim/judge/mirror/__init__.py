"""A twin of somebody's own account: what its keys may read, written as a world that can be run."""
