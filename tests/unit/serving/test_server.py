"""The server: what it answers, what it refuses, and what it never says."""

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from iada.cli.serve import ServeCommand, run
from iada.errors import ConfigError, DataError
from iada.serving.server import DEFECT, Limits, build_app, open_socket
from iada.serving.workbench import Workbench

HERE = "http://127.0.0.1:8377"
LIMIT = 4096


@pytest.fixture(scope="module")
def client(workbench: Workbench) -> Iterator[TestClient]:
    app = build_app(workbench, Limits(LIMIT))
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as opened:
        yield opened


def lines_of(response: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in response.text.splitlines()]


def test_translations_are_streamed_line_by_line(client: TestClient, workbench: Workbench) -> None:
    given = ["The lamp was new.", "It was green.", "", "It was old."]
    response = client.post("/api/translate", json={"run": "run", "lines": given})
    assert response.status_code == 200
    events = lines_of(response)
    assert [event.get("line") for event in events] == [0, 1, 3, None]
    assert events[-1] == {"done": True}
    expected = workbench.runs["run"].translator.translate("\n".join(given)).split("\n")
    assert [event["translation"] for event in events[:-1]] == [expected[n] for n in (0, 1, 3)]


def test_the_page_and_its_files_come_from_here_alone(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    for name in ("page.css", "workbench.css", "workbench.js"):
        assert name in page.text
        assert client.get(f"/{name}").status_code == 200
    assert "http" not in page.text.replace("http-equiv", "")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe-inline" not in policy.replace("style-src-attr 'unsafe-inline'", "")


def test_runs_are_described_without_paths(client: TestClient) -> None:
    described = client.get("/api/runs").json()
    assert [one["name"] for one in described["runs"]] == ["run", "other <b>run</b>"]
    assert described["max_bytes"] == LIMIT
    assert "/" not in json.dumps(described).replace("</b>", "")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8377", "127.0.0.1.evil.example"])
def test_a_foreign_host_name_is_refused(client: TestClient, host: str) -> None:
    response = client.get("/api/runs", headers={"host": host})
    assert response.status_code == 400
    assert "runs" not in response.text
    assert "content-security-policy" in response.headers


@pytest.mark.parametrize("host", ["localhost:8377", "127.0.0.1", "[::1]:8377"])
def test_every_name_of_this_machine_is_answered(client: TestClient, host: str) -> None:
    assert client.get("/api/runs", headers={"host": host}).status_code == 200


def test_requests_of_other_pages_are_refused(client: TestClient) -> None:
    asked = {"run": "run", "lines": ["It was green."]}
    headers = {"origin": "https://evil.example"}
    assert client.post("/api/translate", json=asked, headers=headers).status_code == 403
    assert client.post("/api/translate", json=asked, headers={"origin": HERE}).status_code == 200
    # What a form of another page can send without asking first.
    plain = {"content-type": "text/plain"}
    sent = client.post("/api/translate", content=json.dumps(asked), headers=plain)
    assert sent.status_code == 415


def test_a_document_that_is_too_large_is_refused(client: TestClient) -> None:
    asked = {"run": "run", "lines": ["word"] * LIMIT}
    response = client.post("/api/translate", json=asked)
    assert response.status_code == 413
    assert response.json()["error"].startswith("The document is too large: this page takes at most")


def test_a_request_that_hides_its_size_is_refused_too(client: TestClient) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(10):
            yield b" " * 1000

    headers = {"content-type": "application/json"}
    response = client.post("/api/translate", content=parts(), headers=headers)
    assert response.status_code == 413


@pytest.mark.parametrize(
    ("content", "status", "match"),
    [
        ("{", 400, "not JSON"),
        ("[" * 4000, 400, "not JSON"),
        ("[1]", 400, "a JSON object"),
        ('{"run": "run"}', 422, "`lines` is missing"),
        ('{"run": "run", "lines": ["a"], "line": 1}', 422, "unknown key `line`"),
        ('{"run": "run", "lines": [1]}', 422, "must be text"),
        ('{"run": "run", "lines": ["  "]}', 422, "no text"),
        ('{"run": "../etc", "lines": ["a"]}', 422, "There is no run"),
    ],
)
def test_wrong_requests_are_explained(
    client: TestClient, content: str, status: int, match: str
) -> None:
    headers = {"content-type": "application/json"}
    response = client.post("/api/translate", content=content, headers=headers)
    assert response.status_code == status
    assert match in response.json()["error"]


def test_explanations_escape_the_text(client: TestClient) -> None:
    lines = ["<img src=x onerror=alert(1)> was green."]
    asked = {"run": "run", "lines": lines, "translations": lines, "line": 0}
    response = client.post("/api/explain", json=asked)
    assert response.status_code == 200
    assert "<img" not in response.text


def test_a_defect_says_nothing_about_this_machine(
    client: TestClient, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("/secret/place cannot be read")

    asked = {"run": "run", "lines": ["It was green."]}
    with monkeypatch.context() as patch:
        patch.setattr(workbench, "check", fail)
        response = client.post("/api/translate", json=asked)
    assert (response.status_code, response.json()) == (500, {"error": DEFECT})
    with monkeypatch.context() as patch:
        patch.setattr(workbench, "translate", fail)
        response = client.post("/api/translate", json=asked)
    assert lines_of(response) == [{"error": DEFECT}]


def test_an_error_in_the_middle_ends_the_stream_with_its_words(
    client: TestClient, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> Iterator[tuple[int, str]]:
        yield 0, "Es war grün."
        raise DataError("Sentence 2 is too long.")

    monkeypatch.setattr(workbench, "translate", fail)
    response = client.post("/api/translate", json={"run": "run", "lines": ["a", "b"]})
    assert lines_of(response)[1:] == [{"error": "Sentence 2 is too long."}]


@pytest.mark.parametrize("path", ["/../pyproject.toml", "/page/index.html", "/config.yaml", "/api"])
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_port_in_use_is_named() -> None:
    with open_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port} cannot be used"):
            open_socket("127.0.0.1", port)


def test_the_command_says_what_it_would_serve(
    trained_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(ServeCommand(runs=(trained_run,), dry_run=True))
    assert str(trained_run / "model") in capsys.readouterr().out


def test_the_command_serves_on_loopback_with_the_given_hosts(
    trained_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[Any, str]] = []

    def listen(app: Any, bound: socket.socket) -> None:
        served.append((app, bound.getsockname()[0]))

    monkeypatch.setattr("iada.serving.server.serve", listen)
    command = ServeCommand(runs=(trained_run,), port=0, allow_hosts=("box.lan",))
    run(command)
    ((app, address),) = served
    assert address == "127.0.0.1"
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")
    with TestClient(app, base_url="http://box.lan") as client:
        assert client.get("/api/runs").json()["max_bytes"] == 512 * 1024
    with pytest.raises(ConfigError, match="port"):
        replace(command, port=70_000)
