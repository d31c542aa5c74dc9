"""Tasks for other processes, and finished run folders whose scores can be checked by hand."""

import importlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from iada.experiments.scheduler import Job

Finish = Callable[..., None]

TASKS = """
import os, signal, sys, time
from dataclasses import dataclass
from pathlib import Path
from iada.errors import RunError

@dataclass(frozen=True)
class Write:
    folder: Path
    needs: tuple = ()
    act: str = "write"

    def is_finished(self):
        return self.folder.exists()

    def run(self):
        missing = [str(path) for path in self.needs if not path.exists()]
        if missing:
            raise AssertionError(f"begun before {missing}")
        journal = self.folder.parent / "journal"
        is_first = not journal.exists()
        with journal.open("a") as file:
            file.write(f"{self.folder.name} {os.environ['OMP_NUM_THREADS']}\\n")
        if self.act == "refuse":
            raise RunError("cannot be done. Try another way.")
        if self.act == "break":
            raise ZeroDivisionError("a defect")
        if self.act == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.act == "wait":
            time.sleep(0.3)
        if self.act == "hang":
            time.sleep(600)
        if self.act == "make room" and is_first:
            # What a cluster sends before the time limit.
            os.kill(os.getpid(), signal.SIGUSR2)
        for _ in range(2000 if self.act == "be told" else 0):
            if (self.folder.parent / "go").exists():
                break
            time.sleep(0.05)
        print("a message", file=sys.stderr)
        self.folder.mkdir()
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Tasks that processes can import: they make a folder, or fail in different ways."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "written_tasks.py").write_text(TASKS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(modules))
    module = importlib.import_module("written_tasks")
    work = tmp_path / "work"

    def task(name: str, *needs: str, act: str = "write") -> Any:
        return module.Write(work / name, tuple(work / need for need in needs), act)

    yield task
    del sys.modules["written_tasks"]


def counts(correct: int, total: int) -> dict[str, int]:
    return {"correct": correct, "total": total}


@pytest.fixture
def finish(trained_run: Path, mini_corpus: Path) -> Finish:
    """Return a function that gives a job the folder that it would leave, with scores as wanted."""

    def write(
        job: Job,
        *,
        bleu: float = 20.0,
        correct: int = 5,
        nll: float = 3.0,
        wrong_lines: int = 0,
        scores: Mapping[str, Any] | None = None,
    ) -> None:
        folder = job.folder
        shutil.copytree(trained_run, folder, ignore=shutil.ignore_patterns("checkpoints"))
        (folder / "translations").mkdir()
        lines = (mini_corpus / "test.de").read_text(encoding="utf-8").splitlines()
        spoilt = ["falsch" if line and n < wrong_lines else line for n, line in enumerate(lines)]
        text = "".join(f"{line}\n" for line in spoilt)
        (folder / "translations" / "test.de").write_text(text, encoding="utf-8")
        records = [{"update": 1, "dev_nll": nll + 1}, {"update": 2, "dev_nll": nll}]
        records.append({"update": 3, "seconds": 90.0})
        metrics = "".join(f"{json.dumps(record)}\n" for record in records)
        (folder / "metrics.jsonl").write_text(metrics, encoding="utf-8")
        content: dict[str, Any] = {
            "s_bleu": {"score": bleu, "signature": "s"},
            "d_bleu": {"score": bleu + 1, "signature": "d"},
            "chrf": {"score": bleu + 2, "signature": "c"},
            "translation": {"engine": "prefill", "beam": 5, "documents": 6, "sentences": 78},
            "contrastive": {
                **counts(correct, 10),
                "context": counts(correct - 1, 5),
                "by_class": {"er": counts(1, 4), "es": counts(correct, 8)},
                "by_distance": {"0": counts(1, 2), ">3": counts(0, 4)},
                "signature": "t",
                "set": "contrastive.json",
            },
        }
        content |= scores or {}
        (folder / "scores.json").write_text(json.dumps(content), encoding="utf-8")

    return write
