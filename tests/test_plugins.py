"""Plugins: they are found, win over what is built in, and are told by name when they cannot be used."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from responses_plugin import hookspecs
from responses_plugin.generation.items import OutputItemKind, VerbatimDecoder
from responses_plugin.hookspecs import hookimpl
from responses_plugin.kinds.base import Function, ToolKind
from responses_plugin.kinds.function import FUNCTION
from responses_plugin.lowering.messages import text_part
from responses_plugin.lowering.part_kinds import ContentPartKind
from responses_plugin.plugins import BUILTIN_PLUGINS, PluginError, load_plugins
from responses_plugin.protocol.items import ToolCall, ToolOutput
from responses_plugin.protocol.parts import Part
from responses_plugin.protocol.tools import Tool
from tests.images import data_url
from tests.reading import BUILTIN, call, image, lower, lower_body, read, text, user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from responses_plugin.plugins import Plugins


class OracleCall(ToolCall):
    type: Literal["oracle_call"]
    question: str


class OracleOutput(ToolOutput):
    type: Literal["oracle_call_output"]


def oracle(type: str = "oracle") -> ToolKind:
    """A tool kind as a plugin might bring it."""
    return ToolKind(
        type=type,
        tool=Tool,
        call=OracleCall,
        output=OracleOutput,
        functions=lambda tool: [Function(name="oracle")],
        history_call=lambda item: ("oracle", item.question),
        output_item=OutputItemKind(
            type="oracle_call", id_prefix="orc", payload="question", decoder=VerbatimDecoder, named=False
        ),
    )


def plugin(*functions: Callable[..., Any], **named: Callable[..., Any]) -> SimpleNamespace:
    """A plugin of these hook implementations, by their own names or by others."""
    return SimpleNamespace(**{function.__name__: function for function in functions}, **named)


def bringing(*kinds: Any) -> SimpleNamespace:
    """A plugin that brings tool kinds."""

    @hookimpl
    def responses_tool_kinds() -> Any:
        return list(kinds)

    return plugin(responses_tool_kinds)


def load(**plugins: object) -> Plugins:
    """The built-in plugins and these, by name."""
    return load_plugins(plugins.items(), discover=False)


# --- Found ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs distributions, as far as finding plugins goes: entry points and the modules they name."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, source: str, module: str = "") -> None:
        metadata = tmp_path / f"{name}-1.0.dist-info"
        metadata.mkdir()
        metadata.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        metadata.joinpath("entry_points.txt").write_text(f"[responses_plugin]\n{name} = {module or f'{name}_module'}\n")
        tmp_path.joinpath(f"{name}_module.py").write_text(source)

        installed.append(f"{name}_module")

    installed: list[str] = []
    yield install
    for module in installed:
        sys.modules.pop(module, None)


OBSERVER = """
from responses_plugin.hookspecs import hookimpl

@hookimpl
def responses_completed(response):
    print(response["id"])
"""


def test_built_in_plugins_take_the_same_road() -> None:
    """Each is a module with hooks, registered under its name within the package, in the documented order."""
    assert BUILTIN.names() == [module.removeprefix("responses_plugin.") for module in BUILTIN_PLUGINS]


def test_installed_plugins_are_found_by_entry_point(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Under the name that their distribution gives them, after the built-in ones."""
    install("acme", OBSERVER)
    plugins = load_plugins()
    assert plugins.names()[len(BUILTIN.names()) :] == ["acme"]
    assert plugins.hook_names()["responses_completed"] == ["acme"]
    plugins.completed({"id": "resp_1"}, read({"model": "m", "input": "hi"})[0])
    assert capsys.readouterr().out == "resp_1\n"


