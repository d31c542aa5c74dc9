"""Importance of tokens, which of them are replaced, and by what (section 3 of the paper)."""
