"""Configuration: frozen dataclasses whose fields are the YAML keys and the command-line flags.

The docstring under a field is its only documentation. Defaults are the paper's where the paper
says, and `docs/decisions.md` gives the reason where it does not.
"""
