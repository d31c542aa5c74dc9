"""`DocumentTranslator`: a trained model with its tokenizer, ready for documents."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from transformers import AutoModelForSeq2SeqLM

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.run import RunConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.store import TokenStore
from iada.data.subwords import Subwords
from iada.data.windows import Windows
from iada.decoding.huggingface import HuggingFaceEngine
from iada.decoding.scoring import log_probabilities
from iada.decoding.wavefront import translate_documents
from iada.errors import ModelError
from iada.models.observation import Observer
from iada.training.folder import RunFolder

EngineName = Literal["auto", "huggingface"]


class DocumentTranslator:
    """Translate and score documents with one model."""

    def __init__(
        self,
        model: Any,
        subwords: Subwords,
        *,
        windows: WindowConfig,
        decode: DecodeConfig,
    ) -> None:
        """Use a model that is already loaded.

        Args:
            model: a Hugging Face encoder-decoder.
            subwords: its tokenizer.
            windows: how the model was trained to see context.
            decode: how to search.
        """
        self.model = model.eval()
        self.subwords = subwords
        self.windows = windows
        self.decode = decode
        self.engine = HuggingFaceEngine(model, subwords.special, decode)

    @classmethod
    def load(
        cls, path: Path | str, engine: EngineName = "auto", decode: DecodeConfig | None = None
    ) -> "DocumentTranslator":
        """Load the finished model of a run folder.

        Args:
            path: the run folder.
            engine: what searches; `auto` takes the fastest that applies.
            decode: search settings; by default the run's own.
        """
        if engine not in ("auto", "huggingface"):
            raise ModelError(f"There is no engine `{engine}`. Choose auto or huggingface.")
        folder = RunFolder(Path(path))
        config: RunConfig = folder.config()
        trained = folder.trained_model()
        try:
            model = AutoModelForSeq2SeqLM.from_pretrained(trained, local_files_only=True)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{trained} cannot be read: {error}") from None
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(
            model.to(device),
            Subwords.load(trained),
            windows=config.windows,
            decode=decode or config.decode,
        )

    def translate(self, documents: Sequence[Document]) -> list[Document]:
        """Translate documents left to right, each with its own translations as target context."""
        return translate_documents(
            documents,
            self.engine,
            self.subwords,
            windows=self.windows,
            decode=self.decode,
            max_positions=_max_positions(self.model),
        )

    def score(self, documents: Sequence[ParallelDocument]) -> list[float]:
        """Return the log-probability of each document's last target sentence in its context.

        It is the sum over the tokens of that sentence and its `</s>`; what comes before it in the
        document is context on both sides, as far back as the model's window reaches.
        """
        store = TokenStore.build(documents, self.subwords)
        windows = Windows(store, replace(self.windows, loss_on="current"))
        # A window is missing where a side of the last sentence is empty.
        number_of = {int(sentence): number for number, sentence in enumerate(windows.sentences)}
        numbers = []
        for document, last in zip(documents, store.document_starts[1:] - 1, strict=True):
            if int(last) not in number_of:
                raise ModelError(f"The last sentence of {document.name} is empty: no score.")
            numbers.append(number_of[int(last)])
        observer = Observer(self.model)
        try:
            return log_probabilities(
                observer,
                windows,
                numbers,
                pad_id=self.subwords.special.pad,
                max_tokens=self.decode.max_tokens,
            )
        finally:
            observer.remove()


def _max_positions(model: Any) -> int:
    """Return the longest decoder sequence; models with relative positions have no limit."""
    limit = getattr(model.config, "max_position_embeddings", None)
    return 2**31 if limit is None else int(limit)
