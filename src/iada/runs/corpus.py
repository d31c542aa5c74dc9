"""The data of a run: a prepared corpus, or documents read and segmented in memory."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from iada.config.base import require
from iada.config.data import Split
from iada.config.run import RunConfig
from iada.data.documents import ParallelDocument
from iada.data.formats import readers
from iada.data.prepared.encoding import Workers, pretokenized
from iada.data.prepared.prepared_corpus import PreparedCorpus
from iada.data.prepared.store import Offsets, TokenStore
from iada.data.tokens.checkpoint_facts import is_encoder
from iada.data.tokens.ciphers import learn_ciphers
from iada.data.tokens.languages import language_name
from iada.data.tokens.paired_subwords import PairedSubwords, WordPieces
from iada.data.tokens.pretokenize import configured_moses
from iada.data.tokens.pretrained_subwords import PretrainedSubwords
from iada.data.tokens.subwords import SPACE, SubwordEncoding, Subwords, train_subwords
from iada.data.windows.conditions import context_noise, sha256_of_numbers, subset_documents
from iada.data.windows.drawn import CipheredWindows, ResegmentedWindows
from iada.data.windows.families import (
    check_window_length,
    paired_frame,
    pretrained_frame,
    prompt_frame,
)
from iada.data.windows.frame import Frame
from iada.data.windows.rich import rich_windows
from iada.data.windows.spans import split_long_sentences
from iada.data.windows.windows import Windows
from iada.errors import DataError, ModelError
from iada.storage import sha256


def run_frame(config: RunConfig, subwords: SubwordEncoding) -> Frame:
    """Return what the model of a run reads around and between the sentences of a window."""
    model = config.model
    if isinstance(subwords, PairedSubwords):
        check_window_length(config.windows, subwords)
        longest, rule = config.windows.max_length, f"at most {model.max_positions}, the decoder's"
        require(longest <= model.max_positions, "windows.max_length", rule, longest)
        frame = paired_frame(subwords, model.traits.ends)
        return replace(frame, target_context=model.target_context, after=model.after)
    if isinstance(subwords, PretrainedSubwords):
        check_window_length(config.windows, subwords)
        frame = pretrained_frame(subwords, config.model.template)
        if model.architecture == "doc2doc":
            return frame
        takes_mbart = model.architecture == "gtrans"
        if not takes_mbart or subwords.settings.family not in ("mbart", "mbart50"):
            able = "a BERT or an mBART" if takes_mbart else "a BERT"
            raise ModelError(
                f"`model.architecture: {model.architecture}` can be put into {able} alone, but "
                f"{subwords.settings.model} is another model ({subwords.settings.family}). Choose "
                f"`doc2doc`, or {able}."
            )
        return replace(frame, ends=model.traits.ends)
    if model.architecture == "causal":
        languages = (config.data.source_language, config.data.target_language)
        source, target = map(language_name, languages)
        return prompt_frame(subwords, model.template, (source, target))
    return replace(
        Frame.stock(subwords.special),
        ends=model.traits.ends,
        target_context=model.target_context,
        after=model.after,
        far_context=model.far,
    )


def pretrained_subwords(config: RunConfig) -> PretrainedSubwords | WordPieces | None:
    """Load the tokenizer of the pre-trained model that a run starts from, if there is one.

    That of a BERT is for the source alone.
    """
    if config.model.pretrained is None:
        return None
    if config.model.architecture != "doc2doc" and is_encoder(config.model.pretrained):
        return WordPieces.from_checkpoint(config.model.pretrained)
    return PretrainedSubwords.from_checkpoint(
        config.model.pretrained,
        source_language=config.data.source_language,
        target_language=config.data.target_language,
        source_code=config.model.source_code,
        target_code=config.model.target_code,
    )


@dataclass(frozen=True)
class Corpus:
    """Windows of the training and validation documents."""

    subwords: SubwordEncoding
    train: Windows
    dev: Windows


def read_split(config: RunConfig, split: Split) -> list[ParallelDocument]:
    """Read the documents of a split, or refuse it with all its problems."""
    return readers.read_split(config.data, split)


def load_corpus(config: RunConfig, subwords: SubwordEncoding | None = None) -> Corpus:
    """Map the prepared corpus of a run, or read and encode its documents in memory.

    Args:
        config: the run.
        subwords: an encoding to use; without one it is the prepared corpus's, that of the
            pre-trained model, or learned from the training documents.
    """
    if config.data.prepared is not None:
        return _open_prepared(PreparedCorpus.open(config.data.prepared), config, subwords)
    given = subwords or pretrained_subwords(config)
    train, dev = read_split(config, "train"), read_split(config, "dev")
    if given is None or isinstance(given, WordPieces):
        subwords = _learn_subwords(config, train, given)
    else:
        subwords = given
    ciphers = subwords.ciphers if config.augment.reads_ciphers else None
    return _corpus(
        TokenStore.build(train, subwords, ciphers=ciphers),
        TokenStore.build(dev, subwords),
        config,
        subwords,
    )


def _learn_subwords(
    config: RunConfig, train: list[ParallelDocument], source: WordPieces | None
) -> SubwordEncoding:
    """Learn an encoding of both sides; only of the target where the source has one."""
    moses = configured_moses(config.data, config.subwords)
    ciphers = learn_ciphers(train, config.augment, tags=config.subwords.tags)
    text: Iterable[str] = (sentence for one in train for sentence in one.target.sentences)
    if source is None:
        tags = config.subwords.tags
        text = pretokenized(train, moses, Workers(1), ciphers=ciphers, tags=tags)
    learned = train_subwords(
        text,
        vocabulary_size=config.subwords.vocabulary_size,
        merges=config.subwords.merges,
        moses=moses,
        ciphers=ciphers,
        tags=config.subwords.tags,
    )
    return learned if source is None else PairedSubwords(source, learned)


def _corpus(
    train: TokenStore, dev: TokenStore, config: RunConfig, subwords: SubwordEncoding
) -> Corpus:
    if config.windows.on_long == "split":
        frame = run_frame(config, subwords)
        pieces = subwords.pieces(range(len(subwords)))
        starts = np.array([str(piece).startswith(SPACE) for piece in pieces])
        train, dev = (
            split_long_sentences(store, config.windows, frame, starts) for store in (train, dev)
        )
    return Corpus(
        subwords=subwords,
        train=training_windows(train, config, subwords),
        dev=_dev_windows(dev, config, subwords),
    )


def _open_prepared(
    prepared: PreparedCorpus, config: RunConfig, subwords: SubwordEncoding | None
) -> Corpus:
    check_prepared(prepared, config, subwords)
    encoding = prepared.subwords()
    if not _same_encoding(subwords, encoding):
        raise DataError(
            f"{prepared.path} has another byte-pair encoding than the run. "
            "Use the corpus with which the run began."
        )
    keys = config.augment.cipher_keys if config.augment.reads_ciphers else ()
    store = prepared.store("train", encoding, cipher_keys=keys)
    return _corpus(store, prepared.store("dev", encoding), config, encoding)


def check_prepared(
    prepared: PreparedCorpus, config: RunConfig, subwords: SubwordEncoding | None = None
) -> None:
    """Refuse to serve a run whose corpus or encoding, known or not, is another one."""
    fingerprint = None
    if config.model.pretrained is not None:
        own: PretrainedSubwords | WordPieces | None
        if isinstance(subwords, PairedSubwords):
            own = subwords.source
        elif isinstance(subwords, PretrainedSubwords):
            own = subwords
        else:
            own = pretrained_subwords(config)
        fingerprint = None if own is None else own.fingerprint()
    prepared.check_settings(config.data, config.subwords, config.augment, fingerprint)


def _same_encoding(known: SubwordEncoding | None, found: SubwordEncoding) -> bool:
    """Whether a prepared corpus has the encoding of the run, as far as that is known."""
    if isinstance(known, Subwords) and isinstance(found, Subwords):
        return known.tokenizer.to_str() == found.tokenizer.to_str()
    if isinstance(known, PairedSubwords) and isinstance(found, PairedSubwords):
        return _same_encoding(known.target, found.target)
    # Fingerprints of pre-trained tokenizers are among the settings.
    return known is None or type(known) is type(found)


def _dev_windows(store: TokenStore, config: RunConfig, subwords: SubwordEncoding) -> Windows:
    return Windows(store, config.windows, frame=run_frame(config, subwords))


def training_windows(store: TokenStore, config: RunConfig, subwords: SubwordEncoding) -> Windows:
    """Cut the training windows of a run, and find those that are context-rich.

    They are those of its subset of documents, with its noise, and drawn as its augmentation asks.
    """
    windows = _cut_windows(store, config, subwords)
    windows.is_rich = rich_windows(windows, config.train.rich)
    return windows


def selected_windows(config: RunConfig, corpus: Corpus) -> Offsets | None:
    """(selected,): numbers of the training windows to learn from; None for all."""
    is_rich = corpus.train.is_rich
    if is_rich is None or config.train.rich.use != "select":
        return None
    return np.flatnonzero(is_rich)


def _cut_windows(store: TokenStore, config: RunConfig, subwords: SubwordEncoding) -> Windows:
    sizes = np.diff(store.document_starts)
    documents = subset_documents(sizes, config.data.subset, config.data.subset_seed)
    noise = context_noise(config.windows)
    augment, windows = config.augment, config.windows
    frame = run_frame(config, subwords)
    if isinstance(subwords, PretrainedSubwords):
        subwords.see(np.asarray(store.source.ids), np.asarray(store.target.ids))
    if augment.reads_ciphers:
        return CipheredWindows(
            store, windows, seed=config.seed, frame=frame, documents=documents, noise=noise
        )
    if augment.bpe_dropout > 0 and isinstance(subwords, Subwords):
        return ResegmentedWindows(
            store,
            windows,
            subwords=subwords,
            dropout=augment.bpe_dropout,
            seed=config.seed,
            frame=frame,
            documents=documents,
            noise=noise,
        )
    return Windows(store, windows, frame=frame, documents=documents, noise=noise)


def data_record(config: RunConfig, corpus: Corpus) -> dict[str, object]:
    """Return what a run must remember of its data.

    That is the sha256 of the files by split, source side first, of the document numbers and context
    sentences where only a part is used or the context is noisy, and of the numbers of context-rich
    windows.
    """
    data = config.data
    if data.prepared is not None:
        files: object = PreparedCorpus.open(data.prepared).manifest["inputs"]
    else:
        splits: tuple[Split, ...] = ("train", "dev", "test")
        files = {
            split: [sha256(path) for path in data.paths(split)]
            for split in splits
            if all(path.is_file() for path in data.paths(split))
        }
    record = {"files": files, "documents": len(corpus.train.documents)}
    if data.subset < 1:
        record["subset"] = sha256_of_numbers(corpus.train.documents)
    if corpus.train.context is not None:
        record["noisy_context"] = sha256_of_numbers(corpus.train.context)
    if corpus.train.is_rich is not None:
        record["rich"] = sha256_of_numbers(np.flatnonzero(corpus.train.is_rich))
    return record
