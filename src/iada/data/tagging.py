"""Tags: special tokens such as `<bt>` that may begin a source sentence, as text.

Anywhere else, and on the target side, the same letters are ordinary text.
"""

import re
from collections.abc import Collection, Sequence

_TAG = re.compile(r"(<[a-z][a-z0-9_]*>) ")


def split_tag(sentence: str, tags: Collection[str]) -> tuple[str | None, str]:
    """Return the tag that a source sentence begins with, if any, and the rest.

    A tag counts only if a space follows it.
    """
    first, _, rest = sentence.partition(" ")
    return (first, rest) if rest and first in tags else (None, sentence)


def unnamed_tag(sentence: str, tags: Collection[str]) -> str | None:
    """Return what looks like a tag at the beginning of a source sentence but is none of `tags`."""
    found = _TAG.match(sentence)
    return found[1] if found and found[1] not in tags else None


def untagged(sentences: Sequence[str], tags: Collection[str]) -> Sequence[str]:
    """Return source sentences without their tags."""
    return [split_tag(text, tags)[1] for text in sentences] if tags else sentences
