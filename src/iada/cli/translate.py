"""`iada translate`: translate documents with a trained model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from iada.cli.parsing import parse_dataclass
from iada.config.data import Boundaries


@dataclass(frozen=True, kw_only=True)
class TranslateCommand:
    """Translate documents, line for line: as many lines out as in, boundaries kept."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder of the model."""
    input: Path | None = None
    """Text file, one sentence per line; by default the test split of the run's corpus."""
    output: Path | None = None
    """File to write; by default `translations/<input name>` in the run folder."""
    boundaries: Boundaries | None = None
    """What parts the documents of the input; by default as in the run's corpus."""
    beam: int | None = None
    """Beam size; by default the run's."""
    dry_run: bool = False
    """Say what would be translated and stop."""


def parse(arguments: Sequence[str]) -> TranslateCommand:
    """Parse the arguments of `iada translate`."""
    return parse_dataclass(TranslateCommand, arguments, program="iada translate")


def run(command: TranslateCommand) -> Path:
    """Translate, and return the file that was written."""
    from iada.data.readers import read_lines, split_documents
    from iada.decoding.files import translate_file
    from iada.decoding.translator import DocumentTranslator
    from iada.training.folder import RunFolder

    folder = RunFolder(command.run)
    config = folder.config()
    source, target = config.data.paths("test")
    given = command.input is not None
    path = command.input or source
    boundaries = command.boundaries or config.data.boundaries
    output = command.output or folder.translations / (path.name if given else target.name)
    if command.dry_run:
        folder.trained_model()
        lines = read_lines(path)
        documents = split_documents(lines, boundaries)
        print(f"{path}: {len(lines)} lines, {len(documents)} documents -> {output}")
        return output
    decode = config.decode
    if command.beam is not None:
        decode = replace(decode, beam=command.beam)
    translator = DocumentTranslator.load(command.run, decode=decode)
    translate_file(translator, path, output, boundaries=boundaries)
    print(output)
    return output