@pytest.mark.parametrize("source", ["import no_such_library", "def broken(:", "raise SystemError('no licence')"])
def test_a_plugin_that_fails_to_import_is_skipped(
    install: Callable[..., None], caplog: pytest.LogCaptureFixture, source: str
) -> None:
    """One broken package does not take the server down; the log names it and says why. Others are still loaded."""
    install("broken", source)
    install("acme", OBSERVER)
    plugins = load_plugins()
    assert plugins.names()[len(BUILTIN.names()) :] == ["acme"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "plugin broken (broken_module) failed to import and is skipped"
    assert record.exc_info


def test_an_entry_point_that_names_nothing_is_skipped(
    install: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """A missing attribute is a failed import as well."""
    install("acme", OBSERVER, module="acme_module:Plugin")
    assert load_plugins().names() == BUILTIN.names()
    assert "plugin acme (acme_module:Plugin) failed to import" in caplog.text


# --- Told by name ---------------------------------------------------------------------------------------------------


def test_a_misspelled_hook_stops_the_start(install: Callable[..., None]) -> None:
    """It would otherwise never be called and nobody would know."""
    install("acme", OBSERVER.replace("responses_completed", "responses_complete"))
    with pytest.raises(
        PluginError, match=r"plugin acme cannot be used: unknown hook 'responses_complete'.*docs/hooks\.md"
    ):
        load_plugins()


def test_an_argument_that_a_hook_has_not_stops_the_start() -> None:
    """Pluggy calls implementations by the names of their arguments."""

    @hookimpl
    def responses_completed(answer: Any) -> None: ...

    with pytest.raises(PluginError, match=r"plugin acme cannot be used: (?s:.*)answer"):
        load(acme=plugin(responses_completed))


def test_a_hook_of_a_later_version_may_be_optional() -> None:
    """A plugin can offer what this version does not ask for, if it says so."""

    @hookimpl(optionalhook=True)
    def responses_dream() -> None: ...

    assert load(acme=plugin(responses_dream)).names()[-1] == "acme"


def test_a_name_is_taken_once() -> None:
    """Two plugins of one name could not be told apart in any error; a built-in one's is taken too."""
    with pytest.raises(PluginError, match="plugin kinds cannot be used"):
        load_plugins([("kinds", bringing(oracle()))], discover=False)


@pytest.mark.parametrize(
    ("plugins", "what", "owners"),
    [
        ({"acme": bringing(oracle()), "other": bringing(oracle())}, "tool type 'oracle'", "acme and other"),
        ({"acme": bringing(FUNCTION)}, "tool type 'function'", "kinds and acme"),
        ({"acme": bringing(oracle(), oracle())}, "tool type 'oracle'", "acme and acme"),
    ],
)
def test_two_plugins_that_claim_one_tool_type_stop_the_start(plugins: dict[str, Any], what: str, owners: str) -> None:
    """Which of them wins would depend on the order of installation; the error names both."""
    with pytest.raises(PluginError, match=f"two plugins claim the {what}: {owners}; uninstall one of them"):
        load(**plugins)


def test_two_plugins_that_claim_one_part_type_stop_the_start() -> None:
    """Content parts are claimed like tool types."""

    @hookimpl
    def responses_content_parts() -> Any:
        return [ContentPartKind("input_text", Part, lambda part: text_part("x"))]

    with pytest.raises(
        PluginError, match=r"two plugins claim the content part type 'input_text': lowering\.parts and acme"
    ):
        load(acme=plugin(responses_content_parts))


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, "plugin acme failed in responses_tool_kinds: TypeError"),
        (oracle(), "plugin acme failed in responses_tool_kinds: TypeError"),
        (["oracle"], "plugin acme: responses_tool_kinds returns ToolKind values, not 'oracle'"),
    ],
)
def test_a_plugin_that_brings_something_else_is_named(returned: Any, told: str) -> None:
    """The usual mistakes: nothing, one value instead of several, a name instead of a value."""

    @hookimpl
    def responses_tool_kinds() -> Any:
        return returned

    with pytest.raises(PluginError, match=told):
        load(acme=plugin(responses_tool_kinds))


def test_a_plugin_that_fails_while_it_is_asked_is_named() -> None:
    """Its own exception is the cause of ours."""

    @hookimpl
    def responses_tool_kinds() -> Iterator[ToolKind]:
        yield oracle()
        raise OSError("no oracle today")

    with pytest.raises(PluginError, match="plugin acme failed in responses_tool_kinds: OSError") as caught:
        load(acme=plugin(responses_tool_kinds))
    assert isinstance(caught.value.__cause__, OSError)


# --- Heard ----------------------------------------------------------------------------------------------------------


def test_a_tool_kind_of_a_plugin_is_read_and_shown() -> None:
    """One value is a new tool type: its tool is offered, its call and output are part of the exchange."""
    plugins = load(acme=bringing(oracle()))
    items = [
        {"type": "oracle_call", "call_id": "a", "question": '{"q": 1}'},
        {"type": "oracle_call_output", "call_id": "a"},
    ]
    chat, messages = lower_body({"model": "m", "tools": [{"type": "oracle"}], "input": [user("hi"), *items]}, plugins)
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["oracle"]
    assert messages[1]["tool_calls"][0]["function"] == {"name": "oracle", "arguments": '{"q": 1}'}
    assert messages[2] == {"role": "tool", "tool_call_id": "a", "content": ""}


def test_a_part_kind_of_a_plugin_is_read_and_shown() -> None:
    """One value is a new part type, in messages and in outputs."""

    class Note(Part):
        type: Literal["note"]
        words: list[str]

    @hookimpl
    def responses_content_parts() -> Any:
        return [ContentPartKind("note", Note, lambda part: text_part(" ".join(part.words)))]

    plugins = load(acme=plugin(responses_content_parts))
    assert lower([user([text("a"), {"type": "note", "words": ["b", "c"]}])], plugins)[0]["content"] == "a\nb c"


