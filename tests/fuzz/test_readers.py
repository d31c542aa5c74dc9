"""Thousands of broken corpora: each is read and accounted for, or refused with a `DataError`.

Every case is a small corpus in one format, mutated by a generator with the case's own seed. A
reader that raises anything else, does not end, or loses a sentence without a word fails here.
"""

import gzip
import io
import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest
from broken_files import CONTRASTIVE, CORPORA, DOCUMENTS, spoil, time_limit

from iada.config.data import DataConfig
from iada.data.formats.contrapro import read_contrastive
from iada.data.formats.findings import Findings
from iada.data.formats.lines import read_bytes
from iada.data.formats.readers import iterate_documents, read_split
from iada.errors import DataError

# More cases on demand: IADA_FUZZ_CASES=4000 takes minutes.
CASES = int(os.environ.get("IADA_FUZZ_CASES", "230"))
SECONDS = 20


def check_reading(data: DataConfig, count: Callable[[], tuple[int, int]]) -> bool:
    """Read a corpus and account for everything; tell whether it could be read."""
    log = io.StringIO()
    findings = Findings(log)
    try:
        documents = list(iterate_documents(data, "train", findings))
    except DataError as error:
        # The message can be printed.
        str(error).encode()
        return False
    kept = sum(map(len, documents))
    dropped = sum(json.loads(line)["dropped"] for line in log.getvalue().splitlines())
    assert (findings.source.read, findings.target.read) == count()
    assert findings.source.balances
    assert findings.target.balances
    assert findings.source.kept == findings.target.kept == kept
    assert findings.source.dropped + findings.target.dropped == dropped
    assert findings.table().encode()
    assert json.dumps(findings.summary(), ensure_ascii=False).encode()
    for document in documents:
        assert len(document)
        for sentence in (*document.source.sentences, *document.target.sentences):
            assert sentence.encode().decode() == sentence
            assert not {"\n", "\r", "\0"} & {*sentence}
    assert len(log.getvalue().splitlines()) == sum(findings.counts.values())
    if findings.errors:
        with pytest.raises(DataError):
            read_split(data, "train")
    else:
        assert read_split(data, "train") == documents
    return True


@pytest.mark.parametrize("name", CORPORA)
def test_a_mutated_corpus_is_read_or_refused(name: str, tmp_path: Path) -> None:
    corpus = CORPORA[name]
    outcomes = []
    for seed in range(CASES):
        files = spoil(corpus.files, seed)
        for file, content in files.items():
            (tmp_path / file).write_bytes(content)
        data = DataConfig(folder=tmp_path, train=corpus.pattern, boundaries=corpus.boundaries)  # type: ignore[arg-type]
        raw = [path.read_bytes() for path in data.paths("train")]
        with time_limit(SECONDS):
            try:
                outcomes.append(check_reading(data, lambda raw=raw: corpus.count(raw)))  # type: ignore[misc]
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}: {error!r}") from error
    # A generator that spoils everything, or nothing, would test little.
    assert 0 < sum(outcomes) < CASES


@pytest.mark.parametrize("name", CORPORA)
def test_an_untouched_corpus_is_read_whole(name: str, tmp_path: Path) -> None:
    corpus = CORPORA[name]
    for file, content in corpus.files.items():
        (tmp_path / file).write_bytes(content)
    data = DataConfig(folder=tmp_path, train=corpus.pattern, boundaries=corpus.boundaries)  # type: ignore[arg-type]
    found = read_split(data, "train")
    pairs = [
        [*zip(document.source.sentences, document.target.sentences, strict=True)]
        for document in found
    ]
    expected = [[*chain(*DOCUMENTS)]] if name == "none" else DOCUMENTS
    if name == "dialogue":
        # The customer's turns go the other way.
        expected = [
            [(pair, pair[::-1])[i % 2] for i, pair in enumerate(document)] for document in DOCUMENTS
        ]
    assert pairs == expected


@pytest.mark.parametrize("name", CORPORA)
def test_a_packed_corpus_that_was_cut_or_damaged_is_refused(name: str, tmp_path: Path) -> None:
    corpus = CORPORA[name]
    packed = {f"{file}.gz": gzip.compress(data, mtime=0) for file, data in corpus.files.items()}
    pattern = f"{corpus.pattern}.gz"
    data = DataConfig(folder=tmp_path, train=pattern, boundaries=corpus.boundaries)  # type: ignore[arg-type]
    for seed in range(30):
        draw = random.Random(seed)
        for file, content in packed.items():
            (tmp_path / file).write_bytes(content)
        if seed:
            file = draw.choice(sorted(packed))
            place = draw.randrange(1, len(packed[file]))
            cut = packed[file][:place]
            flipped = bytes([packed[file][place] ^ 0x55]) + packed[file][place + 1 :]
            (tmp_path / file).write_bytes(cut if seed % 2 else cut + flipped)

        def count() -> tuple[int, int]:
            return corpus.count([read_bytes(path) for path in data.paths("train")])

        with time_limit(SECONDS):
            is_read = check_reading(data, count)
        assert is_read == (seed == 0) or (seed and not seed % 2)


def test_a_mutated_contrastive_set_is_read_or_refused(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    outcomes = []
    for seed in range(CASES):
        for file, content in spoil(CONTRASTIVE, seed).items():
            (tmp_path / file).write_bytes(content)
        for name in ("set.json", "set.jsonl"):
            with time_limit(SECONDS):
                try:
                    items = read_contrastive(tmp_path / name)
                except DataError as error:
                    str(error).encode()
                    outcomes.append(False)
                    continue
            assert all(len(item.document()) for item in items)
            outcomes.append(True)
    assert 0 < sum(outcomes) < len(outcomes)


@pytest.mark.parametrize(
    "unit",
    [
        *("<doc ", "<seg id=", "<seg id='", 'a="', "a=", "a", " ", "&", "&#", "<", "<seg>", "\n"),
        *("x='1' ", "\\u0041", "\t", "<talkid>", "<talkid> "),
    ],
)
@pytest.mark.parametrize(
    ("pattern", "around"),
    [
        ("train.{language}.sgm", "{}"),
        ("train.{language}.sgm", "<doc {}>"),
        ("train.{language}.sgm", "<doc><seg id=1>{}</seg></doc>"),
        ("train.tags.{language}", "<talkid>{}\na\n"),
        ("train.tsv", "document\tsource\ttarget\n{}\n"),
        ("train.jsonl", '{{"document": 1, "source": "{}", "target": ""}}\n'),
    ],
)
def test_time_grows_with_the_size_and_not_with_its_square(
    tmp_path: Path, pattern: str, around: str, unit: str
) -> None:
    content = around.format(unit * (300_000 // len(unit)))
    data = DataConfig(folder=tmp_path, train=pattern)
    for path in data.paths("train"):
        path.write_text(content, encoding="utf-8")
    # Quadratic work on 300,000 characters takes longer than this by far.
    findings = Findings()
    with time_limit(SECONDS), suppress(DataError):
        kept = sum(map(len, iterate_documents(data, "train", findings)))
        assert kept == findings.source.kept
