"""Parts of speech of the tokens that a run perturbs, counted once and kept in its folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iada.training.folder import write_json

SHARES_FILE = "parts_of_speech.json"
"""In the run folder: percentages of the perturbed tokens by place and tag, drawn and exact."""

Shares = dict[str, dict[str, float]]
"""By `context` and `current`, and then by tag; those of one place sum to 1."""


def shares_of_run(run: Path) -> Shares:
    """Return the expected shares of perturbed tokens; they are kept in the run folder.

    Expected ones, not those of a draw: the tilt by importance is smaller than chance.
    """
    file = run / SHARES_FILE
    if not file.is_file():
        from iada.analysis.parts_of_speech import perturbed_shares

        write_json(file, perturbed_shares(run).to_mapping())
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return {
        place: {
            tag: percentage / 100
            for tag, percentage in found[place]["expected"].items()
            # A place without any perturbed token has no shares.
            if tag != "total" and percentage is not None
        }
        for place in ("context", "current")
    }
