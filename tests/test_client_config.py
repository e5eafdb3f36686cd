"""``client-config``: what is asked of the server, and what is printed and written. Real clients prove the rest."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from responses_plugin.__main__ import main
from responses_plugin.client_config import CLIENTS, DEFAULT_BASE_URL, DEFAULT_CONTEXT_WINDOW, Target, codex_files
from tests.docs.pages import DOCS, EXAMPLES, ROOT, Page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MODEL = {"id": "house-model", "object": "model", "created": 1, "owned_by": "vllm-mlx"}
EMBEDDINGS = {**MODEL, "id": "embeddings", "owned_by": "vllm-mlx-embedding"}


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serve these answers by path, as JSON; gives the base URL. With a key, nothing is told without it."""
    servers: list[ThreadingHTTPServer] = []

    def start(answers: dict[str, Any], key: str = "") -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                allowed = not key or self.headers["Authorization"] == f"Bearer {key}"
                known = self.path in answers
                self.send_response(401 if not allowed else 200 if known else 404)
                self.end_headers()
                if allowed and known:
                    self.wfile.write(json.dumps(answers[self.path]).encode())

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/v1"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def listing(*models: dict[str, Any]) -> dict[str, Any]:
    return {"/v1/models": {"object": "list", "data": list(models)}}


