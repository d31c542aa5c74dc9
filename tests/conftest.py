"""What several groups of tests share: an encoding, a small corpus, one trained run, a browser."""

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

# Before PyTorch is imported, here and in the processes that tests start: sums of two threads have
# other bits than those of one, and several tests compare bits over processes.
os.environ["OMP_NUM_THREADS"] = "1"

from iada.config.data import DataConfig, SubwordConfig, WindowConfig
from iada.config.model import ModelConfig
from iada.config.run import RunConfig
from iada.config.train import TrainConfig
from iada.data.mini import MiniConfig, write_mini_corpus
from iada.data.tokens.subwords import SpecialIds, Subwords, train_subwords
from iada.training.train import train

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SPECIAL = SpecialIds(pad=0, bos=1, eos=2, unk=3, sep=4, mask=5)

# Chromium as root, and without the services of its maker, which it would look up at every start.
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Text with the background that really lies behind it, as the browser blends them.
CONTRASTS = """() => {
  const parse = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
    return colour.startsWith("color(srgb") ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[3] * top[i] + (1 - top[3]) * below[i]);
  const luminance = (colour) => {
    const [r, g, b] = colour.map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      layers.push(parse(getComputedStyle(at).backgroundColor));
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const opacity = (element) => {
    let share = 1;
    for (let at = element; at; at = at.parentElement) share *= getComputedStyle(at).opacity;
    return share;
  };
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || ["script", "style", "title", "desc"].includes(element.localName)) {
      continue;
    }
    const style = getComputedStyle(element);
    const paper = background(element.closest("svg")?.parentElement ?? element);
    const ink = parse(element.closest("svg") ? style.fill : style.color);
    const shown = over([...ink.slice(0, 3), ink[3] * opacity(element)], paper);
    const [low, high] = [luminance(shown), luminance(paper)].sort((a, b) => a - b);
    found.push([(high + 0.05) / (low + 0.05), node.data.trim().slice(0, 40)]);
  }
  return found;
}"""


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later search for garbage.

    Accelerate searches at the beginning and the end of each training, and the modules of PyTorch,
    Transformers and the tests are most of what there is to search: a third of a second each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def subwords() -> Subwords:
    """An encoding of a few sentences, trained in a moment."""
    sentences = ["the cat sat on the mat .", "der Hund sah die Katze .", "she saw it , again !"] * 3
    return train_subwords(sentences, vocabulary_size=330)


@pytest.fixture(scope="session")
def special() -> SpecialIds:
    """Ids of the special tokens, as every encoding of ours has them."""
    return SPECIAL


@pytest.fixture(scope="session")
def mini_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small mini corpus."""
    config = MiniConfig(
        train_documents=30, dev_documents=6, test_documents=6, contrastive_per_cell=1
    )
    return write_mini_corpus(tmp_path_factory.mktemp("mini") / "corpus", config)


@pytest.fixture
def recompute_layers() -> Callable[[Any], None]:
    """Return a function that lets a model recompute its layers in the backward pass."""

    def enable(model: Any) -> None:
        # Renamed in Transformers 5.23.
        renamed = getattr(model, "activation_checkpointing_enable", None)
        (renamed or model.gradient_checkpointing_enable)({"use_reentrant": False})

    return enable


@pytest.fixture
def write_toy_recipe(mini_corpus: Path, tmp_path: Path) -> Callable[[int, int], Path]:
    """Write a recipe whose runs take seconds; arguments are updates and updates per validation."""

    def write(updates: int, validate_every: int) -> Path:
        model = {"dim": 16, "feed_forward": 32, "heads": 2, "max_positions": 512}
        train = {"max_tokens": 1024, "accumulation": 1, "warmup_updates": 2}
        recipe = {
            "data": {"folder": str(mini_corpus)},
            "subwords": {"vocabulary_size": 450},
            "windows": {"max_length": 128},
            "model": model | {"encoder_layers": 1, "decoder_layers": 1},
            "train": train | {"max_updates": updates, "validate_every": validate_every},
            "decode": {"beam": 1},
            "evaluate": {"resamples": 100},
        }
        path = tmp_path / "toy.yaml"
        path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def trained_run(mini_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the mini corpus. Tests only read it; those that write copy it first."""
    config = RunConfig(
        output=tmp_path_factory.mktemp("trained") / "run",
        method="doc2doc",
        data=DataConfig(folder=mini_corpus),
        subwords=SubwordConfig(vocabulary_size=450),
        windows=WindowConfig(max_length=128),
        model=ModelConfig(
            dim=32,
            feed_forward=64,
            heads=2,
            encoder_layers=1,
            decoder_layers=1,
            dropout=0.0,
            max_positions=160,
        ),
        train=TrainConfig(
            max_tokens=1024,
            accumulation=1,
            max_updates=60,
            validate_every=60,
            warmup_updates=5,
            learning_rate=5e-3,
            clip_norm=0.0,
            label_smoothing=0.0,
        ),
    )
    return train(config).path


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real corpora beside the repository."""
    folder = Path(__file__).parents[1] / "../shared/data"
    if not folder.is_dir():
        pytest.skip("needs the real corpora in ../shared/data, which are not part of the project")
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Chromium; `make browser` installs what it needs."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install 'iada[browser]'"
    )
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs Chromium on the PATH")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=[*CHROMIUM_FLAGS])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def contrasts() -> str:
    """A script that returns the contrast of every piece of text on a page, with the text."""
    return CONTRASTS
