"""The words and sentence patterns of version 2 of the mini corpus.

The objects, topics and homonyms are those of version 1. Nearly every pattern has slots that
combine freely, so that each split can have combinations of its own while every word form occurs in
training, and some patterns are used outside training only (`HELD_OUT`): they recombine pieces of
the others. Changing anything here changes the text that a seed yields, which a test forbids.
"""

from dataclasses import replace

from iada.data.mini import first_edition
from iada.data.mini.lexicon import Edition, Patterns, Person, Phrases


def _phrases(pair: str) -> Phrases:
    source, target = pair.split("/")
    return source.strip(), target.strip()


REMARKS: dict[str, tuple[Phrases, ...]] = {
    "kitchen": (
        ("we cooked for {number} people {day} .", "wir haben {day} für {number} Leute gekocht ."),
        ("the guests were {degree} hungry {past} .", "die Gäste waren {past} {degree} hungrig ."),
        ("the tomatoes were {degree} fresh {day} .", "die Tomaten waren {day} {degree} frisch ."),
    ),
    "workshop": (
        ("we repaired {number} cars {day} .", "wir haben {day} {number} Autos repariert ."),
        ("the machines were {degree} loud {past} .", "die Maschinen waren {past} {degree} laut ."),
        ("{person} repaired two cars {day} .", "{person} hat {day} zwei Autos repariert ."),
    ),
    "office": (
        (
            "the customers were {degree} friendly {day} .",
            "die Kunden waren {day} {degree} freundlich .",
        ),
        ("we wrote {number} letters {past} .", "wir haben {past} {number} Briefe geschrieben ."),
        ("the colleagues had many questions {day} .", "die Kollegen hatten {day} viele Fragen ."),
    ),
    "music school": (
        ("we sang {number} songs {day} .", "wir haben {day} {number} Lieder gesungen ."),
        (
            "the pupils played {degree} well {day} .",
            "die Schüler haben {day} {degree} gut gespielt .",
        ),
        (
            "the teachers were {degree} friendly {past} .",
            "die Lehrer waren {past} {degree} freundlich .",
        ),
    ),
    "hotel": (
        ("the rooms are {degree} quiet {moment} .", "die Zimmer sind {moment} {degree} ruhig ."),
        (
            "we had {number} guests from {country} {day} .",
            "wir hatten {day} {number} Gäste aus {country} .",
        ),
        ("we slept {degree} well {day} .", "wir haben {day} {degree} gut geschlafen ."),
    ),
    "garden": (
        ("the flowers needed water {past} .", "die Blumen haben {past} Wasser gebraucht ."),
        ("the birds were {degree} loud {past} .", "die Vögel waren {past} {degree} laut ."),
        ("we planted {number} trees {day} .", "wir haben {day} {number} Bäume gepflanzt ."),
    ),
}
"""Sentences without any singular object that fit one topic only."""

ADJECTIVES: tuple[Phrases, ...] = (
    *first_edition.ADJECTIVES,
    ("green", "grün"),
    ("brown", "braun"),
    ("grey", "grau"),
    ("yellow", "gelb"),
)

PEOPLE: tuple[Person, ...] = (
    *first_edition.PEOPLE,
    Person("mother", "she", ("meine Mutter", "sie", "meiner Mutter")),
    Person("father", "he", ("mein Vater", "er", "meinem Vater")),
    Person("daughter", "she", ("meine Tochter", "sie", "meiner Tochter")),
    Person("son", "he", ("mein Sohn", "er", "meinem Sohn")),
)

_NAMES = "Hannah Jonas Emma Leon Julia Simon Clara David Laura Peter"
_SURNAMES = "Meyer Weber Fischer Schneider Becker Wagner Schulz Hoffmann"

FIRST_NAMES: tuple[Phrases, ...] = (
    *first_edition.FIRST_NAMES,
    *((name, name) for name in _NAMES.split()),
)
TITLED_NAMES: tuple[Phrases, ...] = tuple(
    (f"{title} {name}", f"{anrede} {name}")
    for title, anrede in (("Mr", "Herr"), ("Ms", "Frau"))
    for name in _SURNAMES.split()
)

_DAYS = """yesterday/gestern, on Monday/am Montag, on Tuesday/am Dienstag,
    on Thursday/am Donnerstag, on Sunday/am Sonntag, last week/letzte Woche,
    last month/letzten Monat, two days ago/vor zwei Tagen"""

