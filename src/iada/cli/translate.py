"""`iada translate`: translate documents with a trained model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from iada.cli.parsing import find_positional, parse_dataclass
from iada.config.data import Boundaries
from iada.config.decode import DecodeConfig
from iada.config.run import load_run_config
from iada.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class TranslateCommand:
    """Translate documents into a file of the same format: as many lines, the same boundaries.

    A translation that was interrupted is resumed by the same command.
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
    """What separates the documents of a text input; by default as in the run's corpus."""
    decode: Annotated[DecodeConfig, tyro.conf.arg(name="")] = field(default_factory=DecodeConfig)
    """Search settings; on the command line those of the run are the defaults."""
    dry_run: bool = False
    """Say what would be translated and stop."""


def parse(arguments: Sequence[str]) -> TranslateCommand:
    """Parse the arguments of `iada translate`; the `decode` keys of the run are the defaults."""
    program = "iada translate"
    folder = find_positional(arguments, TranslateCommand)
    if folder is None or not (folder / "config.yaml").is_file():
        return parse_dataclass(TranslateCommand, arguments, program=program)
    default = TranslateCommand(run=folder, decode=load_run_config(folder / "config.yaml").decode)
    return parse_dataclass(TranslateCommand, arguments, program=program, default=default)


def run(command: TranslateCommand) -> Path:
    """Translate, and return the file that was written."""
    from iada.data.formats.file_format import CorpusFiles
    from iada.data.formats.readers import detect_format, file_pieces
    from iada.decoding.files import (
        count_lines,
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
        folder.best_model()
        if command.input is None:
            pieces = split_pieces(data, "test", with_references=False)
        else:
            files = CorpusFiles(
                path,
                None,
                languages,
                boundaries,
                max_line_bytes=data.max_line_bytes,
                columns=data.columns,
            )
            pieces = file_pieces(detect_format(path.name), files)
        lines, documents = count_lines(pieces)
        print(f"{path}: {lines} lines, {documents} documents -> {output}")
        return output
    translator = DocumentTranslator.load(command.run, decode=command.decode)
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
            columns=data.columns,
        )
    print(output)
    return output
