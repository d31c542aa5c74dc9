"""How the C library hands out memory.

Every update frees and allocates the same large blocks. By default glibc returns such blocks to the
system and asks for them again, and each page is then faulted in anew.
"""

import ctypes
import platform

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory for reuse; other C libraries are left alone.

    Returns:
        Whether the setting was made.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    # No block is mapped on its own, and the heap is never trimmed.
    made = [library.mallopt(_M_MMAP_MAX, 0), library.mallopt(_M_TRIM_THRESHOLD, _NEVER)]
    return all(made)
