"""Figures: valid SVG with words, the right marks, the page's colours and the same bytes again."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

import iada.report
from iada.evaluation.metrics import METRICS
from iada.report import figures
from iada.report.charts import PALETTE, Drawing, inline_svg
from iada.report.runs import RunSummary
from iada.report.verdict import ImportanceGain, difference

Draw = Callable[[list[RunSummary]], str]
SVG = "{http://www.w3.org/2000/svg}"


def inline(draw: Callable[[list[RunSummary]], Drawing]) -> Draw:
    return lambda runs: inline_svg(draw(runs))


training_curves = inline(figures.training_curves)
accuracy_by_class = inline(figures.accuracy_by_class)
accuracy_by_distance = inline(figures.accuracy_by_distance)
DRAWINGS = [training_curves, accuracy_by_class, accuracy_by_distance]


def ids(svg: str) -> list[str]:
    elements = ElementTree.fromstring(svg).iter()
    return [element.attrib["id"] for element in elements if "id" in element.attrib]


def marks(svg: str, name: str) -> list[str]:
    return [identifier for identifier in ids(svg) if identifier.split("-")[1] == name]


@pytest.mark.parametrize("draw", DRAWINGS)
def test_a_figure_has_a_title_and_its_numbers_in_words(draw: Draw, runs: list[RunSummary]) -> None:
    root = ElementTree.fromstring(draw(runs))
    assert root.tag == f"{SVG}svg"
    assert root.attrib["role"] == "img"
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert root.attrib["aria-labelledby"] == title.attrib["id"]
    assert "Doc2Doc: " in (description.text or "")


@pytest.mark.parametrize("draw", DRAWINGS)
def test_the_same_runs_give_the_same_bytes(draw: Draw, runs: list[RunSummary]) -> None:
    svg = draw(runs)
    assert svg == draw(runs)
    assert "metadata" not in svg
    assert not re.search(r"\b20\d\d-\d\d-\d\d", svg)


@pytest.mark.parametrize("draw", DRAWINGS)
def test_colours_come_from_the_page(draw: Draw, runs: list[RunSummary]) -> None:
    svg = draw(runs)
    assert f"var(--series-2, {PALETTE[1]})" in svg
    assert "currentColor" in svg
    outside_variables = re.sub(r"var\([^)]*\)", "", svg)
    # Clip rectangles have no visible colour, and hatches are off: no other colour may be left.
    assert not re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", outside_variables)


def test_ids_are_unique_over_all_figures(runs: list[RunSummary]) -> None:
    found = [identifier for draw in DRAWINGS for identifier in ids(draw(runs))]
    assert len(found) == len(set(found))
    svg = training_curves(runs)
    targets = re.findall(r'href="#([^"]+)"', svg) + re.findall(r"url\(#([^)]+)\)", svg)
    assert targets
    assert set(targets) <= set(ids(svg))


def test_there_is_one_bar_per_system_and_group(runs: list[RunSummary]) -> None:
    assert len(marks(accuracy_by_class(runs), "bar")) == 2 * 3
    assert len(marks(accuracy_by_distance(runs), "bar")) == 2 * 5


def test_no_bar_stands_for_what_was_not_measured(
    runs: list[RunSummary], new_run: Callable[..., RunSummary]
) -> None:
    svg = accuracy_by_class([*runs, new_run("Unscored", scores={})])
    assert len(marks(svg, "bar")) == 2 * 3
    assert "Unscored: not measured" in svg


def test_only_distances_beyond_the_window_are_shaded(new_run: Callable[..., RunSummary]) -> None:
    assert len(marks(accuracy_by_distance([new_run()]), "outside")) == 1
    wide = new_run(config={"windows": {"context": 4}})
    assert not marks(accuracy_by_distance([wide]), "outside")
    assert not marks(accuracy_by_class([new_run()]), "outside")


def test_names_are_text_and_never_markup_or_formulas(new_run: Callable[..., RunSummary]) -> None:
    svg = training_curves([new_run("<b>a $x$ & b")])
    assert "<b>" not in svg
    texts = [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert "<b>a $x$ & b" in texts


def test_more_systems_than_colours_can_be_told_apart(new_run: Callable[..., RunSummary]) -> None:
    many = [new_run(f"System {n}") for n in range(len(PALETTE) + 1)]
    assert len(marks(accuracy_by_class(many), "bar")) == 3 * len(many)
    assert "pattern" in accuracy_by_class(many)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_systems_stand_out_on_light_and_dark_paper() -> None:
    css = (Path(iada.report.__file__).parent / "templates/page.css").read_text(encoding="utf-8")
    colours = re.findall(r"--series-\d: (#[0-9a-f]{6})", css)
    light, dark = colours[: len(PALETTE)], colours[len(PALETTE) :]
    assert tuple(light) == PALETTE
    assert len(dark) == len(PALETTE)
    assert min(contrast(colour, "#ffffff") for colour in light) >= 3
    assert min(contrast(colour, "#14171b") for colour in dark) >= 3


def test_the_forest_plot_has_a_mark_for_every_difference() -> None:
    values = {"a": (0.9, 1.0, 1.1), "b": (-1.0, -1.1, -0.9), "c": (1.0, -1.0, 0.5), "d": (3.0,)}
    gains = []
    for name, numbers in values.items():
        found = difference(numbers, (0.0,) * len(numbers), METRICS["s_bleu"])
        assert found is not None
        gains.append(ImportanceGain("mini", name, "U", {"s_bleu": found}))
    drawing = figures.forest_figure(gains, ["s_bleu", "dev_nll"], name="forest")
    svg = inline_svg(drawing)
    assert len(marks(svg, "gain")) == 4
    assert "b on mini: s-BLEU −1.00 ± 0.10 (−1.25 to −0.75)" in drawing.description
    for words in ("better than the control", "cannot be told from chance", "right is better"):
        assert words in svg
    # More rows take more room.
    taller = figures.forest_figure(gains * 3, ["s_bleu"], name="forest")
    assert taller.figure.get_figheight() > drawing.figure.get_figheight()


def test_numbers_below_a_forest_plot_do_not_touch() -> None:
    # Long names leave narrow panels, small differences have long numbers.
    name = "IADA (Repl, GNorm), lagged"
    keys = ("s_bleu", "pronouns_needing_context", "dev_nll")
    found = {key: difference((0.0047,) * 3, (0.0,) * 3, METRICS[key]) for key in keys}
    gain = ImportanceGain("mini", name, "U", {key: one for key, one in found.items() if one})
    drawing = figures.forest_figure([gain], keys, name="forest")
    for axes in drawing.figure.axes:
        low, high = axes.get_xlim()
        labels = axes.get_xticklabels()
        boxes = [
            label.get_window_extent()
            for label, place in zip(labels, axes.get_xticks(), strict=True)
            if low <= place <= high
        ]
        assert len(boxes) > 1
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
