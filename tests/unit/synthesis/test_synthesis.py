"""Back- and forward-translation: exactly twice the corpus, aligned, and nothing mixed."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from torch import nn

from iada.config.data import DataConfig, SubwordConfig, WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.run import RunConfig
from iada.data.documents import Document
from iada.data.formats.readers import read_split
from iada.data.prepared.store import TokenStore
from iada.data.windows.batch import Role
from iada.data.windows.windows import Windows
from iada.decoding.shards import SINGLE
from iada.decoding.wavefront import DocumentTranslation, TranslationInput
from iada.errors import ConfigError, DataError, RunError
from iada.runs.corpus import load_corpus
from iada.runs.folder import RunFolder
from iada.synthesis import translated as synthesis
from iada.synthesis.translated import SynthesisKind, synthesize, synthetic_data

KINDS: tuple[SynthesisKind, SynthesisKind] = ("back_translate", "forward_translate")


class Shouting:
    """Translate to upper case, or to whatever a sentence is told to become."""

    engine = SimpleNamespace(name="shouting")
    models = (nn.Linear(1, 1),)
    windows = WindowConfig()
    processes = SINGLE
    calls = 0

    def __init__(self, special: dict[str, str]) -> None:
        self.special = special
        self.decode = DecodeConfig()

    def check(self, inputs: Iterable[TranslationInput]) -> int:
        return sum(len(given.document) for given in inputs)

    def stream(
        self, inputs: Iterable[TranslationInput], engine: object, total: int
    ) -> Iterator[DocumentTranslation]:
        type(self).calls += 1
        for given in inputs:
            said = tuple(self.special.get(s, s.upper()) for s in given.document.sentences)
            yield DocumentTranslation(Document(given.document.name, said), ())


def reversed_run(run: Path, folder: Path) -> Path:
    """A copy of a run that says it translates the other way."""
    copy = shutil.copytree(run, folder)
    config = yaml.safe_load((copy / "config.yaml").read_text(encoding="utf-8"))
    config["data"] |= {"source_language": "de", "target_language": "en"}
    (copy / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def runs(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    reverse = reversed_run(trained_run, tmp_path_factory.mktemp("reverse") / "run")
    return {"back_translate": reverse, "forward_translate": trained_run}


@pytest.fixture
def shouting(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let a translator that is easy to foresee stand in for the model."""

    def install(**special: str) -> None:
        translator = Shouting({key.replace("_", " "): text for key, text in special.items()})
        loader = SimpleNamespace(load=lambda *_, **__: translator)
        monkeypatch.setattr(synthesis, "DocumentTranslator", loader)

    Shouting.calls = 0
    return install


def corpus(folder: Path, *, source: str, target: str, **settings: Any) -> DataConfig:
    """Write a corpus whose three splits are the same."""
    folder.mkdir(exist_ok=True)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.en").write_text(source, encoding="utf-8")
        (folder / f"{split}.de").write_text(target, encoding="utf-8")
    return DataConfig(folder=folder, **settings)


def pairs(data: DataConfig) -> list[list[tuple[str, str]]]:
    return [
        list(zip(d.source.sentences, d.target.sentences, strict=True))
        for d in read_split(data, "train")
    ]


