"""Training: the loop is `transformers.Trainer`'s, the loss and the batches are ours."""
