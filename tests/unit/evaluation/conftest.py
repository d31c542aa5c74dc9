"""Documents by their sentences, and a small untrained model that translates."""

from collections.abc import Callable

import pytest
import torch

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.model import ModelConfig
from iada.data.documents import Document
from iada.data.tokens.subwords import Subwords
from iada.decoding.translator import DocumentTranslator
from iada.models.build import build_model


def documents_of(*sentences: list[str]) -> list[Document]:
    return [Document(str(number), tuple(lines)) for number, lines in enumerate(sentences, start=1)]


@pytest.fixture(scope="session")
def documents() -> Callable[..., list[Document]]:
    """Return `documents_of`."""
    return documents_of


@pytest.fixture(scope="session")
def untrained(subwords: Subwords) -> Callable[[int], DocumentTranslator]:
    """A model that translates with so many sentences of context; always the same weights."""
    torch.manual_seed(0)
    config = ModelConfig(dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1)
    model = build_model(config, vocabulary_size=len(subwords), special=subwords.special).double()

    def translator(context: int) -> DocumentTranslator:
        return DocumentTranslator(
            model, subwords, windows=WindowConfig(context=context), decode=DecodeConfig()
        )

    return translator