def details(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "synthesis.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_corpus_is_doubled_by_a_real_model(
    runs: dict[str, Path], mini_corpus: Path, tmp_path: Path, kind: SynthesisKind
) -> None:
    data = DataConfig(folder=mini_corpus)
    folder = synthesize(runs[kind], data, tmp_path / "out", kind=kind, decode=DecodeConfig(beam=1))
    assert folder == tmp_path / "out"
    true, synthetic = ("train.de", "train.en")[:: 1 if kind == "back_translate" else -1]
    real = (mini_corpus / true).read_bytes()
    assert (folder / true).read_bytes() == real + b"\n" + real
    other = (mini_corpus / synthetic).read_bytes()
    doubled = (folder / synthetic).read_bytes()
    assert doubled.startswith(other + b"\n")
    before, after = other.split(b"\n"), doubled[len(other) + 1 :].split(b"\n")
    # Boundaries stand where they stood, and translations are not the original.
    assert [not line for line in after] == [not line for line in before]
    assert after != before
    for split in ("dev", "test"):
        for language in ("en", "de"):
            name = f"{split}.{language}"
            assert (folder / name).read_bytes() == (mini_corpus / name).read_bytes()
    assert details(folder)["documents"] == {"real": 30, "synthetic": 30}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_training_reads_the_folder_and_mixes_nothing(
    runs: dict[str, Path], mini_corpus: Path, tmp_path: Path, shouting: Callable[..., None]
) -> None:
    shouting()
    data = DataConfig(folder=mini_corpus)
    folder = synthesize(runs["back_translate"], data, tmp_path / "out", kind="back_translate")
    config = replace(RunFolder(runs["forward_translate"]).config(), data=DataConfig(folder=folder))
    loaded = load_corpus(config)
    store = loaded.train.store
    assert len(store.document_starts) - 1 == 60
    half = len(store) // 2
    spans = loaded.train.spans
    # A window lies in one half: real, or synthetic.
    assert ((spans.first < half) == (spans.stop - 1 < half)).all()
    assert (store.document_of[spans.first] == store.document_of[spans.stop - 1]).all()
    # A window for every sentence of both halves.
    assert len(loaded.train) == 2 * half


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("back_translate", [[("A B", "a b"), ("C", "c")], [("D", "d")]]),
        ("forward_translate", [[("x y", "X Y"), ("z", "Z")], [("w", "W")]]),
    ],
)
@pytest.mark.parametrize("boundaries", ["blank_line", "marker"])
def test_documents_follow_line_by_line(
    runs: dict[str, Path],
    tmp_path: Path,
    shouting: Callable[..., None],
    kind: SynthesisKind,
    expected: list[list[tuple[str, str]]],
    boundaries: Any,
) -> None:
    shouting()
    texts = {"source": "x y\nz\n\nw\n", "target": "a b\nc\n\nd\n"}
    if boundaries == "marker":
        texts = {side: "<d>\n" + text.replace("\n\n", "\n<d>\n") for side, text in texts.items()}
    data = corpus(tmp_path / "in", **texts, boundaries=boundaries)
    folder = synthesize(runs[kind], data, tmp_path / "out", kind=kind)
    real = [[("x y", "a b"), ("z", "c")], [("w", "d")]]
    written = synthetic_data(data, folder)
    assert written == replace(data, folder=folder)
    assert pairs(written) == real + expected


LONG = "o" * 200


