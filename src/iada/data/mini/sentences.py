"""Tagged sentences and documents of the mini corpus, and how their text is spelled.

A sentence is a list of (word, tag) pairs on both sides; its text follows from the words alone, so
tags and text can never drift apart. Which object a sentence names, and which pronoun refers to
it, is written down beside the words.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from iada.data.documents import Document, ParallelDocument

Gender = Literal["Masc", "Fem", "Neut"]
Case = Literal["Nom", "Acc", "Dat"]
Kind = Literal[
    "greeting",
    "topic",
    "mention",
    "pronoun",
    "address",
    "homonym",
    "scene",
    "remark",
    "closing",
]

_CLOSING_MARKS = frozenset(",.!?")


@dataclass(frozen=True, slots=True)
class Token:
    """A word or punctuation mark with its universal part of speech."""

    word: str
    tag: str


@dataclass(frozen=True, slots=True)
class Noun:
    """An inanimate countable noun; its gender decides how later pronouns are translated."""

    source: str
    target: str
    gender: Gender


@dataclass(frozen=True, slots=True)
class Mention:
    """Where a sentence names the object in focus: [start, head] on either side, from 0."""

    noun: Noun
    case: Case
    source_start: int
    source_head: int
    target_start: int
    target_head: int


@dataclass(frozen=True, slots=True)
class Pronoun:
    """Where a sentence says "it", and what it refers to."""

    noun: Noun
    case: Case
    source_index: int
    target_index: int
    distance: int
    """Sentences back to the nearest sentence that names the object; 0 is the same sentence."""


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """A sentence and its translation, word by word."""

    kind: Kind
    source: tuple[Token, ...]
    target: tuple[Token, ...]
    mention: Mention | None = None
    pronoun: Pronoun | None = None

    @property
    def source_text(self) -> str:
        """Spell the source side."""
        return detokenise(token.word for token in self.source)

    @property
    def target_text(self) -> str:
        """Spell the target side."""
        return detokenise(token.word for token in self.target)


@dataclass(frozen=True, slots=True)
class TaggedDocument:
    """A document of the mini corpus with everything that decides its translation."""

    name: str
    topic: str
    formal: bool
    """Whether the addressee is addressed with Sie (else du)."""
    sentences: tuple[TaggedSentence, ...]

    def parallel(self) -> ParallelDocument:
        """Drop the annotation and keep the text."""
        return ParallelDocument(
            source=Document(self.name, tuple(s.source_text for s in self.sentences)),
            target=Document(self.name, tuple(s.target_text for s in self.sentences)),
        )


def detokenise(words: Iterable[str]) -> str:
    """Join words with spaces, leaving none before a comma or an end mark."""
    text = ""
    for word in words:
        if text and word not in _CLOSING_MARKS:
            text += " "
        text += word
    return text
