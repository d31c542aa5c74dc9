"""Read files as a training split, and see what came of them."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iada.config.data import DataConfig
from iada.data.formats.findings import Findings
from iada.data.formats.readers import iterate_documents

Pairs = list[list[tuple[str, str]]]


@dataclass(frozen=True)
class Outcome:
    """What a lenient reading kept and found."""

    names: list[str]
    documents: Pairs
    findings: Findings
    log: list[dict[str, Any]]

    @property
    def places(self) -> list[tuple[str, str, int | None, int]]:
        """Kind, file name, line and number of dropped units of every finding, in order."""
        return [(f["kind"], Path(f["file"]).name, f["line"], f["dropped"]) for f in self.log]

    @property
    def units(self) -> list[tuple[int, int, int, int]]:
        """Units read, kept, dropped and boundaries of both sides."""
        sides = (self.findings.source, self.findings.target)
        return [(side.read, side.kept, side.dropped, side.boundaries) for side in sides]


Read = Callable[..., Outcome]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that writes files and reads them; other arguments are data settings."""

    def run(pattern: str, files: dict[str, str | bytes], **settings: Any) -> Outcome:
        for name, content in files.items():
            raw = content.encode() if isinstance(content, str) else content
            (tmp_path / name).write_bytes(raw)
        log = io.StringIO()
        findings = Findings(log)
        data = DataConfig(folder=tmp_path, train=pattern, **settings)
        documents = list(iterate_documents(data, "train", findings))
        return Outcome(
            [document.name for document in documents],
            [
                [*zip(document.source.sentences, document.target.sentences, strict=True)]
                for document in documents
            ],
            findings,
            [json.loads(line) for line in log.getvalue().splitlines()],
        )

    return run
