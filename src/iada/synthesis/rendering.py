"""Replaced tokens as text.

Pieces join to valid text: a character that the vocabulary spells in bytes is replaced as a whole
or not at all. A masked token becomes a word of its own between spaces; a random piece stands where
the token stood, with the space that it brings itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from iada.config.data import Boundaries
from iada.data.formats.text import is_separator
from iada.data.tokens.pretokenize import SideName
from iada.data.tokens.subwords import MASK, SubwordEncoding
from iada.data.tokens.words import characters
from iada.errors import ConfigError


@dataclass(frozen=True)
class Swap:
    """Tokens `start` to `stop` - 1 of a sentence and what stands in their place."""

    start: int
    stop: int
    piece: str
    """As it stands in the vocabulary."""
    id: int


def swaps(
    subwords: SubwordEncoding, tokens: Sequence[str], selected: Sequence[bool], drawn: Sequence[int]
) -> tuple[Swap, ...]:
    """Return what is replaced, in order.

    Args:
        subwords: the vocabulary.
        tokens: pieces of a sentence.
        selected: which of them were selected; one byte selects its whole character.
        drawn: the token that replaces each.
    """
    found = []
    for start, stop in characters(tokens):
        chosen = [i for i in range(start, stop) if selected[i]]
        if chosen:
            number = drawn[chosen[0]]
            found.append(Swap(start, stop, subwords.pieces([number])[0], number))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Rendering:
    """What a file can hold, and what stands for a masked token in it."""

    boundaries: Boundaries
    """What parts the documents of the file."""
    mask_text: str = MASK
    """Stands for a masked token."""

    def __post_init__(self) -> None:
        if len(self.mask_text.split()) != 1 or not self.is_sentence(self.mask_text):
            raise ConfigError(
                f"`mask_text` must be one word that parts no documents, but is {self.mask_text!r}."
            )

    def is_sentence(self, text: str) -> bool:
        """Whether a file would hold the text as a sentence."""
        return bool(text.strip()) and not is_separator(text, self.boundaries)

    def text(
        self,
        subwords: SubwordEncoding,
        sentence: str,
        ids: Sequence[int],
        replaced: Sequence[Swap],
        side: SideName,
    ) -> str:
        """Return a sentence with tokens replaced.

        Args:
            subwords: its encoding.
            sentence: the original, for its tag.
            ids: its tokens.
            replaced: what changes.
            side: which language it is in.
        """
        parts: list[list[int]] = [[]]
        position = 0
        for swap in replaced:
            parts[-1] += ids[position : swap.start]
            if swap.id in subwords.special.masks:
                parts.append([])
            else:
                parts[-1].append(swap.id)
            position = swap.stop
        parts[-1] += ids[position:]
        texts = [subwords.joined(part) for part in parts]
        joined = texts[0]
        for text in texts[1:]:
            joined = " ".join(filter(None, (joined, self.mask_text, text)))
        if subwords.moses is not None:
            joined = subwords.moses.detokenize(joined, side)
        tag = subwords.split_tag(sentence)[0] if side == "source" else None
        return joined if tag is None else f"{tag} {joined}"
