"""Files that are there as a whole or not at all."""

import os
from pathlib import Path


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
