"""Every document-level system through the commands: trained, stopped and resumed, used."""

import json
from pathlib import Path

import pytest
import yaml

from iada.cli.main import main
from iada.data.mini import MiniConfig, write_mini_corpus

SYSTEMS: dict[str, dict[str, dict[str, object]]] = {
    "flat": {"model": {"architecture": "flat", "wide_layers": 1}},
    "gtrans": {"model": {"architecture": "gtrans", "wide_layers": 1}},
    "han": {"model": {"architecture": "han", "context_sides": "both", "stop_context": False}},
    "san": {"model": {"architecture": "san", "stop_context": False, "after": 1}},
    "hybrid": {"model": {"architecture": "hybrid", "stop_context": False}},
    "docflat": {"model": {"architecture": "docflat", "gate": "hard", "far_context": 2}},
    "multires": {
        "windows": {"strategy": "multires", "loss_on": "all"},
        "decode": {"unit": "part"},
    },
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of a few documents."""
    config = MiniConfig(
        train_documents=9, dev_documents=3, test_documents=3, contrastive_per_cell=1
    )
    return write_mini_corpus(tmp_path_factory.mktemp("mini") / "corpus", config)


@pytest.fixture(params=SYSTEMS)
def recipe(request: pytest.FixtureRequest, corpus: Path, tmp_path: Path) -> Path:
    """The recipe of one system, done in two updates of IADA."""
    content: dict[str, dict[str, object]] = {
        "data": {"folder": str(corpus)},
        "subwords": {"vocabulary_size": 450},
        "windows": {"max_length": 128, "context": 2},
        "model": {
            "dim": 16,
            "feed_forward": 16,
            "heads": 2,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "max_positions": 192,
        },
        "train": {
            "max_tokens": 256,
            "accumulation": 1,
            "max_updates": 2,
            "validate_every": 1,
            "warmup_updates": 0,
        },
        "decode": {"beam": 2, "n_best": 2, "max_length_offset": 1, "max_length_ratio": 0.5},
        "evaluate": {"resamples": 100},
    }
    for section, keys in SYSTEMS[request.param].items():
        content[section] = content.get(section, {}) | keys
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_a_system_resumes_and_serves_every_command(
    recipe: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, stopped = tmp_path / "run", tmp_path / "stopped"
    assert main(["train", str(recipe), "--output", str(run)]) == 0
    for flags in (["--train.max_updates", "1"], ["--resume"]):
        assert main(["train", str(recipe), "--output", str(stopped), *flags]) == 0
    weights = [folder / "model" / "model.safetensors" for folder in (run, stopped)]
    assert weights[0].read_bytes() == weights[1].read_bytes()

    assert main(["evaluate", str(run), "--cxmi"]) == 0
    assert main(["contrast", str(run), str(corpus / "contrastive.json")]) == 0
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert {"s_bleu", "contrastive", "cxmi"} <= scores.keys()
    source, translated, best = (
        # An untrained model may say anything that other functions take for the end of a line.
        path.read_text(encoding="utf-8").split("\n")[:-1]
        for path in (
            corpus / "test.en",
            run / "translations" / "test.de",
            run / "translations" / "test.de.nbest.jsonl",
        )
    )
    assert len(translated) == len(source)
    assert len(best) == sum(map(bool, source))

    assert main(["inspect", str(run), "--html", str(tmp_path / "map.html")]) == 0
    assert (tmp_path / "map.html").is_file()
    copies = tmp_path / "copies"
    assert main(["augment", str(run), "--output", str(copies), "--split", "dev"]) == 0
    assert any(copies.iterdir())
    capsys.readouterr()
    exported = main(["export", str(run), "--dry_run"])
    if "multires" in yaml.safe_load(recipe.read_text(encoding="utf-8"))["windows"].values():
        assert exported == 0
    else:
        assert exported == 2
        assert "cannot be exported: CTranslate2 knows the stock Transformer alone, which is " in (
            capsys.readouterr().err
        )
