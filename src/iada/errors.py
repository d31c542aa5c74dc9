"""Errors that users can mend.

Each message says what was found, where, the rule, and the next step, in one or two sentences.
The command line prints them without a traceback and ends with exit code 2. Programming mistakes
stay `ValueError` and `TypeError`.
"""


class IadaError(Exception):
    """Anything a user can mend; never raised itself."""


class ConfigError(IadaError):
    """A configuration file, key, flag or value is wrong."""


class DataError(IadaError):
    """A corpus, document or sentence breaks a rule."""


class ModelError(IadaError):
    """A model, checkpoint or tokenizer cannot do what was asked."""


class RunError(IadaError):
    """A run folder is missing something, or holds something that must not be overwritten."""
