"""Windows of context and current sentences: cut, drawn, batched by tokens and padded."""
