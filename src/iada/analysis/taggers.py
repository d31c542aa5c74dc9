"""Parts of speech of running text: gold tags beside a corpus, or the Hanover Tagger.

Tags are those of Universal Dependencies. The Hanover Tagger (HanTa) is an optional package; its
models lie inside it, so nothing is fetched.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from iada.config.data import Boundaries
from iada.data.documents import Document
from iada.data.formats.lines import read_lines
from iada.data.formats.text import documents_of, split_documents
from iada.data.mini.lexicon import Token
from iada.errors import ConfigError, DataError

Tagged = list[Token]
"""The words of a sentence with their tags."""


class Tagger(Protocol):
    """Finds the words of sentences and their parts of speech."""

    @property
    def name(self) -> str:
        """What tables call the tagger."""
        ...

    def tag(self, documents: Sequence[Document]) -> Iterator[list[Tagged]]:
        """Yield the tagged sentences of each document; words spell the sentence but for spaces."""
        ...


class GoldTagger:
    """Reads tags from a file with the lines of the corpus: `word|TAG word|TAG ...`."""

    name = "gold"

    def __init__(self, path: Path, boundaries: Boundaries) -> None:
        self.path = path
        self.boundaries = boundaries

    def tag(self, documents: Sequence[Document]) -> Iterator[list[Tagged]]:
        """Yield what the file says of each document."""
        lines = read_lines(self.path)
        spans = split_documents(lines, self.boundaries)
        tagged = documents_of(self.path, lines, spans)
        if [len(document) for document in tagged] != [len(document) for document in documents]:
            raise DataError(
                f"{self.path} has other documents than the corpus. It must have the same lines, "
                "each sentence as `word|TAG` pairs."
            )
        for document, span in zip(tagged, spans, strict=True):
            yield [
                self._sentence(line, number)
                for number, line in enumerate(document.sentences, start=span.start + 1)
            ]

    def _sentence(self, line: str, number: int) -> Tagged:
        pairs = [pair.rpartition("|") for pair in line.split()]
        if any(not word or not tag.isupper() for word, _, tag in pairs):
            raise DataError(
                f"{self.path}:{number}: not all words have a tag. Write `word|TAG` pairs."
            )
        return [Token(word, tag) for word, _, tag in pairs]


class HanoverTagger:
    """Tags English and German with HanTa.

    Forms of *be*, *have* and *do* and modal verbs are AUX, whatever they stand before.
    """

    name = "HanTa"

    def __init__(self, language: str) -> None:
        """Load the model of a language.

        Args:
            language: `en` or `de`.
        """
        if language not in _MODELS:
            raise ConfigError(
                f"There is no tagger for `{language}`, only for {' and '.join(_MODELS)}. Put gold "
                "tags beside the corpus, as `word|TAG` pairs in a file that ends in `.pos`."
            )
        try:
            from HanTa.HanoverTagger import HanoverTagger as Model
        except ImportError:
            raise ConfigError(
                "Tagging needs the package HanTa. Install it with `pip install 'iada[pos]'`."
            ) from None
        self._model: Any = Model(_MODELS[language])
        self._universal = _ENGLISH if language == "en" else _GERMAN

    def tag(self, documents: Sequence[Document]) -> Iterator[list[Tagged]]:
        """Yield the tagged sentences of each document."""
        for document in documents:
            yield [self._sentence(text) for text in document.sentences]

    def _sentence(self, text: str) -> Tagged:
        words = _WORD.findall(text)
        if not words:
            return []
        # The models know the plain apostrophe alone.
        found = self._model.tag_sent([word.replace(_APOSTROPHE, "'") for word in words])
        return [
            Token(word, self._universal_tag(tag))
            for word, (_, _, tag) in zip(words, found, strict=True)
        ]

    def _universal_tag(self, tag: str) -> str:
        """Return the universal tag of the longest beginning of a tag that the table knows."""
        known = (tag[:stop] for stop in range(len(tag), 0, -1) if tag[:stop] in self._universal)
        return self._universal[found] if (found := next(known, None)) else "X"


_MODELS = {"en": "morphmodel_en.pgz", "de": "morphmodel_ger.pgz"}

# English clitics are words of their own: do|n't, she|'s.
_APOSTROPHE = "\u2019"
_MARK = f"['{_APOSTROPHE}]"
_WORD = re.compile(
    rf"\w+(?=n{_MARK}t\b)|n{_MARK}t\b|{_MARK}(?:s|re|ve|ll|d|m)\b|\w+(?:[-.]\w+)*|\S",
    re.IGNORECASE,
)

# The tags of the British National Corpus (CLAWS 5), by their first letters.
_ENGLISH = {
    **dict.fromkeys(("AJ", "ORD"), "ADJ"),
    **dict.fromkeys(("PRP", "PRF", "AVP"), "ADP"),
    **dict.fromkeys(("AV",), "ADV"),
    **dict.fromkeys(("VB", "VD", "VH", "VM"), "AUX"),
    **dict.fromkeys(("CJC",), "CCONJ"),
    **dict.fromkeys(("AT", "DT0"), "DET"),
    **dict.fromkeys(("ITJ",), "INTJ"),
    **dict.fromkeys(("NN",), "NOUN"),
    **dict.fromkeys(("CRD",), "NUM"),
    **dict.fromkeys(("POS", "TO", "XX"), "PART"),
    **dict.fromkeys(("PN", "DPS", "DTQ", "EX"), "PRON"),
    **dict.fromkeys(("NP",), "PROPN"),
    **dict.fromkeys(("PU",), "PUNCT"),
    **dict.fromkeys(("CJS", "CJT"), "SCONJ"),
    **dict.fromkeys(("VV",), "VERB"),
}

# The Stuttgart-Tübingen tag set, by its first letters.
_GERMAN = {
    **dict.fromkeys(("ADJ",), "ADJ"),
    **dict.fromkeys(("AP", "PTKVZ"), "ADP"),
    **dict.fromkeys(("ADV", "PAV", "PROAV", "PWAV"), "ADV"),
    **dict.fromkeys(("VA", "VM"), "AUX"),
    **dict.fromkeys(("KON",), "CCONJ"),
    **dict.fromkeys(("ART", "PDAT", "PIAT", "PIDAT", "PPOSAT", "PRELAT", "PWAT"), "DET"),
    **dict.fromkeys(("ITJ",), "INTJ"),
    **dict.fromkeys(("NN",), "NOUN"),
    **dict.fromkeys(("CARD",), "NUM"),
    **dict.fromkeys(("PTK",), "PART"),
    **dict.fromkeys(("PDS", "PIS", "PPER", "PPOSS", "PRELS", "PRF", "PWS"), "PRON"),
    **dict.fromkeys(("NE",), "PROPN"),
    **dict.fromkeys(("$",), "PUNCT"),
    **dict.fromkeys(("KOU", "KOKOM"), "SCONJ"),
    **dict.fromkeys(("VV",), "VERB"),
}