def catalog_of(printed: str) -> dict[str, Any]:
    """The one model of the printed catalog."""
    (model,) = json.loads(printed.partition("local-models.json ---\n")[2])["models"]
    assert isinstance(model, dict)
    return model


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    capsys.readouterr()
    code = main(["client-config", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


# --- What the server tells -------------------------------------------------------------------------------------------


def test_the_server_names_its_model(serve: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """Its one chat model is taken; embeddings beside it do not make it ambiguous, and a final slash does no harm."""
    url = serve({**listing(MODEL, EMBEDDINGS), "/health": {"model_type": "mllm"}})
    code, printed, problem = run(capsys, "codex", "--base-url", f"{url}/")
    assert (code, problem) == (0, "")
    assert 'model = "house-model"\n' in printed
    assert f'base_url = "{url}"\n' in printed
    model = catalog_of(printed)
    assert model["slug"] == "house-model"
    assert model["context_window"] == DEFAULT_CONTEXT_WINDOW
    assert model["input_modalities"] == ["text", "image"]
    assert model["apply_patch_tool_type"] == "freeform"


def test_the_server_tells_what_its_model_can_do(serve: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """A context window in the list of models, and a model without eyes in the health report."""
    url = serve({**listing({**MODEL, "max_model_len": 8192}), "/health": {"model_type": "llm"}})
    model = catalog_of(run(capsys, "codex", "--base-url", url)[1])
    assert model["context_window"] == 8192
    assert model["input_modalities"] == ["text"]


def test_a_named_model_is_asked_about(serve: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """Of several models the one that was named; one that the server does not list is taken at the user's word."""
    blind = {**MODEL, "id": "words", "max_model_len": 8192, "input_modalities": ["text"]}
    eyes = {**MODEL, "id": "eyes", "max_model_len": 65536, "input_modalities": ["text", "image"]}
    url = serve({**listing(blind, eyes), "/health": {"model_type": "llm"}})
    found = {
        name: catalog_of(run(capsys, "codex", "--base-url", url, "--model", name)[1])
        for name in ("words", "eyes", "later")
    }
    assert {name: model["context_window"] for name, model in found.items()} == {
        "words": 8192,
        "eyes": 65536,
        "later": DEFAULT_CONTEXT_WINDOW,
    }
    assert [name for name, model in found.items() if "image" in model["input_modalities"]] == ["eyes", "later"]


def test_options_overrule_the_server(serve: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """What the user says counts."""
    url = serve({**listing({**MODEL, "max_model_len": 8192}), "/health": {"model_type": "mllm"}})
    model = catalog_of(run(capsys, "codex", "--base-url", url, "--context-window", "100000", "--text-only")[1])
    assert model["context_window"] == 100_000
    assert model["input_modalities"] == ["text"]


def test_a_named_model_needs_no_server(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """With --model a configuration can be made before the server runs, and what it takes for granted is told."""
    code, printed, _ = run(capsys, "codex", "--base-url", "http://127.0.0.1:1/v1", "--model", "later")
    assert code == 0
    assert catalog_of(printed)["slug"] == "later"
    [record] = caplog.records
    assert f"{DEFAULT_CONTEXT_WINDOW} tokens of context and images are assumed" in record.getMessage()


def test_a_key_is_read_from_the_environment(
    serve: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is named in what is printed; the key itself never is."""
    url = serve(listing(MODEL), key="s3cret")
    code, printed, problem = run(capsys, "codex", "--base-url", url)
    assert (code, printed) == (1, "")
    assert "status 401" in problem
    assert "--api-key-env" in problem
    monkeypatch.setenv("HOUSE_KEY", "s3cret")
    for client in CLIENTS:
        code, printed, _ = run(capsys, client, "--base-url", url, "--api-key-env", "HOUSE_KEY")
        assert code == 0
        assert "HOUSE_KEY" in printed
        assert "s3cret" not in printed


# --- What can go wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (listing(MODEL, {**MODEL, "id": "second"}), "choose one with --model: house-model, second"),
        (listing(), "no model loaded"),
        (listing(EMBEDDINGS), "no model loaded"),
        ({"/v1/models": ["house-model"]}, "does not list models"),
        ({"/v1/models": {"data": ["house-model"]}}, "does not list models"),
        ({}, "status 404"),
    ],
)
def test_no_guess_is_made(
    serve: Callable[..., str], capsys: pytest.CaptureFixture[str], answers: dict[str, Any], words: str
) -> None:
    """Where the server does not say which model, the command fails, prints no half of a configuration, and says why."""
    code, printed, problem = run(capsys, "openai-python", "--base-url", serve(answers))
    assert (code, printed) == (1, "")
    assert problem.startswith("error: ")
    assert words in problem


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1/v1", "start the server, or give --base-url or --model"),
        ("127.0.0.1:8000/v1", "is no URL of a server"),
        ("file:///etc", "is no URL of a server"),
    ],
)
def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str], url: str, words: str) -> None:
    """The command says what to do, without a traceback."""
    code, printed, problem = run(capsys, "codex", "--base-url", url)
    assert (code, printed) == (1, "")
    assert words in problem


# --- What is written -------------------------------------------------------------------------------------------------


def test_codex_files_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both files, with what would be printed; a file that is there is never replaced, nor is the other written then."""
    home = tmp_path / "new" / "home"
    code, printed, _ = run(capsys, "codex", "--model", "m", "--write", str(home))
    assert code == 0
    assert printed.splitlines() == [str(home / "config.toml"), str(home / "local-models.json")]
    written = {path.name: path.read_text(encoding="utf-8") for path in home.iterdir()}
    assert written == codex_files(Target(DEFAULT_BASE_URL, "m"))
    (home / "config.toml").unlink()
    code, _, problem = run(capsys, "codex", "--model", "another", "--write", str(home))
    assert code == 1
    assert "local-models.json exists" in problem
    assert not (home / "config.toml").exists()


def test_only_codex_has_files_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For the others the option is an error, and not ignored."""
    code, printed, problem = run(capsys, "vercel", "--model", "m", "--write", str(tmp_path))
    assert (code, printed) == (1, "")
    assert "--write is for codex" in problem


def test_a_folder_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error like any other."""
    (tmp_path / "file").write_text("")
    code, _, problem = run(capsys, "codex", "--model", "m", "--write", str(tmp_path / "file" / "home"))
    assert code == 1
    assert "cannot write into" in problem


@pytest.mark.parametrize("client", CLIENTS)
def test_any_name_is_quoted(client: str) -> None:
    """The names of models are paths, and may hold anything: no name breaks out of its string literal."""
    name = 'Köln "7B" \\ it\'s'
    printed = CLIENTS[client](Target(DEFAULT_BASE_URL, name))
    assert json.dumps(name, ensure_ascii=False) in printed
    if client in ("openai-python", "openai-agents", "langchain"):
        compile(printed, client, "exec")


def test_the_example_is_what_is_printed() -> None:
    """docs/examples/codex has exactly the files that the command makes for the model of the README."""
    folder = EXAMPLES / "codex"
    shown = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert shown == codex_files(Target(DEFAULT_BASE_URL, "qwen3-vl"))


@pytest.mark.parametrize("client", CLIENTS)
def test_the_page_shows_what_is_printed(client: str) -> None:
    """docs/clients.md has a section for each client, with exactly what the command prints."""
    target = Target(DEFAULT_BASE_URL, "qwen3-vl")
    page = Page(DOCS / "clients.md")
    section = page.section({"codex": "Codex", "vercel": "Vercel AI SDK", "langchain": "LangChain"}.get(client, client))
    shown = codex_files(target)["config.toml"] if client == "codex" else CLIENTS[client](target)
    assert f"\n{shown}```\n" in section


def test_the_page_names_the_tested_releases() -> None:
    """Of the clients that npm brings, those that package.json pins."""
    package = json.loads((ROOT / "tests" / "clients" / "package.json").read_text(encoding="utf-8"))
    text = Page(DOCS / "clients.md").text
    pinned = package["dependencies"]
    assert f"Codex {pinned['@openai/codex']}." in text
    assert f"openai {pinned['openai']}." in text
    assert f"ai {pinned['ai']} and @ai-sdk/openai {pinned['@ai-sdk/openai']}." in text


def test_the_page_lists_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    """Each option that --help shows has a row."""
    with pytest.raises(SystemExit):
        main(["client-config", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    rows = set(re.findall(r"^\| `(--[a-z-]+)", Page(DOCS / "clients.md").text, re.MULTILINE))
    assert rows == options
