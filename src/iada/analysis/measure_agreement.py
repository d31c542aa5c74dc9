"""Do measures of importance agree, and on which tokens?

Three questions, asked of a trained model with dropout off:

- *Ranks*: Spearman's correlation of two measures over the ordinary tokens of one side of a window,
  averaged over windows. Only ranks matter to the order in which a tilt favours tokens.
- *Tags*: the mean z-score of the source tokens of each part of speech.
- *Hinges*: contrastive items that need context hinge on the words in which the reference differs
  from its variants. Their rank among the target tokens of the current sentence, as the share of the
  other tokens that lie below: 1 is the highest, 0.5 what a measure that knows nothing has.

The answers of a run are kept in its folder.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt

from iada.analysis.parts_of_speech import NAMES, choose_tagger, token_tags, window_tags
from iada.config.method import AugmentConfig, Measure
from iada.data.formats.contrapro import ContrastiveItem, read_contrastive
from iada.data.formats.readers import read_split
from iada.data.prepared.store import TokenStore
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.batch import Collator, Role, to_device
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.decoding.translator import DocumentTranslator
from iada.method.importance import MEASURES
from iada.method.measuring import MeasuredGroup, measure_batch
from iada.models.observation import Observer
from iada.runs.folder import RunFolder
from iada.storage import write_json

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Answers = dict[str, dict[str, float]]
"""By question (`rank_source`, `rank_target`, `tags`, `hinges`) and then by measures and tag."""
AGREEMENT_FILE = "measures.json"
_MAX_TOKENS = 4096


def agreement_of_run(run: Path, contrastive: Path | None) -> Answers:
    """Return the answers of a run on its test split; they are kept in the run folder.

    Args:
        run: a finished run.
        contrastive: a contrastive set; without one there are no hinges.
    """
    file = run / AGREEMENT_FILE
    if not file.is_file():
        write_json(file, measure_agreement(run, contrastive))
    found: Answers = json.loads(file.read_text(encoding="utf-8"))
    return found


def measure_agreement(run: Path, contrastive: Path | None) -> Answers:
    """Ask the model of a run; arguments as in `agreement_of_run`."""
    config = RunFolder(run).config()
    translator = DocumentTranslator.load(run)
    documents = read_split(config.data, "test")
    store = TokenStore.build(documents, translator.subwords)
    tagger = choose_tagger(config.data, "test", "auto")
    tags, _ = token_tags(store, translator.subwords, [d.source for d in documents], tagger)
    windows = Windows(store, replace(config.windows, noisy_context=0), frame=translator.frame)
    means = _Means()
    for numbers, measured in _measured(translator, windows, config.augment):
        for side in ("source", "target"):
            groups = {name: _Arrays.of(by_side[side]) for name, by_side in measured.items()}
            for row in range(len(numbers)):
                means.add_all(f"rank_{side}", _correlations(groups, row))
        rows = window_tags(windows, tags, numbers)
        for name, by_side in measured.items():
            means.add_tags(name, _Arrays.of(by_side["source"]), rows)
    if contrastive is not None:
        items = [item for item in read_contrastive(contrastive) if item.distance != 0]
        for name, place in _hinge_places(translator, items, config.augment):
            means.add("hinges", name, place)
    return means.finished()


class _Means:
    """Sums and numbers of values by question and name."""

    def __init__(self) -> None:
        self.sums: dict[str, dict[str, Floats]] = defaultdict(
            lambda: defaultdict(lambda: np.zeros(2))
        )

    def add(self, question: str, name: str, value: float, count: int = 1) -> None:
        """Add a value, or the sum of several."""
        self.sums[question][name] += (value, count)

    def add_all(self, question: str, values: dict[str, float]) -> None:
        """Add values by name."""
        for name, value in values.items():
            self.add(question, name, value)

    def add_tags(
        self, measure: str, group: "_Arrays", tags: Sequence[npt.NDArray[np.int64]]
    ) -> None:
        """Add the z-scores of the source tokens of some windows, given the tags of each."""
        for row, row_tags in enumerate(tags):
            places = np.flatnonzero(group.ordinary[row])
            scored = group.scored[row, places]
            for tag in np.unique(row_tags[scored]).tolist():
                z = group.z[row, places][scored & (row_tags == tag)]
                self.add("tags", f"{measure} {NAMES[tag]}", float(z.sum()), len(z))

    def finished(self) -> Answers:
        """Return the means, in the order of measures and tags."""
        order = [*MEASURES, *NAMES]
        return {
            question: {
                name: float(by_name[name][0] / by_name[name][1])
                for name in sorted(by_name, key=lambda name: [*map(order.index, name.split())])
            }
            for question, by_name in self.sums.items()
        }


class _Arrays:
    """The tokens of one side of some windows, each (rows, length)."""

    def __init__(self, values: Floats, z: Floats, ordinary: Bools, scored: Bools) -> None:
        self.values, self.z, self.ordinary, self.scored = values, z, ordinary, scored
        """Importance, z-score, whether a token has a role, and whether it has a score too."""

    @classmethod
    def of(cls, group: MeasuredGroup) -> "_Arrays":
        ordinary = group.roles != Role.SPECIAL
        scored = ordinary if group.known is None else ordinary & group.known
        columns = (group.importance.double(), group.z.double(), ordinary, scored)
        return cls(*(column.cpu().numpy() for column in columns))


def _measured(
    translator: DocumentTranslator, windows: Windows, augment: AugmentConfig
) -> Iterator[tuple[list[int], dict[Measure, dict[str, MeasuredGroup]]]]:
    """Yield numbers of windows, and by measure and side what it says of their tokens."""
    sampler = TokenBatchSampler(windows.lengths(), max_tokens=_MAX_TOKENS, seed=1)
    collate = Collator(translator.subwords.special.pad)
    device = next(translator.model.parameters()).device
    observer = Observer(translator.model, state_point=augment.tnorm_at)
    # The sides of a decoder-only model cannot be read apart from their context.
    asked = [name for name in get_args(Measure) if MEASURES[name].is_measured]
    if len(observer.streams) == 1:
        asked = [name for name in asked if MEASURES[name].needs != "contrast"]
    try:
        for keys in sampler:
            batch = to_device(collate(windows.__getitems__(keys)), device)
            plain = AugmentConfig(tnorm_at=augment.tnorm_at)
            yield (
                [number for _, number in keys],
                {
                    name: measure_batch(observer, batch, replace(plain, measure=name), seed=1)
                    for name in asked
                },
            )
    finally:
        observer.remove()


def _correlations(groups: dict[Measure, _Arrays], row: int) -> dict[str, float]:
    """Return Spearman's correlation of all pairs that score the same tokens of a window."""
    found = {}
    for one, other in combinations(groups, 2):
        first, second = groups[one], groups[other]
        both = first.scored[row] & second.scored[row]
        value = rank_correlation(first.values[row][both], second.values[row][both])
        if value is not None:
            found[f"{one} {other}"] = value
    return found


