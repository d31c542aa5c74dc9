"""Whole documents of the mini corpus, and which sentences each split may use.

A document greets someone, names its topic, and then tells of one object after another: a
sentence names the object, remarks follow, and a later sentence refers to it as "it". Three
neighbouring documents share topic and distances and differ in the genders, so that every three
documents have each gender equally often. Documents depend on nothing but version, seed, split and
position.

In version 1 all splits draw from the same sentences. In version 2 a hash assigns every English
sentence to one split, so no two splits share a sentence pair, and a sentence is used outside
training only if each of its word forms occurs in the first `COVERING_DOCUMENTS` training documents.
The assignment does not look at the German side: gender and form of address, which only the
context decides, stay balanced in every split.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from random import Random

from iada.data.mini.first_edition import FIRST_EDITION
from iada.data.mini.grammar import Scene, mentions_person, realise
from iada.data.mini.lexicon import (
    GENDERS,
    Edition,
    Gender,
    Kind,
    Noun,
    PatternKind,
    Phrases,
    TaggedDocument,
    TaggedSentence,
    Topic,
)
from iada.data.mini.second_edition import SECOND_EDITION
from iada.errors import ConfigError

EDITIONS: dict[int, Edition] = {1: FIRST_EDITION, 2: SECOND_EDITION}
"""Words and patterns by version of the corpus. The text of a version never changes."""

COVERING_DOCUMENTS = 72
"""Training documents of the scarce setting; all word forms of the other splits occur in them."""

SPLIT_SHARES = {"train": 64, "dev": 12, "test": 12, "contrastive": 12}
"""Percentage of all English sentences that each split may use in version 2."""

DISTANCE_WEIGHTS = (12, 36, 24, 18, 5, 5)
"""How often, in percent, an object was named 0, 1, ... 5 sentences before the pronoun."""

_MIN_BODY = 8
_SUBJECT_SHARE = 0.6
_LATER_MENTION_SHARE = 0.3
_PAUSE_SHARE = 0.25
_REMARK_WEIGHTS: dict[Kind, int] = {"address": 40, "homonym": 28, "scene": 16, "remark": 16}
_MAX_DRAWS = 1000
"""Draws of one sentence. About one in ten is accepted, so this many fail only if a split has no
sentence of the kind at all."""


@dataclass(frozen=True, slots=True)
class Episode:
    """An object is named, and `distance` sentences later referred to."""

    distance: int
    subject: bool
    """Whether the pronoun is a nominative in German (else an accusative)."""
    gender: Gender
    same_object: bool
    """Whether it is about the object of the episode before."""
    pause: bool
    """Whether a remark follows."""


@dataclass(frozen=True, slots=True)
class Stock:
    """What the documents of one split may be made of."""

    edition: Edition
    seed: int
    split: str
    known_forms: frozenset[str] | None = None
    """Word forms of both languages that may be used; None allows all."""

    def patterns(self, kind: PatternKind) -> tuple[Phrases, ...]:
        """List the sentence patterns of a kind."""
        patterns = self.edition.patterns[kind]
        if self.edition.held_out is None or self.split == "train":
            return patterns
        return patterns + self.edition.held_out.get(kind, ())

    def allows(self, sentence: TaggedSentence) -> bool:
        """Tell whether a sentence belongs to the split and has known word forms only."""
        if self.edition.held_out is None:
            return True
        if assign_split(sentence.source_text, seed=self.seed) != self.split:
            return False
        forms = {token.word for token in sentence.source + sentence.target}
        return self.known_forms is None or forms <= self.known_forms

    def nouns(self, topic: Topic, gender: Gender) -> list[Noun]:
        """List the objects of a topic."""
        known = self.known_forms
        return [
            noun
            for noun in topic.nouns[gender]
            if known is None or {noun.source, noun.target} <= known
        ]


def generate_documents(
    count: int, *, seed: int, split: str, version: int = 1
) -> list[TaggedDocument]:
    """Generate the first `count` documents of a split.

    Args:
        count: number of documents; a longer list begins with the shorter one.
        seed: another seed gives another corpus.
        split: name of an independent random stream, such as `train`; one of `SPLIT_SHARES` in
            version 2.
        version: version of the corpus.
    """
    stock = open_stock(version, seed, split)
    return [_generate_document(index, stock) for index in range(count)]


def open_stock(version: int, seed: int, split: str) -> Stock:
    """Return what the documents of a split may be made of."""
    edition = EDITIONS[version]
    if edition.held_out is None:
        return Stock(edition, seed, split)
    if split not in SPLIT_SHARES:
        raise ValueError(f"The splits are {', '.join(SPLIT_SHARES)}; there is no `{split}`.")
    known = None if split == "train" else _trained_forms(version, seed)
    return Stock(edition, seed, split, known)


def assign_split(source_text: str, *, seed: int) -> str:
    """Return the only split of version 2 that may use an English sentence.

    The same on every machine.
    """
    digest = hashlib.sha256(f"iada-mini/{seed}/{source_text}".encode()).digest()
    percentile = int.from_bytes(digest[:8], "big") % 100
    for split, share in SPLIT_SHARES.items():
        if percentile < share:
            return split
        percentile -= share
    raise AssertionError("the shares add up to 100")


def random_stream(version: int, seed: int, *path: str | int) -> Random:
    """Open the random stream at a path; equal on every machine."""
    return Random("/".join(["iada-mini", str(version), str(seed), *map(str, path)]))


def compose(
    name: str, topic: Topic, episodes: list[Episode], random: Random, stock: Stock
) -> TaggedDocument:
    """Write the document that tells the given episodes."""
    scene = Scene(stock.edition, topic, formal=random.random() < 0.5)
    writer = _Writer(scene, random, stock)
    writer.write("greeting", stock.patterns("greeting"))
    writer.write("topic", stock.patterns("topic"))
    for episode in episodes:
        writer.tell(episode)
    writer.write("closing", stock.patterns("closing"))
    return TaggedDocument(name, topic.name, scene.formal, tuple(writer.sentences))


def rotate_genders(random: Random, rotation: int) -> Gender:
    """Draw a gender; the three rotations of one draw are the three genders."""
    return GENDERS[(random.randrange(len(GENDERS)) + rotation) % len(GENDERS)]


@cache
def _trained_forms(version: int, seed: int) -> frozenset[str]:
    documents = generate_documents(COVERING_DOCUMENTS, seed=seed, split="train", version=version)
    return frozenset(
        token.word
        for document in documents
        for sentence in document.sentences
        for token in sentence.source + sentence.target
    )


def _generate_document(index: int, stock: Stock) -> TaggedDocument:
    version, seed, split = stock.edition.version, stock.seed, stock.split
    block, rotation = divmod(index, len(GENDERS))
    plan = random_stream(version, seed, split, "plan", block)
    # Topics take turns, so that each meaning of a homonym is equally frequent.
    topic = stock.edition.topics[block % len(stock.edition.topics)]
    return compose(
        f"{split}-{index:04d}",
        topic,
        _draw_episodes(plan, rotation),
        random_stream(version, seed, split, "text", index),
        stock,
    )


def _draw_episodes(random: Random, rotation: int) -> list[Episode]:
    episodes: list[Episode] = []
    sentences = 0
    while sentences < _MIN_BODY:
        (distance,) = random.choices(range(len(DISTANCE_WEIGHTS)), DISTANCE_WEIGHTS)
        gender = rotate_genders(random, rotation)
        same_object = random.random() < _LATER_MENTION_SHARE and _may_continue(episodes, distance)
        if same_object:
            gender = episodes[-1].gender
        subject = random.random() < _SUBJECT_SHARE
        pause = random.random() < _PAUSE_SHARE
        episodes.append(Episode(distance, subject, gender, same_object, pause))
        sentences += distance + 1 + pause
    return episodes


def _may_continue(episodes: list[Episode], distance: int) -> bool:
    """Tell whether the last object can be named again: one told in a single sentence is done."""
    return distance > 0 and bool(episodes) and episodes[-1].distance > 0


class _Writer:
    """Writes sentences one after the other and avoids repeating a pattern within a document."""

    def __init__(self, scene: Scene, random: Random, stock: Stock) -> None:
        self.scene = scene
        self.random = random
        self.stock = stock
        self.sentences: list[TaggedSentence] = []
        self._used: set[Phrases] = set()
        self._nouns_left: dict[Gender, list[Noun]] = {}
        for gender in scene.topic.nouns:
            nouns = stock.nouns(scene.topic, gender)
            self._nouns_left[gender] = random.sample(nouns, len(nouns))
        people = stock.edition.people
        self._people_left = random.sample(people, len(people))
        self._noun: Noun | None = None

    def tell(self, episode: Episode) -> None:
        if not episode.same_object:
            self._noun = self._next_noun(episode.gender)
        if episode.distance == 0:
            self._refer(episode, _SAME_SENTENCE[episode.subject])
        else:
            kind: PatternKind = "later_mention" if episode.same_object else "introduction"
            self.write("mention", self.stock.patterns(kind), noun=self._noun)
            for _ in range(episode.distance - 1):
                self._remark()
            self._refer(episode, _LATER[episode.subject])
        if episode.pause:
            self._remark()

    def write(
        self,
        kind: Kind,
        patterns: tuple[Phrases, ...],
        *,
        noun: Noun | None = None,
        distance: int = 0,
        fallback: tuple[Phrases, ...] = (),
    ) -> None:
        unused = [pattern for pattern in patterns if pattern not in self._used]
        for draw in range(_MAX_DRAWS):
            # If the unused patterns have no sentence for the split, another pattern has to do.
            is_late = draw >= _MAX_DRAWS // 2
            pattern = self.random.choice(patterns + fallback if is_late else unused or patterns)
            person = self._people_left[-1 - draw % len(self._people_left)]
            sentence = realise(
                pattern,
                self.random,
                kind=kind,
                scene=self.scene,
                person=person,
                noun=noun,
                distance=distance,
            )
            if self.stock.allows(sentence):
                break
        else:
            raise ConfigError(
                f"`corpus.seed` {self.stock.seed} leaves the {self.stock.split} split without any "
                f"{kind} sentence. Choose another seed."
            )
        self._used.add(pattern)
        self.sentences.append(sentence)
        if mentions_person(pattern):
            self._people_left.remove(person)
            self._people_left.insert(0, person)

    def _next_noun(self, gender: Gender) -> Noun:
        left = self._nouns_left[gender]
        # The used noun goes to the other end: it returns only when all others were used.
        noun = left.pop()
        left.insert(0, noun)
        return noun

    def _refer(self, episode: Episode, kind: PatternKind) -> None:
        patterns = self.stock.patterns(kind)
        self.write("pronoun", patterns, noun=self._noun, distance=episode.distance)

    def _remark(self) -> None:
        kinds = list(_REMARK_WEIGHTS)
        (kind,) = self.random.choices(kinds, list(_REMARK_WEIGHTS.values()))
        if kind == "scene":
            # A topic has few remarks of its own, so a split may have none of them.
            self.write(kind, self.scene.topic.remarks, fallback=self.stock.patterns("remark"))
        elif kind == "address" or kind == "homonym":
            self.write(kind, self.stock.patterns(kind))
        else:
            self.write(kind, self.stock.patterns("remark"))


_SAME_SENTENCE: dict[bool, PatternKind] = {
    True: "same_sentence_subject",
    False: "same_sentence_object",
}
_LATER: dict[bool, PatternKind] = {True: "subject_pronoun", False: "object_pronoun"}
