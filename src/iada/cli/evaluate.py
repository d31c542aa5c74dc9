"""`iada evaluate`: score translations.

The scores go to stdout as JSON, with every digit and signature; readable tables go to stderr.
"""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from iada.cli.parsing import parse_dataclass, require_files
from iada.config.data import Boundaries, DataConfig, Split
from iada.config.evaluate import EvaluateConfig
from iada.config.run import load_run_config
from iada.errors import ConfigError, DataError
from iada.evaluation.comet import with_own_comet
from iada.evaluation.metrics import METRICS
from iada.report.tables import MISSING, Cell, Column, Table, number_cell, significance_table

if TYPE_CHECKING:
    from iada.decoding.shards import Processes
    from iada.evaluation.metrics import SegmentScorer

Scores = Mapping[str, Any]


def systems_table(systems: Mapping[str, Scores]) -> Table:
    """Show the scores of each system, one row each, and the signatures below."""
    shown = [key for key in METRICS if any(key in scores for scores in systems.values())]
    rows = []
    for name, scores in systems.items():
        length, output = scores["length"], scores["output"]
        rows.append(
            (
                Cell(name, name),
                *(_score(scores.get(key, {}).get("score")) for key in shown),
                number_cell(length["ratio"], 3),
                Cell(output["empty"], str(output["empty"])),
            )
        )
    names = (*(METRICS[key].label for key in shown), "Length ratio", "Empty")
    signatures: dict[str, list[str]] = {}
    for key in shown:
        found = next(scores[key]["signature"] for scores in systems.values() if key in scores)
        signatures.setdefault(found, []).append(METRICS[key].label)
    notes = tuple(f"{', '.join(keys)}: {found}" for found, keys in signatures.items())
    return Table((Column("System", numeric=False), *map(Column, names)), tuple(rows), notes)


def position_table(scores: Scores) -> Table:
    """Show the scores of one system by the position of the sentence in its document."""
    groups: Mapping[str, Mapping[str, float]] = scores["by_position"]
    keys = [key for key in METRICS if any(key in row for row in groups.values())]
    rows = tuple(
        (
            Cell(name, name),
            Cell(row["sentences"], str(row["sentences"])),
            *(_score(row.get(key)) for key in keys),
        )
        for name, row in groups.items()
    )
    names = ("Sentences", *(METRICS[key].label for key in keys))
    return Table((Column("Position", numeric=False), *map(Column, names)), rows)


def accuracy_table(results: Mapping[str, Scores]) -> Table:
    """Show tallies of a contrastive set: one column for each way of counting.

    Args:
        results: by name of the column, each in the form of `contrastive_accuracy`.
    """
    first = next(iter(results.values()))
    parts = [("all", ()), ("needs context", ("context",))]
    for group, label in (
        ("by_class", "pronoun"),
        ("by_distance", "distance"),
        ("by_intrasegmental", "antecedent in sentence"),
    ):
        parts += [(f"{label} {key}", (group, key)) for key in first[group]]
    rows = []
    for label, path in parts:
        tallies = [_part(result, path) for result in results.values()]
        total = tallies[0]["total"]
        rows.append((Cell(label, label), Cell(total, str(total)), *map(_accuracy, tallies)))
    columns = (Column("Items", numeric=False), Column("Number"), *map(Column, results))
    return Table(columns, tuple(rows))


def _part(result: Scores, path: tuple[str, ...]) -> Scores:
    for key in path:
        result = result[key]
    return result


def _accuracy(tally: Scores) -> Cell:
    share = tally["correct"] / tally["total"] if tally["total"] else None
    return Cell(share, MISSING if share is None else f"{100 * share:.1f}")


def _score(value: float | None) -> Cell:
    return number_cell(value, 2)


