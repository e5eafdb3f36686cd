"""Codex at work on the real host, configured by what ``client-config codex`` prints. The engine alone is scripted.

Each job says what the model writes, and looks at the exit code, at what Codex shows, at the files on disk, and at what
reached the model.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import vllm_mlx.server as host_server
from vllm_mlx.engine.base import EngineBusy

from responses_plugin.settings import Settings
from tests.clients import mcp_server
from tests.clients.codex import Codex, RecordingHost
from tests.clients.scripts import calls, says
from tests.host.scripted import Gate, Script, wait_until
from tests.images import image_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Start = Callable[..., AbstractContextManager[tuple[RecordingHost, Codex]]]

PHOTO_URL = f"data:image/png;base64,{mcp_server.RED}"
COMPACTION_PROMPT = "You are performing a CONTEXT CHECKPOINT COMPACTION."
#: Nine tenths of the context window that client-config says, and a little more.
NEARLY_FULL = 30_000


@pytest.fixture
def start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Start:
    """Serve scripts, and configure Codex for it with these further arguments of client-config."""
    codex = Codex(tmp_path / "home", tmp_path / "workspace")
    codex.home.mkdir()
    codex.workspace.mkdir()

    @contextmanager
    def started(
        *scripts: Script, config: tuple[str, ...] = (), **options: Any
    ) -> Iterator[tuple[RecordingHost, Codex]]:
        with RecordingHost(*scripts, **options) as host, host.serving() as url:
            codex.configure(url, capsys, *config)
            yield host, codex
        assert_no_other_model(host)

    return started


def assert_no_other_model(host: RecordingHost) -> None:
    """No header says that another model answered, which Codex takes for a demotion after "high-risk cyber activity"."""
    for sent in host.sent:
        assert sent.answer_headers.get("openai-model", sent.json["model"]) == sent.json["model"]


def with_mcp_server(codex: Codex, photo: Path | None = None) -> None:
    """Give Codex the tools of our MCP server."""
    arguments = [mcp_server.__file__, *([str(photo)] if photo else [])]
    codex.add_config(f"[mcp_servers.demo]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(arguments)}\n")


def provider(setting: str) -> tuple[str, str]:
    """An option that changes one setting of the provider."""
    return "-c", f"model_providers.vllm-mlx.{setting}"


def tool_names(host: RecordingHost, call: int = 0) -> list[str]:
    return [tool["function"]["name"] for tool in host.engine.calls[call].tools or []]


def tool_outputs(host: RecordingHost) -> list[str]:
    """What tools said, as the last call's prompt has it."""
    return [message["content"] for message in host.engine.calls[-1].messages if message["role"] == "tool"]


