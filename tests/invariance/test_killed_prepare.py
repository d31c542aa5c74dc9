"""`iada prepare`, killed at random moments and run again, gives the bytes of an unbroken run."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iada.config.data import DataConfig, SubwordConfig
from iada.data.mini import MiniConfig, write_mini_corpus
from iada.data.preparing import Preparation, prepare

KILLS = 20
VOCABULARY = 700


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = MiniConfig(
        train_documents=1500, dev_documents=100, test_documents=100, contrastive_per_cell=1
    )
    return write_mini_corpus(tmp_path_factory.mktemp("killed") / "corpus", config)


def start(corpus: Path, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "iada", "prepare", "--data.folder", str(corpus)]
    command += ["--data.prepared", str(output), "--subwords.vocabulary_size", str(VOCABULARY)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def begin_of_work(process: subprocess.Popen[bytes], output: Path) -> float:
    """Wait until the work folder is there: killing a Python that still imports proves nothing."""
    partial = output.with_name(f"{output.name}.partial")
    while not partial.exists() and not output.exists() and process.poll() is None:
        time.sleep(0.001)
    return time.monotonic()


@pytest.mark.slow
def test_a_killed_run_is_completed_to_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    process = start(corpus, whole)
    began = begin_of_work(process, whole)
    _, errors = process.communicate()
    duration = time.monotonic() - began
    assert process.returncode == 0, errors.decode()
    expected = (whole / "manifest.json").read_bytes()
    draw = random.Random(1)
    kills = 0
    for number in range(5 * KILLS):
        output = tmp_path / str(number)
        process = start(corpus, output)
        begin_of_work(process, output)
        time.sleep(draw.uniform(0, duration))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if output.exists():
            # It was done already: the first run was slower than this one.
            duration *= 0.9
            continue
        # In this process and without workers: quicker, and the bytes must be the same.
        data = DataConfig(folder=corpus)
        subwords = SubwordConfig(vocabulary_size=VOCABULARY)
        prepare(Preparation(data, subwords, output, workers=1)).verify()
        assert (output / "manifest.json").read_bytes() == expected
        assert not output.with_name(f"{output.name}.partial").exists()
        kills += 1
        if kills == KILLS:
            break
    assert kills == KILLS
