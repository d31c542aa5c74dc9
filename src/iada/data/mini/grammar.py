"""From a pair of templates to a tagged sentence pair: slots, inflection, agreement, capitals.

`realise` draws slot fillers from the random stream it is given; everything
that must agree (gender, case, form of address) comes from the scene.
"""

import re
from dataclasses import dataclass
from functools import cache
from random import Random

from iada.data.mini.lexicon import (
    ADJECTIVES,
    FILLERS,
    FIRST_NAMES,
    TITLED_NAMES,
    Person,
    Phrases,
    Topic,
)
from iada.data.mini.sentences import (
    Case,
    Gender,
    Kind,
    Mention,
    Noun,
    Pronoun,
    TaggedSentence,
    Token,
)
from iada.data.mini.tags import SOURCE_TAGS, TARGET_TAGS

PRONOUNS: dict[Case, dict[Gender, str]] = {
    "Nom": {"Masc": "er", "Fem": "sie", "Neut": "es"},
    "Acc": {"Masc": "ihn", "Fem": "sie", "Neut": "es"},
}

_DEFINITE: dict[Case, dict[Gender, str]] = {
    "Nom": {"Masc": "der", "Fem": "die", "Neut": "das"},
    "Acc": {"Masc": "den", "Fem": "die", "Neut": "das"},
    "Dat": {"Masc": "dem", "Fem": "der", "Neut": "dem"},
}
_INDEFINITE_ENDINGS: dict[Case, dict[Gender, str]] = {
    "Nom": {"Masc": "", "Fem": "e", "Neut": ""},
    "Acc": {"Masc": "en", "Fem": "e", "Neut": ""},
    "Dat": {"Masc": "em", "Fem": "er", "Neut": "em"},
}
_CASES: dict[str, Case] = {"nom": "Nom", "acc": "Acc", "dat": "Dat"}
_PRONOUN_CASES: dict[str, Case] = {"er": "Nom", "ihn": "Acc"}


@dataclass(frozen=True, slots=True)
class Scene:
    """What holds for a whole document."""

    topic: Topic
    formal: bool


@dataclass(frozen=True, slots=True)
class _Content:
    """What the slots of one sentence are filled with."""

    fillers: dict[str, Phrases]
    noun: Noun | None
    adjective: Phrases
    formal: bool


@dataclass(slots=True)
class _Side:
    """One side of a sentence as it grows, and where its marked words stand."""

    tags: dict[str, str]
    tokens: list[Token]
    start: int = -1
    head: int = -1
    case: Case = "Nom"
    pronoun: int = -1
    pronoun_case: Case = "Nom"

    def say(self, words: str) -> None:
        for word in words.split():
            form, _, tag = word.partition("/")
            self.tokens.append(Token(form, tag or self.tags[form]))

    def name(self, words: list[str], case: Case) -> None:
        self.start = len(self.tokens)
        self.say(" ".join(words))
        self.head = len(self.tokens) - 1
        self.case = case

    def refer(self, word: str, case: Case) -> None:
        self.pronoun, self.pronoun_case = len(self.tokens), case
        self.say(word)

    def finished(self) -> tuple[Token, ...]:
        first, *rest = self.tokens
        return (Token(first.word[0].upper() + first.word[1:], first.tag), *rest)


def realise(
    template: Phrases,
    random: Random,
    *,
    kind: Kind,
    scene: Scene,
    person: Person,
    noun: Noun | None = None,
    distance: int = 0,
) -> TaggedSentence:
    """Fill a template and its translation.

    Args:
        template: a source and a target pattern, see `templates`.
        random: stream that fillers are drawn from; never consulted for agreement.
        kind: what the sentence is for.
        scene: topic and form of address.
        person: who the sentence speaks of, if it speaks of anyone.
        noun: object in focus, if the template names or refers to it.
        distance: sentences back to where the object was named last.
    """
    fillers = _draw_fillers(template[0], random, scene, person)
    content = _Content(fillers, noun, random.choice(ADJECTIVES), scene.formal)
    source = _Side(SOURCE_TAGS, [])
    for is_slot, text in _parts(template[0]):
        if is_slot:
            _fill_source(source, text, content)
        else:
            source.say(text)
    target = _Side(TARGET_TAGS, [])
    for is_slot, text in _parts(template[1]):
        if is_slot:
            _fill_target(target, text, content)
        else:
            target.say(text)
    return TaggedSentence(
        kind=kind,
        source=source.finished(),
        target=target.finished(),
        mention=_mention(source, target, noun),
        pronoun=_pronoun(source, target, noun, distance),
    )


