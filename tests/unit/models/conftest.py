"""Windows of two small documents, and a tiny model of every architecture to read them."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from iada.config.data import WindowConfig
from iada.config.model import ModelConfig
from iada.data.prepared.store import Side, TokenStore
from iada.data.tokens.subwords import SpecialIds
from iada.data.windows.batch import Batch, Collator
from iada.data.windows.frame import Frame
from iada.data.windows.windows import Windows
from iada.models.build import build_model

VOCABULARY = 40
Pair = tuple[list[int], list[int]]


def make_documents(seed: int, sizes: tuple[int, ...]) -> list[list[Pair]]:
    """Draw documents of short sentences without special tokens."""
    draw = np.random.default_rng(seed)

    def sentence() -> list[int]:
        return draw.integers(6, VOCABULARY, size=draw.integers(2, 5)).tolist()

    return [[(sentence(), sentence()) for _ in range(size)] for size in sizes]


DOCUMENTS = make_documents(0, (5, 3))


@dataclass(frozen=True)
class System:
    """An architecture with its keys, and how it reads windows."""

    name: str
    keys: dict[str, Any] = field(default_factory=dict)
    context: int = 2

    @property
    def config(self) -> ModelConfig:
        """Its configuration, in the smallest size that has more than one layer."""
        architecture, *_ = self.name.split("-")
        return ModelConfig(
            architecture=architecture,  # type: ignore[arg-type]
            dim=16,
            feed_forward=32,
            heads=2,
            encoder_layers=2,
            decoder_layers=2,
            dropout=0.1,
            max_positions=96,
            **self.keys,
        )

    def build(self, special: SpecialIds, *, seed: int = 0) -> Any:
        """Build the model in float64, without dropout in effect."""
        torch.manual_seed(seed)
        model = build_model(
            self.config, vocabulary_size=VOCABULARY, special=special, context=self.context
        )
        return model.double().eval()

    def frame(self, special: SpecialIds) -> Frame:
        """Return the frame of its windows."""
        config = self.config
        return replace(
            Frame.stock(special),
            ends=config.traits.ends,
            target_context=config.target_context,
            after=config.after,
            far_context=config.far,
        )

    def windows(self, special: SpecialIds, documents: list[list[Pair]], **keys: Any) -> Windows:
        """Cut documents as a run would."""
        config = replace(WindowConfig(context=self.context, max_length=90), **keys)
        return Windows(store_of(documents, special), config, frame=self.frame(special))


def store_of(documents: list[list[Pair]], special: SpecialIds) -> TokenStore:
    """Put documents into a token store."""
    pairs = [pair for document in documents for pair in document]
    starts = np.cumsum([0, *map(len, documents)])
    return TokenStore(
        source=Side.of([source for source, _ in pairs], special.sep),
        target=Side.of([target for _, target in pairs], special.sep),
        document_starts=starts,
        document_names=tuple(f"doc{number}" for number in range(len(documents))),
        special=special,
    )


def collate(windows: Windows, numbers: list[int] | None = None) -> Batch:
    """Pad some windows, or all of them, into a batch."""
    chosen = range(len(windows)) if numbers is None else numbers
    return Collator(0)(windows.__getitems__([(0, number) for number in chosen]))


def logits_of(model: Any, batch: Batch) -> Tensor:
    """Run a model on a batch."""
    names = ("input_ids", "attention_mask", "decoder_input_ids", "first_sentence")
    inputs = {name: batch[name] for name in names if name in batch}  # type: ignore[literal-required]
    with torch.inference_mode():
        logits: Tensor = model(**inputs, use_cache=False).logits
    return logits


class Lab:
    """What tests of architectures work with."""

    documents = DOCUMENTS
    system = staticmethod(System)
    make_documents = staticmethod(make_documents)
    collate = staticmethod(collate)
    logits = staticmethod(logits_of)


@pytest.fixture
def lab() -> Lab:
    """Documents, tiny systems, batches and logits."""
    return Lab()


SYSTEMS = [
    System("flat"),
    System("flat-after", {"after": 1}),
    System("gtrans", {"wide_layers": 1}),
    System("han-encoder"),
    System("han-decoder", {"context_sides": "decoder"}),
    System("han-joint", {"context_sides": "both", "stop_context": False}),
    System("san-online", {"stop_context": False}),
    System("san-offline", {"after": 1}),
    System("san-frozen", {"frozen_context": True}),
    System("hybrid", {"stop_context": False}),
    System("hybrid-after", {"after": 1}),
    System("docflat-soft", {"far_context": 2}, context=1),
    System("docflat-hard", {"far_context": 2, "gate": "hard"}, context=1),
]


@pytest.fixture(params=SYSTEMS, ids=[system.name for system in SYSTEMS])
def system(request: pytest.FixtureRequest) -> System:
    """Every architecture, one after the other."""
    found: System = request.param
    return found
