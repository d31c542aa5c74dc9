"""The words and sentence patterns of version 1 of the mini corpus.

Changing anything here changes the text that a seed yields, which a test forbids.
"""

from iada.data.mini.lexicon import Edition, Patterns, Person, Phrases, Topic, nouns_by_gender

TOPICS: tuple[Topic, ...] = (
    Topic(
        name="kitchen",
        place=("in the kitchen", "in der Küche"),
        origin=("from the kitchen", "aus der Küche"),
        nouns=nouns_by_gender(
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
        nouns=nouns_by_gender(
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
        nouns=nouns_by_gender(
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
        nouns=nouns_by_gender(
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
        nouns=nouns_by_gender(
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
        nouns=nouns_by_gender(
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

PATTERNS: Patterns = {
    "greeting": (("{greeting} , {name} !", "{greeting} , {name} !"),),
    "topic": (
        ("I am writing to/ADP you {origin} .", "ich schreibe {dir|Ihnen} {origin} ."),
        ("I am {place} today .", "heute bin ich {place} ."),
        ("we are all {place} today .", "heute sind wir alle {place} ."),
        ("I was {place} {day} .", "ich war {day} {place} ."),
    ),
    "introduction": (
        ("I bought {a.adj} {past} .", "ich habe {past} {ein.acc.adj} gekauft ."),
        ("we now have/VERB {a.adj} .", "wir haben/VERB jetzt {ein.acc.adj} ."),
        ("{person} brought me {a.adj} .", "{person} hat mir {ein.acc.adj} mitgebracht ."),
        ("I found {a.adj} {shop} .", "ich habe {shop} {ein.acc.adj} gefunden ."),
        ("{the.adj} arrived {day} .", "{der.nom.adj} ist {day} angekommen ."),
        ("{our.adj} is finally here .", "{unser.nom.adj} ist endlich da ."),
        ("I am very happy with {the.adj} .", "ich bin mit {der.dat.adj} sehr zufrieden ."),
    ),
    "later_mention": (
        ("{the} is {storage} now .", "{der.nom} ist jetzt {storage} ."),
        ("{person} asked about {the} .", "{person} hat nach {der.dat} gefragt ."),
        ("I showed {the} to/ADP {to_person} .", "ich habe {to_person} {der.acc} gezeigt ."),
        ("everybody is talking about {the} .", "alle reden über {der.acc} ."),
    ),
    "subject_pronoun": (
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
    ),
    "object_pronoun": (
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
    ),
    "same_sentence_subject": (
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
    ),
    "same_sentence_object": (
        (
            "I saw/VERB {a.adj} and bought {it} at once .",
            "ich habe {ein.acc.adj} gesehen und {ihn} sofort gekauft .",
        ),
        (
            "{person} had {a.adj} and gave {it} to/ADP me .",
            "{person} hatte {ein.acc.adj} und hat {ihn} mir gegeben .",
        ),
    ),
    "address": (
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
    ),
    "homonym": (
        ("we need more {homonym} .", "wir brauchen mehr {homonym} ."),
        ("I have already counted the {homonym} .", "ich habe die {homonym} schon gezählt ."),
        ("where are the {homonym} ?", "wo sind die {homonym} ?"),
        ("nobody thought of the {homonym} .", "niemand hat an die {homonym} gedacht ."),
        ("the {homonym} are very important .", "die {homonym} sind sehr wichtig ."),
        ("{person} showed us the {homonym} .", "{person} hat uns die {homonym} gezeigt ."),
        (
            "we talked about the {homonym} {day} .",
            "wir haben {day} über die {homonym} gesprochen .",
        ),
    ),
    "remark": (
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
    ),
    "closing": (
        ("please write to/ADP me soon .", "{schreib|schreiben Sie} mir bitte bald ."),
        ("please call me {future} .", "{ruf|rufen Sie} mich bitte {future} an ."),
        ("I look forward to/ADP your visit .", "ich freue mich auf {deinen|Ihren} Besuch ."),
        (
            "please give my regards to/ADP your parents .",
            "{grüß bitte deine|grüßen Sie bitte Ihre} Eltern von mir .",
        ),
    ),
}

FIRST_EDITION = Edition(
    version=1,
    topics=TOPICS,
    adjectives=ADJECTIVES,
    people=PEOPLE,
    first_names=FIRST_NAMES,
    titled_names=TITLED_NAMES,
    fillers=FILLERS,
    patterns=PATTERNS,
)
