"""Every family through the commands: train, translate, evaluate, contrast, inspect, resume."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from iada.cli.main import main

FAMILIES = ("marian", "mbart", "mbart50", "m2m100", "nllb", "t5", "bart")
every_family = pytest.mark.parametrize("family", FAMILIES)
Checkpoint = Callable[[str], Path]
UPDATES, EVERY = 20, 10


def _recipe(folder: Path, corpus: Path, checkpoint: Path, output: Path) -> Path:
    recipe = {
        "output": str(output),
        "method": "iada_replace_gnorm",
        "data": {"folder": str(corpus)},
        "windows": {"max_length": 200, "context": 2},
        "model": {"pretrained": str(checkpoint)},
        "train": {
            "max_tokens": 1024,
            "accumulation": 1,
            "warmup_updates": 2,
            "learning_rate": 0.003,
            "max_updates": UPDATES,
            "validate_every": EVERY,
            "keep_checkpoints": 5,
        },
        "decode": {"beam": 1, "max_length_ratio": 1.0, "max_length_offset": 2},
        "evaluate": {"resamples": 50},
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


@every_family
def test_commands(family: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path) -> None:
    import time

    run = tmp_path / "run"
    recipe = _recipe(tmp_path, mini_corpus, checkpoint(family), run)
    for args in (
        ["train", str(recipe)],
        ["translate", str(run)],
        ["evaluate", str(run)],
        ["contrast", str(run), str(mini_corpus / "contrastive.json")],
        ["inspect", str(run)],
    ):
        t = time.time()
        code = main(args)
        print(family, args[0], code, round(time.time() - t, 2))
        assert not code
    print(sorted(p.name for p in (run / "model").iterdir()))
