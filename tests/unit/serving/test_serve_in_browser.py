"""The page of `iada serve` in a real browser: by keyboard alone, on a phone, in the dark."""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from iada.serving.server import Limits, build_app, open_socket
from iada.serving.workbench import Workbench

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
HOSTILE = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
TEXT = "The lamp was new.\nIt was green.\nThe man saw it.\n\nThe clock was old.\nIt was broken.\n"


@pytest.fixture(scope="module")
def address(workbench: Workbench) -> Iterator[str]:
    """A server in a thread."""
    bound = open_socket("127.0.0.1", 0)
    app = build_app(workbench, Limits(8 * 1024))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)
    bound.close()


@pytest.fixture
def page(browser: "Browser", address: str) -> Iterator["Page"]:
    opened = browser.new_page()
    asked: list[str] = []
    said: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(address)
    opened.wait_for_selector("#run option", state="attached")
    yield opened
    # No test may reach anything else, or break the page or its policy.
    assert {url for url in asked if not url.startswith(("data:", "blob:", address))} == set()
    assert [line for line in said if "413" not in line and "422" not in line] == []
    opened.close()


def translate(page: "Page", text: str) -> None:
    page.fill("#text", text)
    page.focus("#text")
    page.keyboard.press("Control+Enter")
    done(page)


def done(page: "Page") -> None:
    # The page forbids evaluating strings, so that only selectors can be waited for.
    page.wait_for_selector("#stop:disabled")


def correct(page: "Page", row: int, text: str) -> None:
    """Write a translation; that of a model of sixty updates may be empty."""
    page.locator(".target").nth(row).focus()
    page.keyboard.press("Control+A")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    done(page)


def column(page: "Page", name: str) -> list[str]:
    return page.locator(f".row .{name}").all_inner_texts()


def test_a_document_is_translated_by_keyboard_with_and_without_context(
    page: "Page", workbench: Workbench
) -> None:
    translate(page, TEXT)
    translator = workbench.runs["run"].translator
    expected = [line for line in translator.translate(TEXT).split("\n") if line]
    alone = [translator.translate(line) for line in TEXT.split("\n") if line]
    assert column(page, "target") == expected
    assert column(page, "beside") == alone
    assert page.locator("h3").all_inner_texts()[:2] == ["Document 1", "Document 2"]
    assert re.match("5 sentences translated", page.inner_text("#status"))
    differ = sum(one != other for one, other in zip(expected, alone, strict=True))
    if differ:
        assert page.locator("mark").count() > 1


def test_an_edit_is_kept_and_the_rest_of_its_document_follows(
    page: "Page", workbench: Workbench
) -> None:
    translate(page, TEXT)
    before = column(page, "target")
    correct(page, 0, "Die Uhr war neu.")
    kept = ("Die Uhr war neu.", None, None, "", *before[3:])
    lines = tuple(TEXT.rstrip("\n").split("\n"))
    follow = workbench.runs["run"].translator.follow
    expected = list(follow(lines[:3], kept[:3]))
    assert column(page, "target") == [*expected, *before[3:]]
    assert "2 sentences translated" in page.inner_text("#status")
    # A changed source sentence is translated again itself.
    source = page.locator(".source").nth(4)
    source.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("The lamp was green.")
    page.keyboard.press("Enter")
    done(page)
    assert "1 sentence translated" in page.inner_text("#status")
    assert column(page, "target")[:4] == [*expected, before[3]]
    assert page.input_value("#text").endswith("The lamp was green.")


def test_the_context_of_a_sentence_is_shown_and_explained(page: "Page") -> None:
    translate(page, TEXT)
    correct(page, 2, "Der Mann sah sie.")
    page.locator(".source").nth(2).focus()
    page.locator(".target").nth(2).focus()
    assert page.locator(".row.before .source").all_inner_texts() == TEXT.split("\n")[:2]
    page.keyboard.press("Tab")
    assert (
        page.evaluate("document.activeElement.textContent") == "Context of sentence 3 of document 1"
    )
    page.keyboard.press("Enter")
    page.wait_for_selector(".explanation .chip.token")
    labels = page.locator(".explanation .side .where").all_inner_texts()
    assert labels == ["2 back", "1 back", "current"] * 2
    assert "probable" in page.inner_text(".explanation .strong")
    fills = page.locator(".explanation .token.above").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).backgroundColor)"
    )
    assert len(set(fills)) > 1


