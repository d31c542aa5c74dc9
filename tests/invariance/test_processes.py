"""The same data give the same update, however they are spread over micro-batches and processes."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.warm_processes import start_group

from iada.config.base import to_mapping, write_yaml
from iada.config.model import ARCHITECTURES, ModelConfig
from iada.config.run import mini_run
from iada.data.mini import MiniConfig, write_mini_corpus

SCRIPT = Path(__file__).parent / "one_update.py"
SOURCES = Path(__file__).parents[2] / "src"
Weights = dict[str, torch.Tensor]


def _launch(processes: int, *arguments: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    environment = os.environ | {
        "PYTHONPATH": str(SOURCES),
        "OMP_NUM_THREADS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    done = subprocess.run(
        [*command, f"--nproc_per_node={processes}", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def _start_warm(processes: int, *arguments: str) -> None:
    """Do what a launcher does, without its start and with processes that have imported all."""
    started = start_group(processes, *arguments)
    errors = [process.communicate(300)[1].decode() for process in started]
    assert [process.returncode for process in started] == [0] * processes, errors[0][-3000:]


def _updated_here(
    folder: Path,
    accumulation: int,
    projection: str = "tied",
    computation: str = "fused",
    architectures: Sequence[str] = (),
    importance: str = "",
) -> Weights:
    spec = importlib.util.spec_from_file_location("one_update", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    output = folder / f"{accumulation}x1.safetensors"
    threads = torch.get_num_threads()
    settings = (f"iada_replace_gnorm{importance}", projection, computation)
    module.main(output, accumulation, *settings, *architectures)
    torch.set_num_threads(threads)
    return _load(output, architectures)


def _updated(
    folder: Path,
    *,
    accumulation: int,
    processes: int,
    projection: str = "tied",
    architectures: Sequence[str] = (),
    importance: str = "",
) -> Weights:
    output = folder / f"{accumulation}x{processes}.safetensors"
    settings = (f"iada_replace_gnorm{importance}", projection, "fused")
    _start_warm(processes, str(SCRIPT), str(output), str(accumulation), *settings, *architectures)
    return _load(output, architectures)


def _load(output: Path, architectures: Sequence[str]) -> Weights:
    if not architectures:
        return load_file(output)
    files = {name: output.with_name(f"{output.stem}-{name}.safetensors") for name in architectures}
    return {
        f"{name}: {key}": value
        for name, path in files.items()
        for key, value in load_file(path).items()
    }


def test_four_micro_batches_on_one_process_equal_two_on_two_and_one_on_four(
    tmp_path: Path,
) -> None:
    one = _updated_here(tmp_path, accumulation=4)
    two = _updated(tmp_path, accumulation=2, processes=2)
    four = _updated(tmp_path, accumulation=1, processes=4)
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-9)
        torch.testing.assert_close(four[name], value, rtol=0, atol=1e-9)
    # Half the data make another update: the comparison can fail.
    fewer = _updated_here(tmp_path, accumulation=2)
    assert any((fewer[name] - value).abs().max() > 1e-4 for name, value in one.items())


def test_lagged_importance_is_the_same_on_one_process_and_on_two(tmp_path: Path) -> None:
    # An update is an epoch: a window that one process drew is later drawn by the other.
    one = _updated_here(tmp_path, accumulation=4, importance="-lagged")
    two = _updated(tmp_path, accumulation=2, processes=2, importance="-lagged")
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-8)
    fresh = _updated_here(tmp_path, accumulation=4, importance="-fresh")
    assert any((fresh[name] - value).abs().max() > 1e-4 for name, value in one.items())


def test_fused_and_plain_losses_make_the_same_update(tmp_path: Path) -> None:
    fused = _updated_here(tmp_path, accumulation=4)
    plain = _updated_here(tmp_path, accumulation=4, computation="plain")
    for name, value in fused.items():
        torch.testing.assert_close(plain[name], value, rtol=0, atol=1e-10)


def test_an_untied_projection_gets_the_gradients_of_all_processes(tmp_path: Path) -> None:
    # The fused losses use the weight outside the forward pass that DDP wraps; with tied weights
    # DDP would see it in the embeddings anyway.
    one = _updated_here(tmp_path, accumulation=4, projection="untied")
    two = _updated(tmp_path, accumulation=2, processes=2, projection="untied")
    head = "lm_head.weight"
    assert not one[head].equal(one["model.shared.weight"])
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "names",
    [
        ("han", "docflat"),
        pytest.param(("flat", "gtrans", "san", "hybrid"), marks=pytest.mark.exhaustive),
    ],
)
def test_an_architecture_makes_the_same_updates_on_two_processes(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    assert {*names} < {*ARCHITECTURES}
    one = _updated_here(tmp_path, accumulation=4, architectures=names)
    two = _updated(tmp_path, accumulation=2, processes=2, architectures=names)
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-8, msg=name)


def test_two_processes_train_one_run(tmp_path: Path) -> None:
    write_mini_corpus(
        tmp_path / "corpus",
        MiniConfig(train_documents=9, dev_documents=3, test_documents=3, contrastive_per_cell=1),
    )
    config = mini_run(
        "iada_replace_gnorm", corpus=tmp_path / "corpus", output=tmp_path / "run", updates=4
    )
    config = replace(
        config,
        model=ModelConfig(
            dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.1
        ),
        train=replace(config.train, validate_every=2, log_every=1),
    )
    recipe = tmp_path / "recipe.yaml"
    write_yaml(recipe, to_mapping(config))
    _launch(2, "-m", "iada", "train", str(recipe))
    assert (config.output / "model" / "model.safetensors").is_file()
    lines = (config.output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    # Written once, by the main process: four updates and two validations.
    assert [json.loads(line)["update"] for line in lines] == [1, 2, 2, 3, 4, 4]
    newest = config.output / "checkpoints" / "checkpoint-4"
    assert {path.name for path in newest.glob("random_*.json")} == {
        "random_0.json",
        "random_1.json",
    }
    # Two updates, and two more after a pause, end with the same weights.
    short = ("--output", str(tmp_path / "paused"), "--train.max_updates", "2")
    _start_warm(2, "-m", "iada", "train", str(recipe), *short)
    longer = ("--output", str(tmp_path / "paused"), "--resume")
    _start_warm(2, "-m", "iada", "train", str(recipe), *longer)
    weights = [tmp_path / name / "model" / "model.safetensors" for name in ("run", "paused")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
