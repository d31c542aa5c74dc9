"""Sentence patterns of the mini corpus, in English and German.

Words stand as they are; `word/TAG` overrides the word's usual tag. Slots in braces:
`{past}` and the like take a filler; `{du|Sie}` is decided by the form of address; `{a.adj}`,
`{the}` (German `{ein.acc.adj}`, `{der.nom}`) name the object in focus; `{it}` (German `{er}`,
`{ihn}`) refers to it. Patterns with the object fit every object, so they say nothing of gender.

Whole documents of the mini corpus.

A document greets someone, names its topic, and then tells of one object after another: a
sentence names the object, remarks follow, and a later sentence refers to it as "it". Three
neighbouring documents share topic and distances and differ in the genders, so that every three
documents hold each gender equally often. Documents depend on seed, split and position only.
"""

from dataclasses import dataclass
from random import Random

from iada.data.mini import composition as templates
from iada.data.mini.grammar import Scene, mentions_person, realise
from iada.data.mini.lexicon import (
    GENDERS,
    PEOPLE,
    TOPICS,
    Gender,
    Kind,
    Noun,
    Phrases,
    TaggedDocument,
    TaggedSentence,
    Topic,
)

GREETINGS: tuple[Phrases, ...] = (("{greeting} , {name} !", "{greeting} , {name} !"),)

TOPIC_SENTENCES: tuple[Phrases, ...] = (
    ("I am writing to/ADP you {origin} .", "ich schreibe {dir|Ihnen} {origin} ."),
    ("I am {place} today .", "heute bin ich {place} ."),
    ("we are all {place} today .", "heute sind wir alle {place} ."),
    ("I was {place} {day} .", "ich war {day} {place} ."),
)

INTRODUCTIONS: tuple[Phrases, ...] = (
    ("I bought {a.adj} {past} .", "ich habe {past} {ein.acc.adj} gekauft ."),
    ("we now have/VERB {a.adj} .", "wir haben/VERB jetzt {ein.acc.adj} ."),
    ("{person} brought me {a.adj} .", "{person} hat mir {ein.acc.adj} mitgebracht ."),
    ("I found {a.adj} {shop} .", "ich habe {shop} {ein.acc.adj} gefunden ."),
    ("{the.adj} arrived {day} .", "{der.nom.adj} ist {day} angekommen ."),
    ("{our.adj} is finally here .", "{unser.nom.adj} ist endlich da ."),
    ("I am very happy with {the.adj} .", "ich bin mit {der.dat.adj} sehr zufrieden ."),
)

LATER_MENTIONS: tuple[Phrases, ...] = (
    ("{the} is {storage} now .", "{der.nom} ist jetzt {storage} ."),
    ("{person} asked about {the} .", "{person} hat nach {der.dat} gefragt ."),
    ("I showed {the} to/ADP {to_person} .", "ich habe {to_person} {der.acc} gezeigt ."),
    ("everybody is talking about {the} .", "alle reden über {der.acc} ."),
)

SUBJECT_PRONOUNS: tuple[Phrases, ...] = (
    ("{it} is very {quality} .", "{er} ist sehr {quality} ."),
    ("luckily {it} was not too expensive .", "zum Glück war {er} nicht zu teuer ."),
    ("maybe {it} is a little too {flaw} .", "vielleicht ist {er} etwas zu {flaw} ."),
    ("{it} comes from {country} .", "{er} kommt aus {country} ."),
    ("{it} cost only {number} euros .", "{er} hat nur {number} Euro gekostet ."),
    ("would {it} be too {flaw} for you ?", "wäre {er} {dir|Ihnen} zu {flaw} ?"),
    ("unfortunately {it} was a little dirty .", "leider war {er} etwas schmutzig ."),
    ("I hope that {it} will last/VERB long .", "ich hoffe , dass {er} lange hält ."),
    (
        "{person} thinks that {it} is too {flaw} .",
        "{person} findet , dass {er} zu {flaw} ist .",
    ),
)

OBJECT_PRONOUNS: tuple[Phrases, ...] = (
    ("I like {it} very much .", "ich mag {ihn} sehr ."),
    ("I use {it} every day .", "ich benutze {ihn} jeden Tag ."),
    ("do you want to see {it} ?", "{willst du|wollen Sie} {ihn} sehen ?"),
    (
        "I can show {it} to/ADP you {future} .",
        "ich kann {ihn} {dir|Ihnen} {future} zeigen .",
    ),
    ("have you already seen {it} ?", "{hast du|haben Sie} {ihn} schon gesehen ?"),
    ("{person} also wants to have/VERB {it} .", "{person} will {ihn} auch haben/VERB ."),
    ("I would never sell {it} .", "ich würde {ihn} nie verkaufen ."),
    ("{person} found {it} very {quality} .", "{person} fand {ihn} sehr {quality} ."),
)

