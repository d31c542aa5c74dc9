"""Every experiment has the rows that its table in the paper has, and what they are set to."""

import pytest

from iada.config.experiment import ExperimentConfig
from iada.config.method import METHOD_NAMES
from iada.errors import ConfigError
from iada.experiments.definitions import build_experiment, choose_experiments, experiment_names
from iada.experiments.plan import Experiment, Ranges, System, with_rows
from iada.report.runs import METHOD_LABELS

EXPERIMENT_NAMES = experiment_names()
IADA = ("iada_replace_tnorm", "iada_replace_gnorm")


def build(name: str) -> Experiment:
    return build_experiment(name, Ranges((1.0, 0.2, 0.5), (0.1, 0.0, 3.0)))


def systems(experiment: Experiment) -> dict[str, System]:
    return {row.key: row.system for row in experiment.rows}


@pytest.mark.parametrize("name", EXPERIMENT_NAMES)
def test_rows_are_distinct_and_compared_with_rows(name: str) -> None:
    experiment = build(name)
    keys = [row.key for row in experiment.rows]
    assert experiment.name == name
    assert len(set(keys)) == len(keys)
    assert len({row.label for row in experiment.rows}) == len(keys)
    assert len(set(systems(experiment).values())) == len(keys)
    assert experiment.baseline in keys
    for row in experiment.rows:
        assert row.system.method in METHOD_NAMES
        assert (row.against is None) or (row.against in keys and row.against != row.key)
        assert (row.value is not None) == (experiment.axis is not None)
    assert next(r for r in experiment.rows if r.key == experiment.baseline).against is None


def test_plain_rows_are_called_what_reports_call_the_method() -> None:
    for name in EXPERIMENT_NAMES:
        for row in build(name).rows:
            if row.system == System(row.system.method) and row.value is None:
                unmarked = {"tnorm_down_up", "gnorm_down_up"}
                assert row.key in unmarked or row.label == METHOD_LABELS[row.key]


def test_main_has_the_rows_of_the_paper() -> None:
    rows = systems(build("main"))
    assert list(rows) == [
        "sentence_level",
        "doc2doc",
        "word_drop",
        "word_replace",
        "bpe_dropout",
        "cipher",
        "han",
        "san",
        "hybrid",
        "flat",
        "gtrans",
        "docflat",
        "gtrans_word_drop",
        "docflat_word_drop",
        "multires",
        "iada_drop_tnorm",
        "iada_drop_gnorm",
        *IADA,
    ]
    assert rows["sentence_level"] == System("doc2doc", (("windows.context", 0),))
    hard = (("model.architecture", "docflat"), ("model.gate", "hard"))
    assert rows["docflat"] == System("doc2doc", hard)
    assert rows["docflat_word_drop"] == System("word_drop", hard)


def test_every_architecture_is_compared_with_doc2doc_and_augmented_with_itself() -> None:
    experiment = build("architectures")
    against = {row.key: row.against for row in experiment.rows}
    assert len(against) == 4 * 7
    assert against["gtrans"] == "doc2doc"
    assert against["gtrans_iada_replace_gnorm"] == "gtrans"
    rows = systems(experiment)
    # GNorm cannot see context that gets no gradient.
    flows = ("model.stop_context", False)
    for name in ("han", "san", "hybrid"):
        assert flows in rows[f"{name}_iada_replace_gnorm"].changes
        assert flows not in rows[name].changes
    labels = {row.key: row.label for row in experiment.rows}
    assert labels["san_iada_replace_gnorm"] == "SAN + IADA (Repl, GNorm), gradients flow"
    assert labels["flat_iada_replace_gnorm"] == "FlatTrans + IADA (Repl, GNorm)"


def test_second_stages_are_compared_with_the_same_system_from_scratch() -> None:
    experiment = build("stages")
    against = {row.key: row.against for row in experiment.rows}
    rows = systems(experiment)
    staged = [key for key, system in rows.items() if system.start is not None]
    assert [key.removesuffix("_staged") for key in staged] == [
        "doc2doc",
        "word_drop",
        "han",
        "san",
        "gtrans",
        "gtrans_word_drop",
        "docflat",
        "docflat_word_drop",
    ]
    for key in staged:
        assert rows[key].start == rows["sentence_level"]
        assert against[key] == key.removesuffix("_staged")
    assert ("model.frozen_context", True) in rows["san_staged"].changes


