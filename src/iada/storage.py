"""Files that are there as a whole or not at all, and folders that one process writes at a time."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iada.errors import RunError


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file; readers see the old content or the new one, never a part."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file; readers see the old content or the new one, never a part."""
    # Beside the target, because `os.replace` is atomic only within one file system.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Hold a folder for this process; the system lets go of it however the process ends.

    Args:
        folder: an existing folder.
        doing: what a second process is told that the first one does, such as `preparing`.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        # Not a POSIX system: two runs at a time are the user's own affair.
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunError(f"Another process is {doing} {folder}. Wait until it is done.") from None
    else:
        yield
    finally:
        os.close(handle)


def replace_folder(path: Path, temporary: Path) -> None:
    """Put a finished temporary folder in the place of `path`."""
    if path.exists():
        shutil.rmtree(path)
    os.replace(temporary, path)


def write_json(path: Path, content: object) -> None:
    """Write JSON; readers see the old file or the new one, never a part."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