EXAMPLES = (
    "iada evaluate runs/mine",
    "iada evaluate runs/mine --baseline runs/plain",
    "iada evaluate runs/mine --data.folder moved/corpus",
    "iada evaluate --hypothesis a.de b.de --reference test.de --source test.en",
)


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand:
    """Score a run on its test split, or any hypothesis files against a reference file."""

    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = None
    """Run folder; what it has not yet translated is translated first."""
    hypothesis: tuple[Path, ...] = ()
    """Translations to score, one file or several, from any system; needs `--reference`."""
    reference: Path | None = None
    """Reference translations of the same lines, or at least of the same documents."""
    source: Path | None = None
    """Source text of the reference's lines; COMET needs it."""
    baseline: Path | None = None
    """Translations to compare the others with; for a run, also another run folder, which
    translates the test split if it has not done so."""
    boundaries: Boundaries = "blank_line"
    """What separates the documents of all files."""
    target_language: str | None = None
    """Code of the target language, which decides BLEU's tokeniser; a run knows its own."""
    cxmi: bool = False
    """Also measure how much a run's model uses its context (CXMI, and P-CXMI of each token)."""
    cxmi_split: Split = "test"
    """With `--cxmi`, split to measure it on. Tokens of `train` go to `cxmi.train.jsonl` in the run
    folder, which `train.rich.scores` reads."""
    output: Path | None = None
    """File to write the scores of hypothesis files to, as JSON."""
    pearmut: Path | None = None
    """File to write a campaign of Pearmut to, in which people judge the translations."""
    metrics: Annotated[EvaluateConfig, tyro.conf.arg(name="")] = field(
        default_factory=lambda: with_own_comet(EvaluateConfig())
    )
    """Metrics and test."""
    data: DataConfig = field(default_factory=DataConfig)
    """Corpus of a run; by default its own. If that has moved: `--data.folder FOLDER`."""
    dry_run: bool = False
    """Say what would be scored and stop."""

    def __post_init__(self) -> None:
        given = [bool(self.hypothesis), self.reference is not None]
        if (self.run is not None) == any(given):
            raise ConfigError("Give a run folder, or both `--hypothesis` and `--reference`.")
        if any(given) and not all(given):
            raise ConfigError("`--hypothesis` and `--reference` go together.")
        if self.run is not None and (self.source, self.output, self.target_language) != (None,) * 3:
            raise ConfigError(
                "A run knows its source and language and keeps its scores: `--source`, `--output` "
                "and `--target_language` go with `--hypothesis`."
            )
        if self.run is None and self.data != DataConfig():
            raise ConfigError("`--data` is the corpus of a run. Give a run folder.")
        has_source = self.source is not None or (
            self.reference is not None and ".jsonl" in self.reference.suffixes
        )
        if self.run is None and self.pearmut is not None and not has_source:
            raise ConfigError(
                "`--pearmut` needs the source text, for people to read. Give `--source`."
            )
        if self.run is None and self.cxmi:
            raise ConfigError("`--cxmi` needs a model. Give a run folder.")
        if self.cxmi_split != "test" and not self.cxmi:
            raise ConfigError("`--cxmi_split` goes with `--cxmi`.")
        if self.run is None and self.metrics.comet_python is not None and not has_source:
            raise ConfigError("COMET needs the source text. Give `--source`.")


def parse(arguments: Sequence[str]) -> EvaluateCommand:
    """Parse the arguments of `iada evaluate`; a run's own `evaluate` keys are its defaults.

    But for the interpreter and the model of COMET: nothing that a run folder names is executed.
    """
    program = "iada evaluate"
    command = parse_dataclass(EvaluateCommand, arguments, program=program, examples=EXAMPLES)
    if command.run is None or not (command.run / "config.yaml").is_file():
        return command
    config = load_run_config(command.run / "config.yaml")
    saved = config.evaluate
    if command.metrics.comet_python is None:
        saved = with_own_comet(saved)
    else:
        own = command.metrics
        saved = replace(saved, comet_python=own.comet_python, comet_model=own.comet_model)
    default = EvaluateCommand(run=command.run, metrics=saved, data=config.data)
    return parse_dataclass(
        EvaluateCommand, arguments, program=program, examples=EXAMPLES, default=default
    )


