"""`iada translate`: translate documents with a trained model."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from iada.cli.parsing import find_positional, parse_dataclass, require_files
from iada.config.data import Boundaries, DataConfig, FileFormat
from iada.config.decode import DecodeConfig
from iada.config.run import load_run_config
from iada.errors import ConfigError, RunError

if TYPE_CHECKING:
    from iada.decoding.files import Pieces
    from iada.decoding.shards import Processes

STREAM = Path("-")
"""Standard input or output."""
SENTENCES_PER_PROCESS = 50
"""Sentences that are worth the seconds in which a further process starts."""

EXAMPLES = (
    "iada translate runs/mine --input letter.txt --output brief.txt",
    "iada translate runs/mine --input book.txt --split sentences",
    "iada translate runs/mine --input manual.xlf",
    "iada translate runs/seed-1 --ensemble runs/seed-2 runs/seed-3 --input letter.txt",
    "cat letter.txt | iada translate runs/mine --input - > brief.txt",
)


@dataclass(frozen=True, kw_only=True)
class TranslateCommand:
    """Translate documents into a file of the same format: as many lines, the same boundaries.

    A translation that was interrupted is resumed by the same command.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder of the model."""
    ensemble: tuple[Path, ...] = ()
    """Folders of further runs with the same vocabulary: the probabilities of all models are
    averaged at every step."""
    input: Path | None = None
    """Text (one sentence per line), TSV, CSV, JSON lines, TMX, XLIFF, PO or Parquet; `-` is
    standard input. By default the test split of the run's corpus."""
    output: Path | None = None
    """File to write; `-` is standard output. By default `translations/<input name>` in the run
    folder."""
    overwrite: bool = False
    """Replace an output that exists; without it only an interrupted translation is resumed."""
    overwrite_targets: bool = False
    """Translate also what the input marks as done: approved, final or reviewed segments of XLIFF,
    and messages of PO that are translated and not fuzzy. By default they stand, and are context."""
    format: Literal["auto", FileFormat] = "auto"
    """Format of the input; `auto` goes by its name."""
    references: Path | None = None
    """Reference translations of a text input, line for line, for `--target_context gold`."""
    boundaries: Boundaries | None = None
    """What separates the documents of a text input; by default as in the run's corpus, or nothing
    with `--split sentences`, where blank lines separate paragraphs."""
    split: Literal["none", "sentences"] | None = None
    """`sentences` for prose: each line is a paragraph, which is split into sentences and joined
    again; by default as `data.split` of the run says."""
    decode: Annotated[DecodeConfig, tyro.conf.arg(name="")] = field(default_factory=DecodeConfig)
    """Search settings; on the command line those of the run are the defaults."""
    dry_run: bool = False
    """Say what would be translated and stop."""


def parse(arguments: Sequence[str]) -> TranslateCommand:
    """Parse the arguments of `iada translate`; the `decode` keys of the run are the defaults."""
    program = "iada translate"
    folder = find_positional(arguments, TranslateCommand)
    if folder is None or not (folder / "config.yaml").is_file():
        return parse_dataclass(TranslateCommand, arguments, program=program, examples=EXAMPLES)
    default = TranslateCommand(run=folder, decode=load_run_config(folder / "config.yaml").decode)
    return parse_dataclass(
        TranslateCommand, arguments, program=program, examples=EXAMPLES, default=default
    )


def run(command: TranslateCommand) -> Path:
    """Translate, and return the file that was written."""
    from iada.runs.folder import RunFolder

    _check(command)
    folder = RunFolder(command.run)
    data = folder.config().data
    # What is wrong with paths is said before anything that takes long to import.
    for path in (command.run, *command.ensemble):
        RunFolder(path).best_model()
    terms = command.decode.terms
    named = [path for path in (command.input, command.references, terms) if path != STREAM]
    require_files(*(named if command.input else data.paths("test")))
    if command.input is not None and command.input != STREAM:
        # So is what is wrong with the beginning of the input.
        next(_pieces(command, data, command.input)(), None)

    from iada.decoding.files import count_lines, translations_name
    from iada.decoding.shards import helped, join_processes, useful_processes

    path = command.input or data.paths("test")[0]
    name = path.name.removesuffix(".gz") if command.input else translations_name(data)
    output = command.output or (STREAM if path == STREAM else folder.translations / name)
    if command.dry_run:
        print(_plan(command, data, path, output))
        return output
    if not command.overwrite:
        _refuse_existing(output, path)
    processes = join_processes()
    if processes.count > 1 and STREAM in (path, output):
        raise ConfigError("Several processes need files as `--input` and `--output`, not `-`.")
    with _files(path, output) as (source, target):
        given = replace(command, input=command.input and source)
        count = 1
        asked = command.decode.processes
        if useful_processes(asked, sys.maxsize, each=1) > 1:
            # Read once more than translation does: only where it may pay.
            lines, documents = count_lines(_pieces(given, data, source))
            count = useful_processes(asked, lines, each=SENTENCES_PER_PROCESS)
            count = max(1, min(count, documents))
        with helped(count, translate, given, target) as helpers:
            translate(given, target, processes if helpers.count == 1 else helpers)
    if processes.is_main and output != STREAM:
        print(output)
    return output


