"""Parts of speech of the tokens that a run perturbs, counted once and kept in its folder."""

import json
from collections.abc import Mapping
from pathlib import Path

from iada.training.folder import write_json

SHARES_FILE = "parts_of_speech.json"
"""In the run folder: shares of the perturbed tokens by place and tag."""

Shares = Mapping[str, Mapping[str, float]]
"""By `context` and `current`, and then by tag."""


def shares_of_run(run: Path) -> Shares:
    """Return the shares of perturbed tokens by tag, from the run folder if they are there."""
    file = run / SHARES_FILE
    if not file.is_file():
        from iada.analysis.parts_of_speech import (  # type: ignore[import-not-found, unused-ignore]
            perturbed_shares,
        )

        write_json(file, perturbed_shares(run).to_mapping())
    shares: Shares = json.loads(file.read_text(encoding="utf-8"))
    return shares
