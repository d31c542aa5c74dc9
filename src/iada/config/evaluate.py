"""How translations are scored."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iada.config.base import require

Tokenizer = Literal["auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"]
"""Tokenisers of sacreBLEU; `auto` goes by the target language."""
SignificanceTest = Literal["randomization", "bootstrap"]
"""How two systems are compared."""


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """Metrics, their settings, and the test that compares systems with a baseline.

    The defaults are the paper's: cased, detokenised text, one reference.
    """

    tokenizer: Tokenizer = "auto"
    """Tokeniser of BLEU. `auto` takes zh for Chinese, ja-mecab for Japanese, ko-mecab for Korean
    and 13a for every other language."""
    lowercase: bool = False
    """Score without case, on both sides; many papers before sacreBLEU did."""
    tokenized: bool = False
    """The texts are tokenised already: BLEU takes their spaces as they are. For comparison with
    papers that report tokenised BLEU (multi-bleu.perl)."""
    realign: bool = True
    """Re-align documents with another number of sentences than their reference, by chrF, so that
    they have sentence scores too; off, they have document scores alone."""
    test: SignificanceTest = "randomization"
    """Paired approximate randomisation, or the paired bootstrap (Koehn, 2004) that the paper uses,
    whose p-values are too small."""
    resamples: int = 10_000
    """Number of resamples or trials of the test."""
    seed: int = 12_345
    """Seed of the test. Resamples are those that sacreBLEU draws with the same seed."""
    comet_python: Path | None = None
    """Interpreter of an environment with `unbabel-comet`; without one, COMET is left out. It is
    executed, so only the flag and IADA_COMET_PYTHON count, never the key of a file."""
    comet_model: Path | None = None
    """Local COMET model: its checkpoint file, or the folder that holds it. Only the flag and
    IADA_COMET_MODEL count."""
    comet_timeout: float = 1800.0
    """Seconds to wait for COMET to load its model, and then for each answer."""
    comet_batch_size: int = 16
    """Segments of a batch of COMET."""
    slide_window: int = 0
    """Sentences of a block of document COMET (SLIDE); 0 leaves it out."""
    slide_stride: int = 1
    """Sentences from the start of a block to the start of the next."""
    doc_comet_context: int = 0
    """Sentences of context that Doc-COMET reads (2 in its paper); 0 leaves it out. The context of
    the translation is the reference's, as in its paper."""

    def __post_init__(self) -> None:
        rule = "`auto` with `evaluate.tokenized`, which leaves the text as it is"
        contradiction = self.tokenized and self.tokenizer not in {"auto", "none"}
        require(not contradiction, "evaluate.tokenizer", rule, self.tokenizer)
        require(self.resamples >= 1, "evaluate.resamples", "at least 1", self.resamples)
        # sacreBLEU takes 0 for "no seed".
        require(self.seed >= 1, "evaluate.seed", "at least 1", self.seed)
        require(self.comet_timeout > 0, "evaluate.comet_timeout", "above 0", self.comet_timeout)
        size = self.comet_batch_size
        require(size >= 1, "evaluate.comet_batch_size", "at least 1", size)
        require(self.slide_window >= 0, "evaluate.slide_window", "0 or more", self.slide_window)
        rule = "at least 1 and at most `evaluate.slide_window`"
        longest = max(self.slide_window, 1)
        require(1 <= self.slide_stride <= longest, "evaluate.slide_stride", rule, self.slide_stride)
        rule = "given together with `evaluate.comet_model`"
        both = (self.comet_python is None) == (self.comet_model is None)
        require(both, "evaluate.comet_python", rule, self.comet_python)
        rule = "0 without `evaluate.comet_python` and `evaluate.comet_model`"
        possible = self.slide_window == 0 or self.comet_python is not None
        require(possible, "evaluate.slide_window", rule, self.slide_window)
        size = self.doc_comet_context
        possible = size == 0 or (size > 0 and self.comet_python is not None)
        require(possible, "evaluate.doc_comet_context", rule, size)
