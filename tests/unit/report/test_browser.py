"""The report in a real browser: complete, silent, offline, sortable by keyboard, readable."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from iada.analysis.importance_map import TokenView, WindowView
from iada.data.windows.batch import Role
from iada.experiments.definitions import experiment_names
from iada.report.overview import find_material, report_sections
from iada.report.page import FigureBlock, Section, TableBlock, write_page
from iada.report.run_sections import (
    Example,
    example_section,
    pronoun_section,
    results_section,
    settings_section,
    training_section,
)
from iada.report.runs import RunSummary

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
HOSTILE = "<script>document.title = 'taken'</script>"


@pytest.fixture
def sections(
    experiment_folder: Path, runs: list[RunSummary], views: list[WindowView]
) -> list[Section]:
    """Everything that a page can hold, with text that would like to be a script."""
    hostile = TokenView(f"▁{HOSTILE}", Role.CURRENT, 1.0, 0.5, 0.1)
    windows = [replace(view, source=(*view.source, hostile)) for view in views]
    example = Example((HOSTILE,), HOSTILE, HOSTILE, {HOSTILE: HOSTILE})
    found = report_sections(
        find_material([experiment_folder]), heat_map=windows, heat_map_note=HOSTILE
    )
    extra = (
        results_section(runs),
        pronoun_section(runs),
        example_section([example]),
        training_section({HOSTILE: runs}),
        settings_section(runs),
    )
    return [*found, *(section for section in extra if section is not None)]


@pytest.fixture
def page_file(sections: list[Section], tmp_path: Path) -> Path:
    return write_page(tmp_path / "report.html", sections, title="Report", summary=HOSTILE)


def open_page(browser: "Browser", file: Path, **options: Any) -> "Page":
    page = browser.new_page(**options)
    page.goto(file.as_uri())
    return page


def test_everything_is_there_and_nothing_is_asked_for(
    browser: "Browser", page_file: Path, sections: list[Section]
) -> None:
    page = browser.new_page()
    requests: list[str] = []
    messages: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(page_file.as_uri())
    blocks = [block for section in sections for block in section.blocks]
    figures = sum(isinstance(block, FigureBlock) for block in blocks)
    tables = sum(isinstance(block, TableBlock) and block.sortable for block in blocks)
    assert page.locator("figure svg[role=img]").count() == figures
    assert page.locator("table.sortable").count() == tables
    for identifier in (*experiment_names(), "importance", "training", "examples"):
        # The sweep stands in the section of the controls.
        if identifier != "alpha_sweep":
            assert page.locator(f"h2#{identifier}").is_visible()
    sizes = page.locator("figure svg").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().height)"
    )
    assert min(sizes) > 100
    assert requests == [page_file.as_uri()]
    assert messages == []
    page.close()


def test_text_never_becomes_a_script(browser: "Browser", page_file: Path) -> None:
    page = open_page(browser, page_file)
    assert page.title() == "Report"
    assert page.locator("script").count() == 1
    assert page.locator(".source dd").inner_text() == HOSTILE
    assert HOSTILE in page.locator("#importance ~ section").first.inner_text()
    assert page.locator(".lead").inner_text() == HOSTILE
    page.close()


def test_tables_are_sorted_by_keyboard(browser: "Browser", page_file: Path) -> None:
    page = open_page(browser, page_file)
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    table = page.locator("section:has(> h2#main) table.sortable").first
    head = table.locator("th[aria-sort]").nth(2)
    cells = table.locator("tbody tr td:nth-child(3)")

    def column() -> list[float]:
        values = cells.evaluate_all("all => all.map((cell) => cell.dataset.value)")
        return [float(value) for value in values]

    given = column()
    table.locator("th[aria-sort] button").nth(1).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column() == sorted(given, reverse=True)
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "ascending"
    assert column() == sorted(given)
    others = table.locator("th[aria-sort=none]").count()
    assert others == table.locator("th[aria-sort]").count() - 1
    # What the paper does not have goes last, in either direction.
    table.locator("th[aria-sort] button").last.focus()
    page.keyboard.press("Enter")
    last = table.locator("tbody tr").last.locator("td").last
    first = table.locator("tbody tr").first.locator("td").last
    assert float(first.inner_text()) >= float(last.inner_text())
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast(
    browser: "Browser", page_file: Path, contrasts: str, scheme: Any
) -> None:
    page = open_page(browser, page_file, color_scheme=scheme)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")
    found = page.evaluate(contrasts)
    assert len(found) > 1000
    low = sorted((round(ratio, 2), text) for ratio, text in found if ratio < 4.5)
    assert low == []
    page.close()


@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_never_scrolls_sideways(browser: "Browser", page_file: Path, width: int) -> None:
    page = open_page(browser, page_file, viewport={"width": width, "height": 844})
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # Wide tables scroll in their own box, which the keyboard reaches.
    boxes = page.locator(".scroll")
    assert boxes.count() == page.locator(".scroll[tabindex='0'][role=region]").count()
    if width == 390:
        wide = boxes.evaluate_all("all => all.filter((b) => b.scrollWidth > b.clientWidth).length")
        assert wide > 10
    page.close()
