"""Tasks as jobs: on this machine, and on a Slurm that a few shell scripts stand in for."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iada.config.experiment import ClusterConfig, ExperimentConfig
from iada.errors import ConfigError, RunError
from iada.experiments import cluster
from iada.experiments.cluster import find_launcher
from iada.experiments.scheduler import log_file, run_tasks
from iada.storage import write_json

submitit = pytest.importorskip("submitit", reason="needs the extra `cluster`")
from submitit.slurm.slurm import SlurmInfoWatcher  # noqa: E402

SBATCH = """#!/bin/bash
grep -q "partition=nowhere" "$1" && { echo "sbatch: error: no such partition" >&2; exit 1; }
cd "$(dirname "$0")"
number=$(($(cat last) + 1))
echo $number > last
echo RUNNING > $number.state
cp "$1" $number.sh
(
    export SLURM_JOB_ID=$number SLURM_NTASKS=1 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0
    export SLURM_JOB_NUM_NODES=1
    bash $number.sh && state=COMPLETED || state=OUT_OF_MEMORY
    echo $state > $number.state
) < /dev/null > $number.out 2>&1 &
echo "Submitted batch job $number"
"""
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do
    [[ $1 == --unbuffered ]] || shift
    shift
done
"$@"
"""
SACCT = """#!/bin/bash
echo "JobID|State|NodeList"
while [[ $# -gt 0 ]]; do
    [[ $1 == -j ]] && echo "$2|$(cat "$(dirname "$0")/$2.state")|node"
    shift
done
"""


@pytest.fixture(autouse=True)
def environment(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs find the tasks, and look at them often."""
    known = [str(tmp_path / "modules"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, known)))
    monkeypatch.setattr(cluster, "_SECONDS", {"local": 0.1, "slurm": 0.1})


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the commands of Slurm, which keeps a state and the script of every job."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    (folder / "last").write_text("100", encoding="utf-8")
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", SACCT)):
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    # It remembers the jobs of the whole process, and numbers begin anew with each test.
    monkeypatch.setattr(submitit.SlurmJob, "watcher", SlurmInfoWatcher())
    return folder


def configure(executor: str, **asked: Any) -> ExperimentConfig:
    return ExperimentConfig(names=("pos",), executor=executor, cluster=ClusterConfig(**asked))  # type: ignore[arg-type]


def run(tasks: list[Any], config: ExperimentConfig) -> dict[str, str]:
    root = tasks[0].folder.parent
    failures = run_tasks(tasks, workers=2, launcher=find_launcher(config, root))
    return {failure.folder.name: failure.reason for failure in failures}


def test_jobs_of_this_machine_wait_for_what_they_need_and_fail_alone(
    write: Callable[..., Any],
) -> None:
    tasks = [write("last", "first"), write("first"), write("bad", act="refuse")]
    assert run(tasks, configure("local", cpus=3)) == {"bad": "cannot be done. Try another way."}
    journal = (tasks[0].folder.parent / "journal").read_text(encoding="utf-8").splitlines()
    assert sorted(journal) == ["bad 3", "first 3", "last 3"]
    assert "a message" in log_file(tasks[0].folder).read_text(encoding="utf-8")
    # What is done is not submitted again.
    assert run(tasks[:2], configure("local")) == {}
    assert (tasks[0].folder.parent / "journal").read_text(encoding="utf-8").count("first") == 1


def test_a_job_that_must_make_room_is_begun_again(write: Callable[..., Any]) -> None:
    task = write("long", act="make room")
    assert run([task], configure("local")) == {}
    assert (task.folder.parent / "journal").read_text(encoding="utf-8") == "long 1\nlong 1\n"


def test_slurm_gets_what_was_asked_for_and_a_killed_job_is_told(
    write: Callable[..., Any], slurm: Path
) -> None:
    asked = {"partition": "long", "account": "me", "hours": 1.5, "gpus": 1, "memory_gb": 2.5}
    config = configure("slurm", **asked, setup=("export IADA_TRIED=1",))
    failures = run([write("good"), write("killed", act="die")], config)
    assert list(failures) == ["killed"]
    assert failures["killed"].endswith("ended without a word (OUT_OF_MEMORY).")
    script = (slurm / "101.sh").read_text(encoding="utf-8").splitlines()
    for flag in ("partition=long", "account=me", "time=90", "gpus-per-node=1", "mem=2560M"):
        assert f"#SBATCH --{flag}" in script
    assert "#SBATCH --cpus-per-task=1" in script
    assert script.index("export IADA_TRIED=1") < script.index("# command")


def test_a_second_command_finds_the_job_of_the_first(
    write: Callable[..., Any], slurm: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "iada")
    task = write("slow", act="be told")
    task.folder.parent.mkdir()
    first = find_launcher(configure("slurm"), task.folder.parent).start(task)
    deadline = time.monotonic() + 60
    while not (task.folder.parent / "journal").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert first.exit_code() is None
    # As if the first command had been killed here.
    second = find_launcher(configure("slurm"), task.folder.parent).start(task)
    assert second.exit_code() is None
    assert (slurm / "last").read_text(encoding="utf-8") == "101\n"
    assert f"Job 101 works on it already: {task.folder}" in caplog.text
    second.stop()
    assert f"Job 101 goes on: {task.folder}" in caplog.text
    (task.folder.parent / "go").touch()
    while second.exit_code() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert second.exit_code() == 0
    assert task.is_finished()
    # It has ended, so the same task would be a new job; so it would if Slurm had forgotten it.
    jobs = task.folder.parent / cluster.JOBS
    assert cluster._find_job(task, jobs) is None
    write_json(task.folder.with_name("slow.job.json"), {"attempt": "other", "job": "999"})
    assert cluster._find_job(task, jobs) is None
    (slurm / "999.state").write_text("PENDING", encoding="utf-8")
    assert cluster._find_job(task, jobs) is not None


def test_a_job_that_slurm_refuses_is_one_line(write: Callable[..., Any], slurm: Path) -> None:
    with pytest.raises(RunError, match=r"was refused: sbatch: error: no such partition\. Check"):
        run([write("one")], configure("slurm", partition="nowhere"))


def test_without_submitit_or_slurm_the_way_on_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"there is no `srun` here\. Give the command on"):
        find_launcher(configure("slurm"), tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"Install it with `pip install 'iada\[cluster\]'`"):
        find_launcher(configure("local"), tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hours": 0}, "`cluster.hours` must be above 0"),
        ({"cpus": 0}, "`cluster.cpus` must be 1 or more"),
        ({"gpus": 2}, "`cluster.gpus` must be 0 or 1"),
        ({"memory_gb": 0}, "`cluster.memory_gb` must be above 0"),
    ],
)
def test_what_no_job_can_have_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ClusterConfig(**wrong)  # type: ignore[arg-type]
