"""Whole documents of the mini corpus.

A document greets someone, names its topic, and then tells of one object after another: a
sentence names the object, remarks follow, and a later sentence refers to it as "it". Three
neighbouring documents share topic and distances and differ in the genders, so that every three
documents hold each gender equally often. Documents depend on seed, split and position only.
"""

from dataclasses import dataclass
from random import Random

from iada.data.mini import templates
from iada.data.mini.grammar import Scene, mentions_person, realise
from iada.data.mini.lexicon import GENDERS, PEOPLE, TOPICS, Phrases, Topic
from iada.data.mini.sentences import Gender, Kind, Noun, TaggedDocument, TaggedSentence

GRAMMAR_VERSION = 1
"""Rises whenever the same seed yields other text."""

DISTANCE_WEIGHTS = (12, 36, 24, 18, 5, 5)
"""How often, in percent, an object was named 0, 1, ... 5 sentences before the pronoun."""

_MIN_BODY = 8
_SUBJECT_SHARE = 0.6
_LATER_MENTION_SHARE = 0.3
_PAUSE_SHARE = 0.25
_REMARK_WEIGHTS: dict[Kind, int] = {"address": 40, "homonym": 28, "scene": 16, "remark": 16}


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


def generate_documents(count: int, *, seed: int, split: str) -> list[TaggedDocument]:
    """Generate the first `count` documents of a split.

    Args:
        count: number of documents; a longer list begins with the shorter one.
        seed: another seed gives another corpus.
        split: name of an independent random stream, such as `train`.
    """
    return [_generate_document(index, seed, split) for index in range(count)]


def random_stream(seed: int, *path: str | int) -> Random:
    """Open the random stream at a path; equal on every machine."""
    return Random("/".join(["iada-mini", str(GRAMMAR_VERSION), str(seed), *map(str, path)]))


def compose(name: str, topic: Topic, episodes: list[Episode], random: Random) -> TaggedDocument:
    """Write the document that tells the given episodes."""
    scene = Scene(topic, formal=random.random() < 0.5)
    writer = _Writer(scene, random)
    writer.write("greeting", templates.GREETINGS)
    writer.write("topic", templates.TOPIC_SENTENCES)
    for episode in episodes:
        writer.tell(episode)
    writer.write("closing", templates.CLOSINGS)
    return TaggedDocument(name, topic.name, scene.formal, tuple(writer.sentences))


def rotate_genders(random: Random, rotation: int) -> Gender:
    """Draw a gender; the three rotations of one draw are the three genders."""
    return GENDERS[(random.randrange(len(GENDERS)) + rotation) % len(GENDERS)]


def _generate_document(index: int, seed: int, split: str) -> TaggedDocument:
    block, rotation = divmod(index, len(GENDERS))
    plan = random_stream(seed, split, "plan", block)
    # Topics take turns, so that each meaning of a homonym is equally frequent.
    topic = TOPICS[block % len(TOPICS)]
    return compose(
        f"{split}-{index:04d}",
        topic,
        _draw_episodes(plan, rotation),
        random_stream(seed, split, "text", index),
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
    """Writes sentences one after the other and repeats no pattern within a document."""

    def __init__(self, scene: Scene, random: Random) -> None:
        self.scene = scene
        self.random = random
        self.sentences: list[TaggedSentence] = []
        self._used: set[Phrases] = set()
        self._nouns_left = {
            gender: random.sample(nouns, len(nouns)) for gender, nouns in scene.topic.nouns.items()
        }
        self._people_left = random.sample(PEOPLE, len(PEOPLE))
        self._noun: Noun | None = None

    def tell(self, episode: Episode) -> None:
        if not episode.same_object:
            self._noun = self._next_noun(episode.gender)
        if episode.distance == 0:
            self._refer(episode, _SAME_SENTENCE[episode.subject])
        else:
            patterns = templates.LATER_MENTIONS if episode.same_object else templates.INTRODUCTIONS
            self.write("mention", patterns, noun=self._noun)
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
    ) -> None:
        unused = [pattern for pattern in patterns if pattern not in self._used]
        pattern = self.random.choice(unused or patterns)
        self._used.add(pattern)
        sentence = realise(
            pattern,
            self.random,
            kind=kind,
            scene=self.scene,
            person=self._people_left[-1],
            noun=noun,
            distance=distance,
        )
        self.sentences.append(sentence)
        if mentions_person(pattern):
            self._people_left.insert(0, self._people_left.pop())

    def _next_noun(self, gender: Gender) -> Noun:
        left = self._nouns_left[gender]
        # The used noun goes to the other end: it returns only when all others were used.
        noun = left.pop()
        left.insert(0, noun)
        return noun

    def _refer(self, episode: Episode, patterns: tuple[Phrases, ...]) -> None:
        self.write("pronoun", patterns, noun=self._noun, distance=episode.distance)

    def _remark(self) -> None:
        kinds = list(_REMARK_WEIGHTS)
        (kind,) = self.random.choices(kinds, list(_REMARK_WEIGHTS.values()))
        self.write(kind, self._remark_patterns(kind))

    def _remark_patterns(self, kind: Kind) -> tuple[Phrases, ...]:
        if kind == "address":
            return templates.ADDRESS_SENTENCES
        if kind == "homonym":
            return templates.HOMONYM_SENTENCES
        return self.scene.topic.remarks if kind == "scene" else templates.REMARKS


_SAME_SENTENCE = {
    True: templates.SAME_SENTENCE_SUBJECT_PRONOUNS,
    False: templates.SAME_SENTENCE_OBJECT_PRONOUNS,
}
_LATER = {True: templates.SUBJECT_PRONOUNS, False: templates.OBJECT_PRONOUNS}