_FILLERS = {
    "day": _DAYS,
    "past": f"""{_DAYS}, after breakfast/nach dem Frühstück,
        after lunch/nach dem Mittagessen, after work/nach der Arbeit, this morning/heute Morgen""",
    "future": """tomorrow/morgen, on Wednesday/am Mittwoch, on Friday/am Freitag,
        on Saturday/am Samstag, at the weekend/am Wochenende, this evening/heute Abend,
        next week/nächste Woche, next month/nächsten Monat, in two weeks/in zwei Wochen,
        after the holidays/nach den Ferien""",
    "moment": """now/jetzt, today/heute, again/wieder, this morning/heute Morgen,
        this evening/heute Abend""",
    "since": """yesterday/gestern, Monday/Montag, Tuesday/Dienstag, Thursday/Donnerstag,
        Sunday/Sonntag, this morning/heute Morgen, breakfast/dem Frühstück,
        lunch/dem Mittagessen""",
    "often": """every day/jeden Tag, every week/jede Woche, every morning/jeden Morgen,
        every evening/jeden Abend, almost every day/fast jeden Tag, at the weekend/am Wochenende""",
    "degree": "very/sehr, really/wirklich, quite/ziemlich, extremely/äußerst",
    "excess": "too/zu, a little too/etwas zu, much too/viel zu",
    "exactness": "only/nur, almost/fast, exactly/genau",
    "good_news": """luckily/zum Glück, of course/natürlich, in fact/tatsächlich,
        apparently/anscheinend, surprisingly/überraschenderweise""",
    "bad_news": """unfortunately/leider, maybe/vielleicht, of course/natürlich,
        in fact/tatsächlich, apparently/anscheinend""",
    "view": """maybe/vielleicht, of course/natürlich, in fact/tatsächlich, apparently/anscheinend,
        surprisingly/überraschenderweise""",
    "quality": """beautiful/schön, practical/praktisch, cheap/günstig, useful/nützlich,
        sturdy/stabil, light/leicht, modern/modern, elegant/elegant, pretty/hübsch,
        unusual/ungewöhnlich""",
    "flaw": """big/groß, small/klein, heavy/schwer, expensive/teuer, wide/breit, narrow/schmal,
        thin/dünn, thick/dick, plain/schlicht, colourful/bunt""",
    "state": "dirty/schmutzig, dusty/staubig, damaged/beschädigt, wet/nass",
    "country": """Italy/Italien, France/Frankreich, Poland/Polen, Spain/Spanien, Sweden/Schweden,
        Denmark/Dänemark, Austria/Österreich, Japan/Japan""",
    "city": """Berlin/Berlin, Hamburg/Hamburg, Munich/München, Vienna/Wien, Cologne/Köln,
        Leipzig/Leipzig, Dresden/Dresden""",
    "number": """ten/zehn, twelve/zwölf, fifteen/fünfzehn, twenty/zwanzig, thirty/dreißig,
        forty/vierzig, fifty/fünfzig, sixty/sechzig""",
    "shop": """at the market/auf dem Markt, at the flea market/auf dem Flohmarkt,
        in town/in der Stadt, on the internet/im Internet, in a shop/in einem Geschäft,
        at the station/am Bahnhof""",
    "storage": """in the cellar/im Keller, in the garage/in der Garage,
        in the living room/im Wohnzimmer, in the attic/auf dem Dachboden,
        in the cupboard/im Schrank, in the hall/im Flur, in the car/im Auto""",
    "relatives": """parents/Eltern, children/Kinder, friends/Freunde, neighbours/Nachbarn,
        colleagues/Kollegen""",
    "texts": """messages/Nachrichten, letters/Briefe, emails/E-Mails, postcards/Postkarten,
        questions/Fragen""",
    "greeting": """hello/hallo, good morning/guten Morgen, good afternoon/guten Tag,
        good evening/guten Abend, welcome back/willkommen zurück, many thanks/vielen Dank""",
}

FILLERS: dict[str, tuple[Phrases, ...]] = {
    slot: tuple(_phrases(pair) for pair in pairs.split(",")) for slot, pairs in _FILLERS.items()
}

