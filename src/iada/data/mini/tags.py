"""Universal parts of speech of every word form in the mini corpus.

The conventions are those of the English and German Universal Dependencies treebanks: copulas and
modals are AUX, German separable prefixes ADP, English possessives PRON and German ones DET. A
word with two readings has its usual one here; a template states the other (`word/TAG`).
"""

from iada.data.mini.lexicon import ADJECTIVES, TOPICS

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
