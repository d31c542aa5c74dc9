"""What an engine is asked to do for one sentence, and the interface of engines."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.tokens.subwords import SpecialIds, SubwordEncoding
from iada.data.windows.frame import Frame


@dataclass(frozen=True)
class Request:
    """Translate one sentence in its window."""

    source: tuple[int, ...]
    """Source window, `</s>` included; empty for a decoder-only model."""
    prefix: tuple[int, ...]
    """Forced beginning of the decoder input: `<s> c1 <sep> c2 <sep> c3 <sep>`; of a decoder-only
    model the whole prompt."""
    max_new: int
    """Most tokens of the translation, the end token not counted."""
    min_new: int = 0
    """Fewest tokens of the translation."""
    may_separate: bool = False
    """Whether `<sep>` may be generated, because the window holds several sentences to translate."""
    end: int | None = None
    """Token that ends the translation; `</s>` if None."""
    inputs: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Further inputs of the model, one number per window, for models that name them in
    `window_inputs`; 0 where a name is missing."""

    @property
    def size(self) -> int:
        """Tokens of the longer side, for batching."""
        return max(len(self.source), len(self.prefix) + self.max_new)

    def end_token(self, special: SpecialIds) -> int:
        """Return the token that ends the translation."""
        return special.eos if self.end is None else self.end


@dataclass(frozen=True)
class Hypothesis:
    """A translation that a search has found."""

    tokens: tuple[int, ...]
    """Without prefix and end token; `<sep>` only where it was allowed."""
    score: float
    """Log-probability divided by the length, end token counted, to the power of the penalty."""


class Engine(Protocol):
    """Searches for the best translations of each request."""

    @property
    def name(self) -> str:
        """Name of the engine in tables and files."""
        ...

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each request, best first, at least one."""
        ...


@dataclass(frozen=True)
class EngineSetup:
    """Everything that an engine may need to be opened."""

    model: Any
    """A Hugging Face encoder-decoder or causal language model."""
    subwords: SubwordEncoding
    """Its tokenizer."""
    windows: WindowConfig
    """How the model sees context."""
    decode: DecodeConfig
    """Precision and search."""
    exported: Path | None = None
    """Folder where an export of the model may be."""
    frame: Frame | None = None
    """What the model reads around and between sentences, where an engine needs to know."""
    ensemble: tuple[Any, ...] = ()
    """Further models, whose probabilities are averaged with those of the first."""

    @property
    def has_prefix(self) -> bool:
        """Whether sentences are translated with a target prefix."""
        unit = self.decode.unit
        reads_context = unit == "part" or (unit == "sentence" and self.windows.context > 0)
        return reads_context and self.decode.target_context != "none"


def int8_refusal(model: Any) -> str:
    """Say that a model cannot be translated in int8."""
    return (
        f"A {type(model).__name__} cannot be translated in int8: only stock models can "
        "(MarianMTModel). Set `decode.precision: float32`."
    )


def batches(requests: Sequence[Request], max_tokens: int) -> list[list[int]]:
    """Group request numbers by similar length into batches of at most `max_tokens` with padding.

    A request that is larger than the budget gets a batch of its own.
    """
    order = sorted(range(len(requests)), key=lambda i: (requests[i].size, i), reverse=True)
    grouped: list[list[int]] = []
    for number in order:
        if grouped:
            batch = grouped[-1]
            # The first of a batch is its largest.
            if (len(batch) + 1) * requests[batch[0]].size <= max_tokens:
                batch.append(number)
                continue
        grouped.append([number])
    return grouped


def model_fingerprint(model: Any) -> str:
    """Return a hash of the names and values of all weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
