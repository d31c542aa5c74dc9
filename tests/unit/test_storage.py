import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iada.errors import RunError
from iada.storage import (
    append_line,
    describe_files,
    find_damage,
    lock_file,
    locked,
    remove_folder,
    replace_folder,
    staged_folder,
    write_bytes,
    write_text,
)


def test_a_file_is_flushed_before_it_gets_its_name_and_the_name_after(
    tmp_path: Path, disk_log: list[str]
) -> None:
    write_bytes(tmp_path / "a", b"new")
    temporary = f".a.{os.getpid()}"
    assert disk_log == [f"sync {temporary}", f"rename {temporary} a", f"sync {tmp_path.name}"]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_failed_write_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(tmp_path / "a", "old")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_text(tmp_path / "a", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text(encoding="utf-8") == "old"


def test_an_appended_line_is_flushed(tmp_path: Path, disk_log: list[str]) -> None:
    append_line(tmp_path / "a", "one")
    append_line(tmp_path / "a", "two")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "one\ntwo\n"
    assert disk_log == ["sync a", "sync a"]


def test_a_staged_folder_appears_whole_and_flushed(tmp_path: Path, disk_log: list[str]) -> None:
    with staged_folder(tmp_path / "model") as staging:
        (staging / "part").mkdir()
        (staging / "part" / "b").write_text("b", encoding="utf-8")
        (staging / "a").write_text("a", encoding="utf-8")
        assert not (tmp_path / "model").exists()
    assert disk_log == [
        "sync a",
        "sync b",
        "sync part",
        "sync .model.staged",
        "rename .model.staged model",
        f"sync {tmp_path.name}",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_staged_folder_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").touch()

    def write() -> None:
        with staged_folder(tmp_path / "model") as staging:
            (staging / "new").touch()
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        write()
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")] == ["model", "model/old"]


def test_a_replaced_folder_keeps_nothing_of_the_old_one(tmp_path: Path) -> None:
    for name in ("model", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    replace_folder(tmp_path / "model", tmp_path / "new")
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")} == {"model", "model/new"}


def test_a_folder_disappears_under_its_name_before_its_files_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a").touch()
    with monkeypatch.context() as patch:
        # As if the process was killed before it removed a single file.
        patch.setattr("iada.storage.shutil.rmtree", lambda *_, **__: None)
        remove_folder(tmp_path / "old")
    assert not (tmp_path / "old").exists()
    assert (tmp_path / ".old.removed" / "a").exists()


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda path: path.unlink(), "a is missing"),
        (lambda path: path.write_bytes(b"12"), "a has 2 instead of 3 bytes"),
        (lambda path: path.write_bytes(b"124"), "a has changed"),
    ],
)
def test_damage_is_found(tmp_path: Path, damage: Callable[[Path], None], found: str) -> None:
    (tmp_path / "a").write_bytes(b"123")
    files = describe_files(tmp_path, without=())
    assert find_damage(tmp_path, files) is None
    damage(tmp_path / "a")
    assert find_damage(tmp_path, files) == found


HOLD = (
    "import sys; from pathlib import Path; from iada.storage import lock_file\n"
    "with lock_file(Path(sys.argv[1]), 'training in a'): print('held', flush=True); input()"
)


def _hold(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_told_who_holds_the_lock_and_for_how_long(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with _hold(path) as process:
        owner = json.loads(path.read_text(encoding="utf-8"))
        assert owner["pid"] == process.pid
        pid, host = process.pid, socket.gethostname()
        expected = (
            rf"Another process \(pid {pid} on {host}, for 0 minutes\) is training in a\. Wait"
        )
        with pytest.raises(RunError, match=expected), lock_file(path, "training in a"):
            pytest.fail("two processes hold the lock")
        process.communicate("\n")
    assert not path.exists()


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with _hold(path) as process:
        process.kill()
        process.wait()
    assert path.exists()
    with lock_file(path, "training in a"):
        assert json.loads(path.read_text(encoding="utf-8"))["pid"] == os.getpid()
    assert not path.exists()


@pytest.mark.parametrize(
    ("pid", "host", "refused"),
    [
        # 1 runs on every Linux machine; no process has the highest number.
        (1, socket.gethostname(), True),
        (2**22 + 1, socket.gethostname(), False),
        (2**22 + 1, "elsewhere", True),
    ],
)
def test_without_locks_in_the_file_system_the_owner_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int, host: str, refused: bool
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    path = tmp_path / ".lock"
    path.write_text(json.dumps({"pid": pid, "host": host, "since": 0.0}), encoding="utf-8")
    if not refused:
        with lock_file(path, "training in a"):
            return
    with (
        pytest.raises(RunError, match=rf"hours\) is training in a\..* remove {path}\."),
        lock_file(path, "training in a"),
    ):
        pytest.fail("the lock of a living process was taken over")


def test_a_lock_that_cannot_be_removed_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as broken, lock_file(tmp_path / "lock", "working"):
        broken.setattr(Path, "unlink", fail)
    assert (tmp_path / "lock").read_bytes() == b""
    with lock_file(tmp_path / "lock", "working"):
        pass
    assert not (tmp_path / "lock").exists()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine", encoding="utf-8")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match=r"\.lock"), lock_file(tmp_path / ".lock", "training"):
        pytest.fail("the link was followed")
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "mine"


def test_a_folder_is_locked_without_a_trace(tmp_path: Path) -> None:
    with locked(tmp_path, "preparing"):
        assert not list(tmp_path.iterdir())
        with (
            pytest.raises(RunError, match=f"Another process is preparing {tmp_path}"),
            locked(tmp_path, "preparing"),
        ):
            pytest.fail("two locks at a time")
    with locked(tmp_path, "preparing"):
        pass
