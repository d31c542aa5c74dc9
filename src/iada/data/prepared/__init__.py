"""A corpus on disk: checked once, encoded once, opened as memory-mapped arrays."""
