"""Odd-shaped corpora as people have them: each is read right, or refused with what to do.

One small corpus in 24 shapes. The right ones end in the same documents, prepared by the command and
read back; the others in exit code 2, one message, and nothing that looks finished.
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iada.cli.main import main
from iada.data.prepared.prepared_corpus import PreparedCorpus

PAIRS = [
    [("My lamp broke.", "Meine Lampe ist kaputt."), ("I liked it.", "Ich mochte sie.")],
    [("Dear Anna!", "Liebe Anna!"), ("Where is it?", "Wo ist sie?"), ("Here.", "Hier.")],
]
FLAT = [(str(n), source, target) for n, d in enumerate(PAIRS, start=1) for source, target in d]
Files = dict[str, str | bytes]


def text(separator: str = "\n", first: str = "", ending: str = "\n", swap: bool = False) -> Files:
    files: Files = {}
    for side, code in ((1, "en"), (0, "de")) if swap else ((0, "en"), (1, "de")):
        parts = ["".join(f"{pair[side]}{ending}" for pair in document) for document in PAIRS]
        files[f"train.{code}"] = first + separator.join(parts)
    return files


def table(header: str, separator: str) -> str:
    rows = [separator.join(row) for row in FLAT]
    return "".join(f"{row}\n" for row in ([header] if header else []) + rows)


def tmx(prop: str) -> str:
    units = "".join(
        f"<tu>{prop.format(n)}"
        f'<tuv xml:lang="en"><seg>{s}</seg></tuv><tuv xml:lang="de"><seg>{t}</seg></tuv></tu>'
        for n, s, t in FLAT
    )
    return f'<tmx version="1.4"><header/><body>{units}</body></tmx>'


def xliff() -> str:
    files = "".join(
        f'<file original="{n}" source-language="en" target-language="de"><body>'
        + "".join(
            f'<trans-unit id="{i}"><source>{s}</source><target>{t}</target></trans-unit>'
            for i, (s, t) in enumerate(document)
        )
        + "</body></file>"
        for n, document in enumerate(PAIRS)
    )
    return f'<xliff version="1.2">{files}</xliff>'


def po() -> str:
    return "".join(f'#: {n}.page:1\nmsgid "{s}"\nmsgstr "{t}"\n\n' for n, s, t in FLAT)


def parquet(folder: Path) -> None:
    rows = [{"document": n, "translation": {"en": s, "de": t}} for n, s, t in FLAT]
    pq.write_table(pa.Table.from_pylist(rows), folder / "train.parquet")


@dataclass(frozen=True)
class Shape:
    """A way to store the corpus, and what becomes of it."""

    files: Files | Callable[[Path], None]
    flags: str = ""
    refused: str = ""
    """What the message says; empty if the corpus is read."""
    said: str = ""
    """What is said about a corpus that is read."""
    documents: int = 2


JSON = [json.dumps({"doc": n, "pair": {"eng": s, "ger": t}}) + "\n" for n, s, t in FLAT]
WMT = "".join(
    json.dumps(
        {
            "doc_id": n,
            "src_text": "\n\n".join(s for s, _ in document),
            "refs": {"refA": {"ref": "\n\n".join(t for _, t in document)}},
        }
    )
    + "\n"
    for n, document in enumerate(PAIRS)
)
SHAPES = {
    "blank lines": Shape(text()),
    "marker lines": Shape(text("<d>\n", "<d>\n"), "--data.boundaries marker"),
    "one document": Shape(text(""), "--data.boundaries none", documents=1),
    "no boundaries at all": Shape(text(""), refused="its document boundaries are unknown"),
    "windows line ends": Shape(text("\r\n", ending="\r\n"), said="carriage_return"),
    "byte order mark": Shape(text(first="\ufeff"), said="byte_order_mark"),
    "utf-16": Shape(
        {k: str(v).encode("utf-16") for k, v in text().items()},
        refused="is UTF-16 by its byte order mark",
    ),
    "packed": Shape(
        {f"{k}.gz": gzip.compress(str(v).encode()) for k, v in text().items()},
        "--data.train train.{language}.gz",
    ),
    "one side shorter": Shape(
        text() | {"train.de": "Meine Lampe ist kaputt.\n"}, refused="has 2 documents but"
    ),
    "swapped sides": Shape(text(swap=True), said="wrong_language"),
    "empty file": Shape({"train.en": "", "train.de": ""}, refused="holds no sentence"),
    "missing side": Shape({"train.en": "Hello.\n"}, refused="train.de does not exist"),
    "tsv": Shape({"train.tsv": table("document\ten\tde", "\t")}, "--data.train train.tsv"),
    "tsv without header": Shape(
        {"train.tsv": table("", "\t")},
        "--data.train train.tsv --data.document_column 1 --data.source_column 2"
        " --data.target_column 3",
    ),
    "tsv with a header of its own": Shape(
        {"train.tsv": table("id\tenglish\tgerman", "\t")},
        "--data.train train.tsv",
        refused="`data.document_column`, `data.source_column` and `data.target_column`",
    ),
    "csv": Shape(
        {"train.csv": table("talk,eng,ger", ",")},
        "--data.train train.csv --data.document_column talk --data.source_column eng"
        " --data.target_column ger",
    ),
    "bars": Shape(
        {
            "train.bars": "\n".join(
                "".join(f"{s} ||| {t}\n" for s, t in document) for document in PAIRS
            )
        },
        "--data.train train.bars",
    ),
    "alternating lines": Shape(
        {"train.pairs": "\n".join("".join(f"{s}\n{t}\n" for s, t in d) for d in PAIRS)},
        "--data.train train.pairs",
    ),
    "json lines with names of their own": Shape(
        {"train.jsonl": "".join(JSON)},
        "--data.train train.jsonl --data.document_column doc --data.source_column pair.eng"
        " --data.target_column pair.ger",
    ),
    "wmt": Shape({"train.jsonl": WMT}, "--data.train train.jsonl"),
    "parquet": Shape(parquet, "--data.train train.parquet"),
    "tmx": Shape({"train.tmx": tmx('<prop type="document">{}</prop>')}, "--data.train train.tmx"),
    "tmx without documents": Shape(
        {"train.tmx": tmx("")}, "--data.train train.tmx", refused="the unit names no document"
    ),
    "xliff": Shape({"train.xlf": xliff()}, "--data.train train.xlf"),
    "po": Shape({"train.po": po()}, "--data.train train.po"),
    "html named as text": Shape(
        {"train.xlf": "<html><body><p>Hello.</p></body></html>"},
        "--data.train train.xlf",
        refused="begins with `<html>`, but must begin with `<xliff>`",
    ),
}


def write(files: Files | Callable[[Path], None], folder: Path) -> None:
    if callable(files):
        files(folder)
        return
    for name, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(raw)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_read_right_or_refused_clearly(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = SHAPES[name]
    write(shape.files, tmp_path)
    flags = shape.flags.split()
    for split in ("dev", "test"):
        # The same shape, so the same names; what splits share is only counted.
        pattern = flags[1] if flags[:1] == ["--data.train"] else "train.{language}"
        flags += [f"--data.{split}", pattern]
    output = tmp_path / "prepared"
    arguments = ["prepare", "--data.folder", str(tmp_path), "--data.prepared", str(output)]
    arguments += ["--subwords.vocabulary_size", "330", "--workers", "1", *flags]
    code = main(arguments)
    message = capsys.readouterr().err
    if shape.refused:
        assert code == 2
        assert shape.refused in message
        assert not output.exists()
        return
    assert code == 0, message
    corpus = PreparedCorpus.open(output)
    store = corpus.store("train", corpus.subwords())
    assert len(store.document_names) == shape.documents
    subwords = corpus.subwords()
    found = [
        tuple(
            subwords.decode(side.ids[side.offsets[n] : side.offsets[n + 1] - 1].tolist())
            for side in (store.source, store.target)
        )
        for n in range(len(store))
    ]
    expected = [(source, target) for _, source, target in FLAT]
    assert found == ([pair[::-1] for pair in expected] if "swapped" in name else expected)
    checks = (output / "checks" / "checks.txt").read_text(encoding="utf-8")
    assert shape.said in checks
