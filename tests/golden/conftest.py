"""Numbers that the released code of the compared systems computed, outside the repository."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

Golden = Mapping[str, Tensor]


@pytest.fixture
def golden() -> Callable[[str], Golden]:
    """Read the arrays of a file: inputs, outputs, and weights under their released names."""

    def read(name: str) -> Golden:
        path = Path(__file__).parents[3] / "shared" / "golden" / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"the numbers of the released code are not there: ../shared/golden/{name}")
        with np.load(path) as arrays:
            return {key: torch.from_numpy(arrays[key]) for key in arrays.files}

    return read
