"""Generative accuracy on a contrastive set: does the model write the right word by itself?

Scoring asks which of several given translations a model prefers; here it translates, with its own
translations as context, and the output is searched for words. Works for any system that translates.

The expected words of an item are those that the reference has and no variant has, such as the right
pronoun; the wrong words are those that a variant has and the reference has not. How often a word
occurs counts: a variant that says "sie" twice has it once more than a reference that says it once.
Words are compared without case. Two verdicts are kept:

- `expected` (as ctxpro and the generative ContraPro count): every expected word is in the output;
- `exclusive` (stricter): and no wrong word is in it more often than in the reference.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from iada.data.contrapro import ContrastiveItem
from iada.data.documents import Document
from iada.evaluation.contrastive import summarize

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Verdict:
    """What an output says about an item."""

    expected: bool
    """The expected words are there."""
    exclusive: bool
    """And no wrong ones."""


def source_documents(items: Sequence[ContrastiveItem], *, context: int) -> list[Document]:
    """Return what to translate: up to `context` source sentences, then the sentence itself."""
    return [
        Document(
            item.name,
            (*item.source_context[max(len(item.source_context) - context, 0) :], item.source),
        )
        for item in items
    ]


def generative_accuracy(
    items: Sequence[ContrastiveItem], translations: Sequence[Document]
) -> dict[str, object]:
    """Judge the last sentence of each translation.

    Args:
        items: the contrastive set.
        translations: of `source_documents`, from any system.

    Returns:
        `expected` and `exclusive`, each in the form of `contrastive_accuracy`; `skipped` items have
        no expected word, because a variant has every word of the reference.
    """
    judged, verdicts = [], []
    for item, translation in zip(items, translations, strict=True):
        verdict = judge(item, translation.sentences[-1])
        if verdict is not None:
            judged.append(item)
            verdicts.append(verdict)
    return {
        "expected": summarize(judged, [verdict.expected for verdict in verdicts]),
        "exclusive": summarize(judged, [verdict.exclusive for verdict in verdicts]),
        "skipped": len(items) - len(judged),
    }


def judge(item: ContrastiveItem, output: str) -> Verdict | None:
    """Search an output for the expected and the wrong words; None if nothing is expected."""
    reference = _words(item.reference)
    variants = [_words(variant) for variant in item.variants]
    # More often in the reference than in every variant.
    expected = {
        word
        for word, count in reference.items()
        if all(count > variant[word] for variant in variants)
    }
    if not expected:
        return None
    wrong = {word for variant in variants for word in variant - reference}
    found = _words(output)
    present = all(found[word] > 0 for word in expected)
    clean = all(found[word] <= reference[word] for word in wrong)
    return Verdict(present, present and clean)


def _words(text: str) -> "Counter[str]":
    return Counter(_WORD.findall(text.casefold()))