def run(command: EvaluateCommand) -> Path | None:
    """Print the scores as JSON; for a run, also merge them into its `scores.json`."""
    _check_paths(command)
    if command.dry_run:
        print(_plan(command))
        return None
    if command.run is not None and not _share_work(command):
        return None
    with _comet(command.metrics) as scorer:
        path = _score_run(command, scorer) if command.run else _score_files(command, scorer)
    if command.pearmut is not None:
        _write_campaign(command, command.pearmut)
    return path


def _write_campaign(command: EvaluateCommand, path: Path) -> None:
    """Write what people need to judge the translations side by side."""
    from iada.decoding.files import translations_name
    from iada.evaluation.people import campaign
    from iada.evaluation.realignment import realign_documents
    from iada.evaluation.score_files import read_files, read_translations
    from iada.runs.folder import RunFolder
    from iada.storage import write_json

    others = [] if command.baseline is None else [command.baseline]
    if command.run is not None:
        data = _corpus(command) or RunFolder(command.run).config().data
        name = translations_name(data)
        paths = {
            one.name: RunFolder(one).translations / name if one.is_dir() else one
            for one in (command.run, *others)
        }
        texts = read_translations(paths, data, "test")
    else:
        assert command.reference is not None
        given = list(dict.fromkeys((*others, *command.hypothesis)))
        texts = read_files(given, command.reference, command.source, boundaries=command.boundaries)
    assert texts.sources is not None
    systems = {
        name: realign_documents(documents, texts.references)[0]
        for name, documents in texts.systems.items()
    }
    write_json(path, campaign(systems, texts.sources, texts.references, name=path.stem))
    print(f"{path}: start with `pearmut add {path.name}` and `pearmut run`.", file=sys.stderr)


def _check_paths(command: EvaluateCommand) -> None:
    """Say what is wrong with paths before anything that takes long to import."""
    from iada.runs.folder import RunFolder

    require_files(*command.hypothesis, command.reference, command.source)
    folders = [] if command.run is None else [command.run]
    if command.baseline is not None and command.baseline.is_dir() and folders:
        folders.append(command.baseline)
    else:
        require_files(command.baseline)
    for folder in folders:
        RunFolder(folder).config()
        RunFolder(folder).best_model()
    if command.run is not None:
        for path in (_corpus(command) or RunFolder(command.run).config().data).paths("test"):
            if not path.is_file():
                raise DataError(
                    f"{path} does not exist. If the corpus has moved, say where it is: "
                    "`--data.folder FOLDER`."
                )


def _corpus(command: EvaluateCommand) -> DataConfig | None:
    """Return the corpus that was given; None for the run's own."""
    return None if command.data == DataConfig() else command.data


def _plan(command: EvaluateCommand) -> str:
    if command.run is None:
        return f"score {', '.join(map(str, command.hypothesis))} against {command.reference}"
    from iada.runs.folder import RunFolder

    folder = RunFolder(command.run)
    _, reference = (_corpus(command) or folder.config().data).paths("test")
    return f"{folder.best_model()}: translate and score {reference}"


@contextlib.contextmanager
def _comet(config: EvaluateConfig) -> "Iterator[SegmentScorer | None]":
    """Start COMET if it is configured."""
    if config.comet_python is None:
        yield None
        return
    from iada.evaluation.comet import CometProcess

    with CometProcess(config) as scorer:
        yield scorer


