"""Parquet and Arrow files, as Hugging Face datasets are stored, by pyarrow (`iada[formats]`).

A row is what a line of JSON lines is: a document or a sentence pair, with the same names of fields,
so `{"translation": {"en": ..., "de": ...}}` and other columns (`data.source_column`) are known too.
Rows are read in batches; memory does not grow with the file.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from iada.data.documents import ParallelDocument
from iada.data.formats.file_format import CorpusFiles, Format
from iada.data.formats.findings import Findings
from iada.data.formats.jsonl import read_objects
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


def _rows(path: Path) -> Iterator[dict[str, Any]]:
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
                    yield from batch.to_pylist()
        else:
            with pq.ParquetFile(path) as table:
                for batch in table.iter_batches(_ROWS):
                    yield from batch.to_pylist()
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


FORMAT = Format(names=("*.parquet", "*.arrow"), files="one", read=read_parquet, write=write_parquet)
