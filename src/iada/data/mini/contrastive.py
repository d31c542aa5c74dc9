"""The contrastive pronoun set of the mini corpus, in ContraPro's format.

Each item is a sentence with a nominative pronoun, its translation, and the two translations with
a pronoun of another gender. Each has a document of its own, in which the pronoun of the second
episode is tested, so that all items have at least three sentences of context.
"""

from dataclasses import replace
from typing import TypedDict

from iada.data.mini.documents import (
    DISTANCE_WEIGHTS,
    Episode,
    compose,
    random_stream,
    rotate_genders,
)
from iada.data.mini.grammar import PRONOUNS
from iada.data.mini.lexicon import GENDERS, TOPICS
from iada.data.mini.sentences import TaggedDocument, TaggedSentence, Token

Error = TypedDict(
    "Error",
    {"contrastive": str, "replacement": str, "replacement gender": str, "type": str},
)

Item = TypedDict(
    "Item",
    {
        "document id": str,
        "segment id": int,
        "src segment": str,
        "ref segment": str,
        "src pronoun": str,
        "ref pronoun": str,
        "ante distance": int,
        "intrasegmental": bool,
        "corpus": str,
        "errors": list[Error],
        "src ante phrase": str,
        "src ante head": str,
        "src ante head id": int,
        "src ante head lemma": str,
        "src ante head pos": str,
        "src ante head gender": str | None,
        "src ante head morpho": str | None,
        "ref ante phrase": str,
        "ref ante head": str,
        "ref ante head id": int,
        "ref ante head lemma": str,
        "ref ante head pos": str,
        "ref ante head gender": str,
        "ref ante head morpho": str,
    },
)

_TESTED = 1
"""Position of the tested episode among the episodes of its document."""


def generate_contrastive(per_cell: int, *, seed: int) -> tuple[list[Item], list[TaggedDocument]]:
    """Generate the set with one context document per item.

    Args:
        per_cell: items for each pronoun class and antecedent distance.
        seed: another seed gives another set.
    """
    items: list[Item] = []
    documents: list[TaggedDocument] = []
    for distance in range(len(DISTANCE_WEIGHTS)):
        for number in range(per_cell):
            for rotation in range(len(GENDERS)):
                document = _context_document(seed, distance, number, rotation)
                documents.append(document)
                items.append(_item(document))
    return items, documents


def _context_document(seed: int, distance: int, number: int, rotation: int) -> TaggedDocument:
    plan = random_stream(seed, "contrastive", "plan", distance, number)
    topic = TOPICS[number % len(TOPICS)]
    tested = Episode(
        distance, subject=True, gender=rotate_genders(plan, rotation), same_object=False, pause=True
    )
    before = Episode(
        plan.choice((1, 2)),
        subject=False,
        # Drawn apart from the tested gender, so that the one says nothing about the other.
        gender=plan.choice(GENDERS),
        same_object=False,
        pause=True,
    )
    text = random_stream(seed, "contrastive", "text", distance, number, rotation)
    name = f"mini-{distance}-{number:03d}-{rotation}"
    return compose(name, topic, [before, tested], text)


def _item(document: TaggedDocument) -> Item:
    places = [i for i, s in enumerate(document.sentences) if s.pronoun is not None]
    place = places[_TESTED]
    sentence = document.sentences[place]
    pronoun = sentence.pronoun
    assert pronoun is not None
    antecedent = document.sentences[place - pronoun.distance]
    mention = antecedent.mention
    assert mention is not None
    forms = PRONOUNS[pronoun.case]
    return {
        "document id": document.name,
        "segment id": place + 1,
        "src segment": sentence.source_text,
        "ref segment": sentence.target_text,
        "src pronoun": "it",
        "ref pronoun": forms[pronoun.noun.gender],
        "ante distance": pronoun.distance,
        "intrasegmental": pronoun.distance == 0,
        "corpus": "iada-mini",
        "errors": [
            {
                "contrastive": _with_pronoun(sentence, pronoun.target_index, forms[gender]),
                "replacement": forms[gender],
                "replacement gender": gender,
                "type": "pronominal coreference",
            }
            for gender in GENDERS
            if gender != pronoun.noun.gender
        ],
        "src ante phrase": _phrase(antecedent.source, mention.source_start, mention.source_head),
        "src ante head": mention.noun.source,
        "src ante head id": mention.source_head + 1,
        "src ante head lemma": mention.noun.source,
        "src ante head pos": "NN",
        "src ante head gender": None,
        "src ante head morpho": None,
        "ref ante phrase": _phrase(antecedent.target, mention.target_start, mention.target_head),
        "ref ante head": mention.noun.target,
        "ref ante head id": mention.target_head + 1,
        "ref ante head lemma": mention.noun.target,
        "ref ante head pos": "NN",
        "ref ante head gender": mention.noun.gender,
        "ref ante head morpho": f"{mention.noun.gender}|{mention.case}|Sg",
    }


def _phrase(tokens: tuple[Token, ...], start: int, head: int) -> str:
    return " ".join(token.word for token in tokens[start : head + 1])


def _with_pronoun(sentence: TaggedSentence, index: int, form: str) -> str:
    old = sentence.target[index]
    word = form.capitalize() if old.word[0].isupper() else form
    tokens = (*sentence.target[:index], Token(word, old.tag), *sentence.target[index + 1 :])
    return replace(sentence, target=tokens).target_text
