"""Parquet and Arrow files, as Hugging Face datasets are stored, by pyarrow (`iada[formats]`).

A row is what a line of JSON lines is: a document or a sentence pair, with the same names of fields,
so `{"translation": {"en": ..., "de": ...}}` and other columns (`data.source_column`) are known too.
Rows are read in batches; memory does not grow with the file. A translated file has the same rows
and columns, and the target column filled or added.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from iada.data.documents import ParallelDocument
from iada.data.formats.file_format import CorpusFiles, Format, Piece
from iada.data.formats.findings import Findings
from iada.data.formats.jsonl import object_pieces, read_objects, with_value
from iada.errors import DataError

_ROWS = 1000
"""Rows in memory at a time."""


def read_parquet(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of a Parquet or Arrow file.

    Raises:
        DataError: the file is neither, or pyarrow is not installed.
    """
    return read_objects(files, _rows(files.source), findings)


def write_parquet(files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write a Parquet file of sentence pairs with the columns `document` and the language codes.

    Documents are numbered from 1; other names of columns are kept.
    """
    with _pyarrow(files.source):
        import pyarrow as pa
        import pyarrow.parquet as pq

    usual = ("document", *files.languages)
    names = [name or other for name, other in zip(files.columns, usual, strict=True)]
    schema = pa.schema([(name, pa.string()) for name in names])
    numbered = enumerate(documents, start=1)
    with pq.ParquetWriter(files.source, schema) as writer:
        while part := [*islice(numbered, _ROWS)]:
            columns = [
                [str(number) for number, document in part for _ in range(len(document))],
                [one for _, document in part for one in document.source.sentences],
                [one for _, document in part for one in document.target.sentences],
            ]
            writer.write_table(pa.table(columns, schema=schema))


def parquet_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the documents; each row is rendered as a line for `assemble_parquet`."""
    return object_pieces(files, _rows(files.source), findings)


def assemble_parquet(files: CorpusFiles, lines: Path, output: Path) -> None:
    """Write the rows of a file with their translations, in the format of the file.

    Args:
        files: the file to translate.
        lines: what its pieces have rendered, a line for each row.
        output: where to write.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with lines.open(encoding="utf-8", newline="\n") as text, ExitStack() as stack:
        filled = map(json.loads, text)
        writer = None
        for batch in _batches(files.source):
            rows = [next(filled) for _ in range(batch.num_rows)]
            batch = _with_translations(batch, rows)
            if writer is None and files.source.suffix == ".arrow":
                file = stack.enter_context(pa.OSFile(str(output), "wb"))
                writer = stack.enter_context(pa.ipc.new_stream(file, batch.schema))
            elif writer is None:
                writer = stack.enter_context(pq.ParquetWriter(output, batch.schema))
            writer.write_batch(batch)


def _with_translations(batch: Any, rows: list[tuple[list[str], Any]]) -> Any:
    """Return a batch with its target column filled or added.

    Args:
        batch: `pyarrow.RecordBatch`.
        rows: for each row the path of its translation, outermost column first, and its value.
    """
    import pyarrow as pa

    (name, *inner), value = rows[0]
    index = batch.schema.get_field_index(name)
    is_known = index >= 0
    before = batch.column(index).to_pylist() if is_known else [None] * len(rows)
    values = [
        with_value(old, inner, new) if inner else new
        for old, (_, new) in zip(before, rows, strict=True)
    ]
    kind = pa.list_(pa.string()) if isinstance(value, list) else pa.string()
    if len(inner) == 1 and is_known:
        # Inside an object: its other fields keep their types.
        own = {field.name: field.type for field in batch.schema.field(index).type}
        kind = pa.struct({**own, inner[0]: kind})
    elif inner:
        kind = None
    column = pa.array(values, type=kind)
    # What a dataset says of its columns is no longer true of a new one.
    metadata = {k: v for k, v in (batch.schema.metadata or {}).items() if k != b"huggingface"}
    batch = batch.replace_schema_metadata(metadata or None)
    if is_known:
        return batch.set_column(index, name, column)
    return batch.append_column(name, column)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for batch in _batches(path):
        yield from batch.to_pylist()


def _batches(path: Path) -> Iterator[Any]:
    """Yield the rows of a file, as `pyarrow.RecordBatch`."""
    if not path.is_file():
        raise DataError(f"{path} does not exist or is not a file. Check the folder and file name.")
    with _pyarrow(path):
        import pyarrow as pa
        import pyarrow.parquet as pq

    try:
        if path.suffix == ".arrow":
            with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as batches:
                for batch in batches:
                    # Offsets of a damaged file point anywhere, also outside of the memory.
                    batch.validate(full=True)
                    yield batch
        else:
            with pq.ParquetFile(path) as table:
                yield from table.iter_batches(_ROWS)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path} cannot be read as Parquet or Arrow ({told}).") from None


@contextmanager
def _pyarrow(path: Path) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise DataError(
            f"{path} needs pyarrow, which is not installed: `pip install 'iada[formats]'`."
        ) from None


FORMAT = Format(
    names=("*.parquet", "*.arrow"),
    files="one",
    read=read_parquet,
    write=write_parquet,
    pieces=parquet_pieces,
    assemble=assemble_parquet,
)
