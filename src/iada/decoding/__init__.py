"""Translate whole documents, and score given translations."""
