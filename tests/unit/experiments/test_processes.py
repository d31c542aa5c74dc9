"""Tasks in processes: after what they need, safe from others, gone with the parent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iada.experiments.scheduler import log_file, run_tasks


def begun(task: Any) -> list[str]:
    lines = (task.folder.parent / "journal").read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines]


@pytest.mark.parametrize("workers", [1, 3])
def test_tasks_wait_for_what_they_need(write: Callable[..., Any], workers: int) -> None:
    tasks = [write("last", "middle"), write("middle", "first"), write("first"), write("other")]
    done = []
    assert run_tasks(tasks, workers=workers, done=lambda task, _: done.append(task)) == ()
    assert all(task.folder.is_dir() for task in tasks)
    assert sorted(task.folder.name for task in done) == ["first", "last", "middle", "other"]
    assert "a message" in log_file(tasks[0].folder).read_text(encoding="utf-8")
    if workers == 1:
        # In order, as far as what they need is there.
        assert begun(tasks[0]) == ["first", "middle", "last", "other"]


def test_what_is_finished_is_not_done_again(write: Callable[..., Any]) -> None:
    first, second = write("first"), write("second", "first")
    first.folder.mkdir(parents=True)
    assert run_tasks([first, second], workers=2) == ()
    assert begun(second) == ["second"]


def test_failures_take_nothing_with_them_but_what_needs_them(write: Callable[..., Any]) -> None:
    tasks = [
        write("refused", act="refuse"),
        write("broken", act="break"),
        write("killed", act="die"),
        write("child", "killed"),
        write("grandchild", "child"),
        write("good", act="wait"),
        write("better", "good"),
    ]
    failures = {failure.folder.name: failure for failure in run_tasks(tasks, workers=2)}
    assert set(failures) == {"refused", "broken", "killed", "child", "grandchild"}
    assert tasks[5].folder.is_dir()
    assert tasks[6].folder.is_dir()
    log = log_file(tasks[0].folder)
    assert failures["refused"].log == log
    assert str(failures["refused"]) == (
        f"{tasks[0].folder}: cannot be done. Try another way. Its messages are in {log}."
    )
    assert failures["broken"].reason == "ZeroDivisionError: a defect"
    assert "Traceback" in log_file(tasks[1].folder).read_text(encoding="utf-8")
    assert "Traceback" not in log.read_text(encoding="utf-8")
    assert "code -9" in failures["killed"].reason
    assert str(failures["child"].reason) == f"was not begun, because it needs {tasks[2].folder}."
    assert failures["grandchild"].log is None
    assert "child" not in begun(tasks[0])


def test_processes_have_one_thread_each_and_ours_keeps_its_own(
    write: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    task = write("one")
    run_tasks([task], workers=1)
    assert (task.folder.parent / "journal").read_text(encoding="utf-8") == "one 1\n"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    monkeypatch.delenv("OMP_NUM_THREADS")
    run_tasks([write("two")], workers=1)
    assert "OMP_NUM_THREADS" not in os.environ


def test_an_interrupt_ends_the_processes(write: Callable[..., Any]) -> None:
    hanging = write("hanging", act="hang")

    def interrupt() -> None:
        if (hanging.folder.parent / "journal").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks([hanging], workers=1, watch=interrupt)
    assert not _holders(log_file(hanging.folder))


COMMAND = """
import sys
from pathlib import Path
from iada.experiments.scheduler import run_tasks
from written_tasks import Write

if __name__ == "__main__":
    work = Path(sys.argv[1])
    print(run_tasks([Write(work / "it", (), sys.argv[2])], workers=1))
"""


def _command(write: Callable[..., Any], act: str) -> subprocess.Popen[bytes]:
    work = write("it").folder.parent
    script = work.parent / "modules" / "command.py"
    script.write_text(COMMAND, encoding="utf-8")
    return subprocess.Popen([sys.executable, str(script), str(work), act])


def test_a_killed_command_leaves_no_process_behind(write: Callable[..., Any]) -> None:
    task = write("it")
    process = _command(write, "hang")
    _wait_until((task.folder.parent / "journal").exists)
    assert _holders(log_file(task.folder))
    process.send_signal(signal.SIGKILL)
    process.wait()
    _wait_until(lambda: not _holders(log_file(task.folder)))
    assert not task.folder.exists()


def test_two_commands_do_a_task_once(write: Callable[..., Any]) -> None:
    commands = [_command(write, "wait") for _ in range(2)]
    assert [command.wait() for command in commands] == [0, 0]
    assert begun(write("it")) == ["it"]


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _holders(path: Path) -> list[str]:
    """Processes that have a file open."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if link.resolve() == path.resolve():
                found.append(str(link))
        except OSError:
            continue
    return found
