"""Tagged sentences and documents of the mini corpus, and how their text is spelled.

A sentence is a list of (word, tag) pairs on both sides; its text follows from the words alone, so
tags and text can never drift apart. Which object a sentence names, and which pronoun refers to
it, is written down beside the words.

Words of the mini corpus: objects, topics, homonyms and the fillers of template slots.

Each topic has the same number of nouns of each gender. Slot fillers are pairs of phrases that
translate each other wherever the slot stands, and none of them depends on a noun's gender.
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


def _nouns(masculine: str, feminine: str, neuter: str) -> dict[Gender, tuple[Noun, ...]]:
    lists = zip(GENDERS, (masculine, feminine, neuter), strict=True)
    return {gender: tuple(_noun(pair, gender) for pair in pairs.split()) for gender, pairs in lists}


def _noun(pair: str, gender: Gender) -> Noun:
    source, target = pair.split("/")
    return Noun(source, target, gender)


TOPICS: tuple[Topic, ...] = (
    Topic(
        name="kitchen",
        place=("in the kitchen", "in der Küche"),
        origin=("from the kitchen", "aus der Küche"),
        nouns=_nouns(
            "pot/Topf spoon/Löffel plate/Teller",
            "pan/Pfanne bowl/Schüssel cup/Tasse",
            "knife/Messer tray/Tablett sieve/Sieb",
        ),
        homonyms=(("nuts", "Nüsse"), ("bulbs", "Glühbirnen")),
        remarks=(
            ("we cooked for ten people .", "wir haben für zehn Leute gekocht ."),
            ("the guests were very hungry .", "die Gäste waren sehr hungrig ."),
            ("the tomatoes were very fresh .", "die Tomaten waren sehr frisch ."),
        ),
    ),
    Topic(
        name="workshop",
        place=("in the workshop", "in der Werkstatt"),
        origin=("from the workshop", "aus der Werkstatt"),
        nouns=_nouns(
            "hammer/Hammer drill/Bohrer engine/Motor",
            "saw/Säge axe/Axt pump/Pumpe",
            "bicycle/Fahrrad rope/Seil lock/Schloss",
        ),
        homonyms=(("nuts", "Muttern"), ("files", "Feilen")),
        remarks=(
            ("we repaired two cars .", "wir haben zwei Autos repariert ."),
            ("the machines are very loud .", "die Maschinen sind sehr laut ."),
            ("my hands were black .", "meine Hände waren schwarz ."),
        ),
    ),
    Topic(
        name="office",
        place=("in the office", "im Büro"),
        origin=("from the office", "aus dem Büro"),
        nouns=_nouns(
            "printer/Drucker chair/Stuhl calendar/Kalender",
            "lamp/Lampe clock/Uhr keyboard/Tastatur",
            "shelf/Regal telephone/Telefon picture/Bild",
        ),
        homonyms=(("files", "Dateien"), ("notes", "Notizen")),
        remarks=(
            ("the customers were very friendly .", "die Kunden waren sehr freundlich ."),
            ("we wrote ten letters .", "wir haben zehn Briefe geschrieben ."),
            ("the colleagues have many questions .", "die Kollegen haben/VERB viele Fragen ."),
        ),
    ),
    Topic(
        name="music school",
        place=("in the music school", "in der Musikschule"),
        origin=("from the music school", "aus der Musikschule"),
        nouns=_nouns(
            "amplifier/Verstärker loudspeaker/Lautsprecher stool/Hocker",
            "guitar/Gitarre violin/Geige trumpet/Trompete",
            "piano/Klavier microphone/Mikrofon cello/Cello",
        ),
        homonyms=(("notes", "Noten"), ("keys", "Tasten")),
        remarks=(
            ("we sang two songs .", "wir haben zwei Lieder gesungen ."),
            ("the pupils play very well .", "die Schüler spielen sehr gut ."),
            ("the teachers are very friendly .", "die Lehrer sind sehr freundlich ."),
        ),
    ),
    Topic(
        name="hotel",
        place=("in the hotel", "im Hotel"),
        origin=("from the hotel", "aus dem Hotel"),
        nouns=_nouns(
            "suitcase/Koffer coat/Mantel umbrella/Schirm",
            "camera/Kamera jacket/Jacke bag/Tasche",
            "book/Buch shirt/Hemd towel/Handtuch",
        ),
        homonyms=(("keys", "Schlüssel"), ("beds", "Betten")),
        remarks=(
            ("the rooms are very quiet .", "die Zimmer sind sehr ruhig ."),
            ("the guests come from Japan .", "die Gäste kommen aus Japan ."),
            ("we slept very well .", "wir haben sehr gut geschlafen ."),
        ),
    ),
    Topic(
        name="garden",
        place=("in the garden", "im Garten"),
        origin=("from the garden", "aus dem Garten"),
        nouns=_nouns(
            "bucket/Eimer spade/Spaten basket/Korb",
            "bench/Bank ladder/Leiter shovel/Schaufel",
            "barrel/Fass net/Netz tent/Zelt",
        ),
        homonyms=(("beds", "Beete"), ("bulbs", "Zwiebeln")),
        remarks=(
            ("the flowers need water .", "die Blumen brauchen Wasser ."),
            ("the birds are very loud .", "die Vögel sind sehr laut ."),
            ("we planted two trees .", "wir haben zwei Bäume gepflanzt ."),
        ),
    ),
)

ADJECTIVES: tuple[Phrases, ...] = (
    ("new", "neu"),
    ("old", "alt"),
    ("red", "rot"),
    ("blue", "blau"),
    ("white", "weiß"),
    ("black", "schwarz"),
)
"""Attributes of an object when it is named, with uninflected German stems."""

PEOPLE: tuple[Person, ...] = (
    Person("sister", "she", ("meine Schwester", "sie", "meiner Schwester")),
    Person("brother", "he", ("mein Bruder", "er", "meinem Bruder")),
    Person("aunt", "she", ("meine Tante", "sie", "meiner Tante")),
    Person("uncle", "he", ("mein Onkel", "er", "meinem Onkel")),
    Person("grandmother", "she", ("meine Großmutter", "sie", "meiner Großmutter")),
    Person("grandfather", "he", ("mein Großvater", "er", "meinem Großvater")),
)

FIRST_NAMES: tuple[Phrases, ...] = tuple(
    (name, name) for name in ("Anna", "Tom", "Lisa", "Paul", "Maria", "Felix")
)
TITLED_NAMES: tuple[Phrases, ...] = tuple(
    (f"{title} {name}", f"{anrede} {name}")
    for title, anrede in (("Mr", "Herr"), ("Ms", "Frau"))
    for name in ("Meyer", "Weber", "Fischer")
)

FILLERS: dict[str, tuple[Phrases, ...]] = {
    "day": (
        ("yesterday", "gestern"),
        ("on Monday", "am Montag"),
        ("on Sunday", "am Sonntag"),
        ("last week", "letzte Woche"),
    ),
    # Days, meals and work bring German nouns of all genders that no later "it" can mean.
    "past": (
        ("yesterday", "gestern"),
        ("on Monday", "am Montag"),
        ("on Sunday", "am Sonntag"),
        ("after breakfast", "nach dem Frühstück"),
        ("after work", "nach der Arbeit"),
        ("last week", "letzte Woche"),
    ),
    "future": (
        ("tomorrow", "morgen"),
        ("on Friday", "am Freitag"),
        ("on Saturday", "am Samstag"),
        ("at the weekend", "am Wochenende"),
        ("next week", "nächste Woche"),
    ),
    "quality": (
        ("beautiful", "schön"),
        ("practical", "praktisch"),
        ("cheap", "günstig"),
        ("useful", "nützlich"),
    ),
    "flaw": (
        ("big", "groß"),
        ("small", "klein"),
        ("heavy", "schwer"),
        ("expensive", "teuer"),
    ),
    "country": (("Italy", "Italien"), ("France", "Frankreich"), ("Poland", "Polen")),
    "number": (("ten", "zehn"), ("twenty", "zwanzig"), ("fifty", "fünfzig")),
    "shop": (
        ("at the market", "auf dem Markt"),
        ("in town", "in der Stadt"),
        ("on the internet", "im Internet"),
    ),
    "storage": (
        ("in the cellar", "im Keller"),
        ("in the garage", "in der Garage"),
        ("in the living room", "im Wohnzimmer"),
    ),
    "greeting": (
        ("good morning", "guten Morgen"),
        ("good evening", "guten Abend"),
        ("hello", "hallo"),
    ),
}
"""What a template slot of that name may be filled with."""
