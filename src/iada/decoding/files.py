"""What an engine has answered so far, on disk, so that a killed run goes on where it was.

Which requests are asked, and in which batches, follows from the input and the answers alone. So a
run that is begun again asks the same questions in the same order: the first ones are answered from
the journal, the rest by the engine, and the result is that of an unbroken run.

Translate a file of documents into a file of the same form.

The translation grows in `<output>.partial`, document by document, beside a journal of everything
the engine has answered. A run that was killed is continued by the same call and ends in the same
bytes; at the end both files go and `<output>.json` tells how the translation was made.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TextIO

from iada.config.base import to_mapping
from iada.config.data import MAX_LINE_BYTES, Boundaries, DataConfig, FileFormat, Split
from iada.data.formats.file_format import CorpusFiles, Piece, copy_lines
from iada.data.formats.readers import (
    FORMATS,
    detect_format,
    file_format,
    file_pieces,
    split_files,
    stream_split,
)
from iada.data.prepared.prepared_corpus import sha256
from iada.decoding.engines.ctranslate2 import model_fingerprint
from iada.decoding.engines.interface import Engine, Hypothesis, Request
from iada.decoding.translator import DocumentTranslator
from iada.decoding.wavefront import Task, Translated
from iada.errors import DataError, RunError
from iada.storage import write_json

logger = logging.getLogger(__name__)


class JournaledEngine:
    """An engine that remembers its answers in a file."""

    def __init__(self, engine: Engine, path: Path, settings: Mapping[str, object]) -> None:
        """Open a journal, or begin one.

        Args:
            engine: who answers what the journal does not know.
            path: the file. One that was written with other settings is begun anew.
            settings: everything that answers depend on.
        """
        self.engine = engine
        self.path = path
        self.replayed = 0
        """Number of batches that were answered from the journal."""
        self._header = json.dumps(settings, sort_keys=True).encode() + b"\n"
        self._file: BinaryIO = path.open("r+b" if path.is_file() else "w+b")
        first = self._file.readline()
        self._is_replay = first == self._header
        if not self._is_replay:
            if first:
                logger.info("%s is of other settings or other input; begun anew.", path)
            self._append_from(0, self._header)

    @property
    def name(self) -> str:
        """Name of the engine itself."""
        return self.engine.name

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return what was answered before, or ask the engine and write its answer down."""
        if self._is_replay:
            known = self._next_known(len(requests))
            if known is not None:
                self.replayed += 1
                return known
        found = self.engine.search(requests)
        plain = [[[h.tokens, h.score] for h in hypotheses] for hypotheses in found]
        line = json.dumps(plain, separators=(",", ":")).encode() + b"\n"
        self._append_from(self._file.tell(), line)
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _next_known(self, count: int) -> list[list[Hypothesis]] | None:
        """Read the next batch; None where the journal ends or was cut off by a kill."""
        start = self._file.tell()
        line = self._file.readline()
        try:
            batch = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            batch = None
        if batch is None:
            self._is_replay = False
            self._file.seek(start)
            if self.replayed:
                logger.info("%s: %d batches were done already.", self.path, self.replayed)
            return None
        if len(batch) != count:
            raise RunError(
                f"{self.path} does not fit the input: batch {self.replayed + 1} has {len(batch)} "
                f"answers to {count} requests. Remove it to begin anew."
            )
        return [[Hypothesis(tuple(tokens), score) for tokens, score in one] for one in batch]

    def _append_from(self, place: int, line: bytes) -> None:
        """Write a line at a place and forget everything after it."""
        self._file.seek(place)
        self._file.truncate()
        self._file.write(line)
        self._file.flush()


Pieces = Callable[[], Iterator[Piece]]
# These change neither requests nor answers.
_WITHOUT_EFFECT = ("engine", "exported")


