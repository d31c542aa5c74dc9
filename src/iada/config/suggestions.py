"""The sentence that helps after an unknown name."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name as a question or, if none is near, all of them."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean `{close[0]}`?"
    return f"Known: {', '.join(f'`{known_name}`' for known_name in names)}."
