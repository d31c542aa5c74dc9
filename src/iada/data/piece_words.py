"""Where words begin among the pieces of a plain segmentation.

Merges never cross the borders of words, so a new segmentation needs them. They follow from the
pieces: a word is an optional space and a run of letters, of digits or of signs, and spaces without
a word are words of their own. So ids suffice, and no text is ever put together.
"""

import numpy as np

from iada.data.store import Ids, Offsets
from iada.data.subwords import SPACE, Subwords
from iada.data.words import CharacterKind, character_kind

_ALONE, _SPACES = 0, 1
_KINDS: dict[CharacterKind, int] = {"letter": 2, "digit": 3, "sign": 4}


class PieceWords:
    """Find the words of one byte-pair encoding."""

    def __init__(self, subwords: Subwords) -> None:
        pieces = subwords.pieces(range(len(subwords)))
        kinds: dict[str, int] = {}
        self._kind = np.full(len(pieces), _ALONE, dtype=np.int8)
        """What each piece is made of, a space before it aside. No merge touches specials and bytes,
        which stand alone."""
        self._spaced = np.zeros(len(pieces), dtype=np.bool_)
        """Whether each piece begins with a space."""
        reserved = set(subwords.reserved_ids)
        for number, piece in enumerate(pieces):
            if number in reserved:
                continue
            self._spaced[number] = piece.startswith(SPACE)
            rest = piece.lstrip(SPACE)
            if rest and rest[0] not in kinds:
                kinds[rest[0]] = _KINDS[character_kind(subwords, rest[0])]
            self._kind[number] = kinds[rest[0]] if rest else _SPACES

    def begins(self, ids: Ids) -> Offsets:
        """(words,): where words begin in plain pieces, (tokens,), of sentences end to end."""
        kind, spaced = self._kind[ids], self._spaced[ids]
        before, after_spaces = kind[:-1], kind[:-1] == _SPACES
        followed = np.append(spaced[2:], False)
        alone = (before == _ALONE) | (kind[1:] == _ALONE)
        inside = np.where(
            spaced[1:],
            # In a run of spaces the last one belongs to the word that follows, if one does.
            after_spaces & (kind[1:] == _SPACES) & followed,
            after_spaces | (before == kind[1:]),
        )
        return np.flatnonzero(np.concatenate(([True], ~inside | alone))[: len(ids)])
