"""From a pair of sentence patterns to a tagged sentence pair: slots, inflection, tags, capitals.

`realise` draws slot fillers from the random stream it is given; everything that must agree (gender,
case, form of address) comes from the scene.

The tags of word forms follow the English and German Universal Dependencies treebanks: copulas and
modals are AUX, German separable prefixes ADP, English possessives PRON and German ones DET. The
tables hold the usual tag of a word; a pattern states any other one (`word/TAG`).
"""

import re
from dataclasses import dataclass
from functools import cache
from random import Random

from iada.data.mini.lexicon import (
    Case,
    Edition,
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
from iada.data.mini.second_edition import SECOND_EDITION

_SOURCE = {
    "ADJ": """beautiful big broken cheap colourful damaged dirty dusty elegant expensive fresh
        friendly good happy heavy hungry important last light little loud many modern more
        narrow next nice plain practical pretty quiet small sore sturdy thick thin tired
        unusual useful wet wide""",
    "ADP": "about after at for from in of on since up with",
    "ADV": """again ago almost already also apparently back early exactly extremely finally forward
        here late long luckily maybe much never now often once only outside quite really soon
        still surprisingly today tomorrow too unfortunately very well where yesterday""",
    "AUX": "am are be been can did do have is was were will would",
    "CCONJ": "and but",
    "DET": "a all an every no the this",
    "INTJ": "hello please welcome",
    "NOUN": """afternoon attic aunt birds breakfast brother car cars cellar children colleagues
        course cupboard customers daughter day days emails euros evening fact father flea
        flowers friends garage garden grandfather grandmother guests hall hands holidays hotel
        internet kitchen letters living lunch machines market messages month morning mother
        music neighbours office opinion parents people postcards pupils questions regards room
        rooms school shop sister son songs station teachers thanks time tomatoes town trees
        uncle visit water week weekend weeks work workshop""",
    "NUM": "fifteen fifty forty sixty ten thirty twelve twenty two",
    "PART": "not to",
    "PRON": "everybody he I it me my nobody our she there us we what you your",
    "PROPN": """Anna Austria Becker Berlin Clara Cologne David Denmark Dresden Emma Felix Fischer
        France Friday Hamburg Hannah Hoffmann Italy Japan Jonas Julia Laura Leipzig Leon Lisa
        Maria Meyer Monday Mr Ms Munich Paul Peter Poland Saturday Schneider Schulz Simon
        Spain Sunday Sweden Thursday Tom Tuesday Vienna Wagner Weber Wednesday""",
    "PUNCT": ", . ! ?",
    "SCONJ": "although because that",
    "VERB": """arrived asked bought brought call called came come comes cooked cost counted doing
        found gave get give had has help hope hopes laughed like likes live look need needed
        planted play played read repaired sang says see seen sell show showed slept sold
        talked talking think thinks thought use uses want wants write writing wrote""",
}

_TARGET = {
    "ADJ": """beschädigt breit bunt dick dünn elegant freundlich frisch groß guten günstig hungrig
        hübsch kaputt klein laut leicht letzte letzten modern müde nass nett nächste nächsten
        nützlich praktisch ruhig schlicht schmal schmutzig schwarz schwer schön stabil staubig
        teuer ungewöhnlich wichtig willkommen zufrieden""",
    "ADP": "am an auf aus für im in mit nach seit von vor zum über",
    "ADV": """anscheinend auch bald da draußen endlich etwas fast früh genau gestern gut heute hier
        jetzt lange leider morgen natürlich nie noch nur oft schon sehr sofort spät
        tatsächlich viel vielleicht wieder wirklich wo ziemlich zu zurück äußerst
        überraschenderweise""",
    "AUX": """bin habe haben hast hat ist kann kannst können muss musste sind war waren warst
        will willst wollen wäre würde""",
    "CCONJ": "aber und",
    "DET": """das dein deine deinen dem den der die ein eine einem einen Ihr Ihre Ihren jede jeden
        keine mehr mein meine meinem meiner unser unsere unseren viele vielen""",
    "INTJ": "bitte hallo",
    "NOUN": """Abend Arbeit Auto Autos Bahnhof Besuch Blumen Briefe Bruder Bäume Büro Dachboden Dank
        Dienstag Donnerstag E-Mails Eltern Euro Ferien Flohmarkt Flur Fragen Frau Freitag
        Freunde Frühstück Garage Garten Geschäft Glück Großmutter Großvater Gäste Herr Hotel
        Hände Internet Keller Kinder Kollegen Kunden Küche Lehrer Leute Lieder Markt Maschinen
        Mittagessen Mittwoch Monat Montag Morgen Musikschule Mutter Nachbarn Nachrichten Onkel
        Postkarten Samstag Schrank Schwester Schüler Sohn Sonntag Stadt Tag Tagen Tante
        Tochter Tomaten Vater Vögel Wasser Werkstatt Woche Wochen Wochenende Wohnzimmer Zeit
        Zimmer""",
    "NUM": "dreißig fünfzehn fünfzig sechzig vierzig zehn zwanzig zwei zwölf",
    "PART": "nicht",
    "PRON": "Ihnen Sie alle dich dir du er es ich ihn mich mir niemand sie uns was wir",
    "PROPN": """Anna Becker Berlin Clara David Dresden Dänemark Emma Felix Fischer Frankreich
        Hamburg Hannah Hoffmann Italien Japan Jonas Julia Köln Laura Leipzig Leon Lisa Maria Meyer
        München Paul Peter Polen Schneider Schulz Schweden Simon Spanien Tom Wagner Weber Wien
        Österreich""",
    "PUNCT": ", . ! ?",
    "SCONJ": "dass obwohl weil",
    "VERB": """angekommen angerufen arbeiten arbeitest aufstehen benutze benutzt besuchen brauchen
        denke denkt fand findet freue gebraucht gedacht gefragt gefunden gegeben gekauft
        gekocht gekommen gekostet gelacht gelesen gepflanzt geschlafen geschrieben gesehen
        gespielt gesprochen gesungen gezeigt gezählt grüß grüßen hatte hatten helfen hoffe
        hält kommen kommt machen machst mag mitgebracht reden repariert ruf rufe rufen sagt
        schreib schreibe schreiben sehen spielen verkaufen verkauft wohnen wohnst zeigen""",
}

_ENDINGS = ("e", "en", "em", "er", "es")


def _index(table: dict[str, str]) -> dict[str, str]:
    return {word: tag for tag, words in table.items() for word in words.split()}


# The second edition has all adjectives, objects and homonyms of the first one.
_NOUNS = [n for topic in SECOND_EDITION.topics for nouns in topic.nouns.values() for n in nouns]
_HOMONYMS = [pair for topic in SECOND_EDITION.topics for pair in topic.homonyms]

SOURCE_TAGS: dict[str, str] = {
    **_index(_SOURCE),
    **{english: "ADJ" for english, _ in SECOND_EDITION.adjectives},
    **{english: "NOUN" for english, _ in _HOMONYMS},
    **{noun.source: "NOUN" for noun in _NOUNS},
}
"""Usual tag of each English word form, before a sentence's first letter is capitalised."""

TARGET_TAGS: dict[str, str] = {
    **_index(_TARGET),
    **{stem + ending: "ADJ" for _, stem in SECOND_EDITION.adjectives for ending in _ENDINGS},
    **{german: "NOUN" for _, german in _HOMONYMS},
    **{noun.target: "NOUN" for noun in _NOUNS},
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

    edition: Edition
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
    pattern: Phrases,
    random: Random,
    *,
    kind: Kind,
    scene: Scene,
    person: Person,
    noun: Noun | None = None,
    distance: int = 0,
) -> TaggedSentence:
    """Fill a pattern and its translation.

    Args:
        pattern: a source and a target pattern, see `lexicon`.
        random: stream that fillers are drawn from; never consulted for agreement.
        kind: what the sentence is for.
        scene: topic and form of address.
        person: who the sentence speaks of, if it speaks of anyone.
        noun: object in focus, if the pattern names or refers to it.
        distance: sentences back to where the object was named last.
    """
    fillers = _draw_fillers(pattern[0], random, scene, person)
    content = _Content(fillers, noun, random.choice(scene.edition.adjectives), scene.formal)
    source = _Side(SOURCE_TAGS, [])
    for is_slot, text in _parts(pattern[0]):
        if is_slot:
            _fill_source(source, text, content)
        else:
            source.say(text)
    target = _Side(TARGET_TAGS, [])
    for is_slot, text in _parts(pattern[1]):
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


def mentions_person(pattern: Phrases) -> bool:
    """Tell whether a pattern has a slot for a person."""
    return any(is_slot and "person" in slot for is_slot, slot in _parts(pattern[0]))


@cache
def _parts(pattern: str) -> tuple[tuple[bool, str], ...]:
    """Split a pattern into words and slots; the flag tells a slot."""
    found = re.findall(r"\{([^}]*)\}|(\S+)", pattern)
    return tuple((True, slot) if slot else (False, word) for slot, word in found)


def _draw_fillers(pattern: str, random: Random, scene: Scene, person: Person) -> dict[str, Phrases]:
    edition = scene.edition
    drawn = {
        **person.fillers(),
        "name": random.choice(edition.titled_names if scene.formal else edition.first_names),
        "homonym": random.choice(scene.topic.homonyms),
        "place": scene.topic.place,
        "origin": scene.topic.origin,
    }
    for is_slot, name in _parts(pattern):
        if is_slot and name in edition.fillers:
            drawn[name] = random.choice(edition.fillers[name])
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