def images(host: RecordingHost) -> list[str]:
    """The URLs of the images in the last call's prompt, which are parts of user messages."""
    users = [message["content"] for message in host.engine.calls[-1].messages if message["role"] == "user"]
    parts = [part for content in users if isinstance(content, list) for part in content]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def assert_append_only(host: RecordingHost) -> None:
    """Each prompt begins with the whole one before it, so that the host's prefix cache can serve it."""
    for before, after in zip(host.engine.calls, host.engine.calls[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages


# --- Answers ---------------------------------------------------------------------------------------------------------


def test_answers(start: Start) -> None:
    """The answer and its reasoning are shown, usage is counted, and the prompt came with our configuration's words."""
    script = says("<think>\nThey greet me.\n</think>\n\nHello! What can I do?", prompt_tokens=1234)
    with start(script, reasoning_parser="qwen3") as (host, codex):
        run = codex.run("Say hello.")
    assert run.exit_code == 0, run
    assert run.messages == ["Hello! What can I do?"]
    assert [item["text"] for item in run.items("reasoning")] == ["They greet me."]
    assert run.usage["input_tokens"] == 1234
    assert run.usage["output_tokens"] == len(script.pieces)
    (sent,) = host.sent
    assert (sent.path, sent.status) == ("/v1/responses", 200)
    (call,) = host.engine.calls
    system, user = call.messages
    assert system["content"].startswith("You are a coding agent.")
    assert user["content"].endswith("Say hello.")
    assert {"exec_command", "apply_patch", "view_image"} <= set(tool_names(host))
    assert "Model metadata" not in run.stderr


def test_a_server_with_an_api_key(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is read from the variable that client-config was told, by client-config itself and by Codex."""
    monkeypatch.setenv("HOUSE_KEY", "s3cret")
    with start(says("Hi."), api_key="s3cret", config=("--api-key-env", "HOUSE_KEY")) as (host, codex):
        codex.environment["HOUSE_KEY"] = "s3cret"
        run = codex.run("Say hello.")
    assert run.exit_code == 0, run
    assert run.messages == ["Hi."]
    assert host.sent[0].headers["authorization"] == "Bearer s3cret"


def test_as_a_profile(start: Start) -> None:
    """Saved under another name, the configuration is a profile beside what the user has."""
    with start(says("Hi.")) as (host, codex):
        (codex.home / "config.toml").rename(codex.home / "vllm-mlx.config.toml")
        (codex.home / "config.toml").write_text('model = "another"\n', encoding="utf-8")
        run = codex.run("-p", "vllm-mlx", "Say hello.")
    assert run.exit_code == 0, run
    assert run.messages == ["Hi."]
    assert host.sent[0].json["model"] == "scripted"


# --- Commands and files ----------------------------------------------------------------------------------------------


def test_runs_a_command(start: Start) -> None:
    """A command runs where Codex is, and the model gets its output; its words and thought are in front of the call."""
    look = calls(("exec_command", {"cmd": "cat notes.txt"}), before="<think>\nA file.\n</think>\nLet me look.\n")
    with start(look, says("It says: buy milk."), reasoning_parser="qwen3") as (host, codex):
        (codex.workspace / "notes.txt").write_text("buy milk\n")
        run = codex.run("What is in notes.txt?")
    assert run.exit_code == 0, run
    assert [message.strip() for message in run.messages] == ["Let me look.", "It says: buy milk."]
    (command,) = run.items("command_execution")
    assert (command["exit_code"], command["aggregated_output"]) == (0, "buy milk\n")
    (output,) = tool_outputs(host)
    assert output.endswith("Output:\nbuy milk\n")
    assert_append_only(host)
    _, _, asked, _ = host.engine.calls[1].messages
    assert asked["reasoning_content"] == "A file."
    assert asked["content"].strip() == "Let me look."
    assert asked["tool_calls"][0]["function"] == {"name": "exec_command", "arguments": {"cmd": "cat notes.txt"}}


def test_runs_commands_in_parallel(start: Start) -> None:
    """Two calls of one turn run at the same time, each waiting for the other, and come back in order."""
    meet = "touch {mine}; for i in $(seq 100); do test -e {other} && break; sleep 0.05; done; test -e {other} && echo {mine} met"
    both = calls(
        ("exec_command", {"cmd": meet.format(mine="A", other="B")}),
        ("exec_command", {"cmd": meet.format(mine="B", other="A")}),
    )
    with start(both, says("They met.")) as (host, codex):
        run = codex.run("Meet.")
    assert run.exit_code == 0, run
    assert run.messages == ["They met."]
    assert [item["exit_code"] for item in run.items("command_execution")] == [0, 0]
    first, second = tool_outputs(host)
    assert first.endswith("A met\n")
    assert second.endswith("B met\n")


def test_a_command_starts_before_the_answer_ends(start: Start) -> None:
    """A call is handed over as soon as it is complete, while the model still writes the next one."""
    first = calls(("exec_command", {"cmd": "touch started"}))
    second = calls(("exec_command", {"cmd": "test -e started"}))
    gate = Gate()
    script = Script([*first.pieces, "\n", *second.pieces], gates={len(first.pieces) + 2: gate})
    with start(script, says("Done.")) as (host, codex):
        process = codex.start("Go.")
        try:
            wait_until((codex.workspace / "started").exists, "the first command")
            assert not host.engine.calls[0].finished
        finally:
            gate.open()
            run = codex.finish(process)
    assert run.exit_code == 0, run
    assert [item["exit_code"] for item in run.items("command_execution")] == [0, 0]


PATCH = """\
*** Begin Patch
*** Add File: docs/new.md
+# Grüße "an" alle \\ {x}
+
+end
*** Update File: main.py
@@ def greet():
-    return "hello"
+    return "good morning"
*** Update File: old_name.py
*** Move to: package/new_name.py
@@
-VALUE = 1
+VALUE = 2
*** Delete File: obsolete.txt
*** End Patch
"""


def test_edits_adds_moves_and_deletes_files(start: Start) -> None:
    """One patch does all of it; it comes as a custom_tool_call with the raw patch, as the grammar's tool asks."""
    with start(calls(("apply_patch", {"input": PATCH})), says("All done.")) as (host, codex):
        files = codex.workspace
        (files / "main.py").write_text('def greet():\n    return "hello"\n')
        (files / "old_name.py").write_text("VALUE = 1\n")
        (files / "obsolete.txt").write_text("old\n")
        run = codex.run("Tidy up.")
    assert run.exit_code == 0, run
    assert run.messages == ["All done."]
    left = {str(path.relative_to(files)): path.read_text() for path in files.rglob("*") if path.is_file()}
    assert left == {
        "docs/new.md": '# Grüße "an" alle \\ {x}\n\nend\n',
        "main.py": 'def greet():\n    return "good morning"\n',
        "package/new_name.py": "VALUE = 2\n",
    }
    (change,) = run.items("file_change")
    assert change["status"] == "completed"
    (call,) = host.sent[1].inputs("custom_tool_call")
    assert (call["name"], call["input"]) == ("apply_patch", PATCH)
    (output,) = tool_outputs(host)
    assert "Success. Updated the following files:" in output
    assert_append_only(host)


@pytest.mark.parametrize("fence", ["```\n{}\n```", "```patch\n{}\n```"])
def test_a_patch_that_the_model_wrapped(start: Start, fence: str) -> None:
    """Codex refuses a patch in a Markdown fence, or in JSON twice; here it gets the patch alone."""
    patch = "*** Begin Patch\n*** Add File: a.txt\n+a\n*** End Patch"
    wrapped = json.dumps({"input": fence.format(patch)})
    with start(calls(("apply_patch", {"input": wrapped})), says("Done.")) as (_, codex):
        run = codex.run("Add a file.")
    assert run.exit_code == 0, run
    assert (codex.workspace / "a.txt").read_text() == "a\n"


def test_a_patch_that_does_not_apply(start: Start) -> None:
    """The model reads why, and its next patch is applied."""
    wrong = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+three\n*** End Patch\n"
    right = wrong.replace("two", "one")
    scripts = calls(("apply_patch", {"input": wrong})), calls(("apply_patch", {"input": right})), says("Done.")
    with start(*scripts) as (host, codex):
        (codex.workspace / "a.txt").write_text("one\n")
        run = codex.run("Count.")
    assert run.exit_code == 0, run
    assert (codex.workspace / "a.txt").read_text() == "three\n"
    refused, applied = tool_outputs(host)
    assert "Failed to find expected lines" in refused
    assert "Success" in applied
    assert_append_only(host)


# --- Images ----------------------------------------------------------------------------------------------------------


def test_views_an_image(start: Start) -> None:
    """What view_image returns reaches the model as an image, right behind the tool's message."""
    with start(calls(("view_image", {"path": "red.png"})), says("It is red.")) as (host, codex):
        (codex.workspace / "red.png").write_bytes(image_bytes("red"))
        run = codex.run("What colour is red.png?")
    assert run.exit_code == 0, run
    assert run.messages == ["It is red."]
    (image,) = images(host)
    assert image.startswith("data:image/png;base64,")
    assert [message["role"] for message in host.engine.calls[-1].messages[-3:]] == ["assistant", "tool", "user"]
    (output,) = host.sent[1].inputs("function_call_output")
    assert output["output"][0]["image_url"] == image
    assert_append_only(host)


def test_takes_an_image_along(start: Start) -> None:
    """``-i`` puts an image into the prompt itself."""
    with start(says("It is blue.")) as (host, codex):
        (codex.workspace / "blue.png").write_bytes(image_bytes("blue"))
        run = codex.run("What colour?", "-i", "blue.png")
    assert run.exit_code == 0, run
    assert run.messages == ["It is blue."]
    assert len(images(host)) == 1
    parts = host.engine.calls[0].messages[-1]["content"]
    assert parts[-1] == {"type": "text", "text": "What colour?"}


def test_a_model_that_does_not_see(start: Start) -> None:
    """client-config learns it from the server: Codex then tells the model that there was an image."""
    with start(says("I cannot see it."), mllm=False) as (host, codex):
        (codex.workspace / "blue.png").write_bytes(image_bytes("blue"))
        run = codex.run("What colour?", "-i", "blue.png")
    assert run.exit_code == 0, run
    assert images(host) == []
    assert "image" in json.dumps(host.engine.calls[0].messages[-1])


# --- Tools of others -------------------------------------------------------------------------------------------------


def test_calls_tools_of_an_mcp_server(start: Start) -> None:
    """Its tools are offered under names of their own; text and image come back; the calls carry their namespace."""
    both = calls(("mcp__demo__add", {"a": 2, "b": 3}), ("mcp__demo__take_photo", {}))
    with start(both, says("5, and red.")) as (host, codex):
        with_mcp_server(codex)
        run = codex.run("Add, and take a photo.")
    assert run.exit_code == 0, run
    assert run.messages == ["5, and red."]
    assert [(item["tool"], item["status"]) for item in run.items("mcp_tool_call")] == [
        ("add", "completed"),
        ("take_photo", "completed"),
    ]
    assert {"mcp__demo__add", "mcp__demo__take_photo"} <= set(tool_names(host))
    added, photo = tool_outputs(host)
    assert "The sum is 5." in added
    assert "Photo taken." in photo
    assert images(host) == [PHOTO_URL]
    names = [(call["namespace"], call["name"]) for call in host.sent[1].inputs("function_call")]
    assert names == [("mcp__demo", "add"), ("mcp__demo", "take_photo")]
    assert_append_only(host)


def test_searches_for_tools(start: Start) -> None:
    """Deferred tools are not offered before the model has searched for them, and then they can be called."""
    search = calls(("tool_search", {"query": "add numbers"}))
    with start(search, calls(("mcp__demo__add", {"a": 2, "b": 3})), says("5.")) as (host, codex):
        with_mcp_server(codex)
        codex.edit_catalog(supports_search_tool=True)
        run = codex.run("Add.")
    assert run.exit_code == 0, run
    assert run.messages == ["5."]
    assert [item["status"] for item in run.items("mcp_tool_call")] == ["completed"]
    assert "tool_search" in tool_names(host, 0)
    assert "mcp__demo__add" not in tool_names(host, 0)
    assert "mcp__demo__add" in tool_names(host, 1)
    (call,) = host.sent[1].inputs("tool_search_call")
    assert call["arguments"] == {"query": "add numbers"}
    found, added = tool_outputs(host)
    assert "add" in found
    assert "The sum is 5." in added


@pytest.mark.parametrize(
    ("lite", "name"), [(False, "exec"), (True, "functions__exec")], ids=["tools", "additional_tools"]
)
def test_code_mode(start: Start, lite: bool, name: str) -> None:
    """The one tool is a program: a custom tool, for newer models inside a namespace that an input item brings."""
    program = (
        'const shown = await tools.exec_command({cmd: "cat notes.txt"}); text(shown.output);\n'
        'image(await tools.view_image({path: "red.png"}));'
    )
    with start(calls((name, {"input": program})), says("Milk, and red.")) as (host, codex):
        codex.edit_catalog(tool_mode="code_mode_only", use_responses_lite=lite)
        (codex.workspace / "notes.txt").write_text("buy milk\n")
        (codex.workspace / "red.png").write_bytes(image_bytes("red"))
        run = codex.run("Look at both.")
    assert run.exit_code == 0, run
    assert run.messages == ["Milk, and red."]
    assert name in tool_names(host)
    assert "exec_command" not in tool_names(host)
    assert ("tools" in host.sent[0].json) is not lite
    assert len(host.sent[0].inputs("additional_tools")) == int(lite)
    (call,) = host.sent[1].inputs("custom_tool_call")
    assert (call["name"], call.get("namespace"), call["input"]) == ("exec", "functions" if lite else None, program)
    (output,) = tool_outputs(host)
    assert "Script completed" in output
    assert "buy milk" in output
    assert len(images(host)) == 1
    assert_append_only(host)


# --- Long sessions ---------------------------------------------------------------------------------------------------


def test_compacts_in_the_middle_of_a_turn(start: Start) -> None:
    """When usage nears the context window, Codex asks for a summary without tools, and goes on from it."""
    work = calls(("exec_command", {"cmd": "echo 4711"}), prompt_tokens=NEARLY_FULL)
    with start(work, says("SUMMARY: it printed 4711."), says("Done.")) as (host, codex):
        run = codex.run("Print a number.")
    assert run.exit_code == 0, run
    assert run.messages == ["Done."]
    assert [sent.path for sent in host.sent] == ["/v1/responses"] * 3
    asked, summarised, went_on = host.engine.calls
    assert asked.tools
    assert not summarised.tools
    assert summarised.messages[-1]["content"].startswith(COMPACTION_PROMPT)
    assert [message["role"] for message in went_on.messages] == ["system", "user"]
    assert "SUMMARY: it printed 4711." in went_on.messages[-1]["content"]


def test_compacts_a_resumed_session(start: Start) -> None:
    """The same between two turns: the new prompt follows the summary of the old ones."""
    scripts = says("The number is 4711.", prompt_tokens=NEARLY_FULL), says("SUMMARY: 4711."), says("It was 4711.")
    with start(*scripts) as (host, codex):
        first = codex.run("Choose a number.")
        second = codex.run("resume", first.thread_id, "Which was it?")
    assert (first.exit_code, second.exit_code) == (0, 0), second
    assert second.messages == ["It was 4711."]
    _, summarised, went_on = host.engine.calls
    assert summarised.messages[-1]["content"].startswith(COMPACTION_PROMPT)
    last = went_on.messages[-1]["content"]
    assert last.index("SUMMARY: 4711.") < last.index("Which was it?")


def test_resumes_a_session(start: Start) -> None:
    """The whole history is replayed, reasoning and calls included, and makes the same prompt again."""
    scripts = (
        calls(("exec_command", {"cmd": "echo A"}), before="<think>\nRun it.\n</think>\n"),
        says("<think>\nIt ran.\n</think>\nIt printed A."),
        says("I said A."),
    )
    with start(*scripts, reasoning_parser="qwen3") as (host, codex):
        first = codex.run("Run echo A.")
        second = codex.run("resume", first.thread_id, "What did you say?")
    assert (first.exit_code, second.exit_code) == (0, 0), second
    assert second.messages == ["I said A."]
    assert second.thread_id == first.thread_id
    assert_append_only(host)
    _, _, *turns = host.engine.calls[-1].messages
    assert [message["role"] for message in turns] == ["assistant", "tool", "assistant", "user"]
    assert turns[0]["reasoning_content"] == "Run it."
    assert turns[2]["content"].strip() == "It printed A."
    assert turns[3]["content"] == "What did you say?"


# --- Structured output -----------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
    "additionalProperties": False,
}


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    return path


def test_output_schema(start: Start, schema: Path, tmp_path: Path) -> None:
    """The model may call tools and then answers in JSON; the form of the answer is asked for in words."""
    answer = '{"colour": "red"}'
    with start(calls(("exec_command", {"cmd": "echo red"})), says(answer)) as (host, codex):
        run = codex.run("Which colour?", "--output-schema", schema, "-o", tmp_path / "answer.json")
    assert run.exit_code == 0, run
    assert json.loads((tmp_path / "answer.json").read_text()) == {"colour": "red"}
    assert len(tool_outputs(host)) == 1
    assert host.sent[0].json["text"]["format"]["type"] == "json_schema"
    assert json.dumps(SCHEMA) in host.engine.calls[0].messages[0]["content"]


def test_an_answer_that_misses_the_schema(start: Start, schema: Path) -> None:
    """It never counts as the answer: Codex tries again and, when that is no better, fails and says why."""
    good, bad = says('{"colour": "red"}'), says("It is red.")
    with start(bad, good) as (host, codex):
        run = codex.run("Which colour?", "--output-schema", schema)
    assert run.exit_code == 0, run
    assert run.messages == ['{"colour": "red"}']
    assert len(host.sent) == 2
    with start(bad) as (host, codex):
        run = codex.run("Which colour?", "--output-schema", schema, *provider("stream_max_retries=1"))
    assert run.exit_code == 1, run
    assert "does not fit text.format" in run.errors[-1]
    assert len(host.sent) == 2


# --- Failures --------------------------------------------------------------------------------------------------------


def test_a_bad_request(start: Start, schema: Path) -> None:
    """A 400 ends the turn at once: Codex shows what it says and does not try again."""
    schema.write_text(json.dumps({"type": "colour"}), encoding="utf-8")
    with start(says("Never said.")) as (host, codex):
        run = codex.run("Which colour?", "--output-schema", schema)
    assert run.exit_code == 1, run
    assert [sent.status for sent in host.sent] == [400]
    assert "invalid_json_schema" in run.errors[-1]
    assert not host.engine.calls


def test_an_image_that_is_broken(start: Start, tmp_path: Path) -> None:
    """Codex itself keeps what is no image from the server: the session goes on."""
    broken = tmp_path / "photo.png"
    broken.write_bytes(image_bytes("red")[:40])
    with start(calls(("mcp__demo__take_photo", {})), says("No photo.")) as (host, codex):
        with_mcp_server(codex, broken)
        run = codex.run("Take a photo.")
    assert run.exit_code == 0, run
    assert run.messages == ["No photo."]
    assert images(host) == []


def test_an_unknown_model(start: Start) -> None:
    """A 404 model_not_found ends the turn at once as well."""
    with start(says("Never said.")) as (host, codex):
        run = codex.run("-m", "another", "Say hello.")
    assert run.exit_code == 1, run
    assert [sent.status for sent in host.sent] == [404]
    assert "another" in run.errors[-1]


def test_a_prompt_that_is_too_long(start: Start) -> None:
    """Codex knows the failure by its code, says it in its own words, and does not try again."""
    too_long = ValueError("Prompt is too long: 90000 tokens > 32768 maximum")
    with start(Script(error=too_long)) as (host, codex):
        run = codex.run("Say hello.")
    assert run.exit_code == 1, run
    assert len(host.sent) == 1
    assert "ran out of room in the model's context window" in run.errors[-1]


def test_a_server_that_is_not_ready(start: Start) -> None:
    """A 503 is tried again, and the turn goes on when the model is there."""
    with start(says("Hi.")) as (host, codex):
        host_server._engine = None

        def load(_: object) -> None:
            host_server._engine = host.engine

        host.on_answer = load
        run = codex.run("Say hello.")
    assert run.exit_code == 0, run
    assert run.messages == ["Hi."]
    assert [sent.status for sent in host.sent] == [503, 200]


def test_a_server_that_is_busy(start: Start) -> None:
    """Codex says that the model is at capacity, instead of trying thirty times."""
    with start(Script(error=EngineBusy("SimpleEngine serialized route is busy; retry later"))) as (host, codex):
        run = codex.run("Say hello.")
    assert run.exit_code == 1, run
    assert len(host.sent) == 1
    assert "at capacity" in run.errors[-1]


def test_a_failure_in_mid_stream(start: Start) -> None:
    """Codex drops what it has seen of the answer and asks the same again; the answer is shown once."""
    broken = Script(["It is ", "re", "d."], error=RuntimeError("boom"), error_after=2)
    with start(broken, says("It is red.")) as (host, codex):
        run = codex.run("Which colour?")
    assert run.exit_code == 0, run
    assert run.messages == ["It is red."]
    assert [sent.status for sent in host.sent] == [200, 200]
    first, second = host.engine.calls
    assert first.messages == second.messages


def test_a_failure_after_a_call(start: Start) -> None:
    """A call that was complete has run and is not asked for again; the one that broke off never runs."""
    whole, half = calls(("exec_command", {"cmd": "echo A >> ran"})), calls(("exec_command", {"cmd": "echo B >> ran"}))
    broken = Script(
        [*whole.pieces, "\n", *half.pieces[:-3]], error=RuntimeError("boom"), error_after=len(whole.pieces) + 8
    )
    with start(broken, says("It ran.")) as (host, codex):
        run = codex.run("Run both.")
    assert run.exit_code == 0, run
    assert run.messages == ["It ran."]
    assert (codex.workspace / "ran").read_text() == "A\n"
    assert len(tool_outputs(host)) == 1


def test_a_failure_that_stays(start: Start) -> None:
    """After its retries Codex fails, with the message of the server, which tells nothing of its insides."""
    broken = Script(["It is ", "re", "d."], error=RuntimeError("boom"), error_after=2)
    with start(broken) as (host, codex):
        run = codex.run("Which colour?", *provider("stream_max_retries=1"))
    assert run.exit_code == 1, run
    assert len(host.sent) == 2
    assert run.messages == []
    assert "The engine failed while it was generating" in run.errors[-1]
    assert "boom" not in str(run)


PREFILL = Script(["Hi."], delay=1.2)
IMPATIENT = (*provider("stream_idle_timeout_ms=1000"), *provider("stream_max_retries=0"))


def test_a_slow_prefill(start: Start) -> None:
    """While the prompt is read, keepalive events keep the stream alive beyond Codex's patience."""
    with start(PREFILL, options=Settings(keepalive_seconds=0.1)) as (host, codex):
        run = codex.run("Say hello.", *IMPATIENT)
    assert run.exit_code == 0, run
    assert run.messages == ["Hi."]
    assert len(host.sent) == 1


def test_a_slow_prefill_without_keepalive(start: Start) -> None:
    """Without the events Codex gives up, so that the test above proves something; and generation stops."""
    with start(PREFILL, options=Settings(keepalive_seconds=0)) as (host, codex):
        run = codex.run("Say hello.", *IMPATIENT)
        assert run.exit_code == 1, run
        assert "idle timeout" in run.errors[-1]
        assert host.engine.calls[0].over.wait(20)
    assert host.engine.calls[0].aborted


def test_an_interrupt(start: Start) -> None:
    """When the user interrupts Codex, the server stops generating."""
    endless = Script(["word "] * 2000, delay=0.01)
    with start(endless) as (host, codex):
        process = codex.start("Talk.")
        wait_until(lambda: bool(host.engine.calls) and host.engine.calls[0].emitted > 5, "some words")
        process.send_signal(signal.SIGINT)
        run = codex.finish(process)
        began = time.monotonic()
        assert host.engine.calls[0].over.wait(20)
    assert host.engine.calls[0].aborted
    assert time.monotonic() - began < 10
    assert run.exit_code != 0, run
