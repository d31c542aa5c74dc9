"""Tags: special tokens such as `<bt>` that may begin a source sentence, as text.

Anywhere else, and on the target side, the same letters are ordinary text.
"""

from collections.abc import Collection, Sequence


def split_tag(sentence: str, tags: Collection[str]) -> tuple[str | None, str]:
    """Return the tag that a source sentence begins with, if any, and the rest.

    A tag counts only if a space follows it.
    """
    first, _, rest = sentence.partition(" ")
    return (first, rest) if rest and first in tags else (None, sentence)


def untagged(sentences: Sequence[str], tags: Collection[str]) -> Sequence[str]:
    """Return source sentences without their tags."""
    return [split_tag(text, tags)[1] for text in sentences] if tags else sentences
