"""Encode a corpus word by word: what stands between two spaces is segmented once.

A byte-pair encoding never merges across spaces, so the tokens of a sentence are those of its words
one after the other. Splitting text at spaces and looking words up takes a fraction of the time that
the tokenizer needs for whole sentences, with the same result. A word is cut further into letters,
digits and signs as the tokenizer does; which characters are which is asked of the tokenizer itself.
"""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import Literal

import numpy as np
import numpy.typing as npt

from iada.data.moses import SideName
from iada.data.subwords import SPACE, Subwords, mark_spaces

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
