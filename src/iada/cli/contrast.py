"""`iada contrast`: does the model prefer the reference to its contrastive variants?

The accuracies go to stdout as JSON; a readable table goes to stderr.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from iada.cli.parsing import parse_dataclass, require_files

EXAMPLES = ("iada contrast runs/mine contrapro.json",)

if TYPE_CHECKING:
    from iada.decoding.shards import Processes

ITEMS_PER_PROCESS = 1000
"""Items whose scoring is worth the seconds in which a further process starts."""


@dataclass(frozen=True, kw_only=True)
class ContrastCommand:
    """Contrastive accuracy of a run on a set in ContraPro's form."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder of the model."""
    set: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SET")]
    """ContraPro's JSON, or JSON lines with the context inside."""
    documents: Path | None = None
    """Folder of the context documents; by default the one beside SET with the same name."""
    generative: bool = False
    """Also translate the items, and look for the right words in the output."""
    dry_run: bool = False
    """Read the set, say what would be scored, and stop."""


def parse(arguments: Sequence[str]) -> ContrastCommand:
    """Parse the arguments of `iada contrast`."""
    return parse_dataclass(ContrastCommand, arguments, program="iada contrast", examples=EXAMPLES)


def run(command: ContrastCommand) -> Path | None:
    """Print the accuracies as JSON and merge them into the run's `scores.json`."""
    from iada.runs.folder import RunFolder

    # What is wrong with paths is said before anything that takes long to import.
    RunFolder(command.run).config()
    RunFolder(command.run).best_model()
    require_files(command.set)

    from iada.cli.translate import SENTENCES_PER_PROCESS
    from iada.data.formats.contrapro import read_contrastive
    from iada.decoding.shards import helped, join_processes, useful_processes

    if command.dry_run:
        items = read_contrastive(command.set, command.documents)
        candidates = sum(1 + len(item.variants) for item in items)
        model = RunFolder(command.run).best_model()
        print(f"{model}: score {candidates} candidates of {len(items)} items")
        return None
    processes = join_processes()
    count = 1
    asked = RunFolder(command.run).config().decode.processes
    if useful_processes(asked, sys.maxsize, each=1) > 1:
        items = read_contrastive(command.set, command.documents)
        each = SENTENCES_PER_PROCESS if command.generative else ITEMS_PER_PROCESS
        count = useful_processes(asked, len(items), each=each)
    with helped(count, contrast, command) as helpers:
        return contrast(command, processes if helpers.count == 1 else helpers)


def contrast(command: ContrastCommand, processes: "Processes") -> Path:
    """Score the set together with other processes; the main one prints the accuracies."""
    from iada.cli.evaluate import accuracy_table
    from iada.decoding.translator import DocumentTranslator
    from iada.evaluation.score_runs import contrast_run, generate_run
    from iada.report.tables import to_text

    translator = DocumentTranslator.load(command.run, processes=processes)
    result, path = contrast_run(command.run, command.set, command.documents, translator)
    columns: dict[str, Any] = {"Preferred %": result}
    shown = result
    if command.generative:
        written, _ = generate_run(command.run, command.set, command.documents, translator)
        columns |= {"Written %": written["expected"], "Only it written %": written["exclusive"]}
        shown = {"contrastive": result, "generative": written}
    if not processes.is_main:
        return path
    print(to_text(accuracy_table(columns)), file=sys.stderr)
    print(json.dumps(shown, indent=2))
    return path