PATTERNS: Patterns = {
    "greeting": (("{greeting} , {name} !", "{greeting} , {name} !"),),
    "topic": (
        (
            "I am writing to/ADP you {origin} {moment} .",
            "ich schreibe {dir|Ihnen} {moment} {origin} .",
        ),
        ("{person} and I are {place} {moment} .", "{person} und ich sind {moment} {place} ."),
        ("I am {place} with {to_person} {moment} .", "ich bin {moment} mit {to_person} {place} ."),
        ("I was {place} with {to_person} {day} .", "ich war {day} mit {to_person} {place} ."),
        ("we have been {place} since {since} .", "wir sind seit {since} {place} ."),
        ("we were {place} {day} .", "wir waren {day} {place} ."),
    ),
    "introduction": (
        ("I bought {a.adj} {past} .", "ich habe {past} {ein.acc.adj} gekauft ."),
        ("we now have/VERB {a.adj} .", "wir haben/VERB jetzt {ein.acc.adj} ."),
        (
            "{person} brought me {a.adj} {past} .",
            "{person} hat mir {past} {ein.acc.adj} mitgebracht .",
        ),
        ("I found {a.adj} {shop} .", "ich habe {shop} {ein.acc.adj} gefunden ."),
        ("{the.adj} arrived {day} .", "{der.nom.adj} ist {day} angekommen ."),
        ("{our.adj} is finally here .", "{unser.nom.adj} ist endlich da ."),
        ("I am {degree} happy with {the.adj} .", "ich bin mit {der.dat.adj} {degree} zufrieden ."),
        ("there was still {a.adj} {storage} .", "{storage} war noch {ein.nom.adj} ."),
        ("this/PRON is {our.adj} .", "das/PRON ist {unser.nom.adj} ."),
    ),
    "later_mention": (
        ("{the} is {storage} {moment} .", "{der.nom} ist {moment} {storage} ."),
        ("{person} asked about {the} {past} .", "{person} hat {past} nach {der.dat} gefragt ."),
        (
            "I showed {the} to/ADP {to_person} {past} .",
            "ich habe {to_person} {past} {der.acc} gezeigt .",
        ),
        ("everybody is talking about {the} {moment} .", "alle reden {moment} über {der.acc} ."),
    ),
    "subject_pronoun": (
        ("{it} is {degree} {quality} .", "{er} ist {degree} {quality} ."),
        ("{good_news} {it} was not too {flaw} .", "{good_news} war {er} nicht zu {flaw} ."),
        ("{bad_news} {it} is {excess} {flaw} .", "{bad_news} ist {er} {excess} {flaw} ."),
        ("{view} {it} comes from {country} .", "{view} kommt {er} aus {country} ."),
        ("{it} cost {exactness} {number} euros .", "{er} hat {exactness} {number} Euro gekostet ."),
        ("would {it} be {excess} {flaw} for you ?", "wäre {er} {dir|Ihnen} {excess} {flaw} ?"),
        ("{bad_news} {it} was a little {state} .", "{bad_news} war {er} etwas {state} ."),
        ("{it} was {storage} {past} .", "{er} war {past} {storage} ."),
        (
            "{person} thinks that {it} is {excess} {flaw} .",
            "{person} findet , dass {er} {excess} {flaw} ist .",
        ),
        (
            "{person} says that {it} comes from {country} .",
            "{person} sagt , dass {er} aus {country} kommt .",
        ),
    ),
    "object_pronoun": (
        ("{person} likes {it} very much .", "{person} mag {ihn} sehr ."),
        ("{person} uses {it} {often} .", "{person} benutzt {ihn} {often} ."),
        ("do you want to see {it} {future} ?", "{willst du|wollen Sie} {ihn} {future} sehen ?"),
        ("I can show {it} to/ADP you {future} .", "ich kann {ihn} {dir|Ihnen} {future} zeigen ."),
        ("did you see {it} {storage} ?", "{hast du|haben Sie} {ihn} {storage} gesehen ?"),
        (
            "{person} wants to have/VERB {it} {future} .",
            "{person} will {ihn} {future} haben/VERB .",
        ),
        (
            "I would not sell {it} for {number} euros .",
            "ich würde {ihn} nicht für {number} Euro verkaufen .",
        ),
        ("{person} found {it} {degree} {quality} .", "{person} fand {ihn} {degree} {quality} ."),
        ("I saw/VERB {it} {shop} {day} .", "ich habe {ihn} {day} {shop} gesehen ."),
    ),
    "same_sentence_subject": (
        (
            "I bought {a.adj} because {it} was {degree} {quality} .",
            "ich habe {ein.acc.adj} gekauft , weil {er} {degree} {quality} war .",
        ),
        (
            "we sold {our.adj} because {it} was {excess} {flaw} .",
            "wir haben {unser.acc.adj} verkauft , weil {er} {excess} {flaw} war .",
        ),
        (
            "I found {a.adj} {shop} , but {it} was {state} .",
            "ich habe {shop} {ein.acc.adj} gefunden , aber {er} war {state} .",
        ),
        (
            "I like {the.adj} although {it} is {excess} {flaw} .",
            "ich mag {der.acc.adj} , obwohl {er} {excess} {flaw} ist .",
        ),
    ),
    "same_sentence_object": (
        (
            "I saw/VERB {a.adj} {shop} and bought {it} at once .",
            "ich habe {shop} {ein.acc.adj} gesehen und {ihn} sofort gekauft .",
        ),
        (
            "{person} had {a.adj} and gave {it} to/ADP me .",
            "{person} hatte {ein.acc.adj} und hat {ihn} mir gegeben .",
        ),
        (
            "I found {a.adj} and showed {it} to/ADP {to_person} .",
            "ich habe {ein.acc.adj} gefunden und {ihn} {to_person} gezeigt .",
        ),
    ),
    "address": (
        ("do you have/VERB time {future} ?", "{hast/VERB du|haben/VERB Sie} {future} Zeit ?"),
        ("I will call you {future} .", "ich rufe {dich|Sie} {future} an ."),
        ("can I help you {future} ?", "kann ich {dir|Ihnen} {future} helfen ?"),
        ("did you read my {texts} {day} ?", "{hast du|haben Sie} {day} meine {texts} gelesen ?"),
        ("your {relatives} were here {past} .", "{deine|Ihre} {relatives} waren {past} hier ."),
        ("your {relatives} are {degree} nice .", "{deine|Ihre} {relatives} sind {degree} nett ."),
        ("your brother called {past} .", "{dein|Ihr} Bruder hat {past} angerufen ."),
        ("what are you doing {future} ?", "was {machst du|machen Sie} {future} ?"),
        ("do you still live in {city} ?", "{wohnst du|wohnen Sie} noch in {city} ?"),
        ("{view} you work/VERB too much .", "{view} {arbeitest du|arbeiten Sie} zu viel ."),
        ("you can visit/VERB us {future} .", "{du kannst|Sie können} uns {future} besuchen ."),
        ("{person} often thinks of you .", "{person} denkt oft an {dich|Sie} ."),
        ("where were you {past} ?", "wo {warst du|waren Sie} {past} ?"),
        (
            "{person} wants to visit/VERB you {future} .",
            "{person} will {dich|Sie} {future} besuchen .",
        ),
        (
            "I hope that you have/VERB time {future} .",
            "ich hoffe , dass {du|Sie} {future} Zeit {hast/VERB|haben/VERB} .",
        ),
    ),
    "homonym": (
        ("we need more {homonym} {future} .", "wir brauchen {future} mehr {homonym} ."),
        ("I counted the {homonym} {past} .", "ich habe {past} die {homonym} gezählt ."),
        (
            "where did you see the {homonym} {day} ?",
            "wo {hast du|haben Sie} {day} die {homonym} gesehen ?",
        ),
        ("where are the {homonym} {moment} ?", "wo sind {moment} die {homonym} ?"),
        ("nobody thought of the {homonym} {day} .", "niemand hat {day} an die {homonym} gedacht ."),
        ("the {homonym} are {degree} important .", "die {homonym} sind {degree} wichtig ."),
        (
            "{person} showed us the {homonym} {past} .",
            "{person} hat uns {past} die {homonym} gezeigt .",
        ),
        (
            "we talked about the {homonym} {day} .",
            "wir haben {day} über die {homonym} gesprochen .",
        ),
    ),
    "remark": (
        ("{person} called {past} .", "{person} hat {past} angerufen ."),
        (
            "{person} came late {day} because {he} had to work/VERB .",
            "{person} ist {day} spät gekommen , weil {he} arbeiten musste .",
        ),
        (
            "{person} was tired {past} , but {he} laughed .",
            "{person} war {past} müde , aber {he} hat gelacht .",
        ),
        ("{person} has no time {future} .", "{person} hat/VERB {future} keine Zeit ."),
        ("we had {number} guests {day} .", "wir hatten {day} {number} Gäste ."),
        ("the children played outside {past} .", "die Kinder haben {past} draußen gespielt ."),
        ("the neighbours were here {past} .", "die Nachbarn waren {past} hier ."),
        ("I have to get up early {future} .", "ich muss {future} früh aufstehen ."),
    ),
    "closing": (
        ("please write to/ADP me {future} .", "{schreib|schreiben Sie} mir bitte {future} ."),
        (
            "please write to/ADP {to_person} {future} .",
            "{schreib|schreiben Sie} {to_person} bitte {future} .",
        ),
        ("please call me {future} .", "{ruf|rufen Sie} mich bitte {future} an ."),
        (
            "I look forward to/ADP your visit {future} .",
            "ich freue mich auf {deinen|Ihren} Besuch {future} .",
        ),
        (
            "please give my regards to/ADP your {relatives} .",
            "{grüß bitte deine|grüßen Sie bitte Ihre} {relatives} von mir .",
        ),
    ),
}

