"""The grid: one folder for each distinct run, named by what it is, in an order that works."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from iada.config.data import DataConfig, SubwordConfig
from iada.config.experiment import ExperimentConfig
from iada.data.prepared.prepare import Preparation, prepare
from iada.errors import ConfigError, DataError
from iada.experiments.definitions import build_experiment, experiment_names
from iada.experiments.grid import Base, Grid, Synthesis, build_grid, open_base
from iada.experiments.plan import Experiment, Ranges, System
from iada.experiments.scheduler import Job
from iada.synthesis.translated import synthetic_data


def experiments(*names: str) -> list[Experiment]:
    config = ExperimentConfig(names=names)
    shares = config.low_resource_shares
    return [build_experiment(name, Ranges(shares, config.alphas)) for name in names]


def mini(output: Path = Path("out"), **flags: object) -> Base:
    return open_base(ExperimentConfig(names=("all",), output=output, **flags))  # type: ignore[arg-type]


def runs(grid: Grid) -> list[Job]:
    return [task for task in grid.tasks if isinstance(task, Job)]


def test_everything_on_the_mini_corpus_is_this_many_runs() -> None:
    grid = build_grid(mini(), experiments(*experiment_names()), (1,))
    # main 19, architectures +18 beside those of main and controls, controls +12, alpha_sweep +7,
    # directions +6, measures +2, losses +6, bt_ft +6 and the reverse run, low_resource +10,
    # noisy_context +5, stages +8; pronouns, distance and pos need no run more.
    assert len(runs(grid)) == 100
    assert len(grid.tasks) == len(runs(grid)) + 2
    assert len({task.folder for task in grid.tasks}) == len(grid.tasks)
    three = build_grid(mini(), experiments(*experiment_names()), (1, 2, 3))
    assert len(three.tasks) == 3 * len(grid.tasks)


def test_experiments_share_runs_and_seeds_share_names() -> None:
    names: tuple[str, ...] = ("main", "low_resource", "alpha_sweep", "directions")
    grid = build_grid(mini(), experiments(*names), (1, 2))
    gnorm = System("iada_replace_gnorm")
    same = [
        gnorm,
        replace(gnorm, changes=(("augment.alpha", 0.1),)),
        replace(gnorm, changes=(("data.subset", 1.0),)),
        System(
            "iada_replace_gnorm",
            (("augment.context_direction", "down"), ("augment.current_direction", "up")),
        ),
    ]
    folders = {grid.jobs[system, 1].folder for system in same}
    assert len(folders) == 1
    (folder,) = folders
    assert re.fullmatch(r"out/mini/runs/iada_replace_gnorm-[0-9a-f]{8}/seed-1", str(folder))
    assert grid.jobs[gnorm, 2].folder == folder.with_name("seed-2")
    assert [job.config.seed for job in grid.runs(gnorm, (1, 2))] == [1, 2]


@pytest.mark.parametrize(
    ("system", "name"),
    [
        (System("doc2doc", (("windows.context", 0),)), "doc2doc-context_0-"),
        (System("doc2doc", (("data.subset", 0.2),)), "doc2doc-subset_0.2-"),
        (System("iada_drop_tnorm", (("augment.alpha", 3.0),)), "iada_drop_tnorm-alpha_3-"),
        (System("doc2doc", synthetic="back_translate"), "doc2doc-back_translate-"),
    ],
)
def test_names_say_what_differs(system: System, name: str) -> None:
    (experiment,) = experiments("pos")
    row = replace(experiment.rows[0], system=system)
    grid = build_grid(mini(), [replace(experiment, rows=(row,))], (1, 2))
    found = [grid.jobs[system, seed].folder.parent.name for seed in (1, 2)]
    assert found[0] == found[1]
    assert re.fullmatch(f"{re.escape(name)}[0-9a-f]{{8}}", found[0])


def test_a_run_is_configured_as_its_row_says() -> None:
    grid = build_grid(mini(updates=7), experiments("noisy_context"), (3,))
    noisy = grid.jobs[System("word_replace", (("windows.noisy_context", 2),)), 3].config
    gold = grid.jobs[System("word_replace"), 3].config
    assert (noisy.method, noisy.seed, noisy.train.max_updates) == ("word_replace", 3, 7)
    assert noisy == replace(
        gold, output=noisy.output, windows=replace(gold.windows, noisy_context=2)
    )


def test_another_setting_is_another_run_and_another_place_is_not() -> None:
    def name(base: Base) -> str:
        grid = build_grid(base, experiments("pos"), (1,))
        return grid.jobs[System("word_replace"), 1].folder.parent.name

    assert name(mini()) == name(mini(Path("elsewhere")))
    assert name(mini()) != name(mini(updates=7))


def test_synthetic_data_are_made_after_their_translator_and_before_their_runs() -> None:
    grid = build_grid(mini(), experiments("bt_ft"), (5,))
    places = {task.folder: place for place, task in enumerate(grid.tasks)}
    assert len(runs(grid)) == 9 + 1
    for task in grid.tasks:
        assert all(places[folder] < places[task.folder] for folder in task.needs)
    made = {task.kind: task for task in grid.tasks if isinstance(task, Synthesis)}
    back, forward = made["back_translate"], made["forward_translate"]
    by_folder = {job.folder: job for job in runs(grid)}
    reverse = by_folder[back.run_folder]
    assert (reverse.config.data.source_language, reverse.config.data.target_language) == (
        "de",
        "en",
    )
    assert not reverse.is_scored
    assert reverse.contrastive_set is None
    assert reverse.config.seed == 5
    plain = grid.jobs[System("doc2doc"), 5]
    assert forward.run_folder == plain.folder
    assert plain.is_scored
    assert forward.data == back.data == plain.config.data
    doubled = grid.jobs[System("iada_replace_gnorm", synthetic="back_translate"), 5]
    assert doubled.needs == (back.folder,)
    assert doubled.config.data == replace(plain.config.data, folder=back.folder)
    assert doubled.config.augment == grid.jobs[System("iada_replace_gnorm"), 5].config.augment


def test_a_second_stage_begins_with_the_first_of_its_seed() -> None:
    first = System("doc2doc", (("windows.context", 0),))
    changes = (("model.architecture", "han"), ("model.context_sides", "both"))
    second = System("doc2doc", changes, start=first)
    grid = build_grid(mini(), experiments("stages"), (1, 2))
    places = {task.folder: place for place, task in enumerate(grid.tasks)}
    for seed in (1, 2):
        one, two = grid.jobs[first, seed], grid.jobs[second, seed]
        assert two.needs == (one.folder,)
        assert two.config.train.start == one.folder
        assert places[one.folder] < places[two.folder]
    names = {grid.jobs[second, seed].folder.parent.name for seed in (1, 2)}
    (name,) = names
    scratch = grid.jobs[System("doc2doc", changes), 1].folder.parent.name
    assert name.startswith("doc2doc-architecture_han-context_sides_both-start_doc2doc-context_0-")
    assert name != scratch
    # Neither another place nor the rest of the grid makes it another run.
    elsewhere = build_grid(mini(Path("elsewhere")), experiments("stages"), (2,))
    assert elsewhere.jobs[second, 2].folder.parent.name == name
    # Another first stage does.
    other = build_grid(mini(updates=7), experiments("stages"), (1,))
    assert other.jobs[second, 1].folder.parent.name != name


def test_synthetic_data_of_text_without_boundaries_are_read_as_they_are_written(
    recipe: Path,
) -> None:
    """Real and synthetic documents in one file need a boundary, and it is not a sentence."""
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace("data: {", "data: {boundaries: none, "), encoding="utf-8")
    grid = build_grid(recipe_base(recipe), experiments("bt_ft"), (1,))
    real = grid.jobs[System("doc2doc"), 1].config.data
    doubled = grid.jobs[System("doc2doc", synthetic="back_translate"), 1].config.data
    assert real.boundaries == "none"
    assert doubled.boundaries == "marker"
    (made,) = (
        task for task in grid.tasks if isinstance(task, Synthesis) and task.kind == "back_translate"
    )
    assert doubled == synthetic_data(made.data, made.folder)


def test_what_others_need_is_begun_first_and_then_the_costliest() -> None:
    grid = build_grid(mini(), experiments("bt_ft", "controls"), (1,))
    needed = {folder for task in grid.tasks for folder in task.needs}
    firsts = [task.folder in needed for task in grid.tasks]
    assert firsts == sorted(firsts, reverse=True)
    costs = [job.cost for job in runs(grid) if job.folder not in needed]
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) == 3


RECIPE = """
method: iada_replace_gnorm
seed: 9
data: {{folder: {corpus}{prepared}}}
subwords: {{vocabulary_size: 450}}
windows: {{max_length: 100}}
train: {{max_updates: 50, validate_every: 10}}
"""


@pytest.fixture
def recipe(tmp_path: Path, mini_corpus: Path) -> Path:
    path = tmp_path / "corpora" / "own.yaml"
    path.parent.mkdir()
    path.write_text(RECIPE.format(corpus=mini_corpus, prepared=""), encoding="utf-8")
    return path


def recipe_base(recipe: Path, **flags: object) -> Base:
    given = {"output": Path("out"), "data": str(recipe)} | flags
    return open_base(ExperimentConfig(names=("all",), **given))  # type: ignore[arg-type]


def test_a_recipe_is_the_base_of_all_rows(recipe: Path, mini_corpus: Path) -> None:
    base = recipe_base(recipe, contrastive=mini_corpus / "contrastive.json")
    assert base.root == Path("out/corpora-own")
    assert base.mini_corpus is None
    grid = build_grid(base, experiments("main"), (1,))
    job = grid.jobs[System("word_drop"), 1]
    assert job.config.augment.measure == "uniform"
    assert (job.config.windows.max_length, job.config.train.max_updates) == (100, 50)
    assert job.config.seed == 1
    assert job.contrastive_set == mini_corpus / "contrastive.json"
    assert recipe_base(recipe, updates=4).run_config("doc2doc").train.validate_every == 4
    assert recipe_base(recipe, updates=20).run_config("doc2doc").train.validate_every == 10


@pytest.mark.parametrize(
    ("change", "renames"),
    [
        (("seed: 9", "seed: 8\noutput: there"), False),
        (("validate_every: 10", "validate_every: 10, threads: 3, log_every: 7"), False),
        (("train:", "evaluate: {resamples: 7, test: randomization}\ntrain:"), False),
        (("validate_every: 10", "validate_every: 5"), True),
        (("train:", "evaluate: {lowercase: true}\ntrain:"), True),
        (("train:", "decode: {beam: 2}\ntrain:"), True),
        (("max_length: 100", "max_length: 101"), True),
    ],
)
def test_only_what_can_change_a_result_renames_a_run(
    recipe: Path, change: tuple[str, str], renames: bool
) -> None:
    def names() -> set[Path]:
        grid = build_grid(recipe_base(recipe), experiments("pos"), (1,))
        return {task.folder for task in grid.tasks}

    before = names()
    recipe.write_text(recipe.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    assert (names() != before) == renames


@pytest.mark.parametrize(
    ("path", "name"),
    [("ted/config.yaml", "ted"), ("ted/cpu.yaml", "ted-cpu"), ("mini/config.yaml", "mini-recipe")],
)
def test_a_corpus_is_named_by_its_recipe(recipe: Path, path: str, name: str) -> None:
    file = recipe.parent / path
    file.parent.mkdir()
    file.write_text(recipe.read_text(encoding="utf-8"), encoding="utf-8")
    assert recipe_base(file).name == name


def test_a_recipe_must_leave_augmentation_to_the_rows(recipe: Path) -> None:
    text = recipe.read_text(encoding="utf-8") + "augment: {alpha: 0.3}\n"
    recipe.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"own\.yaml: has an `augment` section.*Remove"):
        recipe_base(recipe)


def test_a_corpus_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"`data` is 'nowhere\.yaml'.*Give `mini`, a recipe"):
        recipe_base(Path("nowhere.yaml"))


def test_a_prepared_folder_serves_where_it_can(recipe: Path, mini_corpus: Path) -> None:
    prepared = recipe.parent / "prepared"
    prepare(
        Preparation(
            DataConfig(folder=mini_corpus), SubwordConfig(vocabulary_size=450), prepared, workers=1
        )
    )
    text = RECIPE.format(corpus=mini_corpus, prepared=f", prepared: {prepared}")
    recipe.write_text(text, encoding="utf-8")
    base = recipe_base(recipe)
    grid = build_grid(base, experiments("bt_ft", "low_resource"), (1,))
    assert grid.jobs[System("doc2doc"), 1].config.data.prepared == prepared
    subset = grid.jobs[System("doc2doc", (("data.subset", 0.2),)), 1]
    assert subset.config.data.prepared == prepared
    for task in grid.tasks:
        if isinstance(task, Synthesis):
            assert task.data.prepared is None
        elif isinstance(task, Job) and (task.needs or not task.is_scored):
            assert task.config.data.prepared is None
    other = text.replace("450", "460")
    recipe.write_text(other, encoding="utf-8")
    with pytest.raises(DataError, match="was prepared with other settings"):
        recipe_base(recipe)


def test_a_prepared_folder_is_enough_where_its_text_is_around_it(
    tmp_path: Path, mini_corpus: Path
) -> None:
    corpus = tmp_path / "news"
    corpus.mkdir()
    for file in mini_corpus.glob("*.??"):
        (corpus / file.name).write_bytes(file.read_bytes())
    data, subwords = DataConfig(folder=corpus), SubwordConfig(vocabulary_size=450)
    prepare(Preparation(data, subwords, corpus / "prepared", workers=1))
    base = recipe_base(corpus / "prepared")
    assert base.name == "news"
    config = base.run_config("word_drop")
    assert config.data == replace(data, prepared=corpus / "prepared")
    assert config.subwords == subwords
    assert config.augment.replacement == "drop"
    (corpus / "test.de").write_text("Etwas anderes.\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"Give a recipe with `data\.folder`"):
        recipe_base(corpus / "prepared")


@pytest.mark.parametrize("pattern", ["test-{side}.sgm", "test.json"])
def test_what_cannot_be_read_backwards_is_refused(recipe: Path, pattern: str) -> None:
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace("data: {", f"data: {{test: '{pattern}', "), encoding="utf-8")
    build_grid(recipe_base(recipe), experiments("main"), (1,))
    with pytest.raises(ConfigError, match=r"`data\.test` must be text, tsv or jsonl files"):
        build_grid(recipe_base(recipe), experiments("bt_ft"), (1,))
