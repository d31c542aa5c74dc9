"""Windows with an enciphered view: one key per window, same target, longest view in the plan."""

from pathlib import Path

import numpy as np
import pytest

from iada.config.data import WindowConfig
from iada.config.method import AugmentConfig, augmentation
from iada.data.mini import generate_documents
from iada.data.prepared.encoding import Workers, pretokenized
from iada.data.prepared.store import TokenStore
from iada.data.tokens.ciphers import Ciphers, learn_ciphers
from iada.data.tokens.pretokenize import Moses
from iada.data.tokens.subwords import Subwords, train_subwords
from iada.data.windows.batch import Collator
from iada.data.windows.drawn import CipheredWindows
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows

DOCUMENTS = [d.parallel() for d in generate_documents(10, seed=3, split="train")]
CONFIG: AugmentConfig = augmentation("cipher")


def learned(moses: Moses | None = None) -> Subwords:
    ciphers = learn_ciphers(DOCUMENTS, CONFIG)
    text = pretokenized(DOCUMENTS, moses, Workers(1), ciphers=ciphers)
    return train_subwords(text, vocabulary_size=700, moses=moses, ciphers=ciphers)


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return learned()


@pytest.fixture(scope="module")
def store(subwords: Subwords) -> TokenStore:
    return TokenStore.build(DOCUMENTS, subwords, ciphers=subwords.ciphers)


def rows_of(
    ids: "np.typing.NDArray[np.int32]", lengths: "np.typing.NDArray[np.int64]"
) -> list[list[int]]:
    return [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]


def test_every_window_reads_its_source_enciphered_with_one_key(
    subwords: Subwords, store: TokenStore
) -> None:
    windows = CipheredWindows(store, WindowConfig(), seed=1)
    keys = [(4, number) for number in reversed(range(len(windows)))]
    rows = windows.__getitems__(keys)
    assert rows.ciphered is not None
    ciphers, special = subwords.ciphers, subwords.special
    assert ciphers is not None
    plain = rows_of(rows.source_ids, rows.source_lengths)
    views = rows_of(rows.ciphered.ids, rows.ciphered.lengths)
    choices = windows.ciphers(4)[::-1]
    for source, view, choice in zip(plain, views, choices, strict=True):
        assert view[-1] == special.eos
        assert view.count(special.sep) == source.count(special.sep)
        separators = [_split(ids, special.sep) for ids in (source, view)]
        for sentence, enciphered in zip(*separators, strict=True):
            text, hidden = subwords.decode(sentence), subwords.decode(enciphered)
            assert ciphers.encipher([text], ciphers.keys[choice]) == [hidden]
            assert hidden != text


def _split(ids: list[int], sep: int) -> list[list[int]]:
    array = np.array(ids)
    return [part.tolist() for part in np.split(array, np.flatnonzero(array == sep))]


def test_the_plain_rows_are_those_of_plain_windows(store: TokenStore) -> None:
    keys = [(0, number) for number in range(len(store))]
    ciphered = CipheredWindows(store, WindowConfig(), seed=1).__getitems__(keys)
    plain = Windows(store, WindowConfig()).__getitems__(keys)
    for name in ("source_ids", "source_roles", "target_ids", "labels"):
        assert np.array_equal(getattr(ciphered, name), getattr(plain, name))
    assert plain.ciphered is None


def test_keys_are_drawn_by_seed_epoch_and_window(store: TokenStore) -> None:
    windows = CipheredWindows(store, WindowConfig(), seed=1)
    first = windows.ciphers(0)
    assert set(first.tolist()) == {0, 1}
    # About as many of one as of the other: 4 standard deviations.
    assert abs(first.mean() - 0.5) < 2 / np.sqrt(len(first))
    assert not np.array_equal(windows.ciphers(1), first)
    assert np.array_equal(windows.ciphers(0), first)
    assert np.array_equal(CipheredWindows(store, WindowConfig(), seed=1).ciphers(0), first)
    assert not np.array_equal(CipheredWindows(store, WindowConfig(), seed=2).ciphers(0), first)


def test_a_view_does_not_depend_on_its_batch(store: TokenStore) -> None:
    windows = CipheredWindows(store, WindowConfig(), seed=1)
    keys = [(2, number) for number in range(len(windows))]
    together = windows.__getitems__(keys).ciphered
    assert together is not None
    for key, expected in zip(keys, rows_of(together.ids, together.lengths), strict=True):
        alone = windows.__getitems__([key]).ciphered
        assert alone is not None
        assert alone.ids.tolist() == expected


def test_the_longest_view_counts_in_limits_and_plans(store: TokenStore) -> None:
    longest = max(int(side.lengths().max()) for side in store.sides) + 1
    windows = CipheredWindows(store, WindowConfig(max_length=longest), seed=1)
    plain = Windows(
        TokenStore(
            store.source,
            store.target,
            store.document_starts,
            store.document_names,
            store.special,
        ),
        WindowConfig(max_length=longest),
    )
    # Enciphered words have more pieces, so some windows have less context than plain ones.
    assert (windows.spans.first >= plain.spans.first).all()
    assert (windows.spans.first > plain.spans.first).any()
    sampler = TokenBatchSampler(windows.planned_lengths(), max_tokens=400, seed=1)
    collator = Collator(store.special.pad)
    over = 0
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for keys in sampler:
            batch = collator(windows.__getitems__(keys))
            width = batch["cipher_input_ids"].shape[1]
            assert len(keys) * width <= 400
            assert width <= longest
            over += width > max(batch["input_ids"].shape[1], batch["labels"].shape[1])
            mask = batch["cipher_attention_mask"].bool()
            assert (batch["cipher_input_ids"][~mask] == store.special.pad).all()
            assert (batch["cipher_input_ids"][mask] != store.special.pad).all()
    assert over > 0


def test_text_is_enciphered_before_it_is_tokenised() -> None:
    moses = Moses("en", "de")
    subwords = learned(moses)
    ciphers = subwords.ciphers
    assert ciphers is not None
    store = TokenStore.build(DOCUMENTS, subwords, ciphers=ciphers)
    sources = [s for d in DOCUMENTS for s in d.source.sentences]
    expected = subwords.encode(ciphers.encipher(sources, 2), "source")
    found = np.split(store.ciphered[1].ids, store.ciphered[1].offsets[1:-1])
    assert [ids[:-1].tolist() for ids in found] == expected


def test_the_vocabulary_is_learned_from_all_three_texts(subwords: Subwords) -> None:
    ciphers = subwords.ciphers
    assert ciphers is not None
    plain = train_subwords(pretokenized(DOCUMENTS, None, Workers(1)), vocabulary_size=700)
    sources = [s for d in DOCUMENTS for s in d.source.sentences]
    counts = {
        name: sum(map(len, encoding.encode(ciphers.encipher(sources, 1), "source")))
        for name, encoding in (("joint", subwords), ("plain", plain))
    }
    assert counts["joint"] < 0.7 * counts["plain"]


def test_a_store_without_ciphers_is_refused(store: TokenStore) -> None:
    bare = TokenStore.build(DOCUMENTS[:1], Subwords(learned().tokenizer))
    with pytest.raises(ValueError, match="no enciphered source"):
        CipheredWindows(bare, WindowConfig(), seed=1)


def test_an_encoding_remembers_its_ciphers(subwords: Subwords, tmp_path: Path) -> None:
    subwords.save(tmp_path)
    assert Subwords.load(tmp_path).ciphers == subwords.ciphers
    assert isinstance(subwords.ciphers, Ciphers)
