"""What the mini corpus is made of: words, topics, sentence patterns, and tagged sentences.

A tagged sentence is a list of (word, tag) pairs on both sides. Its text follows from the words
alone, so tags and text can never drift apart, and it records which object it names and which
pronoun refers to it. An `Edition` holds all words and patterns of one version of the corpus: each
topic has equally many nouns of each gender, and slot fillers are pairs of phrases that translate
each other wherever the slot stands, whatever the gender of the object.

Patterns are written as plain words; `word/TAG` overrides the word's usual tag. Slots are in braces:
`{past}` and the like take a filler; `{du|Sie}` depends on the form of address; `{a.adj}`, `{the}`
(German `{ein.acc.adj}`, `{der.nom}`) name the object in focus; `{it}` (German `{er}`, `{ihn}`)
refers to it. Patterns with an object fit every object, so they reveal nothing about its gender.
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

PatternKind = Literal[
    "greeting",
    "topic",
    "introduction",
    "later_mention",
    "subject_pronoun",
    "object_pronoun",
    "same_sentence_subject",
    "same_sentence_object",
    "address",
    "homonym",
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


GENDERS: tuple[Gender, ...] = ("Masc", "Fem", "Neut")

Phrases = tuple[str, str]
"""A source phrase and its translation."""


@dataclass(frozen=True, slots=True)
class Person:
    """A relative of the writer."""

    relation: str
    pronoun: str
    target: tuple[str, str, str]
    """In German as a subject, as a pronoun, and as the one to whom something is shown."""

    def fillers(self) -> dict[str, Phrases]:
        """Fill the slots that speak of a person."""
        subject, pronoun, recipient = self.target
        return {
            "person": (f"my {self.relation}", subject),
            "he": (self.pronoun, pronoun),
            "to_person": (f"my {self.relation}", recipient),
        }


@dataclass(frozen=True, slots=True)
class Topic:
    """A scene: its place, its objects, and what its homonyms mean there."""

    name: str
    place: Phrases
    """Where it happens."""
    origin: Phrases
    """The same as a place to write from."""
    nouns: dict[Gender, tuple[Noun, ...]]
    homonyms: tuple[Phrases, ...]
    """Plural nouns whose translation is another one in another topic."""
    remarks: tuple[Phrases, ...]
    """Sentences without any singular object that fit this scene only."""


Patterns = dict[PatternKind, tuple[Phrases, ...]]
"""Sentence patterns, source and target, by what they are for."""


@dataclass(frozen=True, kw_only=True)
class Edition:
    """All words and patterns of one version of the corpus."""

    version: int
    """Part of every random stream, so that versions never share one."""
    topics: tuple[Topic, ...]
    adjectives: tuple[Phrases, ...]
    """Attributes of an object when it is named, with uninflected German stems."""
    people: tuple[Person, ...]
    first_names: tuple[Phrases, ...]
    titled_names: tuple[Phrases, ...]
    fillers: dict[str, tuple[Phrases, ...]]
    """What a pattern slot of that name may be filled with."""
    patterns: Patterns
    held_out: Patterns | None = None
    """Patterns that training never uses. If given, the splits share no sentence either; if None,
    every split draws from the same sentences."""


def nouns_by_gender(masculine: str, feminine: str, neuter: str) -> dict[Gender, tuple[Noun, ...]]:
    """Read `english/German` pairs for each gender."""
    lists = zip(GENDERS, (masculine, feminine, neuter), strict=True)
    return {gender: tuple(_noun(pair, gender) for pair in pairs.split()) for gender, pairs in lists}


def _noun(pair: str, gender: Gender) -> Noun:
    source, target = pair.split("/")
    return Noun(source, target, gender)
