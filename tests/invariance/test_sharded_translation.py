"""Two or three processes translate and score to the results of one."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch.distributed
from tests.warm_processes import WarmProcess, start_group

from iada.cli.main import main
from iada.config.base import to_mapping, write_yaml
from iada.config.run import load_run_config

SCRIPT = Path(__file__).parent / "several_commands.py"
SOURCES = Path(__file__).parents[2] / "src"


def launch(processes: int, *arguments: str) -> None:
    """Run a script under the launcher of PyTorch."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, f"--nproc_per_node={processes}", *arguments]
    environment = os.environ | {
        "PYTHONPATH": str(SOURCES),
        "OMP_NUM_THREADS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    done = subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]


def start_warm(processes: int, *arguments: str) -> None:
    """Run a script in processes that have imported all: alone, or as under a launcher."""
    alone = processes == 1
    started = [WarmProcess(arguments)] if alone else start_group(processes, *arguments)
    errors = [process.communicate(300)[1].decode() for process in started]
    assert [process.returncode for process in started] == [0] * processes, errors[0][-3000:]


@pytest.fixture
def source(mini_corpus: Path, tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    parts = [(mini_corpus / f"{split}.en").read_text("utf-8") for split in ("test", "dev")]
    # Documents of different lengths, an empty line too many, and an empty document.
    path.write_text("\n\n".join([*parts, "Yes ."]), encoding="utf-8")
    return path


def work(folder: Path, processes: int, trained_run: Path, corpus: Path, source: Path) -> Path:
    """Translate, contrast and evaluate with so many processes; return the run folder."""
    run = shutil.copytree(trained_run, folder / f"run{processes}")
    contrast = str(corpus / "contrastive.json")
    output = str(run / "out.txt")
    lines = [
        ["translate", str(run), "--input", str(source), "--output", output, "--n_best", "2"],
        ["contrast", str(run), contrast, "--generative"],
        ["evaluate", str(run), "--cxmi", "--resamples", "10"],
    ]
    commands = folder / f"commands{processes}"
    commands.write_text("\n".join("\t".join(line) for line in lines), encoding="utf-8")
    # Two from a cold start, as users start them; that costs seconds for each process.
    start = launch if processes == 2 else start_warm
    start(processes, str(SCRIPT), str(commands))
    return run


def hypotheses(path: Path) -> tuple[list[str], list[float]]:
    """Texts and scores of all hypotheses of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [one for line in lines for one in json.loads(line)["hypotheses"]]
    return [one["text"] for one in found], [one["score"] for one in found]


def test_two_and_three_processes_give_the_results_of_one(
    trained_run: Path, mini_corpus: Path, tmp_path: Path, source: Path
) -> None:
    runs = [work(tmp_path, n, trained_run, mini_corpus, source) for n in (1, 2, 3)]
    for name in ("out.txt", "translations/test.de", "cxmi.jsonl"):
        expected = (runs[0] / name).read_bytes()
        assert expected
        assert [(run / name).read_bytes() == expected for run in runs[1:]] == [True, True]
    n_best = [hypotheses(run / "out.txt.nbest.jsonl") for run in runs]
    for texts, values in n_best[1:]:
        assert texts == n_best[0][0]
        # The last digits depend on the batch.
        assert values == pytest.approx(n_best[0][1], rel=1e-5)
    scores = [json.loads((run / "scores.json").read_text(encoding="utf-8")) for run in runs]
    for found in scores:
        found["translation"].pop("seconds")
    assert scores[0] == scores[1] == scores[2]
    # Nothing is left of the work.
    names = {path.name for path in runs[2].iterdir()} - {"translations"}
    assert {name for name in names if name.startswith("out.txt")} == {
        "out.txt",
        "out.txt.json",
        "out.txt.nbest.jsonl",
    }


def test_commands_that_start_their_own_processes_give_the_results_of_one(
    trained_run: Path, mini_corpus: Path, tmp_path: Path, source: Path
) -> None:
    runs = []
    for processes in (1, 2):
        run = shutil.copytree(trained_run, tmp_path / f"own{processes}")
        config = load_run_config(run / "config.yaml")
        decode = replace(config.decode, processes=processes)
        write_yaml(run / "config.yaml", to_mapping(replace(config, decode=decode)))
        output = str(run / "out.txt")
        arguments = ["translate", str(run), "--input", str(source), "--output", output]
        assert main([*arguments, "--n_best", "2"]) == 0
        assert main(["contrast", str(run), str(mini_corpus / "contrastive.json")]) == 0
        assert main(["evaluate", str(run), "--cxmi", "--resamples", "10"]) == 0
        runs.append(run)
    for name in ("out.txt", "translations/test.de", "cxmi.jsonl"):
        expected = (runs[0] / name).read_bytes()
        assert expected
        assert (runs[1] / name).read_bytes() == expected
    scores = [json.loads((run / "scores.json").read_text(encoding="utf-8")) for run in runs]
    for found in scores:
        found["translation"].pop("seconds")
    assert scores[0] == scores[1]
    assert not torch.distributed.is_initialized()
    assert [path for path in runs[1].rglob("*") if ".shard" in path.name] == []