def translate(command: TranslateCommand, target: Path, processes: "Processes") -> None:
    """Translate the input of a command, or a share of it."""
    from iada.decoding.files import translate_file, translate_split
    from iada.decoding.translator import DocumentTranslator
    from iada.runs.folder import RunFolder

    data = RunFolder(command.run).config().data
    translator = DocumentTranslator.load(
        command.run, decode=command.decode, processes=processes, ensemble=command.ensemble
    )
    if command.input is None:
        translate_split(translator, data, "test", target)
        return
    translate_file(
        translator,
        command.input,
        target,
        boundaries=_boundaries(command, data),
        split=_is_split(command, data),
        form=None if command.format == "auto" else command.format,
        languages=(data.source_language, data.target_language),
        references=command.references,
        max_line_bytes=data.max_line_bytes,
        columns=data.columns,
        overwrite_targets=command.overwrite_targets,
    )


def _check(command: TranslateCommand) -> None:
    """Refuse flags that do not go together."""
    if command.input is None:
        given = {
            "references": command.references,
            "boundaries": command.boundaries,
            "format": None if command.format == "auto" else command.format,
            "split": command.split,
        }
        for flag, value in given.items():
            if value is not None:
                raise ConfigError(f"`--{flag}` describes a given input. Give `--input` too.")
    is_streamed = command.output == STREAM or (command.output is None and command.input == STREAM)
    if command.split == "sentences" and (command.decode.n_best > 1 or command.references):
        raise ConfigError("`--split sentences` goes with neither `--n_best` nor `--references`.")
    if is_streamed and _is_binary(command):
        raise ConfigError("Parquet is no text. Give files as `--input` and `--output`, not `-`.")
    if is_streamed and command.decode.n_best > 1:
        raise ConfigError("`--n_best` writes a second file. Give a file as `--output`, not `-`.")


def _is_binary(command: TranslateCommand) -> bool:
    name = "" if command.input is None else command.input.name
    return command.format == "parquet" or name.endswith((".parquet", ".arrow"))


def _is_split(command: TranslateCommand, data: DataConfig) -> bool:
    return (command.split or data.split) == "sentences"


def _boundaries(command: TranslateCommand, data: DataConfig) -> Boundaries:
    if command.boundaries is not None:
        return command.boundaries
    # Between paragraphs there are blank lines, and the context reaches across them.
    return "none" if _is_split(command, data) else data.boundaries


def _plan(command: TranslateCommand, data: DataConfig, path: Path, output: Path) -> str:
    """Say what would be translated."""
    from iada.decoding.files import count_lines

    if path == STREAM:
        return f"standard input -> {output}"
    lines, documents = count_lines(_pieces(command, data, path))
    return f"{path}: {lines} lines, {documents} documents -> {output}"


def _pieces(command: TranslateCommand, data: DataConfig, path: Path) -> "Pieces":
    """Return the pieces of the input."""
    from iada.data.formats.file_format import CorpusFiles
    from iada.data.formats.readers import detect_format, file_pieces

    if command.input is None:
        from iada.decoding.files import split_pieces

        return split_pieces(data, "test", with_references=False)
    languages = data.source_language, data.target_language
    files = CorpusFiles(
        path,
        None,
        languages,
        _boundaries(command, data),
        max_line_bytes=data.max_line_bytes,
        columns=data.columns,
    )
    form = detect_format(path.name) if command.format == "auto" else command.format
    return file_pieces(form, files)


def _refuse_existing(output: Path, source: Path) -> None:
    """Keep a finished translation; one that was interrupted has a journal and is resumed."""
    from iada.decoding.files import journal_file

    # The input itself is never overwritten, whatever the flags.
    is_input = output.resolve() == source.resolve()
    if output.is_file() and not is_input and not journal_file(output).exists():
        raise RunError(
            f"{output} already exists. Give `--overwrite` to replace it, or choose another "
            "`--output`."
        )


@contextmanager
def _files(source: Path, output: Path) -> Iterator[tuple[Path, Path]]:
    """Yield files in place of standard input and output, which are copied to and from them."""
    with ExitStack() as stack:
        paths = [source, output]
        if STREAM in paths:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="iada-")))
            if source == STREAM:
                paths[0] = folder / "input.txt"
                with paths[0].open("wb") as file:
                    shutil.copyfileobj(sys.stdin.buffer, file)
            if output == STREAM:
                paths[1] = folder / "output.txt"
        yield paths[0], paths[1]
        if output == STREAM:
            with paths[1].open(encoding="utf-8", newline="\n") as lines:
                sys.stdout.writelines(lines)
