"""Encode a corpus word by word: every word is segmented once, and looked up from then on.

A byte-pair encoding never merges across words, so the tokens of a sentence are those of its words
one after the other. Splitting text into words with one regular expression and looking them up
takes less than half of the time that the tokenizer needs for whole sentences, with the same
result. Which characters are letters and which are digits is asked of the tokenizer itself.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from iada.data.moses import SideName
from iada.data.subwords import SPACE, Subwords, mark_spaces

_MOST_WORDS = 200_000
"""Words that are remembered; Europarl has 150,000. Beyond, the memory is emptied, so that it
does not grow with the corpus."""
_LONGEST_WORD = 50
"""Characters of the longest word that is remembered."""


class WordEncoder:
    """Encode many sentences with one byte-pair encoding."""

    def __init__(self, subwords: Subwords) -> None:
        self.subwords = subwords
        # Words are normalised and split already, so only the model itself is needed.
        self._model = Tokenizer(subwords.tokenizer.model)
        self._letters: set[str] = set()
        self._digits: set[str] = set()
        self._known: set[str] = {SPACE, "\n"}
        self._pattern = self._learn_characters("a0")
        self._tokens: dict[str, tuple[int, ...]] = {}

    def encode(self, sentences: Sequence[str], side: SideName) -> npt.NDArray[np.int32]:
        """(tokens,): the sentences one after the other, each followed by `<sep>`."""
        text = mark_spaces(self.subwords.pretokenize(sentences, side)) + "\n" * bool(sentences)
        if new := set(text) - self._known:
            self._pattern = self._learn_characters(new)
        words = self._pattern.findall(text)
        if len(self._tokens) > _MOST_WORDS:
            self._tokens = {}
        tokens = self._tokens
        # A sentence ends where its line does.
        tokens["\n"] = (self.subwords.special.sep,)
        if missing := set(words).difference(tokens):
            segmented = self._segment(list(missing))
            self._tokens |= {w: ids for w, ids in segmented.items() if len(w) <= _LONGEST_WORD}
            tokens = self._tokens | {w: i for w, i in segmented.items() if len(w) > _LONGEST_WORD}
        return np.fromiter(chain.from_iterable(map(tokens.__getitem__, words)), np.int32)

    def _segment(self, words: list[str]) -> dict[str, tuple[int, ...]]:
        encodings = self._model.encode_batch_fast(words, add_special_tokens=False)
        return {word: tuple(e.ids) for word, e in zip(words, encodings, strict=True)}

    def _learn_characters(self, characters: Iterable[str]) -> re.Pattern[str]:
        """Class new characters as the tokenizer does, and return the pattern of all words."""
        split = self.subwords.tokenizer.pre_tokenizer.pre_tokenize_str
        for character in characters:
            self._known.add(character)
            if len(split(f"a{character}")) == 1:
                self._letters.add(character)
            elif len(split(f"0{character}")) == 1:
                self._digits.add(character)
        letters = "".join(map(re.escape, sorted(self._letters)))
        digits = "".join(map(re.escape, sorted(self._digits)))
        space = SPACE
        return re.compile(
            f"{space}?[{letters}]+|{space}?[{digits}]+|{space}?[^{letters}{digits}{space}\n]+"
            f"|{space}+(?={space})|{space}|\n"
        )
