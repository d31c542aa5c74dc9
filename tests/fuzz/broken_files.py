"""Small files of every kind, and a generator that breaks them; every case has a seed of its own.

The number of units is counted here again, with as little as possible of the readers' ways.
"""

import csv
import io
import json
import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

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

_RECORD = {
    "document id": "film.de",
    "segment id": 2,
    "src segment": "It sleeps.",
    "ref segment": "Er schläft.",
    "ref pronoun": "Er",
    "ante distance": 1,
    "intrasegmental": False,
    "errors": [{"contrastive": "Sie schläft."}, {"contrastive": "Es schläft."}],
}
_LINE = {
    "src_context": ["A dog."],
    "trg_context": ["Ein Hund."],
    "src": "It sleeps.",
    "ref": "Er schläft.",
    "contrastive": ["Sie schläft.", "Es schläft."],
    "ref_class": "er",
}
CONTRASTIVE: Files = {
    "set.json": json.dumps([_RECORD, _RECORD], indent=1).encode(),
    "set/film.en": b"A dog.\nIt sleeps.\n",
    "set/film.de": "Ein Hund.\nEr schläft.\n".encode(),
    "set.jsonl": f"{json.dumps(_LINE)}\n{json.dumps(_LINE)}\n".encode(),
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
