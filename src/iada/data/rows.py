"""The windows of a batch end to end: no Python per row, and nothing padded yet."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iada.data.store import Ids, Offsets

Roles = npt.NDArray[np.int8]


class Gathered(NamedTuple):
    """One side of the windows of a batch end to end, each sentence followed by `<sep>`."""

    ids: Ids
    """(tokens,)"""
    lengths: Offsets
    """(windows,)"""
    is_context: npt.NDArray[np.bool_]
    """(tokens,)"""


@dataclass(frozen=True)
class CipheredRows:
    """The enciphered sources of the windows of a batch end to end."""

    ids: Ids
    """(tokens,)"""
    lengths: Offsets
    """(windows,)"""


@dataclass(frozen=True)
class Rows:
    """The windows of a batch end to end: each array is that of all windows, joined."""

    source_ids: Ids
    """(source tokens,)"""
    source_roles: Roles
    """(source tokens,)"""
    source_lengths: Offsets
    """(windows,)"""
    target_ids: Ids
    """(target tokens,)"""
    target_roles: Roles
    """(target tokens,)"""
    labels: Offsets
    """(target tokens,)"""
    target_lengths: Offsets
    """(windows,)"""
    noise_key: tuple[int, ...]
    """That of the first window."""
    ciphered: CipheredRows | None = None
    """The source once more, enciphered, where the corpus has ciphers."""