def mentions_person(template: Phrases) -> bool:
    """Tell whether a template has a slot for a person."""
    return any(is_slot and "person" in slot for is_slot, slot in _parts(template[0]))


@cache
def _parts(pattern: str) -> tuple[tuple[bool, str], ...]:
    """Split a pattern into words and slots; the flag tells a slot."""
    found = re.findall(r"\{([^}]*)\}|(\S+)", pattern)
    return tuple((True, slot) if slot else (False, word) for slot, word in found)


def _draw_fillers(pattern: str, random: Random, scene: Scene, person: Person) -> dict[str, Phrases]:
    drawn = {
        **person.fillers(),
        "name": random.choice(TITLED_NAMES if scene.formal else FIRST_NAMES),
        "homonym": random.choice(scene.topic.homonyms),
        "place": scene.topic.place,
        "origin": scene.topic.origin,
    }
    for is_slot, name in _parts(pattern):
        if is_slot and name in FILLERS:
            drawn[name] = random.choice(FILLERS[name])
    return drawn


def _fill_source(side: _Side, slot: str, content: _Content) -> None:
    if slot in content.fillers:
        side.say(content.fillers[slot][0])
    elif content.noun is None:
        raise ValueError(f"Slot {{{slot}}} needs an object in focus.")
    elif slot == "it":
        side.refer("it", "Nom")
    else:
        determiner, _, with_adjective = slot.partition(".")
        words = [content.adjective[0]] if with_adjective else []
        words.append(content.noun.source)
        if determiner == "a" and words[0][0] in "aeiou":
            determiner = "an"
        side.name([determiner, *words], "Nom")


def _fill_target(side: _Side, slot: str, content: _Content) -> None:
    if "|" in slot:
        informal, formal = slot.split("|")
        side.say(formal if content.formal else informal)
    elif slot in content.fillers:
        side.say(content.fillers[slot][1])
    elif content.noun is None:
        raise ValueError(f"Slot {{{slot}}} needs an object in focus.")
    elif slot in _PRONOUN_CASES:
        case = _PRONOUN_CASES[slot]
        side.refer(PRONOUNS[case][content.noun.gender], case)
    else:
        determiner, case_name, *with_adjective = slot.split(".")
        case = _CASES[case_name]
        gender = content.noun.gender
        words = [_determiner(determiner, gender, case)]
        if with_adjective:
            words.append(content.adjective[1] + _adjective_ending(determiner, gender, case))
        side.name([*words, content.noun.target], case)


def _determiner(lemma: str, gender: Gender, case: Case) -> str:
    """Inflect `der`, or a word that inflects like `ein`."""
    if lemma == "der":
        return _DEFINITE[case][gender]
    return lemma + _INDEFINITE_ENDINGS[case][gender]


def _adjective_ending(determiner: str, gender: Gender, case: Case) -> str:
    if case == "Dat" or (case == "Acc" and gender == "Masc"):
        return "en"
    if determiner == "der" or gender == "Fem":
        return "e"
    # After ein and its like the determiner shows no gender, so the adjective has to.
    return "er" if gender == "Masc" else "es"


def _mention(source: _Side, target: _Side, noun: Noun | None) -> Mention | None:
    if noun is None or target.head < 0:
        return None
    return Mention(noun, target.case, source.start, source.head, target.start, target.head)


def _pronoun(source: _Side, target: _Side, noun: Noun | None, distance: int) -> Pronoun | None:
    if noun is None or target.pronoun < 0:
        return None
    return Pronoun(noun, target.pronoun_case, source.pronoun, target.pronoun, distance)