def rank_correlation(first: Floats, second: Floats) -> float | None:
    """Return Spearman's correlation of two lists, (tokens,); None if one of them is constant."""
    ranks = [average_ranks(values) for values in (first, second)]
    centred = [values - values.mean() for values in ranks] if len(first) else [first, second]
    norm = float(np.sqrt(np.prod([values @ values for values in centred])))
    return float(centred[0] @ centred[1]) / norm if norm > 0 else None


def average_ranks(values: Floats) -> Floats:
    """(values,): ranks from 0; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[place])


def _hinge_places(
    translator: DocumentTranslator, items: Sequence[ContrastiveItem], augment: AugmentConfig
) -> Iterator[tuple[Measure, float]]:
    """Yield by measure the place of the hinges of each item."""
    context = translator.windows.context
    store = TokenStore.build([item.candidates(context)[0] for item in items], translator.subwords)
    one_by_one = replace(
        translator.windows, strategy="sliding", stride=1, loss_on="current", noisy_context=0
    )
    windows = Windows(store, one_by_one, frame=translator.frame)
    lasts = {
        int(stop) - 1: item for stop, item in zip(store.document_starts[1:], items, strict=True)
    }
    hinges = {sentence: hinge_tokens(translator.subwords, item) for sentence, item in lasts.items()}
    for numbers, measured in _measured(translator, windows, augment):
        for row, number in enumerate(numbers):
            places = hinges.get(int(windows.sentences[number]))
            if not places:
                continue
            for name, by_side in measured.items():
                target = by_side["target"]
                group, current = (
                    _Arrays.of(target),
                    (target.roles[row] == Role.CURRENT).cpu().numpy(),
                )
                # Among the tokens of the current sentence, in the order of the text.
                if not group.scored[row][current].all() or current.sum() < 2:
                    continue
                ranks = average_ranks(group.values[row][current]) / (current.sum() - 1)
                yield name, float(ranks[places].mean())


def hinge_tokens(subwords: SubwordEncoding, item: ContrastiveItem) -> list[int]:
    """Return the tokens of a reference that lie between what it shares with one of its variants.

    What is shared is the longest beginning and, in the rest, the longest end.
    """
    reference, *variants = subwords.encode([item.reference, *item.variants], "target")
    found: set[int] = set()
    for variant in variants:
        shared = min(len(reference), len(variant))
        begin = next((i for i in range(shared) if reference[i] != variant[i]), shared)
        rest = shared - begin
        end = next((i for i in range(rest) if reference[-1 - i] != variant[-1 - i]), rest)
        found |= {*range(begin, len(reference) - end)}
    return sorted(found)
