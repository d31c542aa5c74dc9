"""The data of a run: what belongs to training alone stays out of validation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iada.config.data import DataConfig, SubwordConfig, WindowConfig
from iada.config.method import AugmentConfig, augmentation
from iada.config.run import RunConfig
from iada.data.prepared.prepare import Preparation, prepare
from iada.data.tokens.pretokenize import Moses
from iada.data.tokens.subwords import train_subwords
from iada.data.windows.conditions import ABSENT
from iada.data.windows.drawn import ResegmentedWindows
from iada.data.windows.windows import Windows
from iada.errors import DataError
from iada.runs.corpus import Corpus, data_record, load_corpus


@pytest.fixture(scope="module")
def config(mini_corpus: Path) -> RunConfig:
    return RunConfig(
        data=DataConfig(folder=mini_corpus), subwords=SubwordConfig(vocabulary_size=450)
    )


@pytest.fixture(scope="module")
def corpus(config: RunConfig) -> Corpus:
    return load_corpus(config)


def test_context_is_noisy_in_training_alone(config: RunConfig, corpus: Corpus) -> None:
    noisy = load_corpus(replace(config, windows=WindowConfig(noisy_context=2)), corpus.subwords)
    assert noisy.dev.context is None
    assert noisy.train.context is not None
    own = noisy.train.sentences[:, None] - np.arange(3, 0, -1)
    changed = (noisy.train.context != ABSENT) & (noisy.train.context != own)
    full = noisy.train.spans.current - noisy.train.spans.first == 3
    assert set(changed[full].sum(axis=1).tolist()) == {2}
    assert corpus.train.context is None


def test_a_subset_is_one_of_training_documents_alone(config: RunConfig, corpus: Corpus) -> None:
    data = replace(config.data, subset=0.3, subset_seed=4)
    part = load_corpus(replace(config, data=data))
    sizes = np.diff(corpus.train.store.document_starts)
    assert len(part.train.documents) < len(sizes) / 2
    assert len(part.train) == sizes[part.train.documents].sum() >= 0.3 * sizes.sum()
    assert len(part.dev) == len(corpus.dev)
    # The encoding is that of all training documents.
    text = corpus.subwords.tokenizer.to_str()
    assert part.subwords.tokenizer.to_str() == text


@pytest.fixture(scope="module")
def prepared(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    folder = tmp_path_factory.mktemp("prepared") / "corpus"
    prepare(Preparation(config.data, config.subwords, folder, workers=1))
    return replace(config, data=replace(config.data, prepared=folder))


def test_a_prepared_corpus_gives_the_windows_of_the_files(
    prepared: RunConfig, corpus: Corpus
) -> None:
    mapped = load_corpus(prepared)
    assert mapped.subwords.tokenizer.to_str() == corpus.subwords.tokenizer.to_str()
    for left, right in ((mapped.train, corpus.train), (mapped.dev, corpus.dev)):
        assert np.array_equal(left.lengths(), right.lengths())
        keys = [(0, number) for number in range(len(right))]
        first, second = left.__getitems__(keys), right.__getitems__(keys)
        assert np.array_equal(first.source_ids, second.source_ids)
        assert np.array_equal(first.labels, second.labels)
    assert data_record(prepared, mapped) == data_record(
        replace(prepared, data=replace(prepared.data, prepared=None)), corpus
    )


def test_a_prepared_corpus_of_other_settings_is_refused(prepared: RunConfig) -> None:
    other = replace(prepared, subwords=SubwordConfig(vocabulary_size=500))
    with pytest.raises(DataError, match=r"vocabulary_size is 450 in the prepared corpus and 500"):
        load_corpus(other)


def test_a_resumed_run_keeps_its_encoding(prepared: RunConfig) -> None:
    other = train_subwords(["another text entirely"] * 3, vocabulary_size=300)
    with pytest.raises(DataError, match="another byte-pair encoding than the run"):
        load_corpus(prepared, other)


def test_a_run_remembers_subset_and_noise(config: RunConfig, corpus: Corpus) -> None:
    assert set(data_record(config, corpus)) == {"files", "documents"}
    changed = replace(
        config, data=replace(config.data, subset=0.5), windows=WindowConfig(noisy_context=2)
    )
    first = data_record(changed, load_corpus(changed))
    assert set(first) == {"files", "documents", "subset", "noisy_context"}
    other = replace(changed, windows=WindowConfig(noisy_context=2, noise_seed=2))
    second = data_record(other, load_corpus(other))
    assert first["subset"] == second["subset"]
    assert first["noisy_context"] != second["noisy_context"]


def test_moses_tokenisation_reaches_training_and_validation(config: RunConfig) -> None:
    moses = SubwordConfig(vocabulary_size=450, pretokenize="moses")
    corpus = load_corpus(replace(config, subwords=moses))
    assert corpus.subwords.moses == Moses("en", "de")
    pieces = set(corpus.subwords.pieces(corpus.dev[0, 0].source_ids.tolist()))
    assert pieces & {"▁,", "▁.", "▁!", "▁?"}


@pytest.fixture(scope="module")
def cipher(config: RunConfig) -> RunConfig:
    return replace(
        config, augment=augmentation("cipher"), subwords=SubwordConfig(vocabulary_size=600)
    )


@pytest.fixture(scope="module")
def prepared_cipher(cipher: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    folder = tmp_path_factory.mktemp("cipher") / "corpus"
    prepare(Preparation(cipher.data, cipher.subwords, folder, augment=cipher.augment, workers=1))
    return replace(cipher, data=replace(cipher.data, prepared=folder))


def _enciphered(corpus: Corpus) -> list[int]:
    rows = corpus.train.__getitems__([(1, number) for number in range(len(corpus.train))])
    assert rows.ciphered is not None
    return list(rows.ciphered.ids.tolist())


def test_ciphers_are_the_same_from_files_and_from_a_prepared_corpus(
    cipher: RunConfig, prepared_cipher: RunConfig
) -> None:
    read, mapped = load_corpus(cipher), load_corpus(prepared_cipher)
    assert read.subwords.ciphers == mapped.subwords.ciphers is not None
    assert read.subwords.tokenizer.to_str() == mapped.subwords.tokenizer.to_str()
    assert _enciphered(read) == _enciphered(mapped)
    assert np.array_equal(read.train.planned_lengths(), mapped.train.planned_lengths())
    for corpus in (read, mapped):
        assert type(corpus.dev) is Windows
        assert corpus.dev.store.ciphered == ()


def test_a_resumed_run_enciphers_with_the_alphabet_of_its_encoding(cipher: RunConfig) -> None:
    first = load_corpus(cipher)
    assert _enciphered(load_corpus(cipher, first.subwords)) == _enciphered(first)


def test_a_prepared_corpus_serves_only_the_ciphers_it_was_made_with(
    prepared: RunConfig, prepared_cipher: RunConfig
) -> None:
    augment = prepared_cipher.augment
    refused = [
        (replace(prepared, augment=augment), r"cipher_keys is None .* and \[1, 2\] here"),
        (replace(prepared_cipher, augment=AugmentConfig()), r"cipher_keys is \[1, 2\] in .* None"),
        (
            replace(prepared_cipher, augment=replace(augment, cipher_keys=(1, 3))),
            r"cipher_keys is \[1, 2\] in the prepared corpus and \[1, 3\] here",
        ),
        (
            replace(prepared_cipher, augment=replace(augment, cipher_cased=True)),
            "cipher_cased is False in the prepared corpus and True here",
        ),
    ]
    for config, message in refused:
        with pytest.raises(DataError, match=message):
            load_corpus(config)


def test_the_vocabulary_of_ciphers_can_be_used_without_them(prepared_cipher: RunConfig) -> None:
    plain = replace(augmentation("doc2doc"), cipher_keys=(1, 2))
    corpus = load_corpus(replace(prepared_cipher, augment=plain))
    assert type(corpus.train) is Windows
    assert corpus.train.store.ciphered == ()
    assert corpus.subwords.ciphers is not None


def test_bpe_dropout_belongs_to_training_alone(config: RunConfig, corpus: Corpus) -> None:
    augment = augmentation("bpe_dropout")
    dropped = load_corpus(replace(config, augment=augment), corpus.subwords)
    assert isinstance(dropped.train, ResegmentedWindows)
    assert dropped.train.dropout == 0.1
    assert type(dropped.dev) is Windows
    assert np.array_equal(dropped.dev[0, 3].source_ids, corpus.dev[0, 3].source_ids)
    drawn, plain = (c.train.__getitems__([(0, 1)]).target_ids for c in (dropped, corpus))
    assert len(drawn) >= len(plain)
    seeds = {
        load_corpus(replace(config, augment=augment, seed=seed), corpus.subwords)
        .train[0, 1]
        .source_ids.tobytes()
        for seed in range(4)
    }
    assert len(seeds) > 1
