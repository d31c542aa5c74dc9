"""Measured windows: what training would draw from, whatever the batches."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from iada.config.data import DataConfig
from iada.config.method import AugmentConfig, Measure
from iada.data.formats.readers import read_split
from iada.data.prepared.store import TokenStore
from iada.data.windows.batch import Collator, Role
from iada.data.windows.windows import Windows
from iada.decoding.translator import DocumentTranslator
from iada.method.measuring import MeasuredBatch, measure_windows
from iada.method.objective import AugmentedObjective
from iada.models.observation import Observer


@pytest.fixture(scope="module")
def translator(trained_run: Path) -> DocumentTranslator:
    return DocumentTranslator.load(trained_run)


@pytest.fixture(scope="module")
def windows(translator: DocumentTranslator, mini_corpus: Path) -> Windows:
    documents = read_split(DataConfig(folder=mini_corpus), "test")[:3]
    return Windows(TokenStore.build(documents, translator.subwords), translator.windows)


def rows(batches: list[MeasuredBatch], side: str, name: str) -> dict[int, torch.Tensor]:
    """Values of each window, padding cut off."""
    found = {}
    for batch in batches:
        stream = batch.groups[side]
        for row, number in enumerate(batch.numbers):
            length = int((stream.ids[row] != 0).sum())
            found[number] = getattr(stream, name)[row, :length]
    return found


CONFIGS = [
    AugmentConfig(measure="gnorm", alpha=1.0),
    AugmentConfig(measure="tnorm", alpha=0.5, p_context=0.3, tnorm_at="feed_forward"),
    AugmentConfig(measure="gnorm", normalize="scale", current_direction="down"),
    AugmentConfig(measure="tnorm", statistics_specials=True, alpha=1.0),
    AugmentConfig(measure="random", alpha=0.7),
    AugmentConfig(measure="uniform", p_context=0.2),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.measure)
def test_probabilities_are_those_of_training(
    translator: DocumentTranslator, windows: Windows, config: AugmentConfig
) -> None:
    batches = list(measure_windows(translator.model, windows, config, max_tokens=1500, seed=3))
    assert len(batches) > 1
    objective = AugmentedObjective(
        translator.model, replace(config, importance_pass="separate"), seed=3
    )
    collate = Collator(0)
    for batch in batches:
        given = collate(windows.__getitems__([(0, number) for number in batch.numbers]))
        expected = objective.probabilities(given, None)
        for stream, probability in zip(batch.groups.values(), expected, strict=True):
            torch.testing.assert_close(stream.probability, probability)
            assert (stream.probability[stream.roles == Role.SPECIAL] == 0).all()
    objective.observer.remove()


@pytest.mark.parametrize("measure", ["tnorm", "gnorm", "uniform"])
def test_batches_do_not_matter(
    translator: DocumentTranslator, windows: Windows, measure: Measure
) -> None:
    config = AugmentConfig(measure=measure, alpha=1.0)
    model: Any = translator.model
    small = list(measure_windows(model, windows, config, max_tokens=200, seed=1))
    large = list(measure_windows(model, windows, config, max_tokens=4000, seed=2))
    assert len(small) > len(large)
    for side in ("source", "target"):
        for name in ("ids", "roles", "importance", "z", "probability"):
            left, right = rows(small, side, name), rows(large, side, name)
            assert left.keys() == right.keys() == set(range(len(windows)))
            for number, values in left.items():
                torch.testing.assert_close(values, right[number], rtol=1e-3, atol=1e-4)


def test_importance_has_mean_0_and_variance_1_in_a_window(
    translator: DocumentTranslator, windows: Windows
) -> None:
    config = AugmentConfig(measure="gnorm")
    batches = list(measure_windows(translator.model, windows, config, max_tokens=500, seed=1))
    z, roles = rows(batches, "source", "z"), rows(batches, "source", "roles")
    for number, values in z.items():
        eligible = values[roles[number] != Role.SPECIAL]
        assert eligible.mean() == pytest.approx(0, abs=1e-4)
        assert eligible.square().mean() == pytest.approx(1, abs=1e-4)


def test_the_model_is_left_without_hooks(
    translator: DocumentTranslator, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = []
    monkeypatch.setattr(Observer, "remove", lambda self: removed.append(self))
    batches = measure_windows(
        translator.model, windows, AugmentConfig(measure="uniform"), max_tokens=500, seed=1
    )
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert len(removed) == 1