def _share_work(command: EvaluateCommand) -> bool:
    """Do what several processes share; return whether this one computes the scores."""
    from iada.cli.translate import SENTENCES_PER_PROCESS
    from iada.decoding.files import count_lines, split_pieces
    from iada.decoding.shards import helped, join_processes, useful_processes
    from iada.evaluation.score_runs import is_translated
    from iada.runs.folder import RunFolder

    assert command.run is not None
    processes = join_processes()
    count = 1
    if processes.count == 1 and not command.cxmi and is_translated(command.run, _corpus(command)):
        return True
    config = RunFolder(command.run).config()
    asked = config.decode.processes
    if useful_processes(asked, sys.maxsize, each=1) > 1:
        data = _corpus(command) or config.data
        lines, documents = count_lines(split_pieces(data, "test", with_references=False))
        count = useful_processes(asked, lines, each=SENTENCES_PER_PROCESS)
        count = max(1, min(count, documents))
    with helped(count, translate_and_measure, command) as helpers:
        processes = processes if helpers.count == 1 else helpers
        translate_and_measure(command, processes)
    return processes.is_main


def translate_and_measure(command: EvaluateCommand, processes: "Processes") -> None:
    """Translate the test split of a run and measure its use of context, or a share of both."""
    from iada.decoding.translator import DocumentTranslator
    from iada.evaluation.score_runs import measure_context_use, translate_test

    run, split = command.run, command.cxmi_split
    assert run is not None
    translator = DocumentTranslator.load(run, processes=processes)
    if command.cxmi:
        measure_context_use(run, translator, _corpus(command), split=split)
    translate_test(run, translator, _corpus(command))


def _score_run(command: EvaluateCommand, scorer: "SegmentScorer | None") -> Path:
    from iada.evaluation.score_runs import score_run

    assert command.run is not None
    scores, path = score_run(
        command.run,
        baseline=command.baseline,
        data=_corpus(command),
        config=command.metrics,
        scorer=scorer,
    )
    _show(command.run, command.baseline, scores)
    print(json.dumps(scores, indent=2))
    return path


def _score_files(command: EvaluateCommand, scorer: "SegmentScorer | None") -> Path | None:
    from iada.evaluation.score_files import compare_files, score_files

    assert command.reference is not None
    if len(command.hypothesis) == 1:
        scores = score_files(
            command.hypothesis[0],
            command.reference,
            command.source,
            command.baseline,
            boundaries=command.boundaries,
            config=command.metrics,
            language=command.target_language,
            scorer=scorer,
        )
    else:
        scores = compare_files(
            command.hypothesis,
            command.reference,
            command.source,
            baseline=command.baseline,
            boundaries=command.boundaries,
            config=command.metrics,
            language=command.target_language,
            scorer=scorer,
        )
    _show(command.hypothesis[0], command.baseline, scores)
    text = json.dumps(scores, indent=2)
    print(text)
    if command.output is not None:
        from iada.storage import write_text

        write_text(command.output, text + "\n")
    return command.output


def _show(system: Path, baseline: Path | None, scores: Mapping[str, Any]) -> None:
    """Print tables to stderr, where they do not mix with the JSON."""
    from iada.report.tables import to_text

    # The names of the folders or files; in the JSON they are `hypothesis` and `baseline`.
    paths = [system] if baseline is None else [system, baseline]
    names = [path.resolve().name for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    called = dict(zip(("hypothesis", "baseline"), names, strict=False))
    systems = scores.get("systems")
    if systems is None:
        systems = {names[0]: scores}
        if "baseline" in scores:
            systems[called.get("baseline", "baseline")] = scores["baseline"]
    tables = [systems_table(systems)]
    if scores.get("significance"):
        tables.append(significance_table(_renamed(scores["significance"], called)))
    if "by_position" in scores:
        tables.append(position_table(scores))
    print("\n".join(map(to_text, tables)), file=sys.stderr)


def _renamed(significance: Mapping[str, Scores], names: Mapping[str, str]) -> dict[str, Scores]:
    """Return the comparisons of each metric under the names of the systems."""
    return {
        key: {
            **found,
            "systems": {names.get(name, name): one for name, one in found["systems"].items()},
        }
        for key, found in significance.items()
    }
