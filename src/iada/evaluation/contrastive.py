"""Contrastive sets: does the model prefer the reference, and does it write the right word?

The sets are read by `iada.data.formats.contrapro`. *Contrastive* accuracy scores given
translations: an item is correct if the model finds the reference strictly more probable than every
variant, by summed log-probability, given the reference context on both sides.

*Generative* accuracy works for any system that translates: the model translates each item, with its
own translations as context, and the output is searched for words. The expected words of an item are
those that the reference has and no variant has, such as the right pronoun; the wrong words are
those that a variant has and the reference has not. How often a word occurs counts: a variant that
says "sie" twice has it once more than a reference that says it once. Case is ignored. Two verdicts
are kept:

- `expected` (as ctxpro and the generative ContraPro count): every expected word is in the output;
- `exclusive` (stricter): and no wrong word is in it more often than in the reference.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iada.data.documents import Document, ParallelDocument
from iada.data.formats.contrapro import ContrastiveItem

CONTEXT_DISTANCES = ("1", "2", "3")
"""Antecedents that lie outside the sentence but within three sentences of context."""


@dataclass(frozen=True)
class Tally:
    """How many items of a group were right."""

    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """Share of correct items."""
        return self.correct / self.total if self.total else 0.0


def contrastive_accuracy(
    items: Sequence[ContrastiveItem],
    score: Callable[[Sequence[ParallelDocument]], Sequence[float]],
    *,
    context: int,
) -> dict[str, object]:
    """Score every candidate and count the items in which the reference wins.

    Args:
        items: the contrastive set.
        score: log-probability of the last target sentence of each document.
        context: most context sentences to show.

    Returns:
        What `summarize` returns, and a `signature`.
    """
    groups = [item.candidates(context) for item in items]
    scores = list(score([candidate for group in groups for candidate in group]))
    verdicts = []
    position = 0
    for group in groups:
        reference, *variants = scores[position : position + len(group)]
        verdicts.append(reference > max(variants))
        position += len(group)
    signature = f"contrastive|score:sum|ties:wrong|context:{context}|target_context:reference"
    return {**summarize(items, verdicts), "signature": signature}


def summarize(items: Sequence[ContrastiveItem], verdicts: Sequence[bool]) -> dict[str, object]:
    """Count verdicts by pronoun class, antecedent distance, and antecedent in the sentence or not.

    Returns:
        `accuracy`, `correct`, `total`, tallies `by_class`, `by_distance` and `by_intrasegmental`,
        and `context`: the tally of the items that only context can decide.
    """
    by_class = _tallies([item.reference_class for item in items], verdicts)
    by_distance = _tallies([_bucket(item.distance) for item in items], verdicts)
    inside = {True: "yes", False: "no", None: "unknown"}
    by_intrasegmental = _tallies([inside[item.intrasegmental] for item in items], verdicts)
    needs_context = [by_distance[d] for d in CONTEXT_DISTANCES if d in by_distance]
    correct, total = sum(verdicts), len(verdicts)
    return {
        "accuracy": Tally(correct, total).accuracy,
        "correct": correct,
        "total": total,
        "context": {
            "correct": sum(tally.correct for tally in needs_context),
            "total": sum(tally.total for tally in needs_context),
        },
        "by_class": _plain(by_class),
        "by_distance": _plain(by_distance),
        "by_intrasegmental": _plain(by_intrasegmental),
    }


def _bucket(distance: int | None) -> str:
    if distance is None:
        return "unknown"
    return str(distance) if distance <= 3 else ">3"


def _tallies(keys: Sequence[str], verdicts: Sequence[bool]) -> dict[str, Tally]:
    groups: dict[str, list[bool]] = defaultdict(list)
    for key, verdict in zip(keys, verdicts, strict=True):
        groups[key].append(verdict)
    return {key: Tally(sum(group), len(group)) for key, group in sorted(groups.items())}


def _plain(tallies: dict[str, Tally]) -> dict[str, dict[str, int]]:
    return {key: {"correct": t.correct, "total": t.total} for key, t in tallies.items()}


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
