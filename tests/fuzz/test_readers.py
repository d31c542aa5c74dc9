"""Thousands of broken corpora: each is read and accounted for, or refused with a `DataError`.

Every case is a small corpus in one format, mutated by a generator with the case's own seed. A
reader that raises anything else, does not end, or loses a sentence without a word fails here. The
number of units is counted again in this file, with as little as possible of the readers' ways.
"""

import csv
import gzip
import io
import json
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import FrameType

import pytest

from iada.config.data import DataConfig
from iada.data.formats.contrapro import read_contrastive
from iada.data.formats.findings import Findings
from iada.data.formats.lines import read_bytes
from iada.data.formats.readers import iterate_documents, read_split
from iada.errors import DataError

# More cases on demand: IADA_FUZZ_CASES=4000 takes minutes.
CASES = int(os.environ.get("IADA_FUZZ_CASES", "230"))
SECONDS = 20
DOCUMENTS = [
    [("A dog.", "Ein Hund."), ("It <b>sleeps</b> & snores.", "Er schläft & schnarcht.")],
    [("Café?", "Café?"), ("“Yes.”", "„Ja.“"), ("One.", "Eins."), ("Two…", "Zwei…")],
    [("Good morning!", "Guten Morgen!")],
    [("中文", "Chinesisch"), ("The end.", "Ende.")],
]
Files = dict[str, bytes]


def text_files(separator: str) -> Files:
    files = {}
    for side, name in enumerate(("train.en", "train.de")):
        parts = ["".join(f"{pair[side]}\n" for pair in document) for document in DOCUMENTS]
        first = separator if separator == "<d>\n" else ""
        files[name] = (first + separator.join(parts)).encode()
    return files


def rows() -> Iterator[tuple[str, str, str]]:
    for number, document in enumerate(DOCUMENTS, start=1):
        yield from ((f"d{number}", source, target) for source, target in document)


def tsv_files() -> Files:
    table = ["document\tsource\tnote\ttarget", *(f"{d}\t{s}\t-\t{t}" for d, s, t in rows())]
    return {"train.tsv": "".join(f"{row}\n" for row in table).encode()}


def csv_files() -> Files:
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows([("document", "en", "de"), *rows()])
    return {"train.csv": lines.getvalue().encode()}


def bars_files() -> Files:
    text = "\n".join("".join(f"{s} ||| {t}\n" for s, t in document) for document in DOCUMENTS)
    return {"train.bars": text.encode()}


def document_lines() -> Files:
    lines = [
        json.dumps({"id": n, "en": [s for s, _ in pairs], "de": [t for _, t in pairs]})
        for n, pairs in enumerate(DOCUMENTS)
    ]
    return {"train.jsonl": "\n".join(lines).encode()}


def sentence_lines() -> Files:
    lines = [json.dumps({"document": d, "source": s, "target": t}) for d, s, t in rows()]
    return {"train.jsonl": "\n".join(lines).encode()}


def segments(sentences: list[str]) -> str:
    return "".join(f'<seg id="{n}">{text}</seg>\n' for n, text in enumerate(sentences, start=1))


def sgm_files() -> Files:
    files = {}
    for side, name in enumerate(("train.en.sgm", "train.de.sgm")):
        tag = ("srcset", "refset")[side]
        documents = "".join(
            f'<doc docid="d{n}" sysid="ref">\n<p>\n{segments([pair[side] for pair in pairs])}'
            "</p>\n</doc>\n"
            for n, pairs in enumerate(DOCUMENTS)
        )
        files[name] = f'<{tag} setid="x" srclang="any">\n{documents}</{tag}>\n'.encode()
    return files


def xml_files() -> Files:
    documents = "".join(
        f'<doc id="d{n}">\n<src lang="en"><p>{segments([s for s, _ in pairs])}</p></src>\n'
        f'<ref lang="de" translator="A"><p>{segments([t for _, t in pairs])}</p></ref>\n'
        f'<ref lang="de" translator="B"><p>{segments([t for _, t in pairs])}</p></ref>\n</doc>\n'
        for n, pairs in enumerate(DOCUMENTS)
    )
    return {"train.xml": f"<?xml version='1.0'?>\n<dataset>\n{documents}</dataset>\n".encode()}


