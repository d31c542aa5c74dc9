"""Back- and forward-translation: a corpus doubled by a model's translations of one of its sides.

The new corpus holds the real documents first and then as many synthetic ones, document by document
and line by line: (synthetic source, true target) or (true source, synthetic target). No document
mixes both kinds of sentences on one side, so no window does, except where an output cannot be used:
there the true sentence is kept. The work grows in `<output>.partial`; a run that was killed is
resumed by the same call and ends in the same bytes.
"""

import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from iada.config.base import to_mapping
from iada.config.data import DataConfig, Split, SubwordConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.file_format import Piece
from iada.data.formats.readers import (
    describe_written,
    file_format,
    stream_split,
    write_split,
)
from iada.data.formats.text import is_separator
from iada.data.prepared.checks import differ_in_length
from iada.data.tokens.pretokenize import split_tag
from iada.decoding.files import details_file, translate_pieces
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, DataError, RunError
from iada.runs.folder import RunFolder
from iada.storage import describe_files, locked, put_in_place, sha256, write_json, write_text

SynthesisKind = Literal["back_translate", "forward_translate"]
DETAILS = "synthesis.json"
"""In the folder of the new corpus: how it was made, and which lines kept the true sentence."""
_SPLITS: tuple[Split, ...] = ("dev", "test")

logger = logging.getLogger(__name__)