def test_two_runs_are_compared(page: "Page") -> None:
    page.select_option("#beside", "run other <b>run</b>")
    translate(page, TEXT)
    assert column(page, "beside") == column(page, "target")
    assert page.locator(".row .column").nth(2).inner_text() == "other <b>run</b>"
    assert "Both translations are the same." in page.inner_text("#status")
    page.select_option("#beside", "nothing")
    translate(page, TEXT)
    assert not page.locator(".beside").first.is_visible()


def test_text_never_becomes_markup(page: "Page") -> None:
    translate(page, f"{HOSTILE}\n{HOSTILE}")
    correct(page, 1, HOSTILE)
    page.locator("summary").nth(1).click()
    page.wait_for_selector(".explanation .chip.token")
    assert page.title() == "Translate documents"
    assert column(page, "source") == [HOSTILE, HOSTILE]
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1


def test_large_files_are_refused_before_they_are_sent(page: "Page", tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    large.write_text("word " * 2_000, encoding="utf-8")
    page.set_input_files("#file", large)
    page.wait_for_selector("#problem:not(:empty)")
    assert page.inner_text("#problem") == (
        "large.txt has 10 kB, but this page takes at most 8 kB. Translate it in parts, or with "
        "`iada translate`."
    )
    assert page.input_value("#text") == ""
    page.fill("#text", "word " * 2_000)
    page.click("#go")
    assert page.inner_text("#problem").startswith("The document has 10 kB")
    # The server counts what is sent, in which every quotation mark takes two bytes.
    page.fill("#text", '"' * 6_000)
    page.click("#go")
    page.wait_for_selector("#problem:has-text('too large')")


def test_files_that_are_not_text_are_refused(page: "Page", tmp_path: Path) -> None:
    binary = tmp_path / "model.bin"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    page.set_input_files("#file", binary)
    page.wait_for_selector("#problem:not(:empty)")
    assert "model.bin is not UTF-8 text" in page.inner_text("#problem")


def test_a_file_is_opened_translated_and_saved(page: "Page", tmp_path: Path) -> None:
    letters = tmp_path / "letters.en.txt"
    letters.write_bytes("\ufeffThe lamp was new.\r\nIt was green.\r\n\r\nIt was old.\r\n".encode())
    page.set_input_files("#file", letters)
    page.wait_for_selector("#status:has-text('opened')")
    page.select_option("#beside", "nothing")
    page.click("#go")
    done(page)
    with page.expect_download() as saved:
        page.click("#save-text")
    assert saved.value.suggested_filename == "letters.en.txt"
    found = Path(saved.value.path()).read_text(encoding="utf-8")
    targets = column(page, "target")
    assert found == f"{targets[0]}\n{targets[1]}\n\n{targets[2]}\n"
    with page.expect_download() as saved:
        page.click("#save-table")
    table = Path(saved.value.path()).read_text(encoding="utf-8").splitlines()
    assert table[0] == "document\tsource\ttarget"
    assert [line.split("\t")[0] for line in table[1:]] == ["1", "1", "2"]


def test_prose_is_put_one_sentence_per_line(page: "Page") -> None:
    page.fill("#text", "The lamp was new. It was green.\n\nDid he see it? Yes.")
    page.click("#split")
    expected = "The lamp was new.\nIt was green.\n\nDid he see it?\nYes."
    assert page.input_value("#text") == expected


def test_what_the_model_cannot_take_is_explained(page: "Page") -> None:
    translate(page, "word " * 500)
    assert "needs" in page.inner_text("#problem")
    assert "Split the sentence" in page.inner_text("#problem")


def test_every_control_is_reached_by_the_tab_key(page: "Page") -> None:
    translate(page, "The lamp was new.\nIt was green.")
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.locator("body").evaluate("(body) => { body.tabIndex = -1; body.focus(); }")
    reached = []
    for _ in range(18):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.className"
                " || document.activeElement.localName"
            )
        )
    order = ["skip", "text", "file", "split", "run", "beside", "go", "save-text", "save-table"]
    rows = ["words source", "words target", "summary"] * 2
    assert [one for one in reached if one != "body"][:15] == [*order, *rows]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_can_be_read(
    browser: "Browser", address: str, contrasts: str, scheme: Any, width: int
) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 844})
    page.goto(address)
    page.wait_for_selector("#run option", state="attached")
    translate(page, f"{TEXT}\n{HOSTILE}{'x' * 300}")
    correct(page, 1, "Sie war grün.")
    page.locator("summary").nth(1).click()
    page.wait_for_selector(".explanation .chip.token")
    page.locator(".target").nth(1).focus()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")
    found = page.evaluate(contrasts)
    assert len(found) > 100
    assert sorted((round(ratio, 2), text) for ratio, text in found if ratio < 4.5) == []
    page.close()
