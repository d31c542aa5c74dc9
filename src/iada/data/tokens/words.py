"""Words and pieces: encoding word by word, where words begin, and what pieces spell.

A byte-pair encoding never merges across spaces, so the tokens of a sentence are those of its words
one after the other. `WordEncoder` looks words up, which takes a fraction of the time that the
tokenizer needs for whole sentences, with the same result. A word is cut further into letters,
digits and signs as the tokenizer does; which characters are which is asked of the tokenizer itself.

`PieceWords` finds where words begin among the pieces of a plain segmentation: a word is an optional
space and a run of letters, of digits or of signs, and spaces without a word are words of their own.
So ids suffice for a new segmentation, and no text is ever put together.

A character outside the alphabet is several pieces, one for each of its bytes; they belong together.
"""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Literal

import numpy as np
import numpy.typing as npt

from iada.data.prepared.store import Ids, Offsets
from iada.data.tokens.pretokenize import SideName
from iada.data.tokens.subwords import SPACE, Subwords, mark_spaces

CharacterKind = Literal["letter", "digit", "sign"]
_MOST_WORDS = 100_000
_MOST_CHARACTERS = 20_000_000
"""What is remembered. Most words of a corpus are rare, so little is lost when the memory is
emptied; and so it does not grow with the corpus."""
_END = "\n"
"""Stands for the end of a sentence among words."""


class WordEncoder:
    """Encode many sentences with one byte-pair encoding."""

    def __init__(self, subwords: Subwords) -> None:
        self.subwords = subwords
        # Words are normalised and split already, so only the model itself is needed.
        self._segment = subwords.tokenizer.model.tokenize
        self._letters: set[str] = set()
        self._digits: set[str] = set()
        self._known: set[str] = {SPACE}
        self._pattern = self._learn_characters("a0")
        self._forget()

    def encode(self, sentences: Sequence[str], side: SideName) -> npt.NDArray[np.int32]:
        """(tokens,): the sentences one after the other, each followed by `<sep>`."""
        if not sentences:
            return np.zeros(0, np.int32)
        if self.subwords.tags and side == "source":
            return self._encode_tagged(sentences)
        return self._encode(sentences, side)

    def _encode_tagged(self, sentences: Sequence[str]) -> npt.NDArray[np.int32]:
        tags, texts = zip(*map(self.subwords.split_tag, sentences), strict=True)
        tokens = self._encode(texts, "source")
        ends = np.flatnonzero(tokens == self.subwords.special.sep) + 1
        begins = np.concatenate(([0], ends[:-1]))
        ids = [
            (begin, self.subwords.tags[tag]) for begin, tag in zip(begins, tags, strict=True) if tag
        ]
        if not ids:
            return tokens
        places, values = zip(*ids, strict=True)
        return np.insert(tokens, places, values)

    def _encode(self, sentences: Sequence[str], side: SideName) -> npt.NDArray[np.int32]:
        if len(self._numbers) > _MOST_WORDS or self._characters > _MOST_CHARACTERS:
            self._forget()
        words = _split(mark_spaces(self.subwords.pretokenize(sentences, side)) + _END)
        known = len(self._numbers)
        # One look-up each, new words included: they get their number now, their tokens below.
        chosen = np.fromiter(map(self._numbers.__getitem__, words), np.int64, len(words))
        if new := list(islice(reversed(self._numbers), len(self._numbers) - known)):
            self._learn(new[::-1])
        begins = np.frombuffer(self._begins, np.int64)
        lengths = begins[chosen + 1] - begins[chosen]
        # A token's place in the table, less its place in the result, is constant in a word.
        shift = begins[chosen] - (np.cumsum(lengths) - lengths)
        places = np.repeat(shift, lengths) + np.arange(int(lengths.sum()))
        return np.frombuffer(self._tokens, np.int32)[places]

    def _forget(self) -> None:
        """Begin a table that knows the end of a sentence alone."""
        self._numbers = defaultdict(count(1).__next__, {_END: 0})
        """Number of each word; asked for a new one, it gives the next number."""
        self._tokens = array("i", [self.subwords.special.sep])
        """Tokens of all words, one after the other."""
        self._begins = array("q", [0, 1])
        """Where the tokens of each word begin, and where the last ones end."""
        self._pieces: dict[str, list[int]] = {}
        """Tokens of the parts of words: letters, digits or signs."""
        self._characters = 0

    def _learn(self, words: Sequence[str]) -> None:
        """Add tokens of new words, in the order of their numbers."""
        self._characters += sum(map(len, words))
        if new := set().union(*words) - self._known:
            self._pattern = self._learn_characters(new)
        for word in words:
            for part in self._cut(word):
                tokens = self._pieces.get(part)
                if tokens is None:
                    tokens = self._pieces[part] = [token.id for token in self._segment(part)]
                self._tokens.extend(tokens)
            self._begins.append(len(self._tokens))

    def _cut(self, word: str) -> list[str]:
        """Cut a word, which has a space before it unless it is made of spaces."""
        return [word] if word[0] == SPACE else self._pattern.findall(SPACE + word)

    def _learn_characters(self, characters: Iterable[str]) -> re.Pattern[str]:
        """Class new characters as the tokenizer does, and return the pattern that cuts words."""
        for character in characters:
            self._known.add(character)
            kind = character_kind(self.subwords, character)
            if kind == "letter":
                self._letters.add(character)
            elif kind == "digit":
                self._digits.add(character)
        letters = "".join(map(re.escape, sorted(self._letters)))
        digits = "".join(map(re.escape, sorted(self._digits)))
        return re.compile(
            f"{SPACE}?[{letters}]+|{SPACE}?[{digits}]+|{SPACE}?[^{letters}{digits}{SPACE}]+"
        )


def character_kind(subwords: Subwords, character: str) -> CharacterKind:
    """Class a character, which is no space, as the tokenizer does when it cuts words."""
    split = subwords.tokenizer.pre_tokenizer.pre_tokenize_str
    if len(split(f"a{character}")) == 1:
        return "letter"
    return "digit" if len(split(f"0{character}")) == 1 else "sign"


def _split(text: str) -> list[str]:
    """Return the words of sentences that end in `_END` each, without the space before a word.

    A run of several spaces is a word of spaces; the last of the run belongs to the word after it.
    """
    # An end gets a space of its own, so that it is a word like any other.
    words = text.replace(_END, SPACE + _END).split(SPACE)[1:]
    if "" not in words:
        return words
    merged: list[str] = []
    spaces = 0
    for word in words:
        if not word:
            spaces += 1
            continue
        if spaces and word == _END:
            # No word follows, so the tokenizer parts the last space from the others.
            merged += [SPACE * (spaces - 1), SPACE] if spaces > 1 else [SPACE]
        elif spaces:
            merged.append(SPACE * spaces)
        merged.append(word)
        spaces = 0
    return merged


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