SAME_SENTENCE_SUBJECT_PRONOUNS: tuple[Phrases, ...] = (
    (
        "I bought {a.adj} because {it} was very {quality} .",
        "ich habe {ein.acc.adj} gekauft , weil {er} sehr {quality} war .",
    ),
    (
        "we sold {our.adj} because {it} was too {flaw} .",
        "wir haben {unser.acc.adj} verkauft , weil {er} zu {flaw} war .",
    ),
    (
        "I found {a.adj} , but {it} was broken .",
        "ich habe {ein.acc.adj} gefunden , aber {er} war kaputt .",
    ),
    (
        "I like {the.adj} although {it} is too {flaw} .",
        "ich mag {der.acc.adj} , obwohl {er} zu {flaw} ist .",
    ),
)

SAME_SENTENCE_OBJECT_PRONOUNS: tuple[Phrases, ...] = (
    (
        "I saw/VERB {a.adj} and bought {it} at once .",
        "ich habe {ein.acc.adj} gesehen und {ihn} sofort gekauft .",
    ),
    (
        "{person} had {a.adj} and gave {it} to/ADP me .",
        "{person} hatte {ein.acc.adj} und hat {ihn} mir gegeben .",
    ),
)

ADDRESS_SENTENCES: tuple[Phrases, ...] = (
    ("do you have/VERB time {future} ?", "{hast/VERB du|haben/VERB Sie} {future} Zeit ?"),
    ("I will call you {future} .", "ich rufe {dich|Sie} {future} an ."),
    ("can I help you {future} ?", "kann ich {dir|Ihnen} {future} helfen ?"),
    ("did you read my messages ?", "{hast du|haben Sie} meine Nachrichten gelesen ?"),
    ("your parents were here {past} .", "{deine|Ihre} Eltern waren {past} hier ."),
    ("your brother called {past} .", "{dein|Ihr} Bruder hat {past} angerufen ."),
    ("what are you doing {future} ?", "was {machst du|machen Sie} {future} ?"),
    ("do you still live in Berlin ?", "{wohnst du|wohnen Sie} noch in Berlin ?"),
    ("you work/VERB too much .", "{du arbeitest|Sie arbeiten} zu viel ."),
    ("you can visit/VERB us {future} .", "{du kannst|Sie können} uns {future} besuchen ."),
    ("I often think of you .", "ich denke oft an {dich|Sie} ."),
    ("where were you {past} ?", "wo {warst du|waren Sie} {past} ?"),
    ("your children are very nice .", "{deine|Ihre} Kinder sind sehr nett ."),
    (
        "I hope that you have/VERB time {future} .",
        "ich hoffe , dass {du|Sie} {future} Zeit {hast/VERB|haben/VERB} .",
    ),
)

HOMONYM_SENTENCES: tuple[Phrases, ...] = (
    ("we need more {homonym} .", "wir brauchen mehr {homonym} ."),
    ("I have already counted the {homonym} .", "ich habe die {homonym} schon gezählt ."),
    ("where are the {homonym} ?", "wo sind die {homonym} ?"),
    ("nobody thought of the {homonym} .", "niemand hat an die {homonym} gedacht ."),
    ("the {homonym} are very important .", "die {homonym} sind sehr wichtig ."),
    ("{person} showed us the {homonym} .", "{person} hat uns die {homonym} gezeigt ."),
    ("we talked about the {homonym} {day} .", "wir haben {day} über die {homonym} gesprochen ."),
)

REMARKS: tuple[Phrases, ...] = (
    ("{person} called {past} .", "{person} hat {past} angerufen ."),
    (
        "{person} came late because {he} had to work/VERB .",
        "{person} ist spät gekommen , weil {he} arbeiten musste .",
    ),
    ("{person} was tired , but {he} laughed .", "{person} war müde , aber {he} hat gelacht ."),
    ("{person} has no time {future} .", "{person} hat/VERB {future} keine Zeit ."),
    ("we had many guests {day} .", "wir hatten {day} viele Gäste ."),
    ("the children played outside {past} .", "die Kinder haben {past} draußen gespielt ."),
    ("the neighbours were here {past} .", "die Nachbarn waren {past} hier ."),
    ("I have to get up early {future} .", "ich muss {future} früh aufstehen ."),
)

CLOSINGS: tuple[Phrases, ...] = (
    ("please write to/ADP me soon .", "{schreib|schreiben Sie} mir bitte bald ."),
    ("please call me {future} .", "{ruf|rufen Sie} mich bitte {future} an ."),
    ("I look forward to/ADP your visit .", "ich freue mich auf {deinen|Ihren} Besuch ."),
    (
        "please give my regards to/ADP your parents .",
        "{grüß bitte deine|grüßen Sie bitte Ihre} Eltern von mir .",
    ),
)


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
