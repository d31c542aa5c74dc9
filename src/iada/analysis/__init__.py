"""Questions about a trained model, each with its own file."""