def test_third_parties_win_over_built_ins() -> None:
    """Whatever the order of registration, and without marking anything; None passes the question on."""

    @hookimpl
    def responses_lower_input_item(item: Any) -> Any:
        return [{"role": "user", "content": "[censored]"}] if item.type == "message" else None

    plugins = load(acme=plugin(responses_lower_input_item))
    assert [message["content"] for message in lower([user("hi"), call("a")], plugins)][:2] == ["[censored]", ""]


def test_an_item_is_dropped_on_purpose() -> None:
    """An empty list is an answer, unlike None."""

    @hookimpl
    def responses_lower_input_item(item: Any) -> Any:
        return [] if item.type == "acme:secret" else None

    assert lower([{"type": "acme:secret"}, user("hi")], load(acme=plugin(responses_lower_input_item))) == [
        {"role": "user", "content": "hi"}
    ]


def test_a_wrapper_adjusts_a_result() -> None:
    """It sees what the others made of the item, and hands on something else."""

    @hookimpl(wrapper=True)
    def responses_lower_input_item(item: Any) -> Any:
        messages = yield
        return [{**message, "content": message["content"].upper()} for message in messages]

    assert lower("hi", load(acme=plugin(responses_lower_input_item))) == [{"role": "user", "content": "HI"}]


def test_a_wrapper_adjusts_the_tool_kinds() -> None:
    """Also those that are collected once, when the server starts."""

    @hookimpl(wrapper=True)
    def responses_tool_kinds() -> Any:
        collected = yield
        return [[kind for kind in kinds if kind.type != "custom"] for kinds in collected]

    plugins = load(acme=plugin(responses_tool_kinds), other=bringing(oracle()))
    assert "custom" not in plugins.tool_kinds
    assert {"function", "oracle"} <= plugins.tool_kinds.keys()


def test_an_item_type_of_two_kinds_is_read_by_the_third_party() -> None:
    """Several tool types may share one call type; a plugin's reading of it comes before the built-in one."""

    class Call(ToolCall):
        type: Literal["function_call"]
        name: str
        seen_by: str = "acme"

    class Output(ToolOutput):
        type: Literal["mine_output"]

    mine = ToolKind(
        type="mine",
        tool=Tool,
        call=Call,
        output=Output,
        functions=lambda tool: [],
        history_call=lambda item: (item.seen_by, "{}"),
        output_item=FUNCTION.output_item,
    )
    messages = lower([call("a")], load(acme=bringing(mine)))
    assert messages[0]["tool_calls"][0]["function"]["name"] == "acme"


def test_an_observer_that_fails_does_not_spoil_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    """The answer was given already; the log says what went wrong."""

    @hookimpl
    def responses_completed(response: Any) -> None:
        raise ValueError("no disk")

    context, _ = read({"model": "m", "input": "hi"})
    load(acme=plugin(responses_completed)).completed({"id": "resp_1"}, context)
    assert "a plugin failed in responses_completed for resp_1" in caplog.text
    assert "no disk" in caplog.text


# --- Watched --------------------------------------------------------------------------------------------------------


def test_a_trace_has_one_line_for_each_hook_call() -> None:
    """With the arguments, where in the request it was, and what came of it, whoever answered."""
    plugins = load()
    lines: list[str] = []
    plugins.trace(lines.append)
    lower([user("hi"), call("a")], plugins)
    assert [line.partition("(")[0] for line in lines] == [
        "responses_parse_input_item",
        "responses_parse_input_item",
        "responses_lower_input_item",
        "responses_lower_input_item",
    ]
    assert "'content': 'hi'" in lines[0]
    assert "context='input[0]'" in lines[0]
    assert "-> Message(" in lines[0]
    assert "context='input[1]'" in lines[3]
    assert "'tool_calls'" in lines[3]


def test_a_trace_stays_readable() -> None:
    """An item may hold megabytes, and the context holds all of them."""
    plugins = load()
    lines: list[str] = []
    plugins.trace(lines.append)
    lower([user([image(data_url("red", size=(512, 512))), text("x" * 100_000)])], plugins)
    assert all(len(line) < 1000 and "\n" not in line for line in lines)


def test_a_trace_shows_what_a_hook_raised() -> None:
    """A call that failed is a call too."""

    @hookimpl
    def responses_lower_input_item(item: Any) -> Any:
        raise ValueError("out of ideas")

    plugins = load(acme=plugin(responses_lower_input_item))
    lines: list[str] = []
    plugins.trace(lines.append)
    with pytest.raises(ValueError, match="out of ideas"):
        lower("hi", plugins)
    assert lines[-1].endswith("raised ValueError('out of ideas')")


def test_the_hooks_of_a_plugin_can_be_listed() -> None:
    """For each hook there is, the plugins that implement it; for the doctor to show."""
    named = load(acme=bringing(oracle())).hook_names()
    assert list(named) == [name for name in vars(hookspecs) if name.startswith("responses_")]
    assert named["responses_tool_kinds"] == ["kinds", "acme"]
    assert named["responses_completed"] == []
