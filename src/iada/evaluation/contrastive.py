"""Contrastive evaluation: is the reference more probable than its variants?

The sets have ContraPro's form. An item counts as correct if the model finds the reference
strictly more probable than every contrastive variant, by summed log-probability, given the
reference context on both sides.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iada.data.documents import Document, ParallelDocument
from iada.data.readers import read_lines
from iada.errors import DataError

CONTEXT_DISTANCES = ("1", "2", "3")
"""Antecedents that lie outside the sentence but within three sentences of context."""


@dataclass(frozen=True)
class ContrastiveItem:
    """A sentence pair with wrong variants of its translation."""

    name: str
    source_context: tuple[str, ...]
    target_context: tuple[str, ...]
    source: str
    reference: str
    variants: tuple[str, ...]
    reference_class: str
    """The pronoun that is right: er, sie or es."""
    distance: int | None
    """Sentences back to the antecedent; 0 is the same sentence, None unknown."""

    def candidates(self, context: int) -> list[ParallelDocument]:
        """Return the reference and then each variant, with up to `context` sentences before it.

        Where one side has less context than the other, both use the shorter one.
        """
        used = min(len(self.source_context), len(self.target_context), context)
        before_source = self.source_context[len(self.source_context) - used :]
        before_target = self.target_context[len(self.target_context) - used :]
        source = Document(self.name, (*before_source, self.source))
        return [
            ParallelDocument(source, Document(self.name, (*before_target, target)))
            for target in (self.reference, *self.variants)
        ]


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
        `accuracy`, `correct`, `total`, tallies `by_class` and `by_distance`, and `context`: the
        tally of the items that only context can decide.
    """
    groups = [item.candidates(context) for item in items]
    scores = list(score([candidate for group in groups for candidate in group]))
    verdicts = []
    position = 0
    for group in groups:
        reference, *variants = scores[position : position + len(group)]
        verdicts.append(reference > max(variants))
        position += len(group)
    return summarize(items, verdicts)


def summarize(items: Sequence[ContrastiveItem], verdicts: Sequence[bool]) -> dict[str, object]:
    """Count verdicts by pronoun class and antecedent distance."""
    by_class = _tallies([item.reference_class for item in items], verdicts)
    by_distance = _tallies([_bucket(item.distance) for item in items], verdicts)
    needs_context = [by_distance[d] for d in CONTEXT_DISTANCES if d in by_distance]
    correct, total = sum(verdicts), len(verdicts)
    return {
        "accuracy": correct / total,
        "correct": correct,
        "total": total,
        "context": {
            "correct": sum(tally.correct for tally in needs_context),
            "total": sum(tally.total for tally in needs_context),
        },
        "by_class": _plain(by_class),
        "by_distance": _plain(by_distance),
    }


def read_contrastive(path: Path, documents: Path | None = None) -> list[ContrastiveItem]:
    """Read a contrastive set.

    Args:
        path: ContraPro's JSON list, or JSON lines with the context inside each item.
        documents: for the JSON list, the folder with `<document id>.en` and `.de`, one sentence
            per line; by default the folder beside the file with the same name.
    """
    if not path.is_file():
        raise DataError(f"{path} does not exist. Give a contrastive set in ContraPro's JSON form.")
    try:
        if path.suffix == ".jsonl":
            records = _json_lines(path)
            items = [_from_line(record, number) for number, record in enumerate(records, start=1)]
        else:
            records = json.loads("\n".join(read_lines(path)))
            if not isinstance(records, list):
                raise DataError(f"{path}: must hold a list of items, as ContraPro does.")
            folder = documents or path.with_suffix("")
            cache: dict[tuple[str, str], list[str]] = {}
            items = [_from_contrapro(record, folder, cache) for record in records]
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not valid JSON ({error.msg}).") from None
    except KeyError as error:
        raise DataError(f"{path}: an item lacks the field {error}, which ContraPro has.") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: an item is not in ContraPro's form ({error}).") from None
    if not items:
        raise DataError(f"{path} holds no item.")
    for item in items:
        _check_item(path, item)
    return items


def _json_lines(path: Path) -> list[Any]:
    records = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            records += [json.loads(line)] if line.strip() else []
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{number}: not valid JSON ({error.msg}).") from None
    return records


def _check_item(path: Path, item: ContrastiveItem) -> None:
    texts = (item.source, item.reference, *item.variants)
    contexts = (*item.source_context, *item.target_context)
    if not item.variants or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataError(
            f"{path}: item {item.name} needs a source, a reference and at least one variant, "
            "each of them text."
        )
    if not all(isinstance(text, str) for text in contexts):
        raise DataError(f"{path}: the context of item {item.name} must be a list of texts.")
    if not (item.distance is None or type(item.distance) is int):
        raise DataError(f"{path}: the distance of item {item.name} must be a whole number.")


def _from_contrapro(
    record: dict[str, Any], folder: Path, cache: dict[tuple[str, str], list[str]]
) -> ContrastiveItem:
    name, line = str(record["document id"]), int(record["segment id"])
    contexts = []
    for language, current in (("en", record["src segment"]), ("de", record["ref segment"])):
        key = (name, language)
        if key not in cache:
            cache[key] = read_lines(folder / f"{name}.{language}")
        if not 1 <= line <= len(cache[key]) or cache[key][line - 1] != current:
            raise DataError(
                f"{folder / f'{name}.{language}'}: line {line} is not the segment that the "
                "contrastive set names. Use the documents that the set was made from."
            )
        contexts.append(tuple(cache[key][: line - 1]))
    return ContrastiveItem(
        name=f"{name}:{line}",
        source_context=contexts[0],
        target_context=contexts[1],
        source=record["src segment"],
        reference=record["ref segment"],
        variants=tuple(error["contrastive"] for error in record["errors"]),
        reference_class=str(record["ref pronoun"]).lower(),
        distance=record["ante distance"],
    )


def _from_line(record: dict[str, Any], number: int) -> ContrastiveItem:
    return ContrastiveItem(
        name=str(record.get("id", number)),
        source_context=tuple(record["src_context"]),
        target_context=tuple(record["trg_context"]),
        source=record["src"],
        reference=record["ref"],
        variants=tuple(record["contrastive"]),
        reference_class=record["ref_class"],
        distance=record.get("ante_distance"),
    )


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
