"""`DocumentTranslator`: a trained model with its tokenizer, ready to translate and to score.

`token_log_probabilities` is the one scorer: contrastive sets, CXMI and `score` sum what it returns.
"""

import logging
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig, EngineName
from iada.config.model import TemplateConfig
from iada.config.run import RunConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.prepared.store import TokenStore
from iada.data.sentences import join_parts, long_sentence_splitter, split_document
from iada.data.tokens.pretrained_subwords import PretrainedSubwords, load_subwords
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.batch import Collator, to_device
from iada.data.windows.families import check_window_length, pretrained_frame
from iada.data.windows.frame import Frame
from iada.data.windows.windows import Windows
from iada.decoding.engines import ENGINES, choose_engine
from iada.decoding.engines.interface import Engine, EngineSetup
from iada.decoding.loading import default_export, device, load_ensemble, load_model
from iada.decoding.requests import RequestRules, check_lengths, sample_context
from iada.decoding.shards import SINGLE, Processes
from iada.decoding.terms import Terms, read_terms
from iada.decoding.wavefront import DocumentTranslation, TranslationInput, Wavefront
from iada.errors import ModelError
from iada.method.selection import at_least_float32
from iada.models.observation import Observer
from iada.models.pretrained import load_pretrained
from iada.runs.corpus import run_frame
from iada.runs.folder import RunFolder

logger = logging.getLogger(__name__)

_CPU_TOKENS = 2048
"""Tokens that a CPU scores at once: states of more do not fit into the cache of a core."""


