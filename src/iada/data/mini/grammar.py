"""Universal parts of speech of every word form in the mini corpus.

The conventions are those of the English and German Universal Dependencies treebanks: copulas and
modals are AUX, German separable prefixes ADP, English possessives PRON and German ones DET. A
word with two readings has its usual one here; a template states the other (`word/TAG`).

From a pair of templates to a tagged sentence pair: slots, inflection, agreement, capitals.

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
    TOPICS,
    Case,
    Gender,
    Kind,
    Mention,
    Noun,
    Person,
    Phrases,
    Pronoun,
    TaggedSentence,
    Token,
    Topic,
)

_SOURCE = {
    "ADJ": """beautiful big broken cheap dirty expensive fresh friendly good happy heavy hungry
        important last little loud many more next nice practical quiet small tired useful""",
    "ADP": "about after at for from in of on up with",
    "ADV": """already also early finally forward here late long luckily maybe much never now
        often once only outside soon still today tomorrow too unfortunately very well
        where yesterday""",
    "AUX": "am are be can did do have is was were will would",
    "CCONJ": "and but",
    "DET": "a all an every no the",
    "INTJ": "hello please",
    "NOUN": """aunt birds breakfast brother cars cellar children colleagues customers day euros
        evening flowers garage garden grandfather grandmother guests hands hotel internet
        kitchen letters living machines market messages morning music neighbours office
        parents people pupils questions regards room rooms school sister songs teachers
        time tomatoes town trees uncle visit water week weekend work workshop""",
    "NUM": "fifty ten twenty two",
    "PART": "not to",
    "PRON": "I everybody he it me my nobody our she us we what you your",
    "PROPN": """Anna Berlin Felix Fischer France Friday Italy Japan Lisa Maria Meyer Monday Mr Ms
        Paul Poland Saturday Sunday Tom Weber""",
    "PUNCT": ", . ! ?",
    "SCONJ": "although because that",
    "VERB": """arrived asked bought brought call called came come comes cooked cost counted doing
        found gave get give had has help hope laughed like live look need planted play
        played read repaired sang see seen sell show showed slept sold talked talking
        think thinks thought use want wants write writing wrote""",
}

_TARGET = {
    "ADJ": """freundlich frisch groß guten günstig hungrig kaputt klein laut letzte müde nett
        nächste nützlich praktisch ruhig schmutzig schwarz schwer schön teuer wichtig
        zufrieden""",
    "ADP": "am an auf aus für im in mit nach von zum über",
    "ADV": """auch bald da draußen endlich etwas früh gestern gut heute hier jetzt lange leider
        morgen nie noch nur oft schon sehr sofort spät viel vielleicht wo zu""",
    "AUX": """bin habe haben hast hat ist kann kannst können muss musste sind war waren warst
        will willst wollen wäre würde""",
    "CCONJ": "aber und",
    "DET": """Ihr Ihre Ihren das dein deine deinen dem den der die ein eine einen jeden keine
        mehr mein meine meinem meiner unser unsere unseren viele""",
    "INTJ": "bitte hallo",
    "NOUN": """Abend Arbeit Autos Besuch Blumen Briefe Bruder Bäume Büro Eltern Euro Fragen Frau
        Freitag Frühstück Garage Garten Glück Großmutter Großvater Gäste Herr Hotel Hände
        Internet Keller Kinder Kollegen Kunden Küche Lehrer Leute Lieder Markt Maschinen
        Montag Morgen Musikschule Nachbarn Nachrichten Onkel Samstag Schwester Schüler
        Sonntag Stadt Tag Tante Tomaten Vögel Wasser Werkstatt Woche Wochenende Wohnzimmer
        Zeit Zimmer""",
    "NUM": "fünfzig zehn zwanzig zwei",
    "PART": "nicht",
    "PRON": "Ihnen Sie alle dich dir du er es ich ihn mich mir niemand sie uns was wir",
    "PROPN": """Anna Berlin Felix Fischer Frankreich Italien Japan Lisa Maria Meyer Paul Polen Tom
        Weber""",
    "PUNCT": ", . ! ?",
    "SCONJ": "dass obwohl weil",
    "VERB": """angekommen angerufen arbeiten arbeitest aufstehen benutze besuchen brauchen denke
        fand findet freue gedacht gefragt gefunden gegeben gekauft gekocht gekommen
        gekostet gelacht gelesen gepflanzt geschlafen geschrieben gesehen gespielt
        gesprochen gesungen gezeigt gezählt grüß grüßen hatte hatten helfen hoffe hält
        kommen kommt machen machst mag mitgebracht reden repariert ruf rufe rufen schreib
        schreibe schreiben sehen spielen verkaufen verkauft wohnen wohnst zeigen""",
}

_ENDINGS = ("e", "en", "em", "er", "es")


def _index(table: dict[str, str]) -> dict[str, str]:
    return {word: tag for tag, words in table.items() for word in words.split()}


SOURCE_TAGS: dict[str, str] = {
    **_index(_SOURCE),
    **{english: "ADJ" for english, _ in ADJECTIVES},
    **{english: "NOUN" for topic in TOPICS for english, _ in topic.homonyms},
    **{noun.source: "NOUN" for topic in TOPICS for nouns in topic.nouns.values() for noun in nouns},
}
"""Usual tag of each English word form, before a sentence's first letter is capitalised."""

TARGET_TAGS: dict[str, str] = {
    **_index(_TARGET),
    **{stem + ending: "ADJ" for _, stem in ADJECTIVES for ending in _ENDINGS},
    **{german: "NOUN" for topic in TOPICS for _, german in topic.homonyms},
    **{noun.target: "NOUN" for topic in TOPICS for nouns in topic.nouns.values() for noun in nouns},
}
"""Usual tag of each German word form, before a sentence's first letter is capitalised."""


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
