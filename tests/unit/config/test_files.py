"""Strict YAML: what is refused, how it is said, and that nothing is lost on the way."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from iada.config.base import differences, from_mapping, read_yaml, to_mapping, write_yaml
from iada.config.method import METHOD_NAMES, AugmentConfig, augmentation
from iada.config.run import RunConfig, load_run_config
from iada.config.train import TrainConfig
from iada.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.5
    kind: Literal["soft", "hard"] = "soft"


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = "x"
    count: int = 1
    ready: bool = False
    folder: Path = Path("here")
    limit: int | None = None
    choice: int | str = 1
    sizes: tuple[int, ...] = ()
    inner: Inner = field(default_factory=Inner)
    extra: Inner | None = None


@dataclass(frozen=True, kw_only=True)
class Needs:
    path: Path


def refusal(mapping: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        from_mapping(Outer, mapping, where="c.yaml")
    return str(caught.value)


def written(folder: Path, text: str) -> Path:
    path = folder / "c.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_kind_of_value_is_read() -> None:
    mapping = {
        "name": "run",
        "count": 3,
        "ready": True,
        "folder": "a/b",
        "limit": None,
        "choice": "many",
        "sizes": [1, 2],
        "inner": {"rate": 1, "kind": "hard"},
        "extra": {"rate": 0.25},
    }
    assert from_mapping(Outer, mapping, where="c.yaml") == Outer(
        name="run",
        count=3,
        ready=True,
        folder=Path("a/b"),
        choice="many",
        sizes=(1, 2),
        inner=Inner(rate=1.0, kind="hard"),
        extra=Inner(rate=0.25),
    )


def test_an_empty_mapping_gives_the_defaults() -> None:
    assert from_mapping(Outer, {}, where="c.yaml") == Outer()


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(RunConfig, {"augment": {"mesure": "gnorm"}}, where="c.yaml")
    expected = "c.yaml:augment: unknown key `mesure` in `AugmentConfig`. Did you mean `measure`?"
    assert str(caught.value) == expected


def test_an_unknown_key_without_a_near_one_lists_the_known_ones() -> None:
    assert refusal({"inner": {"zzz": 1}}) == (
        "c.yaml:inner: unknown key `zzz` in `Inner`. Known: `rate`, `kind`."
    )


def test_a_key_that_is_not_text_is_refused() -> None:
    assert refusal({7: 1}).startswith("c.yaml: unknown key `7` in `Outer`.")  # type: ignore[dict-item]


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^c\.yaml: `path` is missing in `Needs`\.$"):
        from_mapping(Needs, {}, where="c.yaml")


def test_all_findings_are_reported_together() -> None:
    lines = refusal({"nme": "a", "count": "b", "inner": {"rat": 1, "kind": 3}}).splitlines()
    assert lines == [
        "c.yaml: unknown key `nme` in `Outer`. Did you mean `name`?",
        "c.yaml: `count` must be a whole number, but is 'b'.",
        "c.yaml:inner: unknown key `rat` in `Inner`. Did you mean `rate`?",
        "c.yaml:inner: `kind` must be one of `soft`, `hard`, but is 3."
        " Put it in quotes if it is meant as text.",
    ]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"count": True}, "`count` must be a whole number, but is True."),
        ({"count": 1.0}, "`count` must be a whole number, but is 1.0."),
        ({"count": None}, "`count` must be a whole number, but is None."),
        ({"ready": 1}, "`ready` must be true or false, but is 1."),
        ({"ready": "yes"}, "`ready` must be true or false, but is 'yes'."),
        ({"name": 3}, "`name` must be text, but is 3. Put it in quotes if it is meant as text."),
        ({"folder": 3}, "`folder` must be a path, but is 3."),
        ({"limit": "a"}, "`limit` must be a whole number, but is 'a'."),
        ({"choice": 1.5}, "`choice` must be a whole number or text, but is 1.5."),
        ({"sizes": 3}, "`sizes` must be a list, each item a whole number, but is 3."),
        ({"sizes": [1, "a"]}, "`sizes` must be a whole number, but is 'a'."),
        ({"inner": 3}, "`inner` must be a section with the keys of `Inner`, but is 3."),
    ],
)
def test_a_wrong_value_is_refused_with_key_rule_and_value(
    mapping: dict[str, Any], message: str
) -> None:
    assert refusal(mapping) == f"c.yaml: {message}"


@pytest.mark.parametrize("value", [True, "fast", "0.5", "inf", float("nan"), float("inf"), None])
def test_a_rate_must_be_a_finite_number(value: object) -> None:
    assert refusal({"inner": {"rate": value}}).startswith("c.yaml:inner: `rate` must be a number")


@pytest.mark.parametrize(
    ("text", "value"), [("5e-4", 5e-4), ("1e3", 1000.0), ("2", 2.0), ("-1.5E+2", -150.0)]
)
def test_numbers_are_read_as_people_write_them(text: str, value: float) -> None:
    rate = from_mapping(Outer, yaml.safe_load(f"inner: {{rate: {text}}}"), where="c").inner.rate
    assert rate == value
    assert isinstance(rate, float)


def test_a_misspelt_choice_is_answered_with_the_nearest_one() -> None:
    assert refusal({"inner": {"kind": "sof"}}).endswith("but is 'sof'. Did you mean `soft`?")


def test_norwegian_without_quotes_is_explained() -> None:
    with pytest.raises(ConfigError, match=r"must be text, but is False\. Put it in quotes"):
        from_mapping(RunConfig, yaml.safe_load("data: {source_language: no}"), where="c.yaml")


def test_rules_between_values_name_the_file() -> None:
    with pytest.raises(ConfigError, match=r"^c\.yaml: `augment\.p_context` must be at least 0"):
        from_mapping(RunConfig, {"augment": {"p_context": 2}}, where="c.yaml")
    with pytest.raises(ConfigError, match=r"^c\.yaml: `windows\.max_length` must be at most"):
        from_mapping(RunConfig, {"windows": {"max_length": 2000}}, where="c.yaml")


def test_paths_become_text_and_tuples_lists() -> None:
    mapping = to_mapping(Outer(folder=Path("a/b"), sizes=(1, 2)))
    assert mapping["folder"] == "a/b"
    assert mapping["sizes"] == [1, 2]
    assert mapping["inner"] == {"rate": 0.5, "kind": "soft"}


@given(
    st.builds(
        Outer,
        name=st.text(),
        count=st.integers(-(2**63) + 1, 2**63 - 1),
        ready=st.booleans(),
        limit=st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
        choice=st.integers(-(2**63) + 1, 2**63 - 1) | st.text(),
        sizes=st.lists(st.integers(-(2**63) + 1, 2**63 - 1)).map(tuple),
        inner=st.builds(Inner, rate=st.floats(allow_nan=False, allow_infinity=False)),
    )
)
def test_any_configuration_survives_yaml(config: Outer) -> None:
    text = yaml.safe_dump(to_mapping(config))
    assert from_mapping(Outer, yaml.safe_load(text), where="c.yaml") == config


def test_an_empty_file_is_an_empty_mapping(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, "# nothing\n")) == {}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: there is no such configuration file"):
        read_yaml(tmp_path / "none.yaml")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder, but must be a YAML file"):
        read_yaml(tmp_path)


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes("seed: 1  # für".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(byte 12\)"):
        read_yaml(path)


def test_a_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must hold `key: value` lines, but holds one list"):
        read_yaml(written(tmp_path, "- seed\n"))


def test_a_syntax_error_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"c\.yaml:2: is not valid YAML: "):
        read_yaml(written(tmp_path, "seed: 1\ntrain: {a: [}\n"))


def test_control_characters_are_refused_as_invalid(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not valid YAML"):
        read_yaml(written(tmp_path, "seed: \0\n"))


def test_repeated_keys_are_refused_with_their_lines(tmp_path: Path) -> None:
    text = "seed: 1\ntrain:\n  threads: 1\n  threads: 2\nitems: [{a: 1, a: 2}]\nseed: 2\n"
    with pytest.raises(ConfigError) as caught:
        read_yaml(written(tmp_path, text))
    found = sorted(line.rsplit("c.yaml:", 1)[1] for line in str(caught.value).splitlines())
    assert found == [
        "4: the key `threads` is given twice.",
        "5: the key `a` is given twice.",
        "6: the key `seed` is given twice.",
    ]


BOMBS = {
    "anchor": ("a: &a [*a]\n", r":1: uses an anchor or alias"),
    "alias": ("b: 1\na: *a\n", r":2: uses an anchor or alias"),
    "lists": ("a:\n  " + "[" * 90_000, r":2: is nested more than 20 levels deep"),
    "sections": ("{a: " * 20_000, r":1: is nested more than 20 levels deep"),
    "digits": ("seed: " + "9" * 90_000, r":1: contains a number of 90000 digits; at most 40"),
    "base_60": ("seed: " + "1:" * 40_000 + "1", r":1: contains a number of 80001 digits"),
    "date": ("a: 2001-99-99\n", r": contains a value that cannot be read \(month must be in"),
    "size": ("a: 1\n" * 20_001, r": has 100,005 bytes, but a configuration has at most 100,000"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_would_take_unbounded_time_or_memory_is_refused_in_one_line(
    tmp_path: Path, name: str
) -> None:
    text, message = BOMBS[name]
    path = written(tmp_path, text)
    started = time.process_time()
    with pytest.raises(ConfigError, match=message) as refused:
        read_yaml(path)
    assert time.process_time() - started < 5
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_long_text_and_twenty_levels_are_no_bombs(tmp_path: Path) -> None:
    digits = "9" * 100
    text = f"a: '{digits}'\nb: v{digits}\nc: " + "[" * 19 + "]" * 19 + "\n"
    # Depth counts and not number: lists side by side are fine.
    text += "".join(f"d{number}: [1]\n" for number in range(30))
    content = read_yaml(written(tmp_path, text))
    assert (content["a"], content["b"]) == (digits, f"v{digits}")


def test_a_whole_number_has_at_most_64_bits(tmp_path: Path) -> None:
    assert from_mapping(Outer, {"count": 2**63 - 1}, where="c.yaml").count == 2**63 - 1
    message = "c.yaml: `count` must be a whole number, but is 9223372036854775808. It must fit into"
    assert refusal({"count": 2**63}) == f"{message} 64 bits."


def test_writing_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = written(tmp_path, "old: 1\n")
    write_yaml(path, {"b": "ü", "a": [1]})
    assert path.read_text(encoding="utf-8") == "b: ü\na:\n- 1\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    path = written(tmp_path, "old: 1\n")
    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_yaml(path, {"new": 1})
    assert read_yaml(path) == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_no_file_gives_the_defaults() -> None:
    assert load_run_config(None) == RunConfig()


def test_the_method_sets_the_defaults_of_augment(tmp_path: Path) -> None:
    path = written(tmp_path, "method: word_drop\naugment: {p_context: 0.3}\n")
    config = load_run_config(path)
    assert config.method == "word_drop"
    assert config.augment == replace(augmentation("word_drop"), p_context=0.3)


def test_a_given_method_wins_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "method: word_drop\naugment: {p_context: 0.3}\nseed: 9\n")
    config = load_run_config(path, method="r_drop")
    assert (config.method, config.seed) == ("r_drop", 9)
    assert config.augment == replace(augmentation("r_drop"), p_context=0.3)


def test_a_method_that_could_change_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    write_yaml(path, to_mapping(load_run_config(None, method="word_drop")))
    assert load_run_config(path, method="word_drop").method == "word_drop"
    with pytest.raises(ConfigError, match="the method `r_drop` would change nothing"):
        load_run_config(path, method="r_drop")


def test_an_unknown_method_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no method `wordrop`\. Did you mean `word_drop`\?"):
        load_run_config(None, method="wordrop")
    path = written(tmp_path, "method: wordrop\naugment: {alpha: high}\n")
    with pytest.raises(ConfigError) as caught:
        load_run_config(path)
    first, second = str(caught.value).splitlines()
    assert first.endswith("but is 'wordrop'. Did you mean `word_drop`?")
    assert second == f"{path}:augment: `alpha` must be a number, but is 'high'."


def test_a_section_of_the_wrong_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`augment` must be a section with the keys of"):
        load_run_config(written(tmp_path, "augment: 3\n"))


def test_relative_paths_stay_as_written(tmp_path: Path) -> None:
    config = load_run_config(written(tmp_path, "output: runs/a\ndata: {folder: ../corpus}\n"))
    assert (config.output, config.data.folder) == (Path("runs/a"), Path("../corpus"))


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_a_resolved_configuration_reads_back_the_same(method: str, tmp_path: Path) -> None:
    config = load_run_config(None, method=method)
    config = replace(config, seed=7, train=TrainConfig(learning_rate=1e-5, weight_decay=0.0))
    path = tmp_path / "config.yaml"
    write_yaml(path, to_mapping(config))
    assert load_run_config(path) == config


def test_differences_name_key_saved_and_given_value() -> None:
    saved = RunConfig()
    given = RunConfig(
        output=Path("runs/b"),
        train=TrainConfig(learning_rate=0.001),
        augment=AugmentConfig(measure="tnorm"),
    )
    assert differences(saved, saved) == []
    assert differences(saved, given) == [
        "output: saved runs/iada, given runs/b",
        "augment.measure: saved gnorm, given tnorm",
        "train.learning_rate: saved 0.0005, given 0.001",
    ]
