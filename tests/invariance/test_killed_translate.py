"""`iada translate`, killed at random moments and run again, gives the bytes of an unbroken run."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = 10


def start(run: Path, source: Path, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "iada", "translate", str(run), "--input", str(source)]
    command += ["--output", str(output), "--n_best", "2"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def begin_of_work(process: subprocess.Popen[bytes], output: Path) -> float:
    """Wait until the journal is there: killing a Python that still imports proves nothing."""
    journal = output.with_name(f"{output.name}.journal")
    while not journal.exists() and not output.exists() and process.poll() is None:
        time.sleep(0.001)
    return time.monotonic()


@pytest.mark.slow
def test_a_killed_run_is_completed_to_the_same_bytes(
    trained_run: Path, mini_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(trained_run, tmp_path / "run")
    source = tmp_path / "in.txt"
    parts = [(mini_corpus / f"{split}.en").read_text("utf-8") for split in ("test", "dev", "train")]
    source.write_text("\n".join(parts), encoding="utf-8")
    whole = tmp_path / "whole"
    process = start(run, source, whole)
    began = begin_of_work(process, whole)
    _, errors = process.communicate()
    duration = time.monotonic() - began
    assert process.returncode == 0, errors.decode()
    names = ("", ".nbest.jsonl")
    expected = [whole.with_name(f"whole{name}").read_bytes() for name in names]
    draw = random.Random(1)
    kills = resumed = 0
    for number in range(5 * KILLS):
        output = tmp_path / str(number)
        process = start(run, source, output)
        begin_of_work(process, output)
        time.sleep(draw.uniform(0, duration))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if output.exists():
            # It was done already: the first run was slower than this one.
            duration *= 0.9
            continue
        again = start(run, source, output)
        _, errors = again.communicate()
        assert again.returncode == 0, errors.decode()
        resumed += b"were done already" in errors
        assert [output.with_name(f"{number}{name}").read_bytes() for name in names] == expected
        assert not [path for path in tmp_path.iterdir() if path.suffix in (".partial", ".journal")]
        kills += 1
        if kills == KILLS:
            break
    assert kills == KILLS
    # A kill before the first answer leaves nothing to go on from.
    assert resumed > 0
