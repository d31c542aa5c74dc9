"""User-fixable errors.

Each message says what was found, where, the rule, and the next step, in one or two sentences.
The command line prints them without a traceback and ends with exit code 2. Programming mistakes
stay `ValueError` and `TypeError`.
"""

import difflib
from collections.abc import Iterable


class IadaError(Exception):
    """Anything a user can fix; never raised itself."""


class ConfigError(IadaError):
    """A configuration file, key, flag or value is wrong."""


class DataError(IadaError):
    """A corpus, document or sentence breaks a rule."""


class ModelError(IadaError):
    """A model, checkpoint or tokenizer cannot do what was asked."""


class RunError(IadaError):
    """A run folder is missing something, or holds something that must not be overwritten."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name as a question or, if none is near, all of them."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean `{close[0]}`?"
    return f"Known: {', '.join(f'`{known_name}`' for known_name in names)}."
