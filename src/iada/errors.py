"""User-fixable errors.

Each message says what was found, where, the rule, and the next step, in one or two sentences.
The command line prints them without a traceback and ends with exit code 2. Programming mistakes
stay `ValueError` and `TypeError`.
"""

import difflib
import re
from collections.abc import Iterable

# Control characters, half characters, and marks that reorder text or hide in it.
_INVISIBLE = re.compile(
    "[\0-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Return a text with control characters spelled out, such as `\x1b`; line feeds stay.

    Names in foreign files may carry escape sequences that would move the cursor, recolour the
    terminal or reorder the line.
    """
    if text.isprintable():
        return text
    return _INVISIBLE.sub(lambda found: ascii(found.group())[1:-1], text)


class IadaError(Exception):
    """Anything a user can fix; never raised itself."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


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
