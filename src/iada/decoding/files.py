"""Translate a file of documents, line for line."""

import time
from pathlib import Path

from iada.atomic import write_text
from iada.config.data import Boundaries
from iada.data.readers import documents_of, read_lines, split_documents
from iada.decoding.translator import DocumentTranslator
from iada.errors import DataError
from iada.training.folder import write_json


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
    write_text(output, "".join(f"{line}\n" for line in lines))
    write_json(details_file(output), details)
    return details


def details_file(output: Path) -> Path:
    """Return the file that tells how a translation was made."""
    return output.with_name(f"{output.name}.json")
