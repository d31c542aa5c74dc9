"""Context-rich windows: which they are, which batches hold them, and bad files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iada.config.data import WindowConfig
from iada.config.run import RunConfig
from iada.config.train import RichConfig, TrainConfig
from iada.data.prepared.store import Side, TokenStore
from iada.data.tokens.subwords import SpecialIds
from iada.data.windows.batch import Collator
from iada.data.windows.rich import rich_windows, window_scores
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.errors import ConfigError, DataError

SPECIAL = SpecialIds(pad=0, bos=1, eos=2, unk=3, sep=4, mask=5)
SCORES = {("a", 1): [0.0, 0.5], ("a", 2): [2.0, -9.0], ("a", 3): [-0.1], ("b", 1): [0.5, 0.1],
          ("b", 2): [0.4]}  # fmt: skip


def cut(**settings: Any) -> Windows:
    """Windows of a document of three sentences and one of two."""
    sentences = [[10], [11, 12], [13], [14], [15, 16, 17]]
    store = TokenStore(
        source=Side.of(sentences, SPECIAL.sep),
        target=Side.of(sentences, SPECIAL.sep),
        document_starts=np.array([0, 3, 5]),
        document_names=("a", "b"),
        special=SPECIAL,
    )
    return Windows(store, WindowConfig(context=2, **settings))


def write(path: Path, scores: dict[tuple[str, int], list[float]]) -> Path:
    rows = [{"document": d, "sentence": s, "p_cxmi": v} for (d, s), v in scores.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_token_that_context_helps_most_decides_for_its_window(tmp_path: Path) -> None:
    path = write(tmp_path / "cxmi.train.jsonl", SCORES)
    assert window_scores(cut(), path).tolist() == [0.5, 2.0, -0.1, 0.5, 0.4]
    # Parts of two sentences: a1 a2, a3, b1 b2.
    assert window_scores(cut(stride=2), path).tolist() == [2.0, -0.1, 0.5]
    # Every sentence alone, halves and whole documents.
    multires = cut(strategy="multires")
    spans = list(zip(multires.spans.current.tolist(), multires.spans.stop.tolist(), strict=True))
    flat = [max(values) for values in SCORES.values()]
    expected = [max(flat[begin:end]) for begin, end in spans]
    assert window_scores(multires, path).tolist() == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.01, [1]), (0.4, [0, 1]), (0.6, [0, 1, 3]), (1.0, [0, 1, 2, 3, 4])],
)
def test_the_share_says_how_many_are_rich_and_ties_go_to_the_first(
    tmp_path: Path, share: float, expected: list[int]
) -> None:
    path = write(tmp_path / "cxmi.train.jsonl", SCORES)
    found = rich_windows(cut(), RichConfig(scores=path, share=share))
    assert found is not None
    assert np.flatnonzero(found).tolist() == expected


def test_without_scores_no_window_is_marked() -> None:
    windows = cut()
    assert rich_windows(windows, RichConfig()) is None
    assert "is_rich" not in Collator(SPECIAL.pad)(windows.__getitems__([(0, 1)]))


def test_a_batch_says_which_of_its_rows_are_rich() -> None:
    windows = cut()
    windows.is_rich = np.array([False, True, False, False, True])
    batch = Collator(SPECIAL.pad)(windows.__getitems__([(0, 4), (0, 0), (0, 1)]))
    assert batch["is_rich"].tolist() == [True, False, True]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_sampler_plans_the_chosen_windows_alone(processes: int) -> None:
    lengths = np.array([[9, 8], [3, 3], [4, 5], [30, 2], [6, 6], [7, 1]])
    chosen = np.array([0, 2, 3, 5])
    seen = []
    for rank in range(processes):
        sampler = TokenBatchSampler(
            lengths, max_tokens=14, seed=1, rank=rank, processes=processes, chosen=chosen
        )
        batches = list(sampler)
        assert len(batches) == len(sampler)
        seen += [number for batch in batches for _, number in batch]
        for batch in batches:
            longest = max(int(lengths[number].max()) for _, number in batch)
            assert len(batch) * longest <= 14 or len(batch) == 1
    assert sorted(seen) == chosen.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({("b", 1): None}, "1 of 5 windows have no score, .* sentence 1 of b"),
        ({("b", 3): [0.1]}, "has sentence 3 of b, which has 2"),
        ({("b", 1): []}, "4: is no line of CXMI scores"),
        ({("b", 0): [0.1]}, "6: is no line of CXMI scores"),
    ],
)
def test_scores_of_another_text_are_refused(
    tmp_path: Path, change: dict[tuple[str, int], Any], message: str
) -> None:
    scores = {key: value for key, value in (SCORES | change).items() if value is not None}
    path = write(tmp_path / "cxmi.train.jsonl", scores)
    with pytest.raises(DataError, match=message):
        window_scores(cut(), path)


def test_a_file_that_is_no_json_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    path.write_text("Hallo.\n", encoding="utf-8")
    with pytest.raises(DataError, match="scores:1: is no line of CXMI scores"):
        window_scores(cut(), path)


def test_sentences_that_are_split_have_no_scores() -> None:
    with pytest.raises(ConfigError, match=r"windows\.on_long.* refuse or leave_out"):
        RunConfig(
            windows=WindowConfig(on_long="split"),
            train=TrainConfig(rich=RichConfig(scores=Path("cxmi.train.jsonl"))),
        )


@pytest.mark.parametrize("settings", [{"share": 0.0}, {"share": 1.1}, {"weight": -1.0}])
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"train\.rich\."):
        RichConfig(**settings)  # type: ignore[arg-type]
