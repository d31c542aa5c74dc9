"""`iada translate`: translate documents with a trained model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from iada.cli.parsing import parse_dataclass
from iada.config.data import Boundaries
from iada.errors import ConfigError

if TYPE_CHECKING:
    from iada.config.decode import DecodeConfig


@dataclass(frozen=True, kw_only=True)
class TranslateCommand:
    """Translate documents into a file of the same form: as many lines out as in, boundaries kept.

    A translation that was interrupted is continued by the same command.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder of the model."""
    input: Path | None = None
    """Text (one sentence per line), TSV or JSON lines; by default the test split of the run's
    corpus."""
    output: Path | None = None
    """File to write; by default `translations/<input name>` in the run folder."""
    references: Path | None = None
    """Reference translations of a text input, line for line, for `--target_context gold`."""
    boundaries: Boundaries | None = None
    """What parts the documents of a text input; by default as in the run's corpus."""
    beam: int | None = None
    """Beam size; by default the run's, as all that follows."""
    engine: Literal["auto", "prefill", "ctranslate2", "huggingface"] | None = None
    """What searches; `auto` takes the fastest that applies."""
    precision: Literal["float32", "int8"] | None = None
    """Numbers of the linear layers; int8 is faster on CPUs."""
    unit: Literal["sentence", "window"] | None = None
    """Translate sentence by sentence, or whole windows of which the last sentence is kept."""
    target_context: Literal["own", "none", "gold"] | None = None
    """Target context: the model's own translations, nothing, or the reference."""
    source_context: Literal["gold", "random", "none"] | None = None
    """Source context: what stands there, sentences of other documents, or nothing."""
    n_best: int | None = None
    """Number of translations of each sentence, in `<output>.nbest.jsonl` with their scores."""
    dry_run: bool = False
    """Say what would be translated and stop."""


_DECODE_FLAGS = (
    "beam",
    "engine",
    "precision",
    "unit",
    "target_context",
    "source_context",
    "n_best",
)


def parse(arguments: Sequence[str]) -> TranslateCommand:
    """Parse the arguments of `iada translate`."""
    return parse_dataclass(TranslateCommand, arguments, program="iada translate")


def run(command: TranslateCommand) -> Path:
    """Translate, and return the file that was written."""
    from iada.data.formats.file_format import CorpusFiles
    from iada.data.formats.readers import detect_format, file_pieces
    from iada.decoding.files import (
        count,
        split_pieces,
        translate_file,
        translate_split,
        translations_name,
    )
    from iada.decoding.translator import DocumentTranslator
    from iada.runs.folder import RunFolder

    folder = RunFolder(command.run)
    config = folder.config()
    data = config.data
    decode = _decode(command, config.decode)
    if command.input is None:
        for flag, value in (("references", command.references), ("boundaries", command.boundaries)):
            if value is not None:
                raise ConfigError(f"`--{flag}` describes a given input. Give `--input` too.")
    path = command.input or data.paths("test")[0]
    name = path.name.removesuffix(".gz") if command.input else translations_name(data)
    output = command.output or folder.translations / name
    boundaries = command.boundaries or data.boundaries
    languages = data.source_language, data.target_language
    if command.dry_run:
        folder.trained_model()
        if command.input is None:
            pieces = split_pieces(data, "test", with_references=False)
        else:
            limit = data.max_line_bytes
            files = CorpusFiles(path, None, languages, boundaries, max_line_bytes=limit)
            pieces = file_pieces(detect_format(path.name), files)
        lines, documents = count(pieces)
        print(f"{path}: {lines} lines, {documents} documents -> {output}")
        return output
    translator = DocumentTranslator.load(command.run, decode=decode)
    if command.input is None:
        translate_split(translator, data, "test", output)
    else:
        translate_file(
            translator,
            path,
            output,
            boundaries=boundaries,
            languages=languages,
            references=command.references,
            max_line_bytes=data.max_line_bytes,
        )
    print(output)
    return output


def _decode(command: TranslateCommand, decode: "DecodeConfig") -> "DecodeConfig":
    """Return the search settings of the run with the given flags applied."""
    given = {name: getattr(command, name) for name in _DECODE_FLAGS}
    return replace(decode, **{name: value for name, value in given.items() if value is not None})
