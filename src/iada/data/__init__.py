"""Documents in, batches out: read, check, segment, cut windows, store tokens, fill batches."""
