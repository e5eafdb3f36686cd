"""The examples that are files of their own: a plugin package, and the configuration of a client."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from responses_plugin import runtime
from tests.docs.pages import EXAMPLES, ROOT, Page
from tests.host.scripted import Script, ScriptedHost

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOL = {"type": "sql", "name": "orders", "tables": "create table orders (id integer, city text)"}
QUERY = "select count(*)\nfrom orders where city = 'Paris'"
#: What a model writes that was trained on this kind of call.
GENERATED = f"<tool_call>\n{json.dumps({'name': 'orders', 'arguments': {'query': QUERY}})}\n</tool_call>"


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example plugin, installed by pip into a folder of its own."""
    folder = tmp_path_factory.mktemp("example")
    # From a copy, since the build leaves files beside the sources.
    source = shutil.copytree(EXAMPLES / "sql_tool", folder / "source")
    target = folder / "site-packages"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*command, "--target", str(target), str(source)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture
def installed(site_packages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example plugin, found by its entry point like any other installed plugin."""
    monkeypatch.syspath_prepend(str(site_packages))
    importlib.invalidate_caches()
    runtime.installed_plugins.cache_clear()
    yield
    runtime.installed_plugins.cache_clear()
    sys.modules.pop("responses_sql_tool", None)


def pieces(text: str, size: int = 5) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.usefixtures("installed")
def test_the_plugin_is_discovered() -> None:
    """Its entry point is all that it takes: the plugin and its tool kind are there."""
    plugins = runtime.installed_plugins()
    assert "sql" in plugins.names()
    assert plugins.tool_kinds["sql"].call_type == "sql_call"
    assert plugins.hook_names()["responses_tool_kinds"] == ["kinds", "sql"]


def test_doctor_lists_the_plugin(site_packages: Path) -> None:
    """The documented check after an installation shows what it is said to show."""
    code = f"import sys; sys.path.insert(0, {str(site_packages)!r}); from responses_plugin.__main__ import main; main(['doctor'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    shown = next(block.text for block in Page(ROOT / "docs" / "writing-plugins.md").blocks if "doctor" in block.text)
    for line in shown.splitlines():
        if line.startswith(("plugins ", "tool kinds ")):
            assert line in done.stdout.splitlines()


@pytest.mark.usefixtures("installed")
async def test_a_call_comes_back_as_the_kinds_own_item() -> None:
    """The model is offered a function of one string; the client gets the query in a sql_call, and the tool echoed."""
    with ScriptedHost(Script([GENERATED])) as host:
        response = (await host.post(input="How many orders?", tools=[TOOL])).json()
        (offered,) = host.engine.calls[0].tools or []
    assert offered["function"]["name"] == "orders"
    assert TOOL["tables"] in offered["function"]["description"]
    assert response["tools"] == [TOOL]
    (call,) = response["output"]
    assert call["id"].startswith("sql_")
    assert call == {
        "type": "sql_call",
        "id": call["id"],
        "status": "completed",
        "call_id": call["call_id"],
        "name": "orders",
        "query": QUERY,
    }


@pytest.mark.usefixtures("installed")
async def test_a_call_streams_with_the_kinds_own_events() -> None:
    """The query arrives un-escaped in the kind's deltas, whole in its done event, and the same in the item."""
    with ScriptedHost(Script(pieces(GENERATED))) as host:
        stream = await host.stream(input="How many orders?", tools=[TOOL])
    deltas = [event.data["delta"] for event in stream if event.type == "response.sql_call_query.delta"]
    (done,) = [event.data for event in stream if event.type == "response.sql_call_query.done"]
    assert "".join(deltas) == done["query"] == QUERY
    (item,) = stream[-1].data["response"]["output"]
    assert (item["type"], item["id"], item["query"]) == ("sql_call", done["item_id"], QUERY)
    assert not [event for event in stream if "function_call" in event.type]


@pytest.mark.usefixtures("installed")
async def test_a_call_and_its_output_are_replayed() -> None:
    """In the next turn the model sees its call as it wrote it, and the output behind it, whoever sends them."""
    output = {"type": "sql_call_output", "output": "3"}
    with ScriptedHost(Script([GENERATED]), Script(["Three."])) as host:
        first = (await host.post(input="How many orders?", tools=[TOOL])).json()
        (call,) = first["output"]
        output["call_id"] = call["call_id"]
        stored = {"previous_response_id": first["id"], "input": [output]}
        question = {"role": "user", "content": "How many orders?"}
        for continuation in (stored, {"input": [question, call, output]}):
            answer = await host.post(tools=[TOOL], **continuation)
            assert answer.json()["output"][0]["content"][0]["text"] == "Three."
        _, by_id, by_replay = host.engine.calls
    assert by_id.messages == by_replay.messages
    asked, called, answered = by_id.messages
    assert asked == question
    assert called["tool_calls"][0]["function"] == {"name": "orders", "arguments": {"query": QUERY}}
    assert answered == {"role": "tool", "tool_call_id": call["call_id"], "content": "3"}


@pytest.mark.usefixtures("installed")
async def test_a_tool_without_a_name_is_refused() -> None:
    """What the kind's model requires is required of the request, with the place in the body."""
    with ScriptedHost() as host:
        refused = await host.post(input="How many orders?", tools=[{"type": "sql"}])
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "tools[0].name"


# --- Codex ---------------------------------------------------------------------------------------------------------


def test_the_readme_shows_the_codex_configuration() -> None:
    """The configuration in the README is the file in docs/examples, and its model is the one in the catalog."""
    config = (EXAMPLES / "codex" / "config.toml").read_text(encoding="utf-8")
    shown = [block.text for block in Page(ROOT / "README.md").blocks if block.info == ("toml",)]
    assert shown == [config]
    catalog: dict[str, Any] = json.loads((EXAMPLES / "codex" / "local-models.json").read_text(encoding="utf-8"))
    (model,) = catalog["models"]
    assert f'model = "{model["slug"]}"' in config.splitlines()
    assert f"--served-model-name {model['slug']} " in Page(ROOT / "README.md").text
    assert 'model_catalog_json = "local-models.json"' in config.splitlines()
