"""What pieces spell: the text that each of them adds, and the word that it belongs to.

A character outside the alphabet is several pieces, one for each of its bytes; they belong together.
"""

import re
from collections.abc import Iterator, Sequence

from iada.data.subwords import SPACE

_BYTE = re.compile("<0x([0-9A-F]{2})>")


def characters(pieces: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each piece, or of all bytes of a character that is spelled in them."""
    start = 0
    for position, piece in enumerate(pieces):
        byte = _byte(piece)
        continues = byte is not None and 0x80 <= byte < 0xC0
        if position > start and not continues:
            yield start, position
            start = position
    if pieces:
        yield start, len(pieces)


def spelled(pieces: Sequence[str]) -> list[str]:
    """Return the text that each piece adds; the first byte of a character adds all of it."""
    texts = [""] * len(pieces)
    for start, stop in characters(pieces):
        values = [_byte(piece) for piece in pieces[start:stop]]
        if values[0] is None:
            texts[start] = pieces[start].replace(SPACE, " ")
        else:
            texts[start] = bytes(value or 0 for value in values).decode("utf-8", "replace")
    return texts


def words_of_pieces(pieces: Sequence[str], words: Sequence[str]) -> list[int] | None:
    """Return which word each piece belongs to: the one in which it begins.

    A piece of spaces belongs to the word after it, or to the last one; the later bytes of a
    character belong where its first byte does.

    Args:
        pieces: of a sentence, as they stand in the vocabulary.
        words: of the same sentence, in order.

    Returns:
        Numbers from 0; None if pieces and words spell different characters, spaces aside.
    """
    texts = spelled(pieces)
    letters = [_without_spaces(word) for word in words]
    if _without_spaces("".join(texts)) != "".join(letters):
        return None
    owners = [number for number, word in enumerate(letters) for _ in word]
    if not owners:
        return None if pieces else []
    found: list[int] = []
    position = 0
    for start, stop in characters(pieces):
        found += [owners[min(position, len(owners) - 1)]] * (stop - start)
        position += len(_without_spaces(texts[start]))
    return found


def _byte(piece: str) -> int | None:
    match = _BYTE.fullmatch(piece)
    return None if match is None else int(match[1], 16)


def _without_spaces(text: str) -> str:
    return "".join(text.split())
