"""Which engine translates: the one that was asked for, or the fastest that applies.

`DocumentTranslator`: a trained model with its tokenizer, ready for documents.
"""

from collections.abc import Iterable, Iterator, Sequence
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
from iada.data.prepared.store import TokenStore
from iada.data.tokens.subwords import Subwords
from iada.data.windows.frame import Frame
from iada.data.windows.windows import Windows
from iada.decoding.engines.ctranslate2 import exported_fingerprint, model_fingerprint
from iada.decoding.engines.huggingface import HuggingFaceEngine
from iada.decoding.engines.interface import Engine
from iada.decoding.engines.prefill.engine import PrefillEngine
from iada.decoding.engines.prefill.int8 import is_available
from iada.decoding.scoring import log_probabilities
from iada.decoding.wavefront import (
    RequestRules,
    Task,
    Translated,
    Wavefront,
    check_lengths,
    sample_context,
)
from iada.errors import ModelError
from iada.models.build import register_models
from iada.models.observation import Observer
from iada.runs.corpus import run_frame
from iada.runs.folder import RunFolder


def choose_engine(
    model: Any,
    subwords: Subwords,
    *,
    windows: WindowConfig,
    decode: DecodeConfig,
    exported: Path | None,
) -> Engine:
    """Return an engine for a model.

    `auto` takes CTranslate2 where a fresh export is there, no target prefix is read and sentences
    may share a call; our own search for stock models otherwise, and Hugging Face for everything
    else.

    Args:
        model: a Hugging Face encoder-decoder.
        subwords: its tokenizer.
        windows: how the model sees context.
        decode: engine, precision and search.
        exported: folder where an export of the model may be.
    """
    name = decode.engine
    if name == "auto":
        name = "huggingface"
        if PrefillEngine.supports(model):
            has_prefix = (
                windows.context > 0
                and decode.target_context != "none"
                and decode.unit == "sentence"
            )
            may_be_fastest = not has_prefix and not decode.one_by_one
            is_fastest = may_be_fastest and _is_fresh(exported, model)
            name = "ctranslate2" if is_fastest else "prefill"
    if name == "ctranslate2":
        return _ctranslate2(model, subwords, decode, exported)
    if name == "prefill":
        _check_prefill(model, decode)
        return PrefillEngine(model, subwords.special, decode)
    if decode.precision == "int8":
        raise ModelError(
            f"A {type(model).__name__} cannot be translated in int8: only stock models can "
            "(MarianMTModel). Set `decode.precision: float32`."
        )
    return HuggingFaceEngine(model, subwords.special, decode)


def _check_prefill(model: Any, decode: DecodeConfig) -> None:
    if not PrefillEngine.supports(model):
        raise ModelError(
            f"The engine `prefill` takes a stock MarianMTModel, but this is a "
            f"{type(model).__name__}. Choose `huggingface`."
        )
    if decode.precision == "int8" and (model.device.type != "cpu" or not is_available()):
        raise ModelError(
            "int8 needs a CPU and a PyTorch that was built with oneDNN. Set "
            "`decode.precision: float32`."
        )


def _ctranslate2(
    model: Any, subwords: Subwords, decode: DecodeConfig, exported: Path | None
) -> Engine:
    # Imported where it is used, so that other engines do without the library.
    from iada.decoding.engines.ctranslate2 import CTranslate2Engine

    if exported is None or exported_fingerprint(exported) is None:
        raise ModelError(
            f"There is no exported model in {exported}. Make one with `iada export RUN "
            f"--quantization {decode.precision}`, or choose another engine."
        )
    if not _is_fresh(exported, model):
        raise ModelError(
            f"{exported} was made from another model. Make it again with `iada export RUN "
            f"--quantization {decode.precision}`."
        )
    return CTranslate2Engine(exported, subwords, decode)


def _is_fresh(exported: Path | None, model: Any) -> bool:
    """Whether a folder holds an export of this very model."""
    if exported is None or (found := exported_fingerprint(exported)) is None:
        return False
    return found == model_fingerprint(model)


EngineName = Literal["auto", "prefill", "ctranslate2", "huggingface"]
_ENGINES = ("auto", "prefill", "ctranslate2", "huggingface")


