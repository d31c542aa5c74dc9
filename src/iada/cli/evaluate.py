"""`iada evaluate`: score translations.

The scores go to stdout as JSON; tables for the eye go to stderr.
"""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from iada.cli.parsing import parse_dataclass
from iada.config.data import Boundaries
from iada.config.evaluate import EvaluateConfig
from iada.config.files import load_run_config
from iada.errors import ConfigError

if TYPE_CHECKING:
    from iada.evaluation.segments import SegmentScorer


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
    """Translations to compare the others with; for a run, also another run folder."""
    boundaries: Boundaries = "blank_line"
    """What parts the documents of all files."""
    target_language: str | None = None
    """Code of the target language, which decides BLEU's tokeniser; a run knows its own."""
    cxmi: bool = False
    """Also measure how much a run's model uses its context (CXMI, and P-CXMI of each token)."""
    output: Path | None = None
    """File to write the scores of hypothesis files to, as JSON."""
    metrics: Annotated[EvaluateConfig, tyro.conf.arg(name="")] = field(
        default_factory=EvaluateConfig
    )
    """Metrics and test."""
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
        if self.run is None and self.cxmi:
            raise ConfigError("`--cxmi` needs a model. Give a run folder.")
        if self.run is None and self.metrics.comet_python is not None and self.source is None:
            raise ConfigError("COMET needs the source text. Give `--source`.")


def parse(arguments: Sequence[str]) -> EvaluateCommand:
    """Parse the arguments of `iada evaluate`; a run's own `evaluate` keys are its defaults."""
    program = "iada evaluate"
    command = parse_dataclass(EvaluateCommand, arguments, program=program)
    if command.run is None or not (command.run / "config.yaml").is_file():
        return command
    saved = load_run_config(command.run / "config.yaml").evaluate
    default = EvaluateCommand(run=command.run, metrics=saved)
    return parse_dataclass(EvaluateCommand, arguments, program=program, default=default)


def run(command: EvaluateCommand) -> Path | None:
    """Print the scores as JSON; for a run, also merge them into its `scores.json`."""
    if command.dry_run:
        print(_plan(command))
        return None
    with _comet(command.metrics) as scorer:
        return _score_run(command, scorer) if command.run else _score_files(command, scorer)


def _plan(command: EvaluateCommand) -> str:
    if command.run is None:
        return f"score {', '.join(map(str, command.hypothesis))} against {command.reference}"
    from iada.training.folder import RunFolder

    folder = RunFolder(command.run)
    _, reference = folder.config().data.paths("test")
    return f"{folder.trained_model()}: translate and score {reference}"


@contextlib.contextmanager
def _comet(config: EvaluateConfig) -> "Iterator[SegmentScorer | None]":
    """Start COMET if it is configured."""
    if config.comet_python is None:
        yield None
        return
    from iada.evaluation.comet import CometProcess

    with CometProcess(config) as scorer:
        yield scorer


def _score_run(command: EvaluateCommand, scorer: "SegmentScorer | None") -> Path:
    from iada.evaluation.runs import measure_context_use, score_run

    assert command.run is not None
    if command.cxmi:
        measure_context_use(command.run)
    scores, path = score_run(
        command.run, baseline=command.baseline, config=command.metrics, scorer=scorer
    )
    _show(command.run.name, scores)
    print(json.dumps(scores, indent=2))
    return path


def _score_files(command: EvaluateCommand, scorer: "SegmentScorer | None") -> Path | None:
    from iada.evaluation.files import compare_files, score_files

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
    _show(command.hypothesis[0].name, scores)
    text = json.dumps(scores, indent=2)
    print(text)
    if command.output is not None:
        from iada.atomic import write_text

        write_text(command.output, text + "\n")
    return command.output


def _show(name: str, scores: Mapping[str, Any]) -> None:
    """Print tables to stderr, where they do not mix with the JSON."""
    from iada.cli.score_tables import position_table, significance_table, systems_table
    from iada.report.tables import to_text

    systems = scores.get("systems")
    if systems is None:
        systems = {name: scores} | (
            {"baseline": scores["baseline"]} if "baseline" in scores else {}
        )
    tables = [systems_table(systems)]
    if scores.get("significance"):
        tables.append(significance_table(scores["significance"]))
    if "by_position" in scores:
        tables.append(position_table(scores))
    print("\n".join(map(to_text, tables)), file=sys.stderr)
