"""Durable, atomic files and folders, their checksums, and locks.

A file or folder written here is either complete or absent, also after a power cut: content is
flushed to the disk before it gets its name, and the folder that holds the name is flushed after.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iada.errors import RunError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk, a quota or a size limit that is used up."""
_LOCK_IS_HELD = (errno.EAGAIN, errno.EACCES)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file; readers see the old content or the new one, never a part."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, content: object) -> None:
    """Write JSON; readers see the old file or the new one, never a part."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file; readers see the old content or the new one, never a part."""
    # Beside the target, because `os.replace` is atomic only within one file system.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        put_in_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def put_in_place(temporary: Path, path: Path) -> None:
    """Give a finished file or folder its name; what had the name is replaced, if it can be."""
    if temporary.is_dir():
        sync_folder(temporary)
    else:
        sync(temporary)
    os.replace(temporary, path)
    sync(path.parent)


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        ValueError: it is not UTF-8, not JSON, or too deep.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds one object.

    Raises:
        ValueError: as of `read_json`, or it holds something else.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


def append_line(path: Path, line: str) -> None:
    """Append a line; a crash can cut it short, but never the lines before it."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    sync(path)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems cannot flush a folder; their names are as durable as they get.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Flush every file under a folder to the disk, then the names of all of them."""
    folders = [folder]
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            folders.append(path)
        else:
            sync(path)
    for path in reversed(folders):
        sync(path)


@contextmanager
def staged_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `path` when the block ends without an error."""
    staging = path.with_name(f".{path.name}.staged")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        yield staging
    except Exception:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    replace_folder(path, staging)


def replace_folder(path: Path, temporary: Path) -> None:
    """Put a finished temporary folder in the place of `path`.

    Between the two renames nothing is there, but never a mixture of the two.
    """
    sync_folder(temporary)
    replaced = path.with_name(f".{path.name}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if path.exists():
        os.replace(path, replaced)
    os.replace(temporary, path)
    sync(path.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Remove a folder; a crash on the way leaves a hidden rest, never a folder with holes."""
    removed = path.with_name(f".{path.name}.removed")
    shutil.rmtree(removed, ignore_errors=True)
    os.replace(path, removed)
    shutil.rmtree(removed, ignore_errors=True)


def sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_files(folder: Path, *, without: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return size and sha256 of every file under a folder but `without`, by relative name."""
    left_out = {folder / name for name in without}
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path not in left_out)
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in files
    }


def find_damage(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Compare a folder with what `describe_files` said of it; return the first difference."""
    for name, record in files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        size = path.stat().st_size
        if size != record["bytes"]:
            return f"{name} has {size} instead of {record['bytes']} bytes"
        if sha256(path) != record["sha256"]:
            return f"{name} has changed"
    return None


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Hold a folder for this process; the system releases it however the process ends.

    Nothing is written into the folder. Use `lock_file` where the owner should be named.

    Args:
        folder: an existing folder.
        doing: what a second process is told that the first one does, such as `preparing`.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not _try_flock(handle, unsupported=True):
            raise RunError(f"Another process is {doing} {folder}. Wait until it is done.")
        yield
    finally:
        os.close(handle)


@contextmanager
def lock_file(path: Path, doing: str) -> Iterator[None]:
    """Hold a lock file that names its owner: process, host, and since when.

    The system releases the lock however the process ends, so what a killed process leaves behind
    is taken over. Where the file system has no locks, the owner's process is looked for instead.

    Args:
        path: the lock file; it is there only while the lock is held, or it is empty and nobody's.
        doing: what the owner does, such as `training in runs/a`.

    Raises:
        RunError: another process holds the lock.
    """
    handle = _open_lock(path, doing)
    try:
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        os.truncate(handle, 0)
        os.pwrite(handle, (json.dumps(owner) + "\n").encode(), 0)
        yield
    finally:
        try:
            # While it is still held: nobody can have taken it over.
            path.unlink(missing_ok=True)
        except OSError:
            # The work is done. A file that stays must not name an owner that is gone.
            with contextlib.suppress(OSError):
                os.truncate(handle, 0)
        finally:
            os.close(handle)


def _open_lock(path: Path, doing: str) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            owner = _read_owner(handle)
            if not _try_flock(handle, unsupported=not _is_alive(owner)):
                raise RunError(_describe_holder(path, doing, owner))
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        # The previous owner removed the file between our opening and locking it.
        os.close(handle)


def _try_flock(handle: int, *, unsupported: bool) -> bool:
    """Try to lock an open file; return `unsupported` where there are no locks."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        return unsupported
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _LOCK_IS_HELD else unsupported
    return True


def _read_owner(handle: int) -> dict[str, Any]:
    try:
        owner = json.loads(os.pread(handle, 4096, 0))
        return {
            "pid": int(owner["pid"]),
            "host": str(owner["host"]),
            "since": float(owner["since"]),
        }
    except (ValueError, TypeError, KeyError):
        # Empty: nobody's, or its owner has only just locked it.
        return {}


def _is_alive(owner: Mapping[str, Any]) -> bool:
    """Whether a recorded owner may still run; one on another host must be assumed to."""
    if not owner or owner["pid"] == os.getpid():
        return False
    if owner["host"] != socket.gethostname():
        return True
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _describe_holder(path: Path, doing: str, owner: Mapping[str, Any]) -> str:
    if not owner:
        return f"Another process is {doing}. Wait until it is done."
    minutes = max(0.0, time.time() - owner["since"]) / 60
    age = f"{minutes / 60:.1f} hours" if minutes >= 100 else f"{minutes:.0f} minutes"
    return (
        f"Another process (pid {owner['pid']} on {owner['host']}, for {age}) is {doing}. "
        f"Wait until it is done; if it has ended, remove {path}."
    )
