"""`iada demo`: the whole system on the embedded corpus, from text to report."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from iada.cli.parsing import parse_dataclass
from iada.config.base import require
from iada.config.method import Method
from iada.config.run import mini_run
from iada.data.mini import MiniConfig, write_mini_corpus

if TYPE_CHECKING:
    from iada.experiments.scheduler import Job
    from iada.report.run_sections import Example
    from iada.report.runs import RunSummary

EXAMPLES = (
    "iada demo",
    "iada demo --methods doc2doc iada_replace_gnorm --jobs 2",
)


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Train, translate, score and compare systems on documents whose translation needs context."""

    output: Path = Path("runs/demo")
    """Folder of corpus, runs and report. Finished runs in it are not repeated."""
    methods: tuple[Method, ...] = ("doc2doc", "word_replace", "iada_replace_gnorm")
    """Systems to compare."""
    seeds: tuple[int, ...] = (1,)
    """Each system is trained once per seed."""
    with_sentence_baseline: bool = False
    """Also train a system that sees no context; its pronouns are guesses."""
    updates: int | None = None
    """Updates of each run, if not the usual number."""
    corpus: MiniConfig = field(default_factory=MiniConfig)
    """The embedded corpus. Its `size` also decides how each system is trained; version 1 with
    `--corpus.version 1 --corpus.size plentiful`."""
    jobs: int = 0
    """Runs at a time, with one thread each; 0 takes one per core."""
    dry_run: bool = False
    """Print what would be done and stop."""

    def __post_init__(self) -> None:
        require(len(self.methods) > 0, "methods", "at least one method", self.methods)
        require(len(self.seeds) > 0, "seeds", "at least one seed", self.seeds)
        require(self.jobs >= 0, "jobs", "0 or more", self.jobs)
        require(self.updates is None or self.updates > 0, "updates", "above 0", self.updates)


def parse(arguments: Sequence[str]) -> DemoConfig:
    """Parse the arguments of `iada demo`."""
    return parse_dataclass(DemoConfig, arguments, program="iada demo", examples=EXAMPLES)


def run(config: DemoConfig) -> Path:
    """Run the demonstration, print its table, and return the report."""
    from iada.experiments.scheduler import run_jobs

    corpus = config.output / "corpus"
    jobs = plan(config, corpus)
    workers = config.jobs or os.cpu_count() or 1
    print(f"{len(jobs)} runs, {min(workers, len(jobs))} at a time, in {config.output}:")
    for job in jobs:
        print(f"  {job.config.output.name}: {job.config.train.max_updates} updates")
    if config.dry_run:
        return config.output

    started = time.perf_counter()
    write_mini_corpus(corpus, config.corpus)
    folders = run_jobs(jobs, workers=workers)
    path = _report(config, folders)
    print(f"\n{time.perf_counter() - started:.0f} s. Report: {path}")
    return path


def plan(config: DemoConfig, corpus: Path) -> "list[Job]":
    """List the runs, the costliest first, so that no core waits long for the last one."""
    from iada.experiments.scheduler import Job

    contrastive_set = corpus / "contrastive.json"
    jobs = []
    for seed in config.seeds:
        systems: list[tuple[Method, int, str]] = [(m, 3, m) for m in config.methods]
        if config.with_sentence_baseline:
            systems.append(("doc2doc", 0, "sentence"))
        for method, context, name in systems:
            output = config.output / f"{name}-{seed}"
            run_config = mini_run(
                method,
                corpus=corpus,
                output=output,
                seed=seed,
                version=config.corpus.version,
                size=config.corpus.size,
                context=context,
                updates=config.updates,
            )
            jobs.append(Job(run_config, contrastive_set))
    return sorted(jobs, key=lambda job: job.cost, reverse=True)


def _report(config: DemoConfig, folders: Sequence[Path]) -> Path:
    from iada.analysis.importance_map import importance_map
    from iada.config.method import AugmentConfig
    from iada.decoding.translator import DocumentTranslator
    from iada.report.run_sections import write_report
    from iada.report.runs import load_run
    from iada.report.tables import results_table, to_markdown, to_text
    from iada.runs.corpus import read_split
    from iada.runs.folder import RunFolder

    loaded = [load_run(folder) for folder in folders]
    runs = sorted(loaded, key=lambda run: _place(run, config.methods))
    table = results_table(runs)
    print("\n" + to_text(table))
    (config.output / "results.md").write_text(to_markdown(table) + "\n", encoding="utf-8")
    shown = runs[-1]
    translator = DocumentTranslator.load(shown.folder)
    test = read_split(RunFolder(shown.folder).config(), "test")
    views = importance_map(
        translator.model,
        translator.subwords,
        test[:1],
        augment=AugmentConfig(),
        windows=translator.windows,
        frame=translator.frame,
    )
    return write_report(
        config.output / "report.html",
        runs,
        title="Importance-aware augmentation on the mini corpus",
        heat_map=views[3:7],
        examples=_examples(runs),
        notes=[
            f"Heat map: GNorm of {shown.name}, seed {shown.seed}, on a test document.",
            "The corpus is generated; scores on it say nothing about scores on natural text.",
        ],
    )


def _place(run: "RunSummary", methods: Sequence[str]) -> tuple[int, int]:
    """Put sentence-level runs first, then the methods as they were asked for."""
    sentence_level = run.config["windows"]["context"] == 0
    return -1 if sentence_level else methods.index(run.method), run.seed


def _examples(runs: "Sequence[RunSummary]", count: int = 5) -> "list[Example]":
    """Pick test sentences with a pronoun that the systems translate differently."""
    from iada.data.formats.lines import read_lines
    from iada.report.run_sections import Example
    from iada.runs.folder import RunFolder

    firsts = {run.name: run for run in reversed(runs)}
    data = RunFolder(runs[0].folder).config().data
    source, reference = (read_lines(path) for path in data.paths("test"))
    outputs = {
        name: read_lines(firsts[name].folder / "translations" / data.paths("test")[1].name)
        for name in dict.fromkeys(run.name for run in runs)
    }
    examples = []
    for number, sentence in enumerate(source):
        told_apart = len({lines[number] for lines in outputs.values()}) > 1
        if "it" in sentence.lower().replace(".", " ").split() and told_apart:
            start = max(0, number - 3)
            context = source[start:number]
            if "" in context:
                context = context[context.index("") + 1 :]
            hypotheses = {name: lines[number] for name, lines in outputs.items()}
            examples.append(Example(context, sentence, reference[number], hypotheses))
    return examples[:count]
