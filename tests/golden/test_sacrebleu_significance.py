"""P-values and intervals are those of sacreBLEU's paired tests, called on the same translations."""

import random

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from iada.config.evaluate import EvaluateConfig
from iada.evaluation.significance import (
    measure_bleu,
    measure_chrf,
    paired_bootstrap,
    paired_randomization,
)

DRAWS = 400
# What sacreBLEU takes unless the environment says otherwise.
SEED = 12_345


def words(seed: int) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(60)]


def translations() -> tuple[list[str], list[list[str]]]:
    """References, and a baseline with three systems: a little better, a little worse, good."""
    draw = random.Random(0)
    vocabulary = words(1)
    references = [" ".join(draw.choices(vocabulary, k=draw.randint(4, 20))) for _ in range(150)]
    systems = []
    for number, share in enumerate((0.3, 0.29, 0.32, 0.2)):
        draw = random.Random(number + 10)
        systems.append(
            [
                " ".join(w if draw.random() > share else draw.choice(vocabulary) for w in r.split())
                for r in references
            ]
        )
    return references, systems


REFERENCES, SYSTEMS = translations()
MEASUREMENTS = [
    measure_bleu(SYSTEMS, REFERENCES, EvaluateConfig()),
    measure_chrf(SYSTEMS, REFERENCES, EvaluateConfig()),
]


@pytest.fixture
def paired_test(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> PairedTest:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    named = [(f"system {number}", texts) for number, texts in enumerate(SYSTEMS)]
    metrics = {"BLEU": BLEU(), "chrF": CHRF()}
    return PairedTest(named, metrics, [REFERENCES], test_type=request.param, n_samples=DRAWS)


@pytest.mark.parametrize("paired_test", ["bs"], indirect=True)
def test_the_paired_bootstrap(paired_test: PairedTest) -> None:
    signatures, expected = paired_test()
    found = paired_bootstrap(MEASUREMENTS, resamples=DRAWS, seed=SEED)
    for name, result in zip(("BLEU", "chrF2"), found, strict=True):
        rows = expected[name]
        for interval, row in zip(result.intervals, rows, strict=True):
            # sacreBLEU adds up in single precision.
            assert interval.mean == pytest.approx(row.mean, rel=1e-5)
            assert (interval.high - interval.low) / 2 == pytest.approx(row.ci, rel=1e-3)
        p_values = [comparison.p_value for comparison in result.comparisons]
        # The draws are the same, so one resample may differ by rounding, not more.
        assert p_values == pytest.approx([row.p_value for row in rows[1:]], abs=1.5 / DRAWS)
        assert p_values[2] < 0.05 < p_values[0]
        differences = [comparison.difference for comparison in result.comparisons]
        assert differences == pytest.approx([row.score - rows[0].score for row in rows[1:]])
    assert f"bs:{DRAWS}|seed:{SEED}" in str(signatures["BLEU"])


@pytest.mark.parametrize("paired_test", ["ar"], indirect=True)
def test_approximate_randomization(paired_test: PairedTest) -> None:
    _, expected = paired_test()
    found = paired_randomization(MEASUREMENTS, trials=DRAWS, seed=SEED)
    for name, comparisons in zip(("BLEU", "chrF2"), found, strict=True):
        p_values = [comparison.p_value for comparison in comparisons]
        assert p_values == pytest.approx(
            [row.p_value for row in expected[name][1:]], abs=1.5 / DRAWS
        )
        assert p_values[2] < 0.05 < p_values[0]