def test_outputs_that_cannot_be_used_are_counted_and_the_true_sentence_stays(
    runs: dict[str, Path],
    tmp_path: Path,
    shouting: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    shouting(a="", b="  ", c=LONG, e="<d>")
    data = corpus(tmp_path / "in", source="q\nr\n\ns\nt\nu\n", target="a\nb\n\nc\nd\ne\n")
    folder = synthesize(runs["back_translate"], data, tmp_path / "out", kind="back_translate")
    assert pairs(replace(data, folder=folder))[2:] == [
        [("q", "a"), ("r", "b")],
        # A `<d>` is a sentence where blank lines part documents.
        [("s", "c"), ("D", "d"), ("<d>", "e")],
    ]
    found = details(folder)
    assert found["unusable"] == {"empty": 2, "length": 1}
    assert found["true_sentence_at"] == {"empty": [[1, 1], [1, 2]], "length": [[2, 1]]}
    assert found["sentences"] == {"real": 5, "synthetic": 5}
    assert "Of 5 outputs 2 were empty and 1 far too long" in caplog.text


def test_a_marker_said_by_the_model_parts_nothing(
    runs: dict[str, Path], tmp_path: Path, shouting: Callable[..., None]
) -> None:
    shouting(a="<d>")
    texts = {"source": "<d>\nq\n\n<d>\ns\n", "target": "<d>\na\nb\n<d>\nc\n"}
    data = corpus(tmp_path / "in", **texts, boundaries="marker")
    folder = synthesize(
        runs["back_translate"], data, tmp_path / "out", kind="back_translate", tag="<bt>"
    )
    # The second sentence has no true source, but it has a translation.
    assert pairs(replace(data, folder=folder))[2:] == [
        [("<bt> q", "a"), ("<bt> B", "b")],
        [("<bt> C", "c")],
    ]


def test_nothing_is_said_of_an_empty_sentence(
    runs: dict[str, Path], tmp_path: Path, shouting: Callable[..., None]
) -> None:
    shouting()
    texts = {"source": "<d>\nq\nr\n", "target": "<d>\na\n\n"}
    data = corpus(tmp_path / "in", **texts, boundaries="marker")
    folder = synthesize(
        runs["back_translate"], data, tmp_path / "out", kind="back_translate", tag="<bt>"
    )
    assert pairs(replace(data, folder=folder))[1] == [("<bt> A", "a"), ("", "")]
    assert details(folder)["unusable"] == {"empty": 0, "length": 0}


@pytest.mark.parametrize("kind", KINDS)
def test_the_tag_is_the_first_token_of_synthetic_sources_and_never_perturbed(
    runs: dict[str, Path],
    mini_corpus: Path,
    tmp_path: Path,
    shouting: Callable[..., None],
    kind: SynthesisKind,
) -> None:
    shouting()
    data = DataConfig(folder=mini_corpus)
    folder = synthesize(runs[kind], data, tmp_path / "out", kind=kind, tag="<bt>")
    config = RunConfig(
        data=DataConfig(folder=folder), subwords=SubwordConfig(vocabulary_size=500, tags=("<bt>",))
    )
    subwords = load_corpus(config).subwords
    store = TokenStore.build(read_split(config.data, "train"), subwords)
    windows = Windows(store, config.windows)
    tag = subwords.tags["<bt>"]
    half = len(store) // 2
    for number in (0, half - 1, half, len(windows) - 1):
        window = windows[0, number]
        is_synthetic = int(windows.spans.current[number]) >= half
        count = windows.spans.stop[number] - windows.spans.first[number]
        assert (window.source_ids[0] == tag) == is_synthetic
        assert (window.source_ids == tag).sum() == (count if is_synthetic else 0)
        assert (window.source_roles[window.source_ids == tag] == Role.SPECIAL).all()
        assert tag not in window.target_ids
    # Tags are no text: the pieces are those of a corpus without them.
    plain = synthesize(runs[kind], data, tmp_path / "plain", kind=kind)
    config = replace(
        config, data=DataConfig(folder=plain), subwords=SubwordConfig(vocabulary_size=499)
    )
    without = load_corpus(config).subwords
    assert subwords.pieces(range(263, 500)) == without.pieces(range(262, 499))


@pytest.mark.parametrize("name", ["train.tsv", "train.jsonl"])
def test_one_file_with_both_sides_keeps_its_form(
    runs: dict[str, Path], tmp_path: Path, shouting: Callable[..., None], name: str
) -> None:
    shouting(c="C\tc")
    data = corpus(tmp_path / "in", source="a\nb\n\nc\n", target="x\ny\n\nz\n")
    documents = read_split(data, "train")
    data = replace(data, train=name)
    synthesis.write_split(data, "train", documents)
    folder = synthesize(runs["forward_translate"], data, tmp_path / "out", kind="forward_translate")
    said = "C c" if name.endswith("tsv") else "C\tc"
    assert pairs(replace(data, folder=folder)) == [
        [("a", "x"), ("b", "y")],
        [("c", "z")],
        [("a", "A"), ("b", "B")],
        [("c", said)],
    ]


def test_a_corpus_without_boundaries_gets_some(
    runs: dict[str, Path], tmp_path: Path, shouting: Callable[..., None]
) -> None:
    shouting()
    data = corpus(tmp_path / "in", source="a\n\nb\n", target="x\n\ny\n", boundaries="none")
    folder = synthesize(runs["forward_translate"], data, tmp_path / "out", kind="forward_translate")
    written = synthetic_data(data, folder)
    assert written.boundaries == "marker"
    real = [("a", "x"), ("", ""), ("b", "y")]
    assert pairs(written) == [real, [("a", "A"), ("", ""), ("b", "B")]]
    # The other splits are written in the same form.
    assert [len(d) for d in read_split(written, "dev")] == [3]


def test_a_missing_test_split_is_left_out(
    runs: dict[str, Path], tmp_path: Path, shouting: Callable[..., None]
) -> None:
    shouting()
    data = corpus(tmp_path / "in", source="a\n\nb\n", target="x\n\ny\n")
    (tmp_path / "in" / "test.de").unlink()
    folder = synthesize(runs["forward_translate"], data, tmp_path / "out", kind="forward_translate")
    names = {"train.en", "train.de", "dev.en", "dev.de", "synthesis.json"}
    assert {path.name for path in folder.iterdir()} == names
    (tmp_path / "in" / "dev.de").unlink()
    with pytest.raises(DataError, match=r"dev\.de does not exist"):
        synthesize(runs["forward_translate"], data, tmp_path / "2", kind="forward_translate")
    assert not (tmp_path / "2.partial").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_the_wrong_direction_is_refused(
    runs: dict[str, Path], mini_corpus: Path, tmp_path: Path, kind: SynthesisKind
) -> None:
    wrong = runs[KINDS[1 - KINDS.index(kind)]]
    with pytest.raises(ConfigError, match=r"Train one with `--data\.source_language (de|en)"):
        synthesize(wrong, DataConfig(folder=mini_corpus), tmp_path / "out", kind=kind)
    assert list(tmp_path.iterdir()) == []


def test_wrong_settings_are_refused_before_any_work(
    runs: dict[str, Path], tmp_path: Path, shouting: Callable[..., None]
) -> None:
    shouting()
    run = runs["forward_translate"]
    data = corpus(tmp_path / "in", source="a\n\n<bt> b\n", target="x\n\ny\n")
    output = tmp_path / "out"
    with pytest.raises(ConfigError, match=r"`data\.subset` is 0\.5"):
        synthesize(run, replace(data, subset=0.5), output, kind="forward_translate")
    with pytest.raises(ConfigError, match="names in angle brackets"):
        synthesize(run, data, output, kind="forward_translate", tag="bt")
    with pytest.raises(DataError, match=r"train\.en:2: sentence 1 begins with <bt> already"):
        synthesize(run, data, output, kind="forward_translate", tag="<bt>")
    assert not output.exists()
    assert Shouting.calls == 0
    # A corpus that cannot be read in full is not doubled in part.
    (tmp_path / "in" / "train.de").write_text("x\nz\n\ny\n", encoding="utf-8")
    with pytest.raises(DataError, match="sentences"):
        synthesize(run, data, output, kind="forward_translate")
    assert not output.exists()


def test_a_finished_corpus_is_kept_and_another_is_not_overwritten(
    runs: dict[str, Path],
    tmp_path: Path,
    shouting: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    shouting()
    caplog.set_level("INFO")
    run = runs["forward_translate"]
    data = corpus(tmp_path / "in", source="a\n\nb\n", target="x\n\ny\n")
    for _ in range(2):
        synthesize(run, data, tmp_path / "out", kind="forward_translate")
    assert Shouting.calls == 1
    assert "finished already" in caplog.text
    moved = replace(data, folder=shutil.copytree(tmp_path / "in", tmp_path / "moved"))
    synthesize(run, moved, tmp_path / "out", kind="forward_translate")
    with pytest.raises(RunError, match="does not hold this corpus"):
        synthesize(run, data, tmp_path / "out", kind="forward_translate", tag="<bt>")
    (tmp_path / "in" / "train.de").write_text("x\n\nz\n", encoding="utf-8")
    with pytest.raises(RunError, match="does not hold this corpus"):
        synthesize(run, data, tmp_path / "out", kind="forward_translate")
    with pytest.raises(RunError, match="does not hold this corpus"):
        synthesize(run, data, tmp_path / "in", kind="forward_translate")
    assert Shouting.calls == 1


def test_work_that_was_left_is_used_if_it_is_the_same(
    runs: dict[str, Path],
    tmp_path: Path,
    shouting: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shouting()
    run = runs["forward_translate"]
    data = corpus(tmp_path / "in", source="a\n\nb\n", target="x\n\ny\n")
    with monkeypatch.context() as patched:
        patched.setattr(synthesis, "write_split", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            synthesize(run, data, tmp_path / "out", kind="forward_translate")
    assert not (tmp_path / "out").exists()
    synthesize(run, data, tmp_path / "out", kind="forward_translate")
    assert Shouting.calls == 1
    # Work of another plan is not used.
    with monkeypatch.context() as patched:
        patched.setattr(synthesis, "write_split", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            synthesize(run, data, tmp_path / "two", kind="forward_translate")
    (tmp_path / "in" / "train.en").write_text("a\n\nc\n", encoding="utf-8")
    folder = synthesize(run, data, tmp_path / "two", kind="forward_translate")
    assert Shouting.calls == 3
    assert pairs(replace(data, folder=folder))[3] == [("c", "C")]