def test_directions_are_all_pairs_of_signs_for_both_measures() -> None:
    rows = systems(build("directions"))
    assert list(rows)[:3] == ["word_replace", "doc2doc", "uniform_replace_all_losses"]
    assert len(rows) == 3 + 8
    assert rows["tnorm_up_down"] == System(
        "iada_replace_tnorm",
        (("augment.context_direction", "up"), ("augment.current_direction", "down")),
    )
    signs = {tuple(value for _, value in system.changes) for system in rows.values()}
    assert signs == {(), ("down", "up"), ("up", "down"), ("down", "down"), ("up", "up")}


def test_measures_are_normalised_and_not() -> None:
    rows = systems(build("measures"))
    assert list(rows) == [
        "word_replace",
        "doc2doc",
        *IADA,
        "iada_replace_random",
        "iada_replace_tnorm_not_normalised",
        "iada_replace_gnorm_not_normalised",
    ]
    assert rows["iada_replace_gnorm_not_normalised"].changes == (("augment.normalize", "none"),)


def test_losses_leave_one_out_each() -> None:
    rows = systems(build("losses"))
    assert len(rows) == 2 + 2 * 4
    for measure in ("tnorm", "gnorm"):
        for loss in ("original", "perturbed", "agreement"):
            expected = System(f"iada_replace_{measure}", ((f"augment.weight_{loss}", 0.0),))
            assert rows[f"{measure}_without_{loss}"] == expected


@pytest.mark.parametrize(("name", "kind"), [("pronouns", "class"), ("distance", "distance")])
def test_contrastive_experiments_break_their_accuracy_down(name: str, kind: str) -> None:
    experiment = build(name)
    assert experiment.breakdown == kind
    assert list(systems(experiment)) == ["sentence_level", "doc2doc", "word_replace", *IADA]


def test_synthetic_data_come_with_and_without_iada() -> None:
    rows = systems(build("bt_ft"))
    assert len(rows) == 9
    for key in ("doc2doc", *IADA):
        assert rows[key] == System(key)
        assert rows[f"{key}_bt"] == System(key, synthetic="back_translate")
        assert rows[f"{key}_ft"] == System(key, synthetic="forward_translate")


def test_shares_are_compared_with_doc2doc_on_the_same_documents() -> None:
    experiment = build("low_resource")
    assert experiment.axis == "data.subset"
    assert experiment.baseline == "doc2doc_100"
    assert [row.value for row in experiment.rows] == [0.2] * 5 + [0.5] * 5 + [1.0] * 5
    rows = {row.key: row for row in experiment.rows}
    assert rows["word_replace_20"].system == System("word_replace", (("data.subset", 0.2),))
    assert rows["word_replace_20"].against == "doc2doc_20"
    assert rows["word_replace_20"].series == "WordRepl"
    assert rows["iada_replace_gnorm_100"].against == "doc2doc_100"
    assert rows["doc2doc_50"].against is None
    uniform = System("uniform_replace_all_losses", (("data.subset", 0.2),))
    assert rows["uniform_replace_all_losses_20"].system == uniform


def test_noise_is_compared_with_noise() -> None:
    rows = {row.key: row for row in build("noisy_context").rows}
    assert len(rows) == 10
    assert "uniform_replace_all_losses_noisy" in rows
    assert rows["word_replace_noisy"].system.changes == (("windows.noisy_context", 2),)
    assert rows["word_replace_noisy"].against == "doc2doc_noisy"
    assert rows["word_replace"].against == "doc2doc"
    assert rows["doc2doc_noisy"].against is None


def test_parts_of_speech_are_compared_with_uniform_replacement() -> None:
    experiment = build("pos")
    assert experiment.has_pos
    assert list(systems(experiment)) == ["word_replace", *IADA]
    assert experiment.baseline == "word_replace"


