"""Files to documents and back: the table of file formats, and the functions that use it.

`iterate_documents` streams and keeps what is right; what it leaves out is counted in the findings.
`read_split`, `read_parallel` and `read_documents` are strict: they read everything and then refuse
it with all problems at once; `stream_split` refuses after the last document. What can be put right
without loss, such as a byte order mark, is repaired and counted everywhere.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from iada.config.base import require
from iada.config.data import Boundaries, DataConfig, FileFormat, Split
from iada.data.documents import Document, ParallelDocument
from iada.data.formats import delimited, dialogue, jsonl, parquet, sgm, text
from iada.data.formats.exchange import po, tmx, xliff
from iada.data.formats.file_format import CorpusFiles, Format, Piece
from iada.data.formats.findings import Findings
from iada.errors import ConfigError, DataError

FORMATS: Mapping[FileFormat, Format] = {
    "tags": text.TAGS,
    "tsv": delimited.TSV,
    "csv": delimited.CSV,
    "bars": delimited.BARS,
    "alternating": delimited.ALTERNATING,
    "jsonl": jsonl.FORMAT,
    "parquet": parquet.FORMAT,
    "sgm": sgm.FORMAT,
    "tmx": tmx.FORMAT,
    "xliff": xliff.FORMAT,
    "po": po.FORMAT,
    "dialogue": dialogue.FORMAT,
    # Any name is plain text if no other format claims it.
    "text": text.TEXT,
}
"""Every file format; the first one whose names match a file is that of the file."""


def detect_format(name: str) -> FileFormat:
    """Return the format that a file name stands for."""
    return next(key for key, known in FORMATS.items() if known.matches(name))


def file_format(data: DataConfig, split: Split) -> FileFormat:
    """Return the format of the files of a split, by their name if `data.format` is `auto`.

    Raises:
        ConfigError: the name does not fit the format.
    """
    pattern = data.pattern(split)
    key = detect_format(pattern) if data.format == "auto" else data.format
    has_sides = "{language}" in pattern or "{side}" in pattern
    files = FORMATS[key].files
    rule = f"a file name that contains `{{language}}` (format {key} has one file per side)"
    require(has_sides or files != "two", f"data.{split}", rule, pattern)
    rule = f"a file name without `{{language}}` (format {key} has both sides in one file)"
    require(not has_sides or files != "one", f"data.{split}", rule, pattern)
    return key


def split_files(data: DataConfig, split: Split) -> CorpusFiles:
    """Return the files of a split and how to read them."""
    source, target = data.paths(split)
    return CorpusFiles(
        source,
        target,
        languages=(data.source_language, data.target_language),
        boundaries=data.boundaries,
        reference=data.reference,
        max_line_bytes=data.max_line_bytes,
        columns=data.columns,
    )


def iterate_documents(
    data: DataConfig, split: Split, findings: Findings
) -> Iterator[ParallelDocument]:
    """Yield the documents of a split one by one; report and count what is wrong with the rest.

    At the end every unit of both sides is accounted for in the tallies of the findings.

    Raises:
        DataError: nothing can be read, or nothing after some point can be trusted.
    """
    key, files = file_format(data, split), split_files(data, split)
    if not data.hold_out:
        yield from _read(key, files, findings)
        return
    split_of = _hold_out((_digest(document) for document in _read(key, files, Findings())), data)
    # What is wrong with the file is reported once, with the training split.
    own = findings if split == "train" else Findings()
    for document in _read(key, files, own):
        if split_of.get(_digest(document), "train") == split:
            if own is not findings:
                findings.add_kept(len(document))
            yield document
        elif own is findings:
            findings.set_aside(len(document))


def read_split(data: DataConfig, split: Split) -> list[ParallelDocument]:
    """Read the documents of a split, or refuse it with all its problems."""
    return list(stream_split(data, split))


def stream_split(data: DataConfig, split: Split) -> Iterator[ParallelDocument]:
    """Yield the documents of a split one by one; refuse it at its end with all its problems."""
    findings = Findings()
    yield from iterate_documents(data, split, findings)
    findings.refuse_errors()
    findings.warn_of_repairs()


def read_documents(
    source: Path | str,
    target: Path | str | None = None,
    *,
    boundaries: Boundaries = "blank_line",
    format: FileFormat | Literal["auto"] = "auto",
    languages: tuple[str, str] = ("en", "de"),
    reference: str | None = None,
    columns: tuple[str | None, str | None, str | None] = (None, None, None),
) -> list[ParallelDocument] | list[Document]:
    """Read documents from one file or two; refuse them with all their problems.

    Args:
        source: file of the source side, or of both sides where one file holds them.
        target: file of the target side. Without one, plain text gives documents of one language.
        boundaries: what separates documents in plain text.
        format: format of the files; `auto` goes by the name of `source`.
        languages: codes that may name columns and fields, source first.
        reference: translator to take where a file has several references.
        columns: columns or fields of document, source and target, if not the usual ones.
    """
    source = Path(source)
    key = detect_format(source.name) if format == "auto" else format
    if target is None and FORMATS[key].files == "two":
        return text.read_one_side(source, boundaries)
    other = source if target is None else Path(target)
    files = CorpusFiles(source, other, languages, boundaries, reference, columns=columns)
    return _read_strictly(key, files)


def read_parallel(
    source: Path, target: Path, *, boundaries: Boundaries = "blank_line"
) -> list[ParallelDocument]:
    """Read two aligned text files; refuse them with all their problems."""
    return _read_strictly("text", CorpusFiles(source, target, boundaries=boundaries))


def file_pieces(key: FileFormat, files: CorpusFiles) -> Callable[[], Iterator[Piece]]:
    """Return a function that gives the pieces of a file to translate, the same ones each time.

    The first line that cannot be read is refused; repairs are logged once, at the end of the file.
    """
    pieces = FORMATS[key].pieces
    if pieces is None:
        known = ", ".join(f"`{name}`" for name, one in FORMATS.items() if one.pieces is not None)
        raise DataError(
            f"{files.source} has the format `{key}`, in which no translation can be written. Give "
            f"one of the formats {known}, or translate it as the test split of a run."
        )
    warned = False

    def iterate() -> Iterator[Piece]:
        nonlocal warned
        findings = Findings(refuse=True)
        yield from pieces(files, findings)
        if not warned:
            findings.warn_of_repairs()
            warned = True

    return iterate


def write_split(data: DataConfig, split: Split, documents: Iterable[ParallelDocument]) -> None:
    """Write the documents of a split in the format of the configuration.

    They read back as the same documents, equal documents give equal bytes, and memory does not
    grow with their number.
    """
    key = file_format(data, split)
    write = FORMATS[key].write
    if write is None:
        writable = ", ".join(f"`{name}`" for name, one in FORMATS.items() if one.write is not None)
        raise ConfigError(f"The format `{key}` is only read. Choose one of {writable}.")
    files = split_files(data, split)
    files.source.parent.mkdir(parents=True, exist_ok=True)
    write(files, documents)


def describe_written(data: DataConfig, folder: Path, *, several: bool = False) -> DataConfig:
    """Return how a corpus is described when it is written into another folder.

    Names, format and boundaries stay if they can. A format that is only read, and text without
    boundaries where there are several documents, become text with `<d>` lines.

    Args:
        data: the corpus as it is.
        folder: where it is to be written.
        several: whether there will be more than one document.
    """
    key = file_format(data, "train")
    files = split_files(data, "train")
    has_ids = files.columns[0] is not None or not files.has_numbered_columns
    is_one_document = data.boundaries == "none" and (key == "text" or not has_ids)
    if FORMATS[key].write is not None and not (is_one_document and several):
        return replace(data, folder=folder, prepared=None)
    return replace(
        data,
        folder=folder,
        prepared=None,
        format="text",
        boundaries="marker",
        train="train.{language}",
        dev="dev.{language}",
        test="test.{language}",
    )


def _read(key: FileFormat, files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    yield from FORMATS[key].read(files, findings)
    findings.verify_tallies()


def _digest(document: ParallelDocument) -> bytes:
    """Return a hash of the text of a document, the same on every machine."""
    text = "\n".join((*document.source.sentences, "", *document.target.sentences))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _hold_out(digests: Iterable[bytes], data: DataConfig) -> dict[bytes, Split]:
    """Return the split of the documents that are held out.

    They are those with the smallest hashes: a random choice that depends on nothing but the text.
    """
    distinct = sorted(set(digests))
    count = max(1, round(data.hold_out * len(distinct)))
    if len(distinct) <= 2 * count:
        raise DataError(
            f"{data.paths('train')[0]} has {len(distinct)} different documents, too few to hold "
            f"out {count} for validation and {count} for testing. Give files of your own as "
            "`data.dev` and `data.test`, or mark where documents begin (`data.boundaries`)."
        )
    held: dict[bytes, Split] = dict.fromkeys(distinct[:count], "test")
    return held | dict.fromkeys(distinct[count : 2 * count], "dev")


def _read_strictly(key: FileFormat, files: CorpusFiles) -> list[ParallelDocument]:
    findings = Findings()
    documents = list(_read(key, files, findings))
    findings.refuse_errors()
    findings.warn_of_repairs()
    return documents
