"""Everything that reads what others wrote, one target each: an input is read, or refused in a line.

A target takes the bytes of one or several small files and reads them as the commands do. Whatever
it raises besides an `IadaError` is a finding. The suite replays `regressions`, `benchmarks/fuzz.py`
throws broken files at all targets, and `guided.py` searches for inputs that reach new code.
"""

import contextlib
import importlib
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from broken_files import CONTRASTIVE, CORPORA, Corpus, Files

from iada.cli.main import COMMANDS
from iada.config.base import to_mapping, write_yaml
from iada.config.data import DataConfig
from iada.config.evaluate import EvaluateConfig
from iada.config.run import RunConfig, load_run_config
from iada.data.formats.contrapro import read_contrastive
from iada.data.formats.findings import Findings
from iada.data.formats.readers import iterate_documents
from iada.data.prepared.prepared_corpus import PreparedCorpus
from iada.data.tokens.pretrained_subwords import load_subwords
from iada.decoding.engines.interface import Hypothesis, Request
from iada.decoding.journal import open_journal
from iada.errors import IadaError
from iada.evaluation.metrics import METRICS
from iada.evaluation.score_files import score_files
from iada.experiments.results import read_results
from iada.report.runs import load_run
from iada.runs.folder import RunFolder, write_manifest
from iada.storage import lock_file

REGRESSIONS = Path(__file__).parent / "regressions"
NEXT_FILE = b"\n=== next file ===\n"
"""Between the files of one input."""


@dataclass(frozen=True)
class Target:
    """Something that reads files."""

    files: Callable[[], Files]
    """What it reads when nothing is wrong."""
    read: Callable[[Path], object]
    """Reads the files of a folder."""


def pack(files: Files) -> bytes:
    """Join files to one input."""
    return NEXT_FILE.join(files.values())


def unpack(names: Sequence[str], data: bytes) -> Files:
    """Split an input; files that it does not have are empty."""
    parts = data.split(NEXT_FILE, len(names) - 1)
    return dict(zip(names, [*parts, *[b""] * (len(names) - len(parts))], strict=True))


def try_target(name: str, files: Files, folder: Path) -> IadaError | None:
    """Read files in a folder; return the refusal, if it is one."""
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        try:
            TARGETS[name].read(folder)
        except IadaError as error:
            # The message can be printed.
            str(error).encode()
            return error
    return None


def corpus_target(corpus: Corpus) -> Target:
    def read(folder: Path) -> None:
        data = DataConfig(folder=folder, train=corpus.pattern, boundaries=corpus.boundaries)  # type: ignore[arg-type]
        findings = Findings(io.StringIO())
        for document in iterate_documents(data, "train", findings):
            assert len(document)
        findings.table().encode()

    return Target(lambda: corpus.files, read)


TMX = b"""<?xml version="1.0"?>
<tmx version="1.4"><header/><body>
<tu><prop type="document">d1</prop><tuv xml:lang="en"><seg>a &amp; b</seg></tuv>
<tuv xml:lang="de"><seg>A <bpt i="1">x</bpt></seg></tuv></tu>
<tu><prop type="document">d2</prop><tuv xml:lang="de"><seg>B</seg></tuv>
<tuv xml:lang="en"><seg>b</seg></tuv></tu></body></tmx>
"""
XLIFF = b"""<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a.html" source-language="en-GB" target-language="de"><body>
<trans-unit id="1"><source>a <g id="1">b</g><x id="2"/></source><target>A</target></trans-unit>
<group><trans-unit id="2"><source>b</source></trans-unit></group>
</body></file></xliff>
"""


PO = b"""msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"

#: a.page:3
msgctxt "title"
msgid "Files\\nand folders"
msgstr "Dateien\\nund Ordner"

#: b.page:4
#, fuzzy
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"
"""


def one_file(name: str, content: bytes) -> Target:
    return corpus_target(Corpus({name: content}, name, lambda raw: (0, 0)))