class DocumentTranslator:
    """Translate and score documents with one model, or with several as one."""

    def __init__(
        self,
        model: Any,
        subwords: SubwordEncoding,
        *,
        windows: WindowConfig,
        decode: DecodeConfig,
        exported: Path | None = None,
        frame: Frame | None = None,
        processes: Processes = SINGLE,
        ensemble: Sequence[Any] = (),
    ) -> None:
        """Use a model that is already loaded.

        Args:
            model: a Hugging Face encoder-decoder or causal language model.
            subwords: its tokenizer.
            windows: how the model was trained to see context.
            decode: how to search.
            exported: folder where an export of the model may be.
            frame: what the model reads around and between sentences; Doc2Doc's by default.
            processes: share the documents; every one must then make the same calls.
            ensemble: further models of the same vocabulary and windows, whose probabilities are
                averaged with those of the first.
        """
        self.model = model.eval()
        self.ensemble = tuple(one.eval() for one in ensemble)
        self.subwords = subwords
        self.windows = windows
        self.decode = decode
        self.processes = processes
        self.frame = Frame.stock(subwords.special) if frame is None else frame
        self.engine: Engine = choose_engine(
            EngineSetup(self.model, subwords, windows, decode, exported, self.frame, self.ensemble)
        )

    @classmethod
    def load(
        cls,
        path: Path | str,
        engine: EngineName = "auto",
        decode: DecodeConfig | None = None,
        processes: Processes = SINGLE,
        ensemble: Sequence[Path | str] = (),
    ) -> "DocumentTranslator":
        """Load the model of a run folder; of an unfinished run, its best checkpoint.

        Args:
            path: the run folder.
            engine: search engine; `auto` leaves it to `decode`.
            decode: search settings; by default the run's own.
            processes: share the documents; every one must then make the same calls.
            ensemble: folders of further runs with the same vocabulary and windows, whose
                probabilities are averaged with those of the first.
        """
        names = ("auto", *ENGINES)
        if engine not in names:
            raise ModelError(f"There is no engine `{engine}`. Choose one of {', '.join(names)}.")
        folder = RunFolder(Path(path))
        config: RunConfig = folder.config()
        decode = decode or config.decode
        if engine != "auto":
            decode = replace(decode, engine=engine)
        trained = folder.best_model()
        subwords = load_subwords(folder.encoding())
        return cls(
            load_model(trained),
            subwords,
            windows=config.windows,
            decode=decode,
            exported=decode.exported or default_export(folder, decode.precision),
            frame=run_frame(config, subwords),
            processes=processes,
            ensemble=load_ensemble(folder, subwords, [Path(one) for one in ensemble], decode),
        )

    @classmethod
    def from_pretrained(
        cls,
        name: Path | str,
        *,
        source_language: str,
        target_language: str,
        context: int = 0,
        max_length: int | None = None,
        decode: DecodeConfig | None = None,
        template: TemplateConfig | None = None,
    ) -> "DocumentTranslator":
        """Load a stock model of the hub, or of a folder, to translate documents with.

        Such models were trained on single sentences, so there is no context unless it is asked for.

        Args:
            name: folder or hub name: Marian, mBART, M2M100, NLLB, T5, BART or another
                encoder-decoder, or a decoder-only model such as Llama, Qwen or Gemma.
            source_language: language of the documents, such as `en`, or the model's own code for
                it, such as `eng_Latn`.
            target_language: language to translate into, likewise.
            context: sentences before the one to translate that the model reads, with its own
                translations of them.
            max_length: longest window in tokens; by default what the model can read, or 512.
            decode: search settings.
            template: what a decoder-only model reads around sentences.
        """
        subwords = PretrainedSubwords.from_checkpoint(
            str(name), source_language=source_language, target_language=target_language
        )
        longest = max_length or subwords.settings.max_length or WindowConfig.max_length
        windows = WindowConfig(context=context, max_length=longest)
        check_window_length(windows, subwords)
        return cls(
            load_pretrained(str(name), subwords, dtype=None).to(device()),
            subwords,
            windows=windows,
            decode=decode or DecodeConfig(),
            frame=pretrained_frame(subwords, template),
        )

    @overload
    def translate(
        self, documents: Sequence[Document], references: Sequence[Document] | None = None
    ) -> list[Document]: ...

    @overload
    def translate(self, documents: str) -> str: ...

    @overload
    def translate(self, documents: list[str] | tuple[str, ...]) -> list[str]: ...

    def translate(
        self,
        documents: str | list[str] | tuple[str, ...] | Sequence[Document],
        references: Sequence[Document] | None = None,
    ) -> str | list[str] | list[Document]:
        """Translate documents left to right.

        Args:
            documents: the source documents; or the sentences of one document; or a text with one
                sentence per line and blank lines between documents.
            references: translations of documents, for `decode.target_context: gold`.

        Returns:
            As many documents, sentences or lines; an empty sentence has an empty translation.
        """
        if isinstance(documents, str):
            return self._translate_text(documents)
        sentences = [one for one in documents if isinstance(one, str)]
        if len(sentences) not in (0, len(documents)):
            raise TypeError("Give documents, or the sentences of one document, not both in a list.")
        if sentences:
            (translated,) = self._translate([Document("text", tuple(sentences))])
            return list(translated.sentences)
        given = [one for one in documents if isinstance(one, Document)]
        return self._translate(given, references)

    def _translate_text(self, text: str) -> str:
        """Translate the lines of a text; blank lines separate documents and stay as they are."""
        lines = text.split("\n")
        groups = [(blank, list(same)) for blank, same in groupby(lines, lambda s: not s.strip())]
        documents = [Document("text", tuple(same)) for blank, same in groups if not blank]
        translated = iter(self._translate(documents))
        parts = [same if blank else next(translated).sentences for blank, same in groups]
        return "\n".join(line for part in parts for line in part)

    def _translate(
        self, documents: Sequence[Document], references: Sequence[Document] | None = None
    ) -> list[Document]:
        counts = None
        if references is not None:
            inputs = [TranslationInput(d, r) for d, r in zip(documents, references, strict=True)]
        elif self.decode.on_long == "split":
            split = [split_document(document, self.split_long) for document in documents]
            counts = [parts for _, parts in split]
            self.report_long([n for parts in counts for n in parts if n > 1])
            inputs = [TranslationInput(document) for document, _ in split]
        else:
            inputs = [TranslationInput(document) for document in documents]
        ranks = self.processes.assign([len(given.document) for given in inputs])
        own = [number for number, rank in enumerate(ranks) if rank == self.processes.rank]
        translations = self.stream(inputs, numbers=frozenset(own))
        found = {n: one.document for n, one in zip(own, translations, strict=True)}
        for others in self.processes.gather(found):
            found |= others
        translated = [found[number] for number in range(len(inputs))]
        if counts is None:
            return translated
        return [
            Document(document.name, tuple(join_parts(document.sentences, parts, " ")))
            for document, parts in zip(translated, counts, strict=True)
        ]

    def split_long(self, sentence: str) -> Sequence[str]:
        """Cut a sentence that the model cannot take into parts that it can."""
        return long_sentence_splitter(self._fits)(sentence)

    def _fits(self, sentence: str) -> bool:
        # Most sentences are far too short to be worth encoding: a byte is a token at most, unless
        # a tokeniser before the encoding makes it longer.
        frame = self.frame.sentence_length([])
        if 2 * len(sentence.encode()) + frame <= self.windows.max_length:
            return True
        (ids,) = self.subwords.encode([sentence], "source")
        return self.frame.sentence_length(ids) <= self.windows.max_length

    def report_long(self, parts: Sequence[int]) -> None:
        """Say how many sentences were split, given the number of parts of each."""
        if parts:
            logger.warning(
                "%d sentences are longer than the model can take (%d tokens): translated in %d "
                "parts.",
                len(parts),
                self.windows.max_length,
                sum(parts),
            )

    def check(self, inputs: Iterable[TranslationInput]) -> int:
        """Refuse documents that the model cannot take; return their number of sentences."""
        total = 0
        for given in inputs:
            source = self.subwords.encode(given.document.sentences, "source")
            check_lengths(given.document, source, self.windows.max_length, self.frame, given.kept)
            total += len(source)
        return total

    def stream(
        self,
        inputs: Iterable[TranslationInput],
        engine: Engine | None = None,
        total: int | None = None,
        numbers: Container[int] | None = None,
    ) -> Iterator[DocumentTranslation]:
        """Yield translations in the order of the documents, which are read as they are needed.

        Args:
            inputs: the documents; they are iterated over more than once.
            engine: searches in place of the translator's own engine.
            total: what `check` returned for them; without it they are checked first, so that
                nothing is translated in vain.
            numbers: which of them to translate, counted from 0; all by default.
        """
        total = self.check(inputs) if total is None else total
        if isinstance(inputs, Iterator):
            raise TypeError("The documents are read twice: give a list, not an iterator.")
        sample = None
        if self.decode.source_context == "random":
            seed = self.decode.context_seed
            sample = sample_context((given.document for given in inputs), seed)
        is_main = self.processes.is_main
        rules = self._rules(self.decode)
        wavefront = Wavefront(
            engine or self.engine, self.subwords, rules, sample, self._terms(), is_main
        )
        yield from wavefront.translate(inputs, total, numbers)

    def follow(
        self,
        sentences: Sequence[str],
        kept: Sequence[str | None] = (),
        *,
        with_context: bool = True,
    ) -> Iterator[str]:
        """Yield the translation of each sentence of one document as soon as it is found.

        Args:
            sentences: the document.
            kept: translations that stand as they are, such as those that a person has corrected;
                None where there is none yet. They are the context of the sentences after them.
            with_context: whether the model sees the sentences before, and their translations.
        """
        decode = replace(self.decode, source_context="gold", target_context="own")
        if not with_context:
            # Whole windows have no target context in any case.
            target: Literal["own", "none"] = "own" if decode.unit == "window" else "none"
            decode = replace(decode, source_context="none", target_context=target)
        rules, terms = self._rules(decode), self._terms()
        wavefront = Wavefront(self.engine, self.subwords, rules, terms=terms)
        yield from wavefront.follow(Document("document", tuple(sentences)), kept)

    def _rules(self, decode: DecodeConfig) -> RequestRules:
        """Return how windows become requests of this model."""
        positions = min(map(max_positions, self.models))
        return RequestRules(self.windows, decode, self.subwords.special, positions, self.frame)

    def _terms(self) -> Terms | None:
        return None if self.decode.terms is None else read_terms(self.decode.terms)

    def score(self, documents: Sequence[ParallelDocument]) -> list[float]:
        """Return the log-probability of each document's last target sentence in its context.

        It is the sum over the tokens of that sentence and its `</s>`; the sentences before it are
        context on both sides, as far back as the window of the model reaches.
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
        each = [self._score_labels(model, windows, numbers) for model in self.models]
        # As in search: the mean of the probabilities of each token.
        shift = np.log(len(each))
        return [
            float((np.logaddexp.reduce(values) - shift).sum()) for values in zip(*each, strict=True)
        ]

    @property
    def models(self) -> tuple[Any, ...]:
        """All models whose probabilities are averaged; one if there is no ensemble."""
        return (self.model, *self.ensemble)

    def _score_labels(
        self, model: Any, windows: Windows, numbers: Sequence[int]
    ) -> list[NDArray[np.float64]]:
        observer = Observer(model)
        try:
            return token_log_probabilities(
                observer,
                windows,
                numbers,
                pad_id=self.subwords.special.pad,
                max_tokens=self.decode.max_tokens,
                processes=self.processes,
            )
        finally:
            observer.remove()


def max_positions(model: Any) -> int:
    """Return the longest decoder sequence; models with relative positions have no limit."""
    settings = model.config.get_text_config(decoder=True)
    limit = getattr(settings, "max_position_embeddings", None)
    return 2**31 if limit is None else int(limit)


@torch.inference_mode()
def token_log_probabilities(
    observer: Observer,
    windows: Windows,
    numbers: Sequence[int],
    *,
    pad_id: int,
    max_tokens: int,
    processes: Processes = SINGLE,
) -> list[NDArray[np.float64]]:
    """Return the log-probability of every label of each window, without dropout.

    Args:
        observer: of the model that scores.
        windows: where the windows are.
        numbers: which of them to score.
        pad_id: id of the padding token.
        max_tokens: budget of a batch, padding included; a CPU takes less at a time.
        processes: share the batches; each gets all values, the same as a single process.

    Returns:
        For each window (labels in its loss,), in the order of the text. Their sum is the
        log-probability of the translation.
    """
    model = observer.model.eval()
    device = next(model.parameters()).device
    collate = Collator(pad_id)
    if device.type == "cpu":
        max_tokens = min(max_tokens, _CPU_TOKENS)
    longest = windows.lengths().max(axis=1)
    # Windows of similar length share a batch, the longest first.
    order = sorted(range(len(numbers)), key=lambda i: int(longest[numbers[i]]), reverse=True)
    batches = []
    position = 0
    while position < len(order):
        rows = max(1, max_tokens // int(longest[numbers[order[position]]]))
        batches.append(order[position : position + rows])
        position += rows
    found: dict[int, NDArray[np.float64]] = {}
    for chosen in batches[processes.rank :: processes.count]:
        batch = to_device(collate([windows[0, numbers[i]] for i in chosen]), device)
        in_loss = batch["labels"] >= 0
        logits = at_least_float32(observer.forward(batch, needs_states=False).logits)
        picked = logits.log_softmax(dim=-1).gather(1, batch["labels"][in_loss][:, None])
        scores = picked.squeeze(1).double().cpu().numpy()
        ends = np.cumsum(in_loss.sum(dim=1).cpu().numpy())
        found |= zip(chosen, np.split(scores, ends[:-1]), strict=True)
    for others in processes.gather(found):
        found |= others
    return [found[i] for i in range(len(numbers))]
