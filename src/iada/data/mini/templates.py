"""Sentence patterns of the mini corpus, in English and German.

Words stand as they are; `word/TAG` overrides the word's usual tag. Slots in braces:
`{past}` and the like take a filler; `{du|Sie}` is decided by the form of address; `{a.adj}`,
`{the}` (German `{ein.acc.adj}`, `{der.nom}`) name the object in focus; `{it}` (German `{er}`,
`{ihn}`) refers to it. Patterns with the object fit every object, so they say nothing of gender.
"""

from iada.data.mini.lexicon import Phrases

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
