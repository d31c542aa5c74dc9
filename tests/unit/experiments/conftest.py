"""Finished run folders made by hand from one trained run, so that scores can be checked by hand."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from iada.experiments.scheduler import Job

Finish = Callable[..., None]


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
        records = [{"update": 1, "dev_nll": nll + 1}, {"update": 2, "dev_nll": nll}, {"update": 3}]
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
