"""How the C library hands out memory.

Every update frees and allocates the same large blocks. By default glibc returns such blocks to the
system and asks for them again, and each page is then faulted in anew.
"""

import ctypes
import platform

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER = 2**31 - 1
_LARGEST_THRESHOLD = 32 * 2**20


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
