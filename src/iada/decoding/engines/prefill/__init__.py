"""Our own beam search for Marian models: the target prefix is read in one pass."""
