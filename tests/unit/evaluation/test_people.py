"""What a difference means to people, and what people are given to judge."""

import json
from pathlib import Path

import pytest

from iada.cli.evaluate import EvaluateCommand
from iada.cli.main import main
from iada.data.documents import Document
from iada.errors import ConfigError, DataError
from iada.evaluation.people import add_agreement, agreement, agreement_sentence, campaign
from iada.evaluation.score_files import score_files

BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


# The examples of the package's own README (mt-thresholds 1.0.4).
def test_one_point_of_bleu_is_what_the_published_curve_says() -> None:
    assert agreement("s_bleu", 1.0, BLEU) == pytest.approx(0.63989, abs=1e-5)
    assert agreement("s_bleu", -1.0, BLEU) == agreement("s_bleu", 1.0, BLEU)


@pytest.mark.parametrize(
    ("metric", "signature"),
    [
        ("d_bleu", BLEU),
        ("s_bleu", BLEU.replace("13a", "none")),
        ("s_bleu", BLEU.replace("mixed", "lc")),
        ("comet", "model:own|scale:100|comet:2.2.7"),
    ],
)
def test_metrics_without_a_curve_have_no_share(metric: str, signature: str) -> None:
    assert agreement(metric, 1.0, signature) is None


def test_comet_has_the_curve_of_its_model() -> None:
    newer = agreement("comet", 0.5, "model:wmt22-comet-da|scale:100|comet:2.2.7")
    older = agreement("comet", 0.5, "model:wmt20-comet-da|scale:100|comet:2.2.7")
    assert newer is not None
    assert older is not None
    assert newer > older


def test_shares_are_added_to_comparisons() -> None:
    found = {"s_bleu": {"signature": BLEU, "systems": {"ours": {"difference": -2.0}}}}
    add_agreement(found)
    share = found["s_bleu"]["systems"]["ours"]["people_agree"]  # type: ignore[index]
    assert share == agreement("s_bleu", 2.0, BLEU)
    assert "64%" in agreement_sentence("s-BLEU", 1.0, 0.63989)


SOURCES = [Document("a", ("One.", "", "Two.")), Document("b", ("Three.",))]
OURS = [Document("a", ("Eins.", "", "Zwei.")), Document("b", ("Drei.",))]


def test_a_campaign_holds_every_sentence_in_its_document() -> None:
    found = campaign({"ours": OURS, "other": OURS}, SOURCES, OURS, name="test", users=2)
    assert found["info"] == {"assignment": "single-stream", "protocol": "ESA", "users": 2}
    data = found["data"]
    assert isinstance(data, list)
    assert [len(document) for document in data] == [2, 1]
    assert data[0][1] == {
        "item_id": "a # 3",
        "src": "Two.",
        "tgt": {"ours": "Zwei.", "other": "Zwei."},
        "ref": "Zwei.",
    }
    assert "ref" not in campaign({"ours": OURS}, SOURCES, name="test")["data"][0][0]  # type: ignore[index]


def test_people_cannot_judge_other_sentences() -> None:
    with pytest.raises(DataError, match="ours has other sentences than the source"):
        campaign({"ours": OURS[:1] * 2}, SOURCES, name="test")


WMT = [
    {"doc_id": "b", "src_text": "One.\n\nTwo.", "refs": {"refA": {"ref": "Eins.\n\nZwei."}}},
    {"doc_id": "a", "src_text": "Three.", "refs": {"refA": {"ref": "Drei."}}},
]


@pytest.fixture
def wmt(tmp_path: Path) -> Path:
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in WMT), encoding="utf-8")
    return path


def write_system(path: Path, texts: dict[str, str]) -> Path:
    lines = (json.dumps({"doc_id": key, "hypothesis": text}) for key, text in texts.items())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_files_of_wmt_are_scored_and_judged_whatever_their_order_and_lines(
    wmt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system = write_system(tmp_path / "ours.jsonl", {"a": "Drei.", "b": "Eins. Zwei."})
    pearmut = tmp_path / "campaign.json"
    flags = ["--hypothesis", str(system), "--reference", str(wmt), "--pearmut", str(pearmut)]
    assert main(["evaluate", *flags]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["realigned"] == 1
    assert scores["chrf"]["score"] == pytest.approx(100)
    data = json.loads(pearmut.read_text(encoding="utf-8"))["data"]
    found = [(item["src"], item["tgt"]["ours.jsonl"]) for items in data for item in items]
    assert found == [("One.", "Eins."), ("Two.", "Zwei."), ("Three.", "Drei.")]


@pytest.mark.parametrize(
    ("texts", "match"),
    [({"a": "Drei."}, "lacks 1 of the 2 documents"), ({"a": None}, "needs the fields doc_id and")],
)
def test_files_of_wmt_that_lack_something_are_refused(
    wmt: Path, tmp_path: Path, texts: dict[str, str], match: str
) -> None:
    with pytest.raises(DataError, match=match):
        score_files(write_system(tmp_path / "h.jsonl", texts), wmt, boundaries="blank_line")


def test_people_need_the_source(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`--pearmut` needs the source text"):
        EvaluateCommand(
            hypothesis=(tmp_path / "h",), reference=tmp_path / "r", pearmut=tmp_path / "p"
        )