class DocumentTranslator:
    """Translate and score documents with one model."""

    def __init__(
        self,
        model: Any,
        subwords: Subwords,
        *,
        windows: WindowConfig,
        decode: DecodeConfig,
        exported: Path | None = None,
        frame: Frame | None = None,
    ) -> None:
        """Use a model that is already loaded.

        Args:
            model: a Hugging Face encoder-decoder.
            subwords: its tokenizer.
            windows: how the model was trained to see context.
            decode: how to search.
            exported: folder where an export of the model may be.
            frame: what the model reads around and between sentences; Doc2Doc's by default.
        """
        self.model = model.eval()
        self.subwords = subwords
        self.windows = windows
        self.decode = decode
        self.frame = Frame.stock(subwords.special) if frame is None else frame
        self.engine: Engine = choose_engine(
            model, subwords, windows=windows, decode=decode, exported=exported
        )

    @classmethod
    def load(
        cls, path: Path | str, engine: EngineName = "auto", decode: DecodeConfig | None = None
    ) -> "DocumentTranslator":
        """Load the finished model of a run folder.

        Args:
            path: the run folder.
            engine: what searches; `auto` leaves it to `decode`.
            decode: search settings; by default the run's own.
        """
        if engine not in _ENGINES:
            raise ModelError(f"There is no engine `{engine}`. Choose one of {', '.join(_ENGINES)}.")
        folder = RunFolder(Path(path))
        config: RunConfig = folder.config()
        decode = decode or config.decode
        if engine != "auto":
            decode = replace(decode, engine=engine)
        trained = folder.trained_model()
        subwords = Subwords.load(trained)
        return cls(
            load_model(trained),
            subwords,
            windows=config.windows,
            decode=decode,
            exported=decode.exported or default_export(folder, decode.precision),
            frame=run_frame(config, subwords.special),
        )

    def translate(
        self, documents: Sequence[Document], references: Sequence[Document] | None = None
    ) -> list[Document]:
        """Translate documents left to right.

        Args:
            documents: the source documents.
            references: their translations, for `decode.target_context: gold`.

        Returns:
            As many documents with as many sentences; an empty sentence has an empty translation.
        """
        if references is None:
            tasks = [Task(document) for document in documents]
        else:
            tasks = [Task(d, r) for d, r in zip(documents, references, strict=True)]
        return [translated.document for translated in self.stream(tasks)]

    def check(self, tasks: Iterable[Task]) -> int:
        """Refuse documents that the model cannot take; return their number of sentences."""
        total = 0
        for task in tasks:
            source = self.subwords.encode(task.document.sentences, "source")
            check_lengths(task.document, source, self.windows.max_length)
            total += len(source)
        return total

    def stream(
        self, tasks: Iterable[Task], engine: Engine | None = None, total: int | None = None
    ) -> Iterator[Translated]:
        """Yield translations in the order of the documents, which are read as they are needed.

        Args:
            tasks: the documents, to be gone through more than once.
            engine: what searches in place of the translator's own engine.
            total: what `check` said of them; without it they are checked first, so that nothing is
                translated in vain.
        """
        total = self.check(tasks) if total is None else total
        if isinstance(tasks, Iterator):
            raise TypeError("The documents are gone through twice: give a list, not an iterator.")
        rules = RequestRules(
            self.windows,
            self.decode,
            self.subwords.special,
            max_positions(self.model),
            self.frame,
        )
        sample = None
        if self.decode.source_context == "random":
            seed = self.decode.context_seed
            sample = sample_context((task.document for task in tasks), seed)
        wavefront = Wavefront(engine or self.engine, self.subwords, rules, sample)
        yield from wavefront.translate(tasks, total)

    def score(self, documents: Sequence[ParallelDocument]) -> list[float]:
        """Return the log-probability of each document's last target sentence in its context.

        It is the sum over the tokens of that sentence and its `</s>`; what comes before it in the
        document is context on both sides, as far back as the model's window reaches.
        """
        store = TokenStore.build(documents, self.subwords)
        # Whatever the windows of training were, the score is that of one sentence.
        one_by_one = replace(
            self.windows, strategy="sliding", stride=1, loss_on="current", noisy_context=0
        )
        windows = Windows(store, one_by_one, frame=self.frame)
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


def load_model(folder: Path) -> Any:
    """Load the model of a folder, onto a GPU if there is one."""
    register_models()
    try:
        model = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder} cannot be read: {error}") from None
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def default_export(folder: RunFolder, precision: str) -> Path:
    """Return the folder of a run's exported model."""
    return folder.path / "exported" / precision


def max_positions(model: Any) -> int:
    """Return the longest decoder sequence; models with relative positions have no limit."""
    limit = getattr(model.config, "max_position_embeddings", None)
    return 2**31 if limit is None else int(limit)
