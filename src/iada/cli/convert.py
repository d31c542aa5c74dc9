"""`iada convert`: parallel documents from one file format to another."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import tyro

from iada.cli.parsing import parse_dataclass
from iada.config.data import Boundaries, DataConfig, FileFormat
from iada.errors import DataError, RunError

EXAMPLES = (
    "iada convert memory.tmx 'train.{language}' --boundaries none",
    "iada convert 'train.{language}' letters.tsv",
    "iada convert talks.csv talks.jsonl --source_column english --target_column german",
)


@dataclass(frozen=True, kw_only=True)
class ConvertCommand:
    """Convert parallel documents from one file format to another; formats go by the file names."""

    input: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="INPUT")]
    """File to read. Where a format has a file for each language, `{language}` in the name stands
    for both codes."""
    output: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="OUTPUT")]
    """File to write, named in the same way."""
    source_language: str = "en"
    """Language code of the source side."""
    target_language: str = "de"
    """Language code of the target side."""
    format: Literal["auto", FileFormat] = "auto"
    """Format of the input; `auto` goes by its name."""
    output_format: Literal["auto", FileFormat] = "auto"
    """Format of the output; `auto` goes by its name."""
    boundaries: Boundaries = "blank_line"
    """What separates documents that the input does not name."""
    output_boundaries: Boundaries | None = None
    """What separates documents in plain text that is written; by default as in the input, or `<d>`
    lines where that has none."""
    document_column: str | None = None
    """Column or field of the input with the document id, if not the usual one."""
    source_column: str | None = None
    """Column or field of the source side, if not the usual one."""
    target_column: str | None = None
    """Column or field of the target side, if not the usual one."""
    reference: str | None = None
    """Translator to take from files with several references; by default the first."""
    strict: bool = False
    """Refuse an input with errors; otherwise what is right is converted and the rest counted."""
    overwrite: bool = False
    """Replace an output that exists."""


def parse(arguments: Sequence[str]) -> ConvertCommand:
    """Parse the arguments of `iada convert`."""
    return parse_dataclass(ConvertCommand, arguments, program="iada convert", examples=EXAMPLES)


def run(command: ConvertCommand) -> Path:
    """Convert, and return the file that was written, that of the source side if there are two."""
    from iada.data.documents import ParallelDocument
    from iada.data.formats.findings import Findings
    from iada.data.formats.readers import iterate_documents, write_split
    from iada.storage import put_in_place

    source, written = _descriptions(command)
    inputs = {path.resolve() for path in source.paths("train")}
    outputs = sorted(set(written.paths("train")))
    for path in outputs:
        if path.resolve() in inputs:
            raise RunError(f"{path} is the input itself. Choose another output.")
        if path.exists() and not command.overwrite:
            raise RunError(f"{path} already exists. Give `--overwrite` to replace it.")
    findings = Findings()
    documents = sentences = 0

    def counted() -> Iterator[ParallelDocument]:
        nonlocal documents, sentences
        for document in iterate_documents(source, "train", findings):
            documents += 1
            sentences += len(document)
            yield document
        if command.strict:
            findings.refuse_errors()
        if not documents:
            raise DataError(f"No document of {command.input} can be used: {findings.list_errors()}")

    parent = outputs[0].parent
    parent.mkdir(parents=True, exist_ok=True)
    # The output appears whole or not at all.
    with TemporaryDirectory(prefix=".iada-", dir=parent) as folder:
        names = {path.name: path for path in outputs}
        write_split(_moved(written, Path(folder)), "train", counted())
        for name, path in names.items():
            put_in_place(Path(folder) / name, path)
    if findings.errors:
        print(findings.table(), file=sys.stderr)
    else:
        findings.warn_of_repairs()
    print(
        f"{documents:,} documents, {sentences:,} sentence pairs -> {', '.join(map(str, outputs))}"
    )
    return written.paths("train")[0]


def _descriptions(command: ConvertCommand) -> tuple[DataConfig, DataConfig]:
    """Return the corpus to read and the one to write."""
    source = DataConfig(
        folder=Path(),
        train=command.input,
        format=command.format,
        boundaries=command.boundaries,
        document_column=command.document_column,
        source_column=command.source_column,
        target_column=command.target_column,
        reference=command.reference,
        source_language=command.source_language,
        target_language=command.target_language,
    )
    # One document without boundaries would read the same with them, several would not without.
    kept: Boundaries = "marker" if command.boundaries == "none" else command.boundaries
    written = DataConfig(
        folder=Path(),
        train=command.output,
        format=command.output_format,
        boundaries=command.output_boundaries or kept,
        source_language=command.source_language,
        target_language=command.target_language,
    )
    return source, written


def _moved(data: DataConfig, folder: Path) -> DataConfig:
    """Return the description of the same files in another folder."""
    return replace(data, folder=folder, train=Path(data.train).name)