def synthesize(
    run: Path,
    data: DataConfig,
    output: Path,
    *,
    kind: SynthesisKind,
    tag: str | None = None,
    decode: DecodeConfig | None = None,
) -> Path:
    """Write a corpus of twice the training documents; validation and test stay as they are.

    Names, format and boundaries of the files stay the same where possible, so that training needs
    only another `data.folder`; see `synthetic_data`.

    Args:
        run: a finished run. Back-translation needs one from the target to the source language.
        data: the corpus to double.
        output: folder of the new corpus; one that holds just this corpus is kept.
        kind: translate the training targets, or the training sources.
        tag: begins every source sentence of the synthetic documents. Training must declare it in
            `subwords.tags`.
        decode: search settings; by default the run's own.

    Returns:
        The folder.

    Raises:
        ConfigError: the languages of run and corpus do not match, or a setting is wrong.
        RunError: the folder holds something else.
    """
    settings = RunFolder(run).config()
    _check_request(settings.data, data, run, kind, tag)
    decode = (decode or settings.decode).only_best()
    corpus = _DoubledCorpus(data, describe_written(data, output, several=True), kind, tag)
    plan = corpus.plan(RunFolder(run).trained_model(), decode)
    if os.path.lexists(output):
        return _keep_finished(output, plan)
    partial = output.with_name(f"{output.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    with locked(partial, "writing"):
        _resume_or_clear(partial, plan)
        translation = partial / "translation.txt"
        if not details_file(translation).is_file():
            translator = DocumentTranslator.load(run, decode=decode)
            translate_pieces(translator, corpus.inputs, corpus.pieces, translation)
        folder = partial / "corpus"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        corpus.write(folder, translation, plan)
        put_in_place(folder, output)
    shutil.rmtree(partial)
    return output


def synthetic_data(data: DataConfig, output: Path) -> DataConfig:
    """Return the description of the corpus that `synthesize` makes of `data` in `output`."""
    return describe_written(data, output, several=True)


@dataclass
class _DoubledCorpus:
    """A corpus, and its doubled copy that is being written."""

    data: DataConfig
    written: DataConfig
    kind: SynthesisKind
    tag: str | None
    sentences: int = 0
    documents: int = 0
    unusable: dict[str, list[list[int]]] = field(
        default_factory=lambda: {"empty": [], "length": []}
    )
    """Document and sentence, from 1, of outputs that were replaced by the true sentence."""

    @property
    def inputs(self) -> list[Path]:
        """The training files."""
        return sorted(set(self.data.paths("train")))

    @property
    def held_out(self) -> tuple[Split, ...]:
        """Splits beside the training split; only the test split may be missing."""
        return tuple(
            split
            for split in _SPLITS
            if split == "dev" or all(path.is_file() for path in self.data.paths(split))
        )

    def plan(self, model: Path, decode: DecodeConfig) -> dict[str, Any]:
        """Return everything that the result depends on."""
        splits: tuple[Split, ...] = ("train", *self.held_out)
        for path in (path for split in splits for path in self.data.paths(split)):
            if not path.is_file():
                raise DataError(f"{path} does not exist. Check the folder and file name.")
        files = describe_files(model, without=())
        return {
            "kind": self.kind,
            "tag": self.tag,
            "data": _without_folder(self.data),
            "written": _without_folder(self.written),
            "inputs": {
                split: [sha256(path) for path in self.data.paths(split)] for split in splits
            },
            "model": {name: record["sha256"] for name, record in files.items()},
            "decode": to_mapping(decode),
        }

    def pieces(self) -> Iterator[Piece]:
        """Yield the documents to translate, without lines between them: a line is a sentence."""
        for document in stream_split(self.data, "train"):
            self._check_untagged(document)
            sides = (document.source, document.target)
            given, true = sides[::-1] if self.kind == "back_translate" else sides
            yield Piece(list, given, true)

    def _check_untagged(self, document: ParallelDocument) -> None:
        for number, text in enumerate(document.source.sentences, start=1):
            if self.tag is not None and split_tag(text, (self.tag,))[0] is not None:
                raise DataError(
                    f"{document.name}: sentence {number} begins with {self.tag} already, so the "
                    "tag would not tell synthetic sentences from real ones. Choose another."
                )

    def write(self, folder: Path, translation: Path, plan: dict[str, Any]) -> None:
        """Write all files of the new corpus."""
        written = replace(self.written, folder=folder)
        real = stream_split(self.data, "train")
        write_split(written, "train", chain(real, self._synthetic(translation)))
        for split in self.held_out:
            if file_format(written, split) != file_format(self.data, split) or (
                written.boundaries != self.data.boundaries
            ):
                write_split(written, split, stream_split(self.data, split))
                continue
            for old, new in zip(self.data.paths(split), written.paths(split), strict=True):
                new.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(old, new)
        counts = {reason: len(places) for reason, places in self.unusable.items()}
        details = {
            "plan": plan,
            "documents": {"real": self.documents, "synthetic": self.documents},
            "sentences": {"real": self.sentences, "synthetic": self.sentences},
            "unusable": counts,
            "true_sentence_at": self.unusable,
        }
        write_json(folder / DETAILS, details)
        if any(counts.values()):
            logger.warning(
                "Of %d outputs %d were empty and %d far too long or too short; the true sentence "
                "replaces them. %s lists them.",
                self.sentences,
                counts["empty"],
                counts["length"],
                DETAILS,
            )

    def _synthetic(self, translation: Path) -> Iterator[ParallelDocument]:
        with translation.open(encoding="utf-8", newline="\n") as lines:
            for document in stream_split(self.data, "train"):
                self.documents += 1
                self.sentences += len(document)
                outputs = [next(lines).removesuffix("\n") for _ in range(len(document))]
                yield self._pair(document, outputs)

    def _pair(self, document: ParallelDocument, outputs: list[str]) -> ParallelDocument:
        """Pair the side that was translated with its translation."""
        back = self.kind == "back_translate"
        sides = (document.source, document.target)
        given, true = sides[::-1] if back else sides
        rows = zip(outputs, given.sentences, true.sentences, strict=True)
        used = tuple(self._check_output(i, *row) for i, row in enumerate(rows, start=1))
        synthetic = Document(true.name, used)
        source = self._add_tag(synthetic if back else document.source)
        return ParallelDocument(source, document.target if back else synthetic)

    def _check_output(self, number: int, output: str, given: str, true: str) -> str:
        """Return the output, or the true sentence if it cannot be used."""
        if not given.strip():
            return ""
        if file_format(self.written, "train") == "tsv":
            # A tab would begin another cell.
            output = output.replace("\t", " ")
        is_empty = not output.strip() or is_separator(output, self.written.boundaries)
        if not is_empty and not differ_in_length(output, given):
            return output
        self.unusable["empty" if is_empty else "length"].append([self.documents, number])
        return true

    def _add_tag(self, source: Document) -> Document:
        """Put the tag before every sentence that is not empty."""
        if self.tag is None:
            return source
        return Document(
            source.name, tuple(f"{self.tag} {text}" if text else "" for text in source.sentences)
        )


def _without_folder(data: DataConfig) -> dict[str, Any]:
    """Describe a corpus independently of its place."""
    mapping = to_mapping(data)
    return {key: value for key, value in mapping.items() if key not in ("folder", "prepared")}


def _check_request(
    trained: DataConfig, data: DataConfig, run: Path, kind: SynthesisKind, tag: str | None
) -> None:
    """Refuse what cannot be done before any work is done."""
    needed = (data.source_language, data.target_language)
    if kind == "back_translate":
        needed = needed[::-1]
    found = (trained.source_language, trained.target_language)
    if found != needed:
        raise ConfigError(
            f"{run} translates {'-'.join(found)}, but `{kind}` of this corpus needs a run that "
            f"translates {'-'.join(needed)}. Train one with `--data.source_language {needed[0]} "
            f"--data.target_language {needed[1]}`."
        )
    if data.subset < 1:
        raise ConfigError(
            f"`data.subset` is {data.subset}, but a corpus is doubled as a whole. Set it to 1."
        )
    if tag is not None:
        # Raises for a name that no vocabulary can hold.
        SubwordConfig(tags=(tag,))


def _keep_finished(output: Path, plan: dict[str, Any]) -> Path:
    """Keep the corpus that exists already, if it is the requested one."""
    try:
        found = json.loads((output / DETAILS).read_text(encoding="utf-8"))["plan"]
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    if found != plan:
        raise RunError(
            f"{output} already exists and does not hold this corpus. Choose another folder as "
            "`--output`, or remove it yourself."
        )
    logger.info("%s is finished already: nothing to do.", output)
    return output


def _resume_or_clear(partial: Path, plan: dict[str, Any]) -> None:
    """Keep the work of an earlier call with the same plan; remove any other."""
    file = partial / "plan.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if found == plan:
        return
    for path in partial.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    write_text(file, json.dumps(plan) + "\n")
