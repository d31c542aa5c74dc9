"""Time and memory of `iada prepare`, beside subword-nmt and sentencepiece on the same text.

    python benchmarks/prepare.py [--corpus ../shared/data/europarl] [--rounds 3]

All three learn a joint byte-pair encoding of 32,000 pieces (subword-nmt: merges) from the training
text of both languages and encode it. Ours also checks the corpus, counts every problem and writes
a hashed store; it does the validation and test splits too. The others run in an environment of
their own, made on first use. Rounds are interleaved, so that noise hits every side alike; numbers
are medians. Then ours runs on one, two and four copies of the corpus. Memory is the largest sum of
resident sizes over the processes of a run, sampled; shared libraries count once per process.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import tyro

LANGUAGES = ("en", "de")
PEERS = ("sentencepiece==0.2.2", "subword-nmt==0.3.8")

SENTENCEPIECE = """
import sys
import sentencepiece
text, model, output = sys.argv[1:]
sentencepiece.SentencePieceTrainer.train(
    input=text, model_prefix=model, vocab_size=32000, model_type="bpe", character_coverage=1.0,
    byte_fallback=True, num_threads=2, minloglevel=2,
)
processor = sentencepiece.SentencePieceProcessor(model_file=model + ".model")
with open(text, encoding="utf-8", newline="\\n") as lines, open(output, "wb") as file:
    import array, itertools
    while chunk := [line.rstrip("\\n") for line in itertools.islice(lines, 8192)]:
        for ids in processor.encode(chunk, num_threads=2):
            file.write(array.array("H", ids).tobytes())
"""


@dataclass(frozen=True)
class Options:
    """What to measure."""

    corpus: Path = Path("../shared/data/europarl")
    """Folder with train, dev and test files, documents parted by blank lines."""
    rounds: int = 3
    """Interleaved rounds of all three tools."""
    environment: Path = Path(".cache/segmenters")
    """Virtual environment of the other tools."""
    output: Path = Path("benchmarks/results/prepare.json")
    """Where the numbers go."""


@dataclass(frozen=True)
class Measurement:
    """One run."""

    seconds: float
    peak_megabytes: float
    encoding_peak_megabytes: float | None = None
    """Peak after the vocabulary was learned; ours only."""


def main(options: Options) -> None:
    if not (options.corpus / "train.en").is_file():
        print(f"{options.corpus} holds no train.en: nothing to measure.")
        return
    python = peer_environment(options.environment)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        text = joined_text(options.corpus, work)
        results: dict[str, list[Measurement]] = {"iada": [], "sentencepiece": [], "subword-nmt": []}
        for number in range(options.rounds):
            results["iada"].append(run_ours(options.corpus, work))
            results["sentencepiece"].append(run_sentencepiece(python, text, work))
            results["subword-nmt"].append(run_subword_nmt(python, text, work))
            print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
        growth = {
            copies: run_ours(repeated(options.corpus, work, copies), work) for copies in (1, 2, 4)
        }
    pairs = sum(1 for line in open_text(options.corpus / "train.en") if line.strip())
    report = {
        "corpus": options.corpus.name,
        "sentence_pairs": pairs,
        "rounds": options.rounds,
        "tools": {
            name: {
                "seconds": statistics.median(run.seconds for run in runs),
                "all_seconds": [round(run.seconds, 2) for run in runs],
                "pairs_per_second": pairs / statistics.median(run.seconds for run in runs),
                "peak_megabytes": statistics.median(run.peak_megabytes for run in runs),
            }
            for name, runs in results.items()
        },
        "copies": {
            str(copies): {
                "seconds": run.seconds,
                "peak_megabytes": run.peak_megabytes,
                "encoding_peak_megabytes": run.encoding_peak_megabytes,
            }
            for copies, run in growth.items()
        },
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(table(report))


def open_text(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")


def joined_text(corpus: Path, work: Path) -> Path:
    """Write the training sentences of both languages into one file, as the other tools want it."""
    path = work / "all.txt"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for language in LANGUAGES:
            lines = open_text(corpus / f"train.{language}")
            file.writelines(f"{line}\n" for line in lines if line.strip())
    return path


def repeated(corpus: Path, work: Path, copies: int) -> Path:
    """Write a corpus whose training split is there several times over."""
    folder = work / f"times{copies}"
    folder.mkdir()
    for split in ("dev", "test"):
        for language in LANGUAGES:
            shutil.copy(corpus / f"{split}.{language}", folder)
    for language in LANGUAGES:
        text = (corpus / f"train.{language}").read_bytes().strip(b"\n") + b"\n"
        with (folder / f"train.{language}").open("wb") as file:
            for copy in range(copies):
                file.write(b"\n" * (copy > 0) + text)
    return folder


def peer_environment(folder: Path) -> Path:
    """Return the Python of the other tools' environment, made if it is not there."""
    python = folder / "bin" / "python"
    if not (folder / "done").is_file():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PEERS], check=True)
        (folder / "done").touch()
    return python


def run_ours(corpus: Path, work: Path) -> Measurement:
    prepared = work / "prepared"
    shutil.rmtree(prepared, ignore_errors=True)
    partial = work / "prepared.partial"
    command = [sys.executable, "-m", "iada", "prepare", "--data.folder", str(corpus)]
    command += ["--data.prepared", str(prepared)]
    return measure([command], learned=partial / "tokenizer")


def run_sentencepiece(python: Path, text: Path, work: Path) -> Measurement:
    arguments = [str(text), str(work / "pieces"), str(work / "pieces.ids")]
    return measure([[str(python), "-c", SENTENCEPIECE, *arguments]])


def run_subword_nmt(python: Path, text: Path, work: Path) -> Measurement:
    tool = str(python.with_name("subword-nmt"))
    codes = str(work / "codes")
    learn = [tool, "learn-bpe", "-s", "32000", "-i", str(text), "-o", codes]
    apply = [tool, "apply-bpe", "-c", codes, "--num-workers", "2"]
    return measure([learn, [*apply, "-i", str(text), "-o", str(work / "text.bpe")]])


def measure(commands: Sequence[Sequence[str]], learned: Path | None = None) -> Measurement:
    """Run commands one after the other; `learned` exists once the vocabulary is there."""
    peaks = [0.0, 0.0]
    stop = threading.Event()
    this = psutil.Process()

    def watch() -> None:
        while not stop.wait(0.1):
            size = 0
            for process in this.children(recursive=True):
                try:
                    size += process.memory_info().rss
                except psutil.Error:
                    continue
            peaks[0] = max(peaks[0], size / 1e6)
            if learned is not None and learned.exists():
                peaks[1] = max(peaks[1], size / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    try:
        for command in commands:
            subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - started
    finally:
        stop.set()
        watcher.join()
    return Measurement(seconds, peaks[0], peaks[1] if learned is not None else None)


def table(report: dict[str, Any]) -> str:
    lines = [f"{'tool':<16}{'seconds':>10}{'pairs/s':>10}{'peak MB':>10}"]
    for name, row in report["tools"].items():
        lines.append(
            f"{name:<16}{row['seconds']:>10.1f}{row['pairs_per_second']:>10,.0f}"
            f"{row['peak_megabytes']:>10,.0f}"
        )
    lines += ["", f"{'copies':<16}{'seconds':>10}{'peak MB':>10}{'peak MB while encoding':>24}"]
    for copies, row in report["copies"].items():
        lines.append(
            f"{copies:<16}{row['seconds']:>10.1f}{row['peak_megabytes']:>10,.0f}"
            f"{row['encoding_peak_megabytes']:>24,.0f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main(tyro.cli(Options, use_underscores=True))
