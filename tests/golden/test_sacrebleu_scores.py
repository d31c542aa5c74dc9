"""Scores are those that the command line of sacreBLEU prints, digit for digit.

The expected values come from `python -m sacrebleu`, run on the same lines in a process of its own.
"""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from iada.config.evaluate import EvaluateConfig
from iada.evaluation.score_files import score_files

DIGITS = 12
METRICS = {"s_bleu": "bleu", "d_bleu": "bleu", "chrf": "chrf", "d_chrf": "chrf"}


def corrupted(lines: list[str], *, seed: int) -> list[str]:
    """Drop, swap and repeat words; some sentences become empty."""
    draw = random.Random(seed)
    result = []
    for line in lines:
        words = [word for word in line.split() if draw.random() > 0.15]
        if len(words) > 3 and draw.random() < 0.5:
            place = draw.randrange(len(words) - 1)
            words[place : place + 2] = [words[place + 1], words[place], words[place]]
        result.append("" if draw.random() < 0.02 else " ".join(words))
    return result


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def documents(lines: list[str]) -> list[tuple[int, int]]:
    """First line and the one after the last of each document, parted by blank lines."""
    cuts = [number for number, line in enumerate(lines) if not line]
    return list(zip([0, *(cut + 1 for cut in cuts)], [*cuts, len(lines)], strict=True))


def command_line(
    metric: str, hypotheses: list[str], references: list[str], folder: Path, *flags: str
) -> tuple[str, str]:
    """Return score and signature as sacreBLEU prints them."""
    write(folder / "hypothesis", hypotheses)
    write(folder / "reference", references)
    command = [sys.executable, "-m", "sacrebleu", "reference", "-i", "hypothesis", "-m", metric]
    done = subprocess.run(
        [*command, "-w", str(DIGITS), *flags],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    shown = json.loads(done.stdout, parse_float=str)
    return shown["score"], shown["signature"]


def check(reference: Path, folder: Path, config: EvaluateConfig, *flags: str) -> None:
    lines = reference.read_text(encoding="utf-8").split("\n")[:-1]
    spans = documents(lines)
    translated = list(lines)
    for number, (start, stop) in enumerate(spans):
        translated[start:stop] = corrupted(lines[start:stop], seed=number)
    hypothesis = write(folder / "translated", translated)
    found = score_files(hypothesis, reference, boundaries="blank_line", config=config)
    for name, metric in METRICS.items():
        sides = []
        for side in (translated, lines):
            texts = [side[start:stop] for start, stop in spans]
            if name.startswith("d_"):
                sides.append([" ".join(text) for text in texts])
            else:
                sides.append([sentence for text in texts for sentence in text])
        score, signature = command_line(metric, sides[0], sides[1], folder, *flags)
        ours = found[name]
        assert isinstance(ours, dict)
        assert float(score) > 20
        assert ours["score"] == pytest.approx(float(score), abs=2 * 10**-DIGITS, rel=0)
        assert ours["signature"] == signature


@pytest.mark.parametrize(
    ("config", "flags"),
    [
        (EvaluateConfig(), []),
        (EvaluateConfig(lowercase=True), ["--lowercase", "--chrf-lowercase"]),
        (EvaluateConfig(tokenized=True), ["--tokenize=none", "--force"]),
    ],
    ids=["default", "lowercase", "tokenized"],
)
def test_the_mini_corpus(
    mini_corpus: Path, tmp_path: Path, config: EvaluateConfig, flags: list[str]
) -> None:
    check(mini_corpus / "test.de", tmp_path, config, *flags)


@pytest.mark.parametrize("corpus", ["gnome_help", "bible"])
def test_real_corpora(real_data: Path, tmp_path: Path, corpus: str) -> None:
    check(real_data / corpus / "test.de", tmp_path, EvaluateConfig())