def tags_files() -> Files:
    files = {}
    for side, name in enumerate(("train.tags.en-de.en", "train.tags.en-de.de")):
        talks = [
            f"<url>http://x/{n}</url>\n<talkid>{n}</talkid>\n<title>T</title>\n"
            + "".join(f" {pair[side]} \n" for pair in document)
            + "<translator>X</translator>\n"
            for n, document in enumerate(DOCUMENTS)
        ]
        files[name] = "".join(talks).encode()
    return files


def dialogue_files() -> Files:
    dialogues = {
        f"d{n}": [
            {"utteranceID": i, "speaker": ("agent", "customer")[i % 2], "source": s, "target": t}
            for i, (s, t) in enumerate(document)
        ]
        for n, document in enumerate(DOCUMENTS)
    }
    return {"train.json": json.dumps(dialogues, indent=1).encode()}


@dataclass(frozen=True)
class Corpus:
    files: Files
    pattern: str
    count: Callable[[list[bytes]], tuple[int, int]]
    """Units of both sides from the raw bytes of the files."""
    boundaries: str = "blank_line"


def line_count(data: bytes) -> int:
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


def lines_of_each(raw: list[bytes]) -> tuple[int, int]:
    return line_count(raw[0]), line_count(raw[-1])


def strict_json(text: str) -> object:
    def hook(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError
        return dict(pairs)

    def refuse(_: str) -> object:
        raise ValueError

    return json.loads(text, object_pairs_hook=hook, parse_constant=refuse)


def sentences_of_lines(raw: list[bytes]) -> tuple[int, int]:
    source = target = 0
    for line in raw[0].removeprefix(b"\xef\xbb\xbf").split(b"\n")[: line_count(raw[0])]:
        left: object = None
        right: object = None
        try:
            value = strict_json(line.decode())
            if isinstance(value, dict):
                left = value.get("source", value.get("en"))
                right = value.get("target", value.get("de"))
        except (ValueError, RecursionError):
            pass
        source += len(left) if isinstance(left, list) else 1
        target += len(right) if isinstance(right, list) else 1
    return source, target


def segments_of_each(raw: list[bytes]) -> tuple[int, int]:
    left, right = (
        len(re.findall(rb"<seg(?:[\s/][^<>]*)?>", data.replace(b"\0", b"_"), re.IGNORECASE))
        for data in (raw[0], raw[-1])
    )
    return left, right


def segments_of_sections(raw: list[bytes]) -> tuple[int, int]:
    counts = {"src": 0, "ref": 0, "hyp": 0, "": 0}
    in_document, section = False, ""
    text = raw[0].decode("utf-8", "replace")
    flags = re.IGNORECASE | re.ASCII
    for found in re.finditer(r"<(/?)(doc|src|ref|hyp|seg)((?:[\s/][^<>]*)?)>", text, flags):
        closes, name = found.group(1), found.group(2).lower()
        if name == "seg":
            counts[section] += not closes
        else:
            in_document = not closes if name == "doc" else in_document
            section = name if in_document and name != "doc" and not closes else ""
    return counts["src"] + counts[""], counts["ref"] + counts[""]


def utterances(raw: list[bytes]) -> tuple[int, int]:
    value = strict_json(raw[0].decode("utf-8-sig"))
    assert isinstance(value, dict)
    count = sum(len(dialogue) for dialogue in value.values() if isinstance(dialogue, list))
    return count, count


CORPORA = {
    "blank_line": Corpus(text_files("\n"), "train.{language}", lines_of_each),
    "marker": Corpus(text_files("<d>\n"), "train.{language}", lines_of_each, "marker"),
    "none": Corpus(text_files(""), "train.{language}", lines_of_each, "none"),
    "tsv": Corpus(tsv_files(), "train.tsv", lines_of_each),
    "csv": Corpus(csv_files(), "train.csv", lines_of_each),
    "bars": Corpus(bars_files(), "train.bars", lines_of_each),
    "jsonl_documents": Corpus(document_lines(), "train.jsonl", sentences_of_lines),
    "jsonl_sentences": Corpus(sentence_lines(), "train.jsonl", sentences_of_lines),
    "sgm": Corpus(sgm_files(), "train.{language}.sgm", segments_of_each),
    "xml": Corpus(xml_files(), "train.xml", segments_of_sections),
    "tags": Corpus(tags_files(), "train.tags.en-de.{language}", lines_of_each),
    "dialogue": Corpus(dialogue_files(), "train.json", utterances),
}

FRAGMENTS = [
    *(b"\r", b"\r\n", b"\0", b"\n", b"\n\n", b"\t", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e"),
    *(b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xef\xbb\xbf", b" ", b"\xc2\xa0\n"),
    *(b"\xff", b"\xed\xa0\x80", b"\xc3", b"<d>\n", b"document\tsource\ttarget\n"),
    *(b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b'"\\ud800"', b"\\ud800", b"\\u0000"),
    *(
        b"|||",
        b'"a',
        b",",
        b"\\n",
        b"\\r",
        b"[" * 3000,
        b'{"a":' * 3000,
        b'{"id": 1, "id": 2}',
        b"null",
        b"{}",
    ),
    *(b'{"source": [], "target": []}', b'{"document": "d1", "source": "a", "target": "b"}\n'),
    *(b"[]", b'"', b"'", b"{", b"}", b"]", b",", b":", b"&", b"&amp;", b"&#10;", b"&#13;"),
    *(b"&#0;", b"&#xD800;", b"&#99999999999999999999;", b"&nosuch;", b"<", b">", b"<seg>"),
    *(b"<SEG id=1>", b"</seg>", b"<seg id='1'>", b"<doc docid=d1>", b"</doc>", b"<src>"),
    *(b"</src>", b"<ref>", b"<ref translator=B>", b"<hyp>", b"<talkid>1</talkid>\n", b"<url>\n"),
]


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Change some bytes or lines of a file."""
    lines = data.split(b"\n")
    place = draw.randrange(len(data) + 1)
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(12):
        case 0:
            return data[:place]
        case 1:
            lines[at], lines[other] = lines[other], lines[at]
        case 2:
            del lines[at]
        case 3:
            lines.insert(at, lines[other])
        case 4:
            return data[:place] + draw.randbytes(draw.randrange(1, 20)) + data[place:]
        case 5:
            return data[:place] + draw.randbytes(1) + data[place + 1 :]
        case 6:
            stop = min(len(data), place + draw.randrange(40))
            return data[:place] + data[stop:]
        case 7:
            lines[at] = draw.choice(FRAGMENTS)
        case 8:
            lines[at] += draw.choice(FRAGMENTS)
        case _:
            return data[:place] + draw.choice(FRAGMENTS) + data[place:]
    return b"\n".join(lines)


def spoil(files: Files, seed: int) -> Files:
    """Mutate the files of a corpus; some cases have a huge line, an empty file or other text."""
    draw = random.Random(seed)
    spoiled = dict(files)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        name = draw.choice(sorted(spoiled))
        spoiled[name] = mutate(spoiled[name], draw)
    name = draw.choice(sorted(spoiled))
    rare = seed % 46
    if rare == 0:
        place = draw.randrange(len(spoiled[name]) + 1)
        huge = draw.choice([b"x", b" ", b"&", b"<seg", b"<doc a", b"\t", b'"', b"\\u0041", b"="])
        huge = (huge * 1_000_000)[:1_000_000]
        spoiled[name] = spoiled[name][:place] + huge + spoiled[name][place:]
    elif rare == 1:
        spoiled[name] = b""
    elif rare == 2:
        other = draw.choice(sorted(CORPORA))
        spoiled[name] = draw.choice([*CORPORA[other].files.values()])
    return spoiled


class TookTooLong(Exception):
    pass


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Break a case that does not end: by processor time, which a busy machine does not use up."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TookTooLong(f"a case ran for more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


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
    documents = tmp_path / "set"
    documents.mkdir()
    record = {
        "document id": "film.de",
        "segment id": 2,
        "src segment": "It sleeps.",
        "ref segment": "Er schläft.",
        "ref pronoun": "Er",
        "ante distance": 1,
        "intrasegmental": False,
        "errors": [{"contrastive": "Sie schläft."}, {"contrastive": "Es schläft."}],
    }
    line = {
        "src_context": ["A dog."],
        "trg_context": ["Ein Hund."],
        "src": "It sleeps.",
        "ref": "Er schläft.",
        "contrastive": ["Sie schläft.", "Es schläft."],
        "ref_class": "er",
    }
    files = {
        "set.json": json.dumps([record, record], indent=1).encode(),
        "set/film.en": b"A dog.\nIt sleeps.\n",
        "set/film.de": "Ein Hund.\nEr schläft.\n".encode(),
        "set.jsonl": f"{json.dumps(line)}\n{json.dumps(line)}\n".encode(),
    }
    outcomes = []
    for seed in range(CASES):
        for file, content in spoil(files, seed).items():
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
