"""`iada export`: convert a trained model for CTranslate2 and check it against the original."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from iada.cli.parsing import parse_dataclass, require_files

EXAMPLES = ("iada export runs/mine --quantization int8",)


@dataclass(frozen=True, kw_only=True)
class ExportCommand:
    """Convert a model for CTranslate2 and compare the translations of held-out text.

    The greedy translations of windows of the dev split, with reference context, are compared. In
    float32 at least 99% must be equal.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder of the model."""
    output: Path | None = None
    """Folder to write; by default `exported/<quantization>` in the run folder, where `iada
    translate` finds it."""
    quantization: Literal["float32", "int8"] = "float32"
    """How weights are stored and computed with."""
    windows: int = 200
    """Most windows of the dev split to compare."""
    allow: bool = False
    """Keep a model that disagrees, with a warning."""
    dry_run: bool = False
    """Say what would be exported and stop."""


def parse(arguments: Sequence[str]) -> ExportCommand:
    """Parse the arguments of `iada export`."""
    return parse_dataclass(ExportCommand, arguments, program="iada export", examples=EXAMPLES)


def run(command: ExportCommand) -> Path:
    """Export, compare, and return the folder that was written."""
    from iada.runs.folder import RunFolder

    folder = RunFolder(command.run)
    config = folder.config()
    # What is wrong with paths is said before anything that takes long to import.
    folder.trained_model()
    require_files(*config.data.paths("dev"))

    from iada.decoding.export import check_architecture, export_and_check
    from iada.decoding.loading import default_export
    from iada.decoding.translator import DocumentTranslator

    check_architecture(config.model.architecture)
    output = command.output or default_export(folder, command.quantization)
    if command.dry_run:
        print(f"{folder.trained_model()} -> {output} ({command.quantization})")
        return output
    decode = replace(config.decode, engine="huggingface", precision="float32")
    translator = DocumentTranslator.load(command.run, decode=decode)
    found = export_and_check(
        translator,
        config.data,
        output,
        quantization=command.quantization,
        windows=command.windows,
        allow=command.allow,
    )
    print(f"{output}: {found.equal} of {found.total} greedy translations are equal")
    return output
