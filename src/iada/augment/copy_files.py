"""A folder of perturbed copies: `train.1.en`, `train.1.de`, `train.2.en`, ... line for line.

The folder appears whole or not at all.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from iada.atomic import locked
from iada.augment.copies import Copier, PerturbedDocument
from iada.config.data import Boundaries, DataConfig, Split
from iada.data.readers import stream_split
from iada.data.writing import document_lines, text_file
from iada.errors import RunError


def copy_boundaries(data: DataConfig, split: Split) -> Boundaries:
    """Return what parts the documents of copies: as in the original text, else `<d>` lines."""
    return data.boundaries if data.file_format(split) == "text" else "marker"


def write_copies(
    copier: Copier, data: DataConfig, split: Split, output: Path, *, details: bool
) -> Path:
    """Write perturbed copies of a split.

    Args:
        copier: makes the copies.
        data: the corpus.
        split: which part of it.
        output: a new folder. Each copy is a pair of text files, `<split>.<copy>.<language>`.
        details: also write `<split>.<copy>.jsonl`, one record for each sentence.

    Returns:
        The folder.
    """
    if os.path.lexists(output):
        raise RunError(
            f"{output} already exists. Choose another `--output`, or remove it yourself."
        )
    partial = output.with_name(f"{output.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    with locked(partial, "writing"), ExitStack() as stack:
        for left_over in partial.iterdir():
            left_over.unlink()
        languages = (data.source_language, data.target_language)
        files = {
            (copy, kind): stack.enter_context(text_file(partial / f"{split}.{copy}.{kind}"))
            for copy in range(1, copier.settings.copies + 1)
            for kind in (*languages, *(("jsonl",) if details else ()))
        }
        boundaries = copier.settings.rendering.boundaries
        begun: set[int] = set()
        for document in copier.copies(stream_split(data, split)):
            _write_text(document, files, languages, boundaries, is_first=document.copy not in begun)
            begun.add(document.copy)
            if details:
                files[document.copy, "jsonl"].writelines(_records(document))
    os.replace(partial, output)
    return output


def _write_text(
    document: PerturbedDocument,
    files: dict[tuple[int, str], TextIO],
    languages: tuple[str, str],
    boundaries: Boundaries,
    *,
    is_first: bool,
) -> None:
    text = document.text()
    for language, side in zip(languages, (text.source, text.target), strict=True):
        lines = document_lines(side.sentences, boundaries, is_first=is_first)
        files[document.copy, language].writelines(lines)


def _records(document: PerturbedDocument) -> Iterator[str]:
    sides = zip(document.source, document.target, strict=True)
    for number, (source, target) in enumerate(sides, start=1):
        record: dict[str, Any] = {
            "document": document.original.name,
            "sentence": number,
            "source": source.to_mapping(),
            "target": target.to_mapping(),
        }
        yield json.dumps(record, ensure_ascii=False) + "\n"