def translate_file(
    translator: DocumentTranslator,
    source: Path,
    output: Path,
    *,
    boundaries: Boundaries,
    form: FileFormat | None = None,
    languages: tuple[str, str] = ("en", "de"),
    references: Path | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> dict[str, object]:
    """Translate every document of a file; lines that part documents are kept as they are.

    Args:
        translator: the model.
        source: text, TSV or JSON lines.
        output: gets the same form; the target column or field of TSV and JSON lines is filled.
        boundaries: what separates documents in plain text.
        form: format of the file; by default what its name tells.
        languages: codes that may name columns and fields, source first.
        references: for text, a file of reference translations with the same lines.
        max_line_bytes: longest line that is read.

    Returns:
        What `<output>.json` tells: engine, search settings, sentences and seconds.
    """
    files = CorpusFiles(source, references, languages, boundaries, max_line_bytes=max_line_bytes)
    pieces = file_pieces(form or detect_format(source.name), files)
    inputs = [source] if references is None else [source, references]
    return translate_pieces(translator, inputs, pieces, output)


def translate_split(
    translator: DocumentTranslator, data: DataConfig, split: Split, output: Path
) -> dict[str, object]:
    """Translate a split of a corpus, whatever its form; result as in `translate_file`.

    Forms that cannot be written become plain text with a blank line between documents.
    """
    with_references = translator.decode.target_context == "gold"
    pieces = split_pieces(data, split, with_references=with_references)
    # One file may be both sides.
    return translate_pieces(translator, sorted(set(data.paths(split))), pieces, output)


def translations_name(data: DataConfig) -> str:
    """Return the usual file name of the translated test split."""
    name = data.paths("test")[1].name.removesuffix(".gz")
    if FORMATS[file_format(data, "test")].pieces is not None:
        return name
    # Plain text: a name that promises another form would mislead.
    return f"{name.rpartition('.')[0]}.{data.target_language}"


def split_pieces(data: DataConfig, split: Split, *, with_references: bool) -> Pieces:
    """Return the pieces of a split; see `translate_split`."""
    form = file_format(data, split)
    if FORMATS[form].pieces is None:
        return lambda: _other_pieces(data, split)
    files = split_files(data, split)
    return file_pieces(form, files if with_references else replace(files, target=None))


def count(pieces: Pieces) -> tuple[int, int]:
    """Return the number of lines and of documents."""
    lines = documents = 0
    for piece in pieces():
        sentences = [] if piece.document is None else piece.document.sentences
        lines += len(piece.render(sentences))
        documents += piece.document is not None
    return lines, documents


def details_file(output: Path) -> Path:
    """Return the file that tells how a translation was made."""
    return output.with_name(f"{output.name}.json")


def alternatives_file(output: Path) -> Path:
    """Return the file of all translations of each sentence, if more than one was wanted."""
    return output.with_name(f"{output.name}.nbest.jsonl")


def translate_pieces(
    translator: DocumentTranslator, inputs: list[Path], pieces: Pieces, output: Path
) -> dict[str, object]:
    """Translate pieces into a file; result as in `translate_file`.

    Args:
        translator: the model.
        inputs: the files that the pieces come from. If one changes, a broken run begins anew.
        pieces: gives the same pieces each time.
        output: gets what the pieces render, one after the other.
    """
    if output.is_dir():
        raise DataError(f"{output} is a folder. Choose a file as `--output`.")
    if output.resolve() in {path.resolve() for path in inputs}:
        raise DataError(f"{output} is the input itself. Choose another `--output`.")
    documents = _Documents(pieces)
    counts = [
        len(task.document) for task in documents if any(map(str.strip, task.document.sentences))
    ]
    if not counts:
        raise DataError(f"{inputs[0]} holds no sentence. Give a file with at least one document.")
    # Before anything is written: an over-long sentence is refused without a trace.
    total = translator.check(documents)
    output.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    journal_file = output.with_name(f"{output.name}.journal")
    journal = JournaledEngine(translator.engine, journal_file, _settings(translator, inputs))
    with ExitStack() as stack:
        stack.callback(journal.close)
        writer = stack.enter_context(_Writer(output, translator.decode.n_best > 1))
        translations = translator.stream(documents, journal, total)
        for piece in pieces():
            writer.write(piece, None if piece.document is None else next(translations))
        # The stream ends after its last document, with its warnings.
        next(translations, None)
    writer.finish()
    details: dict[str, object] = {
        "engine": translator.engine.name,
        "precision": translator.decode.precision,
        "beam": translator.decode.beam,
        "length_penalty": translator.decode.length_penalty,
        "documents": len(counts),
        "sentences": sum(counts),
        "seconds": round(time.perf_counter() - started, 2),
        "resumed": journal.replayed > 0,
    }
    write_json(details_file(output), details)
    journal_file.unlink()
    return details


@dataclass(frozen=True)
class _Documents:
    """The documents of a file, to be gone through more than once."""

    pieces: Pieces

    def __iter__(self) -> Iterator[Task]:
        for piece in self.pieces():
            if piece.document is not None:
                yield Task(piece.document, piece.reference)


class _Writer:
    """Files that grow under another name until they are whole."""

    def __init__(self, output: Path, has_alternatives: bool) -> None:
        self.paths = [output, *([alternatives_file(output)] if has_alternatives else [])]
        self.files: list[TextIO] = []
        self.line = 0

    def __enter__(self) -> "_Writer":
        self.files = [_partial(path).open("w", encoding="utf-8") for path in self.paths]
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files:
            file.close()

    def write(self, piece: Piece, translated: Translated | None) -> None:
        """Append a piece, with its translation if it is a document."""
        lines = piece.render([] if translated is None else translated.document.sentences)
        self.files[0].writelines(f"{line}\n" for line in lines)
        if translated is not None:
            self.files[0].flush()
            for file in self.files[1:]:
                file.writelines(_alternatives(translated))
                file.flush()

    def finish(self) -> None:
        """Give the files their names."""
        for path in reversed(self.paths):
            os.replace(_partial(path), path)


def _alternatives(translated: Translated) -> Iterator[str]:
    for number, found in enumerate(translated.alternatives, start=1):
        entry = {
            "document": translated.document.name,
            "sentence": number,
            "hypotheses": [{"text": one.text, "score": one.score} for one in found],
        }
        yield json.dumps(entry, ensure_ascii=False) + "\n"


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def _settings(translator: DocumentTranslator, inputs: list[Path]) -> dict[str, object]:
    """Return everything that the answers of the engine depend on."""
    decode = to_mapping(translator.decode)
    return {
        "inputs": [sha256(path) for path in inputs],
        "model": model_fingerprint(translator.model),
        "engine": translator.engine.name,
        "windows": to_mapping(translator.windows),
        "decode": {key: value for key, value in decode.items() if key not in _WITHOUT_EFFECT},
    }


def _other_pieces(data: DataConfig, split: Split) -> Iterator[Piece]:
    for number, document in enumerate(stream_split(data, split)):
        if number:
            yield copy_lines([""])
        yield Piece(list, document.source, document.target)
