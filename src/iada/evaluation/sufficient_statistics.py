"""Sufficient statistics: the counts of each unit from which a score of many units follows.

A unit is a sentence or a document, a row of counts. Rows are added up, over whole corpora, parts of
them or resamples alike, and a formula turns sums into scores. sacreBLEU counts; the formulas are
those of sacreBLEU, for many sums at once, and tests compare them with its command line.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from iada.config.evaluate import EvaluateConfig
from iada.errors import ConfigError

FloatArray = npt.NDArray[np.float64]
Formula = Callable[[FloatArray], FloatArray]
"""(rows, statistics) sums to (rows,) scores."""

_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_ORDERS = 4
_BETA_SQUARED = 4


@dataclass(frozen=True)
class Measurement:
    """One metric on the same units of one system or more."""

    signature: str
    formula: Formula
    systems: tuple[FloatArray, ...]
    """For each system (units, statistics)."""

    def score(self, number: int, units: npt.NDArray[np.bool_] | None = None) -> float:
        """Return the score of a system, on all units or those of a mask (units,)."""
        rows = self.systems[number]
        chosen = rows if units is None else rows[units]
        return float(self.formula(chosen.sum(axis=0, keepdims=True))[0])


def measure_bleu(
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    config: EvaluateConfig,
    *,
    language: str | None = None,
) -> Measurement:
    """Count n-grams for BLEU: up to 4-grams, exponential smoothing, one reference.

    Args:
        systems: the texts of each system, one per unit.
        references: one text per unit.
        config: case and tokeniser.
        language: code of the target language, which may decide the tokeniser.
    """
    tokenizer = tokenizer_for(language, config)
    try:
        metric = BLEU(
            lowercase=config.lowercase,
            tokenize=tokenizer,
            smooth_method="exp",
            # Otherwise sacreBLEU warns of tokenised text that was said to be tokenised.
            force=config.tokenized,
            references=[references],
        )
    except (RuntimeError, ImportError):
        if not tokenizer.endswith("-mecab"):
            raise
        raise ConfigError(
            f"The tokeniser {tokenizer} is not installed. Install it with `pip install "
            f"'sacrebleu[{tokenizer.removesuffix('-mecab')}]'`, or choose another one with "
            "`--tokenizer`, for example char; scores of different tokenisers do not compare."
        ) from None
    counts = tuple(_counts(metric, texts) for texts in systems)
    return Measurement(str(metric.get_signature()), bleu_scores, counts)


def measure_chrf(
    systems: Sequence[Sequence[str]], references: Sequence[str], config: EvaluateConfig
) -> Measurement:
    """Count character n-grams for chrF2 (order 6, no words); arguments as in `measure_bleu`."""
    metric = CHRF(lowercase=config.lowercase, references=[references])
    counts = tuple(_counts(metric, texts) for texts in systems)
    return Measurement(str(metric.get_signature()), chrf_scores, counts)


def measure_mean(systems: Sequence[Sequence[Sequence[float]]], signature: str) -> Measurement:
    """Take values whose mean, times 100, is the score.

    Args:
        systems: for each system and unit its values, one or more.
        signature: how the values were made.
    """
    counts = tuple(
        np.array([[sum(values), len(values)] for values in units], dtype=np.float64)
        for units in systems
    )
    return Measurement(signature, mean_scores, counts)


def tokenizer_for(language: str | None, config: EvaluateConfig) -> str:
    """Return sacreBLEU's name of the tokeniser for a language code such as `de` or `zh-CN`."""
    if config.tokenized:
        return "none"
    if config.tokenizer != "auto":
        return config.tokenizer
    code = (language or "").lower().replace("_", "-").split("-")[0]
    return _TOKENIZERS.get(code, "13a")


def bleu_scores(sums: FloatArray) -> FloatArray:
    """BLEU of summed counts.

    Args:
        sums: (rows, 10): hypothesis and reference length, matches of each order, hypothesis
            n-grams of each order.

    Returns:
        (rows,), 0 to 100.
    """
    hypothesis, reference = sums[:, 0], sums[:, 1]
    matches, total = sums[:, 2 : 2 + _ORDERS], sums[:, 2 + _ORDERS :]
    no_match = matches == 0
    # Each order without a match halves the count that stands in for its matches once more.
    smoothed = np.where(no_match, 0.5 ** np.cumsum(no_match, axis=1), matches)
    defined = (total > 0).all(axis=1) & ~no_match.all(axis=1)
    precision = np.where(defined[:, None], smoothed / np.maximum(total, 1), 1.0)
    shortness = np.minimum(1 - reference / np.maximum(hypothesis, 1), 0)
    scores = 100 * np.exp(np.log(precision).mean(axis=1) + shortness)
    return np.where(defined, scores, 0.0)


def chrf_scores(sums: FloatArray) -> FloatArray:
    """chrF2 of summed counts.

    Args:
        sums: (rows, 18): hypothesis n-grams, reference n-grams and matches of each order.

    Returns:
        (rows,), 0 to 100.
    """
    hypothesis, reference, matches = (sums[:, start::3] for start in range(3))
    # Orders that one side lacks, in a very short text, are left out of the means.
    counted = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision = np.where(counted, matches / np.maximum(hypothesis, 1), 0).sum(axis=1) / orders
    recall = np.where(counted, matches / np.maximum(reference, 1), 0).sum(axis=1) / orders
    weighted = _BETA_SQUARED * precision + recall
    scores = 100 * (1 + _BETA_SQUARED) * precision * recall / np.where(weighted > 0, weighted, 1)
    return np.asarray(scores)


def mean_scores(sums: FloatArray) -> FloatArray:
    """Mean times 100 of (rows, 2) sums: of the values, and of how many there are."""
    return np.asarray(100 * sums[:, 0] / np.maximum(sums[:, 1], 1))


def _counts(metric: BLEU | CHRF, texts: Sequence[str]) -> FloatArray:
    # sacreBLEU offers no public way to the counts of each unit that works for chrF too.
    return np.array(metric._extract_corpus_statistics(texts, None), dtype=np.float64)
