"""Scores of translations and of models, each with what is needed to compare it."""
