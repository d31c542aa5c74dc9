"""How documents are translated."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from iada.config.base import require, to_mapping

EngineName = Literal["auto", "prefill", "ctranslate2", "huggingface", "causal"]
"""The engines of `iada.decoding.engines`, and `auto`."""
# Translations depend on the engine that was opened, not on how it was chosen or found.
_NOT_IN_RESULTS = ("engine", "exported", "processes")


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Left to right, each sentence conditioned on the model's own previous translations."""

    beam: int = 5
    """Beam size; 1 is greedy search."""
    length_penalty: float = 1.0
    """Exponent of the length in the score of a finished hypothesis."""
    max_length_ratio: float = 1.2
    """A translation has at most ratio times its source tokens, plus the offset."""
    max_length_offset: int = 10
    """Tokens that are added to `max_length_ratio` times the source."""
    max_tokens: int = 8192
    """Most tokens of a decoding batch, padding included: sentences times the longest window."""
    open_documents: int = 64
    """Most documents that are translated at the same time; it bounds the memory, not the input."""
    engine: EngineName = "auto"
    """Search engine; `auto` takes the fastest that applies."""
    precision: Literal["float32", "int8"] = "float32"
    """Precision of the linear layers: as trained, or rounded to 8 bits, which is faster on CPUs."""
    exact_batches: bool = True
    """For `ctranslate2` in int8, whose rounding errors depend on the batch: search for one sentence
    at a time, so that translations do not depend on their neighbours. Off, it takes batches, which
    is faster. All else is independent of the batch in any case."""
    exported: Path | None = None
    """Folder that `iada export` wrote, for the engine `ctranslate2`; by default
    `exported/<precision>` in the run folder."""
    unit: Literal["sentence", "part", "window"] = "sentence"
    """Translate one sentence after the translations before it in its window; likewise, but in a
    window that is a whole part of the document as in training, what follows included; or a whole
    window at once, of which the last sentence is kept."""
    target_context: Literal["own", "none", "gold"] = "own"
    """Target context of a sentence: the model's own translations, nothing, or the reference."""
    source_context: Literal["gold", "random", "none"] = "gold"
    """Source context of a sentence: the sentences before it, sentences of other documents, or
    nothing."""
    context_seed: int = 1
    """Seed that chooses the sentences of `source_context: random`."""
    processes: int = 0
    """Processes that share the documents; 0 starts one for each core, as far as there is work for
    them. The translations are the same."""
    on_long: Literal["refuse", "split"] = "refuse"
    """What to do with a sentence that is too long for the model by itself: refuse the input, or
    translate it in parts, which are counted."""
    n_best: int = 1
    """Number of translations of each sentence; more than 1 are written to
    `<output>.nbest.jsonl` with their scores."""
    mbr: bool = False
    """Choose among the `n_best` translations of a sentence the one that agrees most with the
    others by chrF (minimum Bayes risk), rather than the most probable."""
    terms: Path | None = None
    """File of agreed terms, on each line a phrase of the source, a tab, and its translation: among
    the `n_best` translations of a sentence one with most of its terms is chosen. Terms that none of
    them has are counted."""

    @property
    def one_by_one(self) -> bool:
        """Whether CTranslate2 must search for one sentence at a time."""
        return self.precision == "int8" and self.exact_batches

    def only_best(self) -> "DecodeConfig":
        """Return the same search for the most probable translation alone."""
        return replace(self, n_best=1, mbr=False, terms=None)

    def search_settings(self) -> dict[str, object]:
        """Return the settings that translations depend on, beside the engine that was opened."""
        return {key: value for key, value in to_mapping(self).items() if key not in _NOT_IN_RESULTS}

    def __post_init__(self) -> None:
        require(self.beam >= 1, "decode.beam", "at least 1", self.beam)
        require(self.max_tokens >= 1, "decode.max_tokens", "at least 1", self.max_tokens)
        require(self.processes >= 0, "decode.processes", "0 or more", self.processes)
        documents = self.open_documents
        require(documents >= 1, "decode.open_documents", "at least 1", documents)
        rule = f"between 1 and `decode.beam` ({self.beam})"
        require(1 <= self.n_best <= self.beam, "decode.n_best", rule, self.n_best)
        rule = "at least 2 with `decode.mbr`"
        require(self.n_best > 1 or not self.mbr, "decode.n_best", rule, self.n_best)
        rule = "at least 2 with `decode.terms`"
        require(self.n_best > 1 or self.terms is None, "decode.n_best", rule, self.n_best)
        rule = "prefill, ctranslate2 or auto with `decode.precision: int8`"
        has_int8 = self.precision != "int8" or self.engine not in ("huggingface", "causal")
        require(has_int8, "decode.engine", rule, self.engine)
        rule = "1 with `decode.on_long: split`, whose parts have no n-best list together"
        has_one = self.on_long == "refuse" or self.n_best == 1
        require(has_one, "decode.n_best", rule, self.n_best)
        if self.unit == "window":
            # The window's own translation is the context of its last sentence.
            rule = "own with `decode.unit: window`"
            is_own = self.target_context == "own"
            require(is_own, "decode.target_context", rule, self.target_context)
        if self.unit == "part":
            # What was said before is how the model knows which sentence of the part is next.
            rule = "own or gold with `decode.unit: part`"
            is_said = self.target_context != "none"
            require(is_said, "decode.target_context", rule, self.target_context)
            rule = "gold with `decode.unit: part`"
            source = self.source_context
            require(source == "gold", "decode.source_context", rule, source)
        ratio, offset = self.max_length_ratio, self.max_length_offset
        require(ratio >= 0, "decode.max_length_ratio", "0 or more", ratio)
        require(offset >= 1, "decode.max_length_offset", "at least 1", offset)