def table_files(name: str) -> Files:
    """Two sentence pairs as Hugging Face datasets store them."""
    import pyarrow
    from pyarrow import parquet

    rows = [{"document": "d", "en": text, "de": text.upper()} for text in ("a", "b")]
    table, sink = pyarrow.Table.from_pylist(rows), pyarrow.BufferOutputStream()
    if name.endswith(".parquet"):
        parquet.write_table(table, sink)
    else:
        with pyarrow.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
    return {name: sink.getvalue().to_pybytes()}


def table_target(name: str) -> Target:
    target = corpus_target(Corpus({}, name, lambda raw: (0, 0)))
    return Target(lambda: table_files(name), target.read)


def read_all(*readers: Callable[[], object]) -> None:
    """Let all readers try, also after a refusal; the first refusal is raised at the end."""
    refusals = []
    for read in readers:
        try:
            read()
        except IadaError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]


def read_sets(folder: Path) -> None:
    paths = (folder / name for name in ("set.json", "set.jsonl"))
    read_all(*(partial(read_contrastive, path) for path in paths))


def recipe_files() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.yaml"
        write_yaml(path, to_mapping(RunConfig()))
        return {"recipe.yaml": path.read_bytes()}


def run_files() -> Files:
    """A run folder as far as it is text: the weights are two bytes."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = RunFolder(Path(temporary))
        folder.begin(RunConfig(), {"versions": {"torch": "2"}, "data": {"train": ["0"]}})
        lines = [{"update": 1, "loss": 3.5, "seconds": 1}, {"update": 2, "dev_nll": 3.0}]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        folder.metrics_file.write_text(text, encoding="utf-8")
        tally = {"correct": 1, "total": 2}
        scores = {
            "s_bleu": {"score": 20.5, "signature": "s"},
            "contrastive": {**tally, "context": tally, "by_class": {"er": tally}, "set": "c"},
            "translation": {"engine": "prefill", "beam": 5, "documents": 6, "sentences": 78},
        }
        folder.scores_file.write_text(json.dumps(scores), encoding="utf-8")
        checkpoint = folder.checkpoints / "checkpoint-2"
        checkpoint.mkdir(parents=True)
        (checkpoint / "model.safetensors").write_bytes(b"00")
        state = {"global_step": 2, "best_global_step": 2, "stateful_callbacks": {}}
        (checkpoint / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
        write_manifest(checkpoint)
        return _files(folder.path)


def read_run(folder: Path) -> None:
    run = RunFolder(folder)
    read_all(
        run.environment,
        run.config,
        partial(run.last_checkpoint, say=False),
        run.best_model,
        partial(show_run, folder),
    )


def show_run(folder: Path) -> None:
    summary = load_run(folder)
    for key in METRICS:
        summary.value(key)
    summary.accuracy("by_class", "er")
    summary.series("dev_nll")


def results_files() -> Files:
    row = {
        "key": "doc2doc",
        "label": "Doc2Doc",
        "settings": {"method": "doc2doc"},
        "runs": ["../runs/doc2doc/seed-1"],
        "metrics": {"s_bleu": [20.0]},
        "series": None,
        "value": None,
        "breakdown": {"class": {"er": [0.5]}},
        "pos": {},
        "significance": {},
    }
    other = row | {
        "key": "iada",
        "label": "IADA",
        "significance": {"s_bleu": {"p": [0.5], "test": "ar", "against": "doc2doc"}},
    }
    content = {
        "format": 1,
        "experiment": "main",
        "title": "Main",
        "data": "mini",
        "base": {"parameters": 1, "updates": 2},
        "seeds": [1],
        "baseline": "doc2doc",
        "axis": None,
        "rows": [row, other],
    }
    return {"results.json": json.dumps(content, indent=1).encode()}


class Parrot:
    """An engine that always finds the same."""

    name = "parrot"

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        return [[Hypothesis((7, 2), -0.5)] for _ in requests]


def replay(folder: Path) -> None:
    with open_journal(Parrot(), folder / "out.journal", {"beam": 1}) as journal:
        for length in (1, 2, 3):
            found = journal.search([Request((7,) * length, (1,), 5)] * length)
            assert found == [[Hypothesis((7, 2), -0.5)]] * length


def journal_files() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        replay(Path(folder))
        return _files(Path(folder))


def read_hypotheses(folder: Path) -> None:
    config = EvaluateConfig(resamples=2)
    names = ("hypothesis", "reference", "source", "baseline")
    score_files(*(folder / name for name in names), boundaries="blank_line", config=config)


def parse_flags(folder: Path) -> None:
    lines = (folder / "flags").read_bytes().decode("utf-8", "surrogateescape").split("\n")
    command, *arguments = lines
    if command in COMMANDS:
        with contextlib.suppress(SystemExit):
            importlib.import_module(COMMANDS[command][0]).parse(arguments)


def flag_files(line: str) -> Callable[[], Files]:
    return lambda: {"flags": line.replace(" ", "\n").encode()}


def hold_lock(folder: Path) -> None:
    with lock_file(folder / ".lock", "working"):
        pass


def prepared_files() -> Files:
    from iada.config.data import SubwordConfig
    from iada.data.prepared.prepare import Preparation, prepare

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for split in ("train", "dev", "test"):
            for code, word in (("en", "a dog"), ("de", "ein Hund")):
                text = f"{word} .\n{word} !\n\n{word} ?\n"
                (root / f"{split}.{code}").write_text(text, encoding="utf-8")
        data = DataConfig(folder=root)
        prepare(Preparation(data, SubwordConfig(vocabulary_size=320), root / "store", workers=1))
        return _files(root / "store")


def open_prepared(folder: Path) -> None:
    corpus = PreparedCorpus.open(folder)
    subwords = corpus.subwords()
    for split in corpus.splits:
        corpus.store(split, subwords)
    corpus.summary()


def encoding_files() -> Files:
    return {
        name.removeprefix("tokenizer/"): content
        for name, content in prepared_files().items()
        if name.startswith("tokenizer/")
    }


def _files(folder: Path) -> Files:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


TARGETS: dict[str, Target] = {
    **{name: corpus_target(corpus) for name, corpus in CORPORA.items()},
    "pairs": one_file("train.pairs", b"a\nA\nb\nB\n\nc\nC\n"),
    "tmx": one_file("train.tmx", TMX),
    "xliff": one_file("train.xlf", XLIFF),
    "po": one_file("train.po", PO),
    "parquet": table_target("train.parquet"),
    "arrow": table_target("train.arrow"),
    "contrastive": Target(lambda: CONTRASTIVE, read_sets),
    "recipe": Target(recipe_files, lambda folder: load_run_config(folder / "recipe.yaml")),
    "run": Target(run_files, read_run),
    "results": Target(results_files, read_results),
    "journal": Target(journal_files, replay),
    "prepared": Target(prepared_files, open_prepared),
    "encoding": Target(encoding_files, load_subwords),
    "hypotheses": Target(
        lambda: {
            "hypothesis": b"Ein Hund.\nEr ist da.\n\nJa.\n",
            "reference": b"Ein Hund.\nSie ist da.\n\nNein.\n",
            "source": b"A dog.\nShe is there.\n\nNo.\n",
            "baseline": b"Hund.\nEs ist da.\n\nNein.\n",
        },
        read_hypotheses,
    ),
    "lock": Target(
        lambda: {".lock": b'{"pid": 1, "host": "elsewhere", "since": 1700000000.0}\n'}, hold_lock
    ),
    "flags_train": Target(
        flag_files("train --method iada_replace_gnorm --train.max_updates 5 --augment.alpha 0.5"),
        parse_flags,
    ),
    "flags_experiment": Target(
        flag_files("experiment main --seeds 1 2 --shares 0.5 --cluster.hours 2 --dry_run"),
        parse_flags,
    ),
    "flags_translate": Target(
        flag_files("translate run --input a --output b --beam 4 --n_best 2"), parse_flags
    ),
    "flags_evaluate": Target(
        flag_files("evaluate --hypothesis a b --reference c --boundaries none --resamples 10"),
        parse_flags,
    ),
    "flags_prepare": Target(
        flag_files("prepare --data.folder a --subwords.vocabulary_size 400 --output b"),
        parse_flags,
    ),
}
