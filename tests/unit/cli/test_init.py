"""`iada init`: the recipe fits the corpus and the time, and trains without an edit."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from iada.cli.init import (
    SIZES,
    affordable_updates,
    find_corpus,
    fitting_run,
    recipe_text,
    suited_pairs,
    with_updates,
)
from iada.cli.main import main
from iada.config.data import DataConfig
from iada.config.run import RunConfig, load_run_config
from iada.data.formats.readers import file_format
from iada.training.estimate import Estimate, duration

TIMED = Estimate(seconds_per_update=0.5, seconds_per_validation=2.0, updates=1, validate_every=1)


def touch(folder: Path, *names: str, text: str = "a\n\nb\n") -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_the_recipe_of_the_mini_corpus_trains_as_it_is(
    mini_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, output = tmp_path / "recipe.yaml", tmp_path / "run"
    arguments = ["init", str(mini_corpus), "--output", str(recipe), "--run", str(output)]
    assert main([*arguments, "--minutes", "0.01"]) == 0
    said = capsys.readouterr().out
    assert "30 training documents" in said
    assert "That is more than the 1 s of `--minutes`" in said
    assert f"iada train {recipe}" in said
    assert main(["train", str(recipe), "--train.max_updates", "2", "--train.patience", "0"]) == 0
    assert (output / "model" / "config.json").is_file()


def test_languages_and_boundaries_are_recognised(tmp_path: Path) -> None:
    names = [
        f"{split}.{language}" for split in ("train", "dev", "test") for language in ("fr", "en")
    ]
    found = find_corpus(touch(tmp_path, *names, text="<d>\na\n"), source=None, target=None)
    assert (found.source_language, found.target_language) == ("en", "fr")
    assert found.boundaries == "marker"
    other = find_corpus(tmp_path, source="fr", target="en")
    assert (other.source_language, other.target_language) == ("fr", "en")


def test_a_file_with_both_sides_is_recognised(tmp_path: Path) -> None:
    found = find_corpus(touch(tmp_path, "train.tsv"), source="de", target="en")
    assert found.train == "train.tsv"
    assert file_format(found, "dev") == "tsv"


@pytest.mark.parametrize(
    ("header", "languages"),
    [
        ("document\ten\tfr\n", ("en", "fr")),
        ("document\tfr\ten\n", ("en", "fr")),
        ("document\tit\tfr\tspeaker\n", ("it", "fr")),
        ("document\tsource\ttarget\n", ("en", "de")),
    ],
)
def test_the_columns_of_a_table_tell_its_languages(
    tmp_path: Path, header: str, languages: tuple[str, str]
) -> None:
    found = find_corpus(touch(tmp_path, "train.tsv", text=header), source=None, target=None)
    assert (found.source_language, found.target_language) == languages
    swapped = find_corpus(tmp_path, source=languages[1], target=languages[0])
    assert (swapped.source_language, swapped.target_language) == languages[::-1]


def test_a_folder_without_a_corpus_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    touch(tmp_path, "letter.txt")
    assert main(["init", str(tmp_path)]) == 2
    assert "such as train.tsv or train.jsonl. Found: letter.txt." in capsys.readouterr().err


def test_a_recipe_is_not_overwritten(
    mini_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = touch(tmp_path, "recipe.yaml") / "recipe.yaml"
    assert main(["init", str(mini_corpus), "--output", str(path)]) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize(("pairs", "dim"), [(100, 96), (6_000, 96), (6_001, 128), (500_001, 512)])
def test_more_pairs_get_a_larger_model(pairs: int, dim: int) -> None:
    run = fitting_run(DataConfig(), pairs, method="doc2doc", output=Path("r"))
    assert run.model.dim == dim


def test_sizes_grow() -> None:
    for smaller, larger in pairwise(SIZES):
        assert smaller.pairs < larger.pairs
        assert smaller.dim < larger.dim


def test_updates_fill_the_time_validations_included() -> None:
    run = with_updates(RunConfig(), TIMED, epoch=1000, minutes=10)
    assert run.train.max_updates == 20 * run.train.validate_every
    # 600 s: 20 validations of 2 s, the rest updates of half a second.
    assert run.train.max_updates == 1120


def test_a_small_corpus_is_not_read_more_than_sixty_times() -> None:
    assert with_updates(RunConfig(), TIMED, epoch=10, minutes=600).train.max_updates == 600


def test_models_that_are_tried_become_smaller() -> None:
    assert suited_pairs(3_000) == [3_000]
    assert suited_pairs(700_000) == [700_000, 500_000, 120_000, 25_000, 6_000]
    assert affordable_updates(TIMED, 10) == 1120


@pytest.mark.parametrize(("enough", "dim"), [(1, 128), (10**9, 96)])
def test_a_smaller_model_is_taken_where_the_time_is_short(
    mini_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    enough: int,
    dim: int,
) -> None:
    small, medium = SIZES[:2]
    sizes = (replace(small, pairs=10), replace(medium, pieces=small.pieces))
    monkeypatch.setattr("iada.cli.init.SIZES", sizes)
    monkeypatch.setattr("iada.cli.init.ENOUGH_UPDATES", enough)
    path = tmp_path / "recipe.yaml"
    assert main(["init", str(mini_corpus), "--output", str(path), "--minutes", "0.1"]) == 0
    assert load_run_config(path).model.dim == dim
    assert ("a smaller one is tried" in capsys.readouterr().out) == (dim == 96)


def test_the_text_of_a_recipe_is_the_run(tmp_path: Path) -> None:
    run = fitting_run(DataConfig(boundaries="marker"), 10_000, method="doc2doc", output=Path("r"))
    run = with_updates(run, TIMED, epoch=100, minutes=5)
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe_text(run, "5 min", pairs=10_000), encoding="utf-8")
    assert load_run_config(path) == run


def test_documents_are_held_out_where_there_are_no_validation_files(tmp_path: Path) -> None:
    found = find_corpus(touch(tmp_path / "a", "train.en", "train.de"), source=None, target=None)
    assert found.hold_out == 0.1
    assert find_corpus(touch(tmp_path / "b", "train.tmx"), source=None, target=None).hold_out == 0.1
    run = fitting_run(found, 10_000, method="doc2doc", output=Path("r"))
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe_text(run, "5 min", pairs=10_000), encoding="utf-8")
    assert load_run_config(path).data == found


def test_an_estimate_adds_updates_validations_and_the_start() -> None:
    estimate = replace(TIMED, updates=100, validate_every=20)
    assert estimate.seconds == 60
    assert replace(estimate, seconds_to_start=7.0, seconds_to_finish=1.0).seconds == 68
    # The last update is validated, whether it was its turn or not.
    assert replace(estimate, validate_every=24).validations == 5
    assert estimate.describe().startswith("60 s for 100 updates (0.5 s each")


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (600, "10 min"), (7200, "2.0 h"), (300_000, "3.5 days")]
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
