"""The recipes are valid, and those of the paper's corpora hold the paper's numbers."""

from dataclasses import replace
from pathlib import Path

import pytest

from iada.config.data import SubwordConfig
from iada.config.method import METHOD_NAMES, AugmentConfig
from iada.config.model import ModelConfig
from iada.config.run import load_run_config, mini_run
from iada.data.prepared.prepare import Preparation, prepare
from iada.data.windows.windows import Windows

RECIPES = Path(__file__).parents[3] / "recipes"
FOLDERS = sorted(path.name for path in RECIPES.iterdir())
SMALL = sorted(path.parent.name for path in RECIPES.glob("*/cpu.yaml"))
PAPER = ("ted", "news", "europarl")


def test_every_corpus_has_its_recipe() -> None:
    assert FOLDERS == [
        "bcontrast",
        "bible",
        "dialogue",
        "europarl",
        "gnome_help",
        "mini",
        "news",
        "ted",
    ]
    assert SMALL == ["bcontrast", "dialogue", "europarl", "news", "ted"]
    files = {path.name for path in RECIPES.glob("*/*")}
    assert files == {"config.yaml", "cpu.yaml", "README.md"}


@pytest.mark.parametrize("folder", SMALL)
def test_a_small_recipe_does_not_get_in_the_way_of_the_papers(folder: str) -> None:
    small = load_run_config(RECIPES / folder / "cpu.yaml")
    paper = load_run_config(RECIPES / folder / "config.yaml")
    assert small.output != paper.output
    assert small.data.prepared != paper.data.prepared
    assert small.method == paper.method
    assert small.windows.context == 3
    assert small.train.max_tokens >= 4 * small.windows.max_length
    assert small.data.paths("train")[0] == Path("corpus") / folder / "train.en"


# The three whose training text is small enough for a test; all have the files of their recipe.
@pytest.mark.parametrize(
    ("recipe", "corpus"),
    [
        ("ted/cpu.yaml", "ted"),
        ("gnome_help/config.yaml", "gnome_help"),
        ("bcontrast/cpu.yaml", "bcontrast"),
    ],
)
def test_a_small_recipe_fits_its_corpus(
    real_data: Path, tmp_path: Path, recipe: str, corpus: str
) -> None:
    config = load_run_config(RECIPES / recipe)
    data = replace(config.data, folder=real_data / corpus)
    prepared = prepare(Preparation(data, config.subwords, tmp_path / "prepared", workers=1))
    assert prepared.manifest["vocabulary"] == config.subwords.vocabulary_size
    for split in prepared.splits:
        Windows(prepared.store(split, prepared.subwords()), config.windows)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_recipe_is_valid_and_keeps_to_its_own_folders(folder: str) -> None:
    config = load_run_config(RECIPES / folder / "config.yaml")
    assert config.method == "iada_replace_gnorm"
    assert config.output == Path("runs") / folder
    assert config.data.folder == Path("corpus") / folder
    # Batches of the longest windows still have several rows.
    assert config.train.max_tokens >= 4 * config.windows.max_length


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_a_recipe_leaves_the_augmentation_to_the_method(folder: str, method: str) -> None:
    config = load_run_config(RECIPES / folder / "config.yaml", method=method)
    assert config.augment == load_run_config(None, method=method).augment


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_recipe_says_how_to_use_it(folder: str) -> None:
    text = (RECIPES / folder / "README.md").read_text(encoding="utf-8")
    assert f"iada train recipes/{folder}/config.yaml" in text
    assert f"iada evaluate runs/{folder}" in text


@pytest.mark.parametrize("folder", PAPER)
def test_the_papers_recipes_hold_the_papers_numbers(folder: str) -> None:
    config = load_run_config(RECIPES / folder / "config.yaml")
    assert config.windows.context == 3
    assert config.windows.loss_on == "current"
    assert config.subwords == SubwordConfig(merges=32000, pretokenize="moses")
    assert config.data.prepared == Path("corpus") / folder / "prepared"
    # Transformer-base.
    assert config.model == ModelConfig(
        dim=512, feed_forward=2048, heads=8, encoder_layers=6, decoder_layers=6, dropout=0.3
    )
    train = config.train
    assert (train.adam_beta1, train.adam_beta2, train.learning_rate) == (0.9, 0.98, 5e-4)
    assert (train.max_tokens, train.accumulation, train.warmup_updates) == (4096, 8, 4000)
    assert config.augment == AugmentConfig(
        measure="gnorm", replacement="replace", p_context=0.1, p_current=0.1, alpha=0.1
    )


@pytest.mark.parametrize("folder", PAPER)
def test_the_papers_files_have_markers(folder: str) -> None:
    data = load_run_config(RECIPES / folder / "config.yaml").data
    assert data.boundaries == "marker"
    assert [path.name for split in ("train", "dev", "test") for path in data.paths(split)] == [
        "concatenated_en2de_train_en.txt",
        "concatenated_en2de_train_de.txt",
        "concatenated_en2de_dev_en.txt",
        "concatenated_en2de_dev_de.txt",
        "concatenated_en2de_test_en.txt",
        "concatenated_en2de_test_de.txt",
    ]


def test_the_recipe_of_the_mini_corpus_is_the_run_of_the_demonstration() -> None:
    shown = mini_run("iada_replace_gnorm", corpus=Path("corpus/mini"), output=Path("runs/mini"))
    assert load_run_config(RECIPES / "mini" / "config.yaml") == shown
