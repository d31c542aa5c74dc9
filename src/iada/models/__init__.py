"""The translation models, and a look inside them during a forward pass."""
