"""Translate a file of documents into a file of the same format.

The translation grows in `<output>.partial`, document by document, beside a journal of every result
of the engine. A run that was killed is resumed by the same call and ends in the same bytes; at the
end both files are removed and `<output>.json` says how the translation was made. Several processes
each have a journal of their own, and collect their documents in `<output>.shard<rank>`.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from iada.config.base import to_mapping
from iada.config.data import MAX_LINE_BYTES, Boundaries, DataConfig, FileFormat, Split
from iada.data.documents import Document
from iada.data.formats.file_format import CorpusFiles, Piece, copy_lines
from iada.data.formats.readers import (
    FORMATS,
    detect_format,
    file_format,
    file_pieces,
    split_files,
    stream_split,
)
from iada.data.sentences import joiner, sentence_splitter, split_piece
from iada.decoding.engines.interface import model_fingerprint
from iada.decoding.journal import create_file, open_journal
from iada.decoding.shards import read_shards, shard_file, write_shard
from iada.decoding.translator import DocumentTranslator
from iada.decoding.wavefront import DocumentTranslation, TranslationInput
from iada.errors import DataError
from iada.storage import put_in_place, sha256, write_json

Pieces = Callable[[], Iterator[Piece]]


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
    columns: tuple[str | None, str | None, str | None] = (None, None, None),
    split: bool = False,
    overwrite_targets: bool = False,
) -> dict[str, object]:
    """Translate every document of a file; lines that separate documents are kept as they are.

    Args:
        translator: the model.
        source: text, TSV or JSON lines.
        output: gets the same format; the target column or field of TSV and JSON lines is filled.
        boundaries: what separates the documents of plain text.
        form: format of the file; by default that of its name.
        languages: codes that may name columns and fields, source first.
        references: for text, a file of reference translations with the same lines.
        max_line_bytes: longest line that is read.
        columns: columns or fields of document, source and target, if not the usual ones.
        split: whether lines, cells and segments are paragraphs to split into sentences.
        overwrite_targets: translate also what an XLIFF or PO file marks as done.

    Returns:
        The contents of `<output>.json`: engine, search settings, sentences and seconds.
    """
    files = CorpusFiles(
        source,
        references,
        languages,
        boundaries,
        max_line_bytes=max_line_bytes,
        columns=columns,
        keeps_targets=not overwrite_targets,
    )
    form = form or detect_format(source.name)
    pieces = file_pieces(form, files)
    if split:
        pieces = _split_pieces(pieces, sentence_splitter(languages[0]), joiner(languages[1]))
    inputs = [source] if references is None else [source, references]
    assemble = FORMATS[form].assemble
    finish = None if assemble is None else partial(assemble, files)
    return translate_pieces(translator, inputs, pieces, output, joiner(languages[1]), finish)


def translate_split(
    translator: DocumentTranslator, data: DataConfig, split: Split, output: Path
) -> dict[str, object]:
    """Translate a split of a corpus, whatever its format; result as in `translate_file`.

    Formats that cannot be written become plain text with a blank line between documents.
    """
    with_references = translator.decode.target_context == "gold"
    pieces = split_pieces(data, split, with_references=with_references)
    # One file may be both sides.
    inputs = sorted(set(data.paths(split)))
    return translate_pieces(translator, inputs, pieces, output, joiner(data.target_language))


def translations_name(data: DataConfig) -> str:
    """Return the usual file name of the translated test split."""
    name = data.paths("test")[1].name.removesuffix(".gz")
    if data.hold_out:
        return f"test.{data.target_language}"
    if FORMATS[file_format(data, "test")].fills_lines:
        return name
    # Plain text: a name that promises another format would mislead.
    return f"{name.rpartition('.')[0]}.{data.target_language}"


def split_pieces(data: DataConfig, split: Split, *, with_references: bool) -> Pieces:
    """Return the pieces of a split; see `translate_split`."""
    form = file_format(data, split)
    # What is held out is a part of a file.
    if not FORMATS[form].fills_lines or data.hold_out:
        return lambda: _other_pieces(data, split)
    files = split_files(data, split)
    return file_pieces(form, files if with_references else replace(files, target=None))


def _split_pieces(pieces: Pieces, split: Callable[[str], Sequence[str]], between: str) -> Pieces:
    """Return pieces whose sentences are split, and joined again when they are rendered."""
    return lambda: (split_piece(piece, split, between) for piece in pieces())


def count_lines(pieces: Pieces) -> tuple[int, int]:
    """Return the number of lines and of documents."""
    lines = documents = 0
    for piece in pieces():
        sentences = [] if piece.document is None else piece.document.sentences
        lines += len(piece.render(sentences))
        documents += piece.document is not None
    return lines, documents


def details_file(output: Path) -> Path:
    """Return the file that says how a translation was made."""
    return output.with_name(f"{output.name}.json")


def n_best_file(output: Path) -> Path:
    """Return the file of the best translations of each sentence, if there is more than one."""
    return output.with_name(f"{output.name}.nbest.jsonl")


def translate_pieces(
    translator: DocumentTranslator,
    inputs: list[Path],
    pieces: Pieces,
    output: Path,
    between: str = " ",
    assemble: Callable[[Path, Path], None] | None = None,
) -> dict[str, object]:
    """Translate pieces into a file; result as in `translate_file`.

    Args:
        translator: the model. If it belongs to several processes, each translates a share of the
            documents, and the main process writes the output.
        inputs: the files that the pieces come from. If one changes, a killed run starts anew.
        pieces: returns the same pieces each time.
        output: gets the rendered pieces, one after the other.
        between: joins the parts of a sentence that was too long (`decode.on_long: split`).
        assemble: makes the output from a file of the rendered lines, where they are not the output.
    """
    _check_output(output, inputs)
    cut: list[int] = []
    if translator.decode.on_long == "split":

        def split(sentence: str) -> Sequence[str]:
            parts = translator.split_long(sentence)
            cut.extend([len(parts)] * (len(parts) > 1))
            return parts

        pieces = _split_pieces(pieces, split, between)
    documents = _Documents(pieces)
    counts, kept = [], 0
    for given in documents:
        kept += sum(known is not None for known in given.kept)
        if any(map(str.strip, given.document.sentences)):
            counts.append(len(given.document))
    if not counts:
        raise DataError(f"{inputs[0]} holds no sentence. Give a file with at least one document.")
    if cut and translator.processes.is_main:
        translator.report_long(cut)
    # Before anything is written: a sentence that is too long is refused without leaving files.
    total = translator.check(documents)
    output.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    processes = translator.processes
    path = journal_file(output, processes.rank)
    with open_journal(translator.engine, path, _settings(translator, inputs, kept)) as journal:
        if processes.count == 1:
            found = translator.stream(documents, journal, total)
            _write_output(output, translator, pieces, found, assemble)
        else:
            ranks = processes.assign([_size(given.document) for given in documents])
            own = [number for number, rank in enumerate(ranks) if rank == processes.rank]
            found = translator.stream(documents, journal, total // processes.count, frozenset(own))
            write_shard(shard_file(output, processes.rank), own, found)
        was_resumed = any(processes.gather(journal.replayed > 0))
        if processes.count > 1 and processes.is_main:
            _write_output(output, translator, pieces, read_shards(output, ranks), assemble)
        details = _search_details(translator) | {
            "documents": len(counts),
            "sentences": sum(counts),
            "kept": kept,
            "inputs": [sha256(path) for path in inputs],
            "seconds": round(time.perf_counter() - started, 2),
            "resumed": was_resumed,
        }
        if processes.is_main:
            write_json(details_file(output), details)
            for leftover in _working_files(output):
                leftover.unlink()
    return details


def _check_output(output: Path, inputs: Sequence[Path]) -> None:
    """Refuse an output that cannot be written, or that would overwrite what is read."""
    if output.is_dir():
        raise DataError(f"{output} is a folder. Choose a file as `--output`.")
    if output.resolve() in {path.resolve() for path in inputs}:
        raise DataError(f"{output} is the input itself. Choose another `--output`.")


def _search_details(translator: DocumentTranslator) -> dict[str, object]:
    """Return how translations are searched for, for the record beside the output."""
    return {
        "engine": translator.engine.name,
        "models": len(translator.models),
        "precision": translator.decode.precision,
        "beam": translator.decode.beam,
        "length_penalty": translator.decode.length_penalty,
    }


def _write_output(
    output: Path,
    translator: DocumentTranslator,
    pieces: Pieces,
    translations: Iterator[DocumentTranslation],
    assemble: Callable[[Path, Path], None] | None,
) -> None:
    """Write all pieces, and the n-best translations if there are any."""
    with _Writer(output, translator.decode.n_best > 1) as writer:
        for piece in pieces():
            writer.write(piece, None if piece.document is None else next(translations))
        # The stream ends after its last document, with its warnings.
        next(translations, None)
    if assemble is not None:
        assembled = output.with_name(f"{output.name}.assembled")
        assemble(_partial(output), assembled)
        put_in_place(assembled, _partial(output))
    writer.finish()


def journal_file(output: Path, rank: int = 0) -> Path:
    """Return the journal of a process."""
    return output.with_name(f"{output.name}.journal{rank or ''}")


def _working_files(output: Path) -> list[Path]:
    """Return journals and shards of an output, also those of a run with more processes."""
    pattern = re.compile(re.escape(output.name) + r"\.(journal\d*|shard\d+)")
    return [path for path in output.parent.iterdir() if pattern.fullmatch(path.name)]


def _size(document: Document) -> int:
    """Return about how much work a document is."""
    return sum(map(len, document.sentences)) + len(document)


@dataclass(frozen=True)
class _Documents:
    """The documents of a file, which can be iterated over more than once."""

    pieces: Pieces

    def __iter__(self) -> Iterator[TranslationInput]:
        for piece in self.pieces():
            if piece.document is not None:
                yield TranslationInput(piece.document, piece.reference, piece.kept)


class _Writer:
    """Output files that have another name until they are complete."""

    def __init__(self, output: Path, has_n_best: bool) -> None:
        self.paths = [output, *([n_best_file(output)] if has_n_best else [])]
        self.files: list[TextIO] = []

    def __enter__(self) -> "_Writer":
        self.files = [create_file(_partial(path)) for path in self.paths]
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files:
            file.close()

    def write(self, piece: Piece, translation: DocumentTranslation | None) -> None:
        """Append a piece, with its translation if it is a document."""
        lines = piece.render([] if translation is None else translation.document.sentences)
        self.files[0].writelines(f"{line}\n" for line in lines)
        if translation is not None:
            self.files[0].flush()
            for file in self.files[1:]:
                file.writelines(_n_best_lines(translation))
                file.flush()

    def finish(self) -> None:
        """Give the files their final names."""
        for path in reversed(self.paths):
            put_in_place(_partial(path), path)


def _n_best_lines(translation: DocumentTranslation) -> Iterator[str]:
    for number, found in enumerate(translation.alternatives, start=1):
        entry = {
            "document": translation.document.name,
            "sentence": number,
            "hypotheses": [{"text": one.text, "score": one.score} for one in found],
        }
        yield json.dumps(entry, ensure_ascii=False) + "\n"


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def _settings(translator: DocumentTranslator, inputs: list[Path], kept: int) -> dict[str, object]:
    """Return everything that the results of the engine depend on."""
    return {
        "inputs": [sha256(path) for path in inputs],
        "kept": kept,
        "model": [model_fingerprint(model) for model in translator.models],
        "engine": translator.engine.name,
        "windows": to_mapping(translator.windows),
        "decode": translator.decode.search_settings(),
        "process": [translator.processes.rank, translator.processes.count],
    }


def _other_pieces(data: DataConfig, split: Split) -> Iterator[Piece]:
    for number, document in enumerate(stream_split(data, split)):
        if number:
            yield copy_lines([""])
        yield Piece(list, document.source, document.target)
