"""Heat maps: every token once, words readable, numbers at hand, nothing that steers a reader."""

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from iada.analysis.importance_map import TokenView, WindowView
from iada.config.base import to_mapping, write_yaml
from iada.config.run import load_run_config
from iada.data.windows.batch import Role
from iada.report.heatmap import page, to_html, to_terminal, windows_of_run


class Chips(HTMLParser):
    """Collect the chips with their attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str], str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attributes}
        if "token" in values.get("class", "").split():
            self.found.append((values, ""))

    def handle_data(self, data: str) -> None:
        if self.found and not self.found[-1][1]:
            self.found[-1] = (self.found[-1][0], data)


def with_piece(views: list[WindowView], piece: str) -> list[WindowView]:
    first = replace(views[0].source[0], piece=piece)
    return [replace(views[0], source=(first, *views[0].source[1:]))]


def test_every_token_is_shown_once_and_in_order(views: list[WindowView]) -> None:
    texts = [text for _, text in Chips(to_html(views)).found]
    source = ["Lamp", "s", "<sep>", "They", "</s>"]
    assert texts == [*source, "<s>", "Leuchten", "<sep>", "Sie"]


def test_fill_shows_importance_and_the_bar_probability(views: list[WindowView]) -> None:
    chips = [attributes for attributes, _ in Chips(to_html(views)).found]
    # z 1.25 is half of the strongest fill; 0.05 is a quarter of the largest probability, 0.2.
    assert chips[0]["class"] == "chip token above first"
    assert chips[0]["style"] == "--fill:0.5;--bar:0.25"
    assert chips[0]["title"] == "importance 2, z +1.25, replaced with probability 5.0%"
    assert chips[1]["class"] == "chip token below"
    assert chips[1]["style"] == "--fill:1.0;--bar:1.0"
    assert chips[2]["class"] == "chip token special first"
    assert chips[8]["style"].startswith("--fill:1.0;")


def test_current_and_context_sentences_stand_apart(views: list[WindowView]) -> None:
    html = to_html(views)
    assert html.count('<p class="sentence">') == 2
    assert html.count('<p class="sentence current">') == 2
    assert html.count(">1 back<") == 2


def test_pieces_of_a_word_are_joined(views: list[WindowView]) -> None:
    sentences = re.findall(r'<span class="tokens">(.*?)</span></p>', to_html(views))
    assert re.sub(r"<[^>]*>", "", sentences[0]) == " Lamps &lt;sep&gt;"


def test_text_of_documents_is_escaped(views: list[WindowView]) -> None:
    html = page("<script>", with_piece(views, "<script>alert(1)</script>"))
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_terminal_table_has_a_line_per_token(views: list[WindowView]) -> None:
    text = to_terminal(views, colour=False)
    assert "\x1b" not in text
    assert text.startswith("house, sentence 2\n  source\nToken  Role     Importance      z  Repl")
    assert "▁Lamp  context           2  +1.25         5.0\n" in text
    assert "<sep>  special           –      –           –\n" in text
    assert len(re.findall("context|current|special", text)) == 9


def test_colour_shades_by_importance_over_the_probability(views: list[WindowView]) -> None:
    lines = to_terminal(views, colour=True).splitlines()
    first = lines[lines.index("  source") + 1]
    assert "\x1b[48;5;216;38;5;16m Lamp\x1b[0m" in first
    assert "\x1b[48;5;75;38;5;16ms    \x1b[0m" in first
    plain = re.sub(r"\x1b\[[0-9;]*m", "", lines[lines.index("  source") + 2])
    assert plain == "      5.0 20.0     "


def test_lines_of_tokens_fit_the_terminal(views: list[WindowView]) -> None:
    long = [replace(views[0], source=views[0].source[:1] * 40)]
    lines = re.sub(r"\x1b\[[0-9;]*m", "", to_terminal(long, colour=True, width=40)).splitlines()[2:]
    assert max(map(len, lines)) <= 40
    assert sum(line.count("Lamp") for line in lines) == 40


def test_a_document_cannot_steer_the_terminal(views: list[WindowView]) -> None:
    for colour in (True, False):
        assert "\x1b[2J" not in to_terminal(with_piece(views, "▁\x1b[2J"), colour=colour)


def test_no_window_gives_an_empty_map() -> None:
    assert Chips(to_html([])).found == []


def test_several_current_sentences_are_all_current(views: list[WindowView]) -> None:
    (view,) = views
    ahead = TokenView("▁Then", Role.CONTEXT, 1.0, 0.0, 0.1)
    sep = TokenView("<sep>", Role.SPECIAL, 9.0, 0.0, 0.0)
    more = TokenView("▁fell", Role.CURRENT, 1.0, 0.0, 0.1)
    source = (*view.source[:-1], sep, more, sep, ahead, view.source[-1])
    html = to_html([replace(view, source=source, current=2)])
    labels = re.findall(r'class="where">([^<]+)<', str(html))
    assert labels == ["1 back", "current", "current", "1 ahead", "1 back", "current"]
    assert "sentences 2 to 3" in str(html)


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_a_report_finds_windows_of_any_stride(
    trained_run: Path, tmp_path: Path, stride: int
) -> None:
    folder = shutil.copytree(trained_run, tmp_path / "run")
    path = folder / "config.yaml"
    config = load_run_config(path)
    config = replace(config, windows=replace(config.windows, stride=stride))
    write_yaml(path, to_mapping(config))
    views = windows_of_run(folder, 2)
    assert len(views) == 2
    for view in views:
        separators = sum(token.piece == "<sep>" for token in view.source)
        # Windows of five sentences leave little room for context.
        most = view.current - 1 + min(view.sentence - 1, 3)
        assert separators == most or (stride == 5 and view.current - 1 <= separators < most)
    assert views[0].sentence > 1