def test_alphas_are_compared_with_no_tilt() -> None:
    experiment = build("alpha_sweep")
    assert experiment.axis == "augment.alpha"
    assert [(row.key, row.value) for row in experiment.rows] == [
        ("alpha_0", 0.0),
        ("alpha_0.1", 0.1),
        ("alpha_3", 3.0),
        ("alpha_0.1_matched", 0.1),
        ("alpha_3_matched", 3.0),
    ]
    matched = (("augment.alpha", 3.0), ("augment.budget", "matched"))
    assert experiment.rows[-1].system == System("iada_replace_gnorm", matched)
    assert len({row.series for row in experiment.rows}) == 2
    assert experiment.baseline == "alpha_0"
    assert experiment.rows[2].system == System("iada_replace_gnorm", (("augment.alpha", 3.0),))


def test_controls_are_compared_with_uniform_replacement_under_the_same_losses() -> None:
    experiment = build("controls")
    assert experiment.baseline == "uniform_replace_all_losses"
    assert list(systems(experiment)) == [
        "sentence_level",
        "doc2doc",
        "word_replace",
        "coword_drop",
        "r_drop",
        "simcut",
        "uniform_replace_all_losses",
        "uniform_replace_all_losses_0.05",
        "uniform_replace_all_losses_0.2",
        "uniform_replace_all_losses_0.3",
        "iada_replace_random",
        "iada_replace_random_matched",
        "iada_replace_gnorm",
        "iada_replace_gnorm_matched",
        "iada_replace_tnorm_alpha_1_matched",
        "iada_replace_gnorm_alpha_1_matched",
        "iada_replace_gnorm_lagged",
    ]
    # The sweep has the same run.
    strong = systems(build_experiment("alpha_sweep"))["alpha_1_matched"]
    assert systems(experiment)["iada_replace_gnorm_alpha_1_matched"] == strong


def test_the_uniform_control_is_tried_with_more_and_less_noise() -> None:
    rows = systems(build("controls"))
    rates = (("augment.p_context", 0.2), ("augment.p_current", 0.2))
    expected = System("uniform_replace_all_losses", rates)
    assert rows["uniform_replace_all_losses_0.2"] == expected


def test_chosen_rows_stay_with_what_they_are_compared_with() -> None:
    chosen = with_rows(build("main"), ("iada_replace_gnorm", "word_replace"))
    assert [row.key for row in chosen.rows] == ["doc2doc", "word_replace", "iada_replace_gnorm"]
    shared = build("low_resource")
    row = next(row for row in shared.rows if row.against not in (None, shared.baseline))
    kept = {row.key for row in with_rows(shared, (row.key,)).rows}
    assert kept == {shared.baseline, row.against, row.key}


def test_a_row_that_does_not_exist_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"no such row. Did you mean `word_replace`\?"):
        with_rows(build("main"), ("doc2doc", "word_replaced"))


def test_all_stands_for_everything_and_order_is_the_usual_one() -> None:
    assert choose_experiments(("all",)) == EXPERIMENT_NAMES
    assert choose_experiments(("losses", "main", "losses")) == ("main", "losses")


def test_the_mini_corpus_has_fewer_shares() -> None:
    assert ExperimentConfig(names=("all",)).low_resource_shares == (0.2, 0.5, 1.0)
    paper = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert ExperimentConfig(names=("all",), data="r.yaml").low_resource_shares == paper
    given = ExperimentConfig(names=("all",), data="r.yaml", shares=(0.1,))
    assert given.low_resource_shares == (0.1,)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"names": ()}, "`names` must be at least one experiment"),
        ({"seeds": ()}, "`seeds` must be at least one seed"),
        ({"seeds": (1, 1)}, "`seeds` must be all different"),
        ({"alphas": (-1.0,)}, "`alphas` must be 0 or more"),
        ({"alphas": ()}, "`alphas` must be at least one value"),
        ({"shares": (1.5,)}, "`shares` must be more than 0 and at most 1"),
        ({"shares": ()}, "`shares` must be at least one share"),
        ({"rows": ("doc2doc", "doc2doc")}, "`rows` must be all different"),
        ({"jobs": -1}, "`jobs` must be 0 or more"),
        ({"updates": 0}, "`updates` must be above 0"),
    ],
)
def test_values_that_make_no_grid_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExperimentConfig(**({"names": ("main",)} | wrong))  # type: ignore[arg-type]
