"""The table of metrics: what it promises, and that one more line is all that a new metric needs."""

from collections.abc import Mapping

import numpy as np
import pytest

from iada.cli.evaluate import significance_table, systems_table
from iada.data.documents import Document
from iada.evaluation import metrics
from iada.evaluation.metrics import METRICS, Metric, RunRecord, Translations, sentences_of
from iada.evaluation.scores import evaluate_systems
from iada.evaluation.significance import Measurement, mean_scores

REFERENCES = [Document("a", ("eins zwei", "drei")), Document("b", ("vier",))]
SYSTEMS = {
    "right": REFERENCES,
    "half": [Document("a", ("eins zwei", "falsch")), Document("b", ("falsch",))],
}


def measure_exact_match(given: Translations) -> Measurement:
    correct = sentences_of(given.references)
    counts = tuple(
        np.array([[one == other, 1.0] for one, other in zip(texts, correct, strict=True)])
        for texts in given.texts(sentences_of)
    )
    return Measurement("exact", mean_scores, counts)


EXACT = Metric(
    "exact", "Exact %", 1, unit="sentence", measure=measure_exact_match, needs_alignment=True
)


@pytest.fixture
def with_exact_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "METRICS", {**METRICS, "exact": EXACT})
    for module in ("iada.cli.evaluate", "iada.report.tables"):
        monkeypatch.setattr(f"{module}.METRICS", metrics.METRICS)


@pytest.mark.usefixtures("with_exact_match")
def test_a_new_metric_is_one_line_of_the_table() -> None:
    found = evaluate_systems(SYSTEMS, REFERENCES, baseline="right")
    systems, significance = found["systems"], found["significance"]
    assert isinstance(systems, Mapping)
    assert isinstance(significance, Mapping)
    assert systems["half"]["exact"] == {"score": pytest.approx(100 / 3), "signature": "exact"}
    assert systems["half"]["by_position"]["1"]["exact"] == 50.0
    assert significance["exact"]["units"] == 3
    assert significance["exact"]["systems"]["half"]["difference"] == pytest.approx(-200 / 3)
    assert "Exact %" in [column.name for column in systems_table(systems).columns]
    assert "Exact %" in [row[1].text for row in significance_table(significance).rows]
    record = RunRecord(systems["half"], ())
    measured = {metric.key for metric in metrics.main_metrics() if metric.value(record) is not None}
    assert measured == {"s_bleu", "d_bleu", "chrf", "exact"}


def test_keys_and_labels_are_distinct() -> None:
    assert list(METRICS) == [metric.key for metric in METRICS.values()]
    assert len({metric.label for metric in METRICS.values()}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.key)
def test_only_what_is_computed_from_units_can_be_tested(metric: Metric) -> None:
    assert (metric.unit is None) == (metric.measure is None)
    assert metric.measure is not None or not metric.is_tested
    assert metric.measure is not None or metric.record is not None


def test_metrics_of_runs_are_read_from_what_a_run_records() -> None:
    scores = {
        "s_bleu": {"score": 20, "signature": "tok"},
        "contrastive": {"correct": 3, "total": 4, "context": {"correct": 0, "total": 0}},
    }
    record = RunRecord(scores, ({"update": 1, "dev_nll": 3.0}, {"dev_nll": 2.0}, {"update": 3}))
    values = {key: metric.value(record) for key, metric in METRICS.items()}
    present = {key: value for key, value in values.items() if value is not None}
    assert present == {"s_bleu": 20.0, "pronouns": 0.75, "dev_nll": 2.0}
    assert METRICS["s_bleu"].signature(scores) == ("s_bleu", "tok")
    assert METRICS["pronouns"].signature(scores) is None