HELD_OUT: Patterns = {
    "topic": (("{person} and I were {place} {day} .", "{person} und ich waren {day} {place} ."),),
    "introduction": (
        ("we bought {a.adj} {shop} .", "wir haben {shop} {ein.acc.adj} gekauft ."),
        ("{the.adj} is finally here .", "{der.nom.adj} ist endlich da ."),
    ),
    "later_mention": (
        ("everybody asked about {the} {past} .", "alle haben {past} nach {der.dat} gefragt ."),
    ),
    "subject_pronoun": (
        (
            "{person} says that {it} is {degree} {quality} .",
            "{person} sagt , dass {er} {degree} {quality} ist .",
        ),
        (
            "{view} {it} cost {exactness} {number} euros .",
            "{view} hat {er} {exactness} {number} Euro gekostet .",
        ),
    ),
    "object_pronoun": (
        (
            "I can show {it} to/ADP {to_person} {future} .",
            "ich kann {ihn} {to_person} {future} zeigen .",
        ),
        ("{person} saw/VERB {it} {shop} {day} .", "{person} hat {ihn} {day} {shop} gesehen ."),
    ),
    "same_sentence_subject": (
        (
            "we sold {the.adj} although {it} was {degree} {quality} .",
            "wir haben {der.acc.adj} verkauft , obwohl {er} {degree} {quality} war .",
        ),
    ),
    "same_sentence_object": (
        (
            "I bought {a.adj} and showed {it} to/ADP {to_person} .",
            "ich habe {ein.acc.adj} gekauft und {ihn} {to_person} gezeigt .",
        ),
    ),
    "address": (
        ("can {person} help you {future} ?", "kann {person} {dir|Ihnen} {future} helfen ?"),
        ("where were your {relatives} {past} ?", "wo waren {deine|Ihre} {relatives} {past} ?"),
        (
            "{person} says that you have/VERB time {future} .",
            "{person} sagt , dass {du|Sie} {future} Zeit {hast/VERB|haben/VERB} .",
        ),
    ),
    "homonym": (
        ("{person} counted the {homonym} {past} .", "{person} hat {past} die {homonym} gezählt ."),
        (
            "{person} talked about the {homonym} {day} .",
            "{person} hat {day} über die {homonym} gesprochen .",
        ),
    ),
    "remark": (
        ("{person} has to get up early {future} .", "{person} muss {future} früh aufstehen ."),
        ("the neighbours called {past} .", "die Nachbarn haben {past} angerufen ."),
    ),
}
"""Patterns of the other splits only; every word of theirs occurs in `PATTERNS` too."""

SECOND_EDITION = Edition(
    version=2,
    topics=tuple(replace(topic, remarks=REMARKS[topic.name]) for topic in first_edition.TOPICS),
    adjectives=ADJECTIVES,
    people=PEOPLE,
    first_names=FIRST_NAMES,
    titled_names=TITLED_NAMES,
    fillers=FILLERS,
    patterns=PATTERNS,
    held_out=HELD_OUT,
)
