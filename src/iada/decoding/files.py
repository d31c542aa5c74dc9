"""Translate a file of documents, line for line."""

import json
import os
import time
from pathlib import Path

from iada.config.data import Boundaries
from iada.data.readers import documents_of, read_lines, split_documents
from iada.decoding.translator import DocumentTranslator
from iada.errors import DataError


def translate_file(
    translator: DocumentTranslator, source: Path, output: Path, *, boundaries: Boundaries
) -> dict[str, object]:
    """Translate every document of a file; lines that part documents are kept as they are.

    Beside the output, `<output>.json` tells engine, search settings, sentences and seconds.

    Returns:
        What `<output>.json` tells.
    """
    lines = read_lines(source)
    if not any(line.strip() for line in lines):
        raise DataError(f"{source} holds no sentence. Give a file with at least one document.")
    if output.is_dir():
        raise DataError(f"{output} is a folder. Choose a file as `--output`.")
    if output.resolve() == source.resolve():
        raise DataError(f"{output} is the input itself. Choose another `--output`.")
    spans = split_documents(lines, boundaries)
    documents = documents_of(source, lines, spans)
    started = time.perf_counter()
    translated = translator.translate(documents)
    for span, document in zip(spans, translated, strict=True):
        lines[span.start : span.stop] = document.sentences
    details: dict[str, object] = {
        "engine": translator.engine.name,
        "beam": translator.decode.beam,
        "length_penalty": translator.decode.length_penalty,
        "documents": len(documents),
        "sentences": sum(map(len, documents)),
        "seconds": round(time.perf_counter() - started, 2),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    _write(output, "".join(f"{line}\n" for line in lines))
    _write(details_file(output), json.dumps(details, indent=2) + "\n")
    return details


def details_file(output: Path) -> Path:
    """Return the file that tells how a translation was made."""
    return output.with_name(f"{output.name}.json")


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
