"""How the C library hands out memory.

Every update frees and allocates the same large blocks. By default glibc returns such blocks to the
system and asks for them again, and each page is then faulted in anew. Kept blocks, on the other
hand, are split for smaller ones, so the heap gets gaps that nothing fits in: on the base shape they
grow to a third of what is in use. So freed memory is kept, and given back now and then.
"""

import ctypes
import os
import platform
from pathlib import Path

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER = 2**31 - 1
_LARGEST_THRESHOLD = 32 * 2**20
_BATCHES_BETWEEN = 2
"""Giving back after every batch costs 4% of the time of a step on the base shape."""
_SMALL = 2 * 2**30
"""Bytes below which a process is left alone: there is little to win."""


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory for reuse; other C libraries are left alone.

    Returns:
        Whether the setting was made.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    # The heap is never trimmed. Only the few blocks of the size of a large vocabulary's weight are
    # mapped on their own, so that smaller blocks cannot split the gaps that they leave.
    made = [
        library.mallopt(_M_MMAP_THRESHOLD, _LARGEST_THRESHOLD),
        library.mallopt(_M_TRIM_THRESHOLD, _NEVER),
    ]
    return all(made)


class Gaps:
    """Gives memory that lies unused in the heap back to the system, after every second batch."""

    def __init__(self) -> None:
        self._batches = 0

    def after_batch(self) -> None:
        """Count a batch, whose activations are freed, and give back if it is time."""
        self._batches += 1
        if self._batches % _BATCHES_BETWEEN or platform.libc_ver()[0] != "glibc":
            return
        if _resident_bytes() >= _SMALL:
            ctypes.CDLL(None).malloc_trim(0)


def _resident_bytes() -> int:
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        # Not Linux, or no such file system: nothing is known.
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
