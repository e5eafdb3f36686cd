"""The real host with chat templates that refuse things: no conversation that we lower fails on them.

With the scripted engine all templates are tried: it renders as the host's batched engine does, and then plays its
script. The families' own are tried on the real engines as well, with the tiny model, whose template is replaced.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient
from transformers import AutoTokenizer
from vllm_mlx import server
from vllm_mlx.engine.batched import BatchedEngine
from vllm_mlx.engine.simple import SimpleEngine

import responses_plugin
from responses_plugin import __main__ as command_line
from responses_plugin.hooks import templates
from responses_plugin.lowering.template import TemplateRules, refused
from tests.checkpoints.training.export_text import export_text
from tests.host.scripted import Script, ScriptedEngine, ScriptedHost
from tests.host.servers import MODEL_NAME, TINY_VLM
from tests.images import data_url
from tests.reading import assistant, call, developer, image, output, reasoning, text, user
from tests.sse import read_stream, terminal_response
from tests.templates import NAMES, rules_of, template_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RED, BLUE = data_url("red"), data_url("blue")
pytestmark = pytest.mark.contract

LOOK = [
    {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}
]
#: Calls in parallel, of which one result is a picture and the other text, thoughts and text beside them.
PARALLEL = [
    reasoning("I need both."),
    assistant("Looking."),
    call("call_0123456789", arguments='{"at": "sky"}'),
    call("call_9876543210", arguments='{"at": "sea"}'),
    output("call_0123456789", [text("the sky"), image(RED)]),
    output("call_9876543210", "the sea"),
]
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "developer messages in the middle": [
        developer("Be brief."),
        user("hi"),
        developer("Plan."),
        *PARALLEL,
        developer("Code."),
        user("go"),
    ],
    "parallel calls with images": [
        user([text("Look at this:"), image(BLUE)]),
        *PARALLEL,
        user("Fine."),
        *PARALLEL,
    ],
    "no user turn": PARALLEL,
    "an answer that was cut off": [user("hi"), reasoning("Hm."), user("Well?")],
    "nothing but instructions": [],
}
#: Those that cannot hold an image; what is refused for them is an image, by us.
BLIND = {name for name in NAMES if "images" in rules_of(name)}
FAMILIES = [
    *("qwen2_5_vl", "qwen3_vl", "qwen3_5", "gemma3", "gemma4"),
    *("glm4_5v", "mistral_small", "llama3_2", "llama4"),
]


# --- The scripted engine --------------------------------------------------------------------------------------------


@pytest.fixture
def tokenizer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tiny model's, as the engine's own, for a test to give it a template. No template is known yet."""
    tokenizer = AutoTokenizer.from_pretrained(TINY_VLM)
    monkeypatch.setattr(ScriptedEngine, "tokenizer", property(lambda self: tokenizer))
    monkeypatch.setattr(templates, "_known", {})
    return tokenizer


@pytest.fixture
def prompts(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The prompts that the host's batched engine would make of what the scripted engine is asked."""
    prompts: list[str] = []
    play = ScriptedEngine._play
    host_engine: Any = SimpleNamespace(
        _is_mllm=True,
        _processor=tokenizer,
        tokenizer=tokenizer,
        _model_name=MODEL_NAME,
        _prepare_mllm_messages=BatchedEngine._prepare_mllm_messages,
    )

    def render_and_play(self: ScriptedEngine, messages: list[Any], kwargs: dict[str, Any], *, streamed: bool) -> Any:
        rendered = BatchedEngine._apply_chat_template(host_engine, messages, kwargs.get("tools"), num_images=1)
        prompts.append(str(rendered))
        return play(self, messages, kwargs, streamed=streamed)

    monkeypatch.setattr(ScriptedEngine, "_play", render_and_play)
    return prompts


@pytest.mark.parametrize("name", NAMES)
async def test_no_conversation_fails(name: str, tokenizer: Any, prompts: list[str]) -> None:
    """Each is answered, plain and streamed, tools declared or not, and the instructions are in the prompt."""
    tokenizer.chat_template = template_text(name)
    with ScriptedHost(Script(["ok"])) as host:
        await answer_all(host, prompts, lambda items: name not in BLIND or "input_image" not in json.dumps(items))


# The host makes a string of all content for these, so one that shows no strings shows nothing.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "parts_only"])
async def test_no_conversation_fails_on_a_text_engine(name: str, tokenizer: Any, prompts: list[str]) -> None:
    """The same for a model that reads only, of which a user cannot ask to look at an image."""
    tokenizer.chat_template = template_text(name)
    with ScriptedHost(Script(["ok"]), mllm=False) as host:
        await answer_all(host, prompts, lambda items: BLUE not in json.dumps(items))


async def answer_all(host: ScriptedHost, prompts: list[str], can_take: Callable[[list[dict[str, Any]]], bool]) -> None:
    for title, items in CONVERSATIONS.items():
        if not can_take(items):
            continue
        for tools in ([], LOOK):
            body: dict[str, Any] = {"input": items, "instructions": "You code.", "tools": tools}
            response = await host.post(**body)
            assert response.status_code == 200, (title, response.text)
            assert terminal_response(await host.stream(**body))["status"] == "completed", title
            assert all("You code." in prompt for prompt in prompts[-2:]), title


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BLIND])
async def test_everything_reaches_the_prompt_in_order(name: str, tokenizer: Any, prompts: list[str]) -> None:
    """Texts, calls and results stand in the prompt in the order of the conversation, and so do all three images."""
    tokenizer.chat_template = template_text(name)
    with ScriptedHost(Script(["ok"])) as host:
        await host.post(input=CONVERSATIONS["parallel calls with images"], tools=LOOK)
    position = 0
    for said in ["Look at this:", "sky", "the sky", "the sea", "Fine.", "sky", "the sky", "the sea"]:
        position = prompts[0].find(said, position)
        assert position >= 0, f"{said!r} is missing or out of place in {prompts[0]}"
    placeholders = re.findall(r"<image>|<\|image_pad\|>|<start_of_image>|<\|image\|>|\[IMG\]", prompts[0])
    assert len(placeholders) == 3


async def test_a_template_is_asked_once(tokenizer: Any, prompts: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """At the first request, and again for another template; one line each says what is placed otherwise."""
    caplog.set_level(logging.INFO, logger="responses_plugin")
    with ScriptedHost(Script(["ok"])) as host:
        for name in ("one_user_turn", "one_user_turn", "everything", "one_user_turn"):
            tokenizer.chat_template = template_text(name)
            await host.post(input="hi")
    assert [record.message for record in caplog.records if record.name.endswith("templates")] == [
        "the chat template of scripted refuses two user turns in a row (they become one)",
        "the chat template of scripted takes messages as they are",
    ]


async def test_a_template_that_cannot_be_asked_gets_messages_as_they_are(
    tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What it does to a real conversation remains to be seen; the log says so once."""
    tokenizer.chat_template = "Hello."
    with ScriptedHost(Script(["ok"])) as host:
        for _ in range(2):
            assert (await host.post(input=PARALLEL)).status_code == 200
        assert [message["role"] for message in host.engine.calls[0].messages] == ["assistant", "tool", "user", "tool"]
    assert [record.message for record in caplog.records if record.name.endswith("templates")] == [
        "the chat template of scripted cannot be asked what it accepts; messages go as they are"
    ]


def test_an_engine_that_is_not_loaded_is_asked_later() -> None:
    """It has no tokenizer yet; nothing is remembered of it."""
    assert templates.template_rules(SimpleNamespace(tokenizer=None, model_name="m")) == TemplateRules()


def test_an_engine_with_a_renderer_of_its_own_is_asked_through_it() -> None:
    """For some models the host does without the template; then the template's rules are not those of the prompt."""
    owner = SimpleNamespace(chat_template="harmony", apply_chat_template=None)

    def apply(messages: list[dict[str, Any]], tools: Any) -> str:
        assert len(messages) < 2 or [messages[0]["role"], messages[1]["role"]] != ["user", "user"]
        names = "".join(tool["function"]["name"] for tool in tools or [])
        return names + json.dumps([{**message, "content": message["content"]} for message in messages])

    engine = SimpleNamespace(tokenizer=owner, model_name="gpt", use_harmony_rendering=True, _apply_chat_template=apply)
    assert not templates.template_rules(engine).two_user_turns


# --- What is refused all the same -----------------------------------------------------------------------------------

PICKY = (
    template_text("everything")
    + "{% if 'forbidden' in messages | string %}{{ raise_exception('Mind your words') }}{% endif %}"
)
REFUSED = ("invalid_prompt", "The chat template of this model refuses the conversation: Mind your words")


async def test_what_a_template_refuses_is_a_bad_request(tokenizer: Any, prompts: list[str]) -> None:
    """With the template's own words, in a stream as its end."""
    tokenizer.chat_template = PICKY
    with ScriptedHost(Script(["ok"])) as host:
        refused = await host.post(input="forbidden")
        error = refused.json()["error"]
        assert (refused.status_code, error["type"], error["param"]) == (400, "invalid_request_error", "input")
        assert (error["code"], error["message"]) == REFUSED
        failed = terminal_response(await host.stream(input="forbidden"))
        assert (failed["error"]["code"], failed["error"]["message"]) == REFUSED


# --- The doctor -----------------------------------------------------------------------------------------------------


@pytest.fixture
def model_folder(tmp_path: Any) -> Any:
    """The tiny model without its weights."""
    for path in TINY_VLM.glob("*.json"):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_the_doctor_shows_the_rules_of_a_model(model_folder: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a folder without weights, each rule that matters and what is done where something is refused."""
    (model_folder / "chat_template.jinja").write_text(template_text("gemma4"))
    assert command_line.main(["doctor", "--model", str(model_folder)]) == 0
    shown = capsys.readouterr().out
    assert f"Chat template of {model_folder}\n" in shown
    assert re.search(r"two user turns in a row +accepted\n", shown)
    assert re.search(r"a user turn between the results of parallel calls +refused: the results stay together", shown)
    assert command_line.main(["doctor", "--json", "--model", str(model_folder)]) == 0
    template = json.loads(capsys.readouterr().out)["template"]
    assert {name for name, accepted in template["accepts"].items() if not accepted} == rules_of("gemma4")
    assert len(template["instead"]) == 2


def test_the_doctor_says_that_a_template_cannot_be_asked(model_folder: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A model with such a template cannot chat."""
    (model_folder / "chat_template.jinja").write_text("Hello.")
    assert command_line.main(["doctor", "--model", str(model_folder)]) == 1
    assert "has no chat template, or one that does not render a single user turn" in capsys.readouterr().out


def test_the_doctor_does_not_look_for_models_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    """What is no folder is not taken for the name of a model to download."""
    assert command_line.main(["doctor", "--json", "--model", "someone/model"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["problem"] == "ValueError: someone/model is not a model folder"
    assert report["template"] is None


# --- The real engines -----------------------------------------------------------------------------------------------


ENGINES = {"simple": SimpleEngine, "batched": BatchedEngine}
#: A client of the host with a model and the plugin, and a way to give the model another template.
Served = tuple[TestClient, "Callable[[str], None]"]


@pytest.fixture(scope="module", params=ENGINES)
def tiny(request: pytest.FixtureRequest) -> Iterator[Served]:
    """The tiny model that sees."""
    with served(ENGINES[request.param](str(TINY_VLM), force_mllm=True)) as host:
        yield host


@pytest.fixture(scope="module", params=ENGINES)
def tiny_text(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The one that only reads."""
    folder = tmp_path_factory.mktemp("text") / "model"
    export_text(TINY_VLM, folder)
    with served(ENGINES[request.param](str(folder))) as host:
        yield host


@contextmanager
def served(engine: Any) -> Iterator[Served]:
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(server, "_engine", engine)
        patch.setattr(server, "_model_name", MODEL_NAME)
        responses_plugin.enable()
        stack.callback(responses_plugin.disable)
        client = stack.enter_context(TestClient(server.app))
        model = engine._model
        processor = getattr(engine, "_processor", None) or getattr(model, "processor", None)
        owners = [processor, processor.tokenizer] if processor else [engine.tokenizer]

        def use(template: str) -> None:
            for owner in owners:
                owner.chat_template = template

        yield client, use


def ask(client: TestClient, *, stream: bool = False, **body: Any) -> Any:
    return client.post("/v1/responses", json={"model": MODEL_NAME, "max_output_tokens": 1, "stream": stream, **body})


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_served(tiny: Served, name: str) -> None:
    """A tiny model does not understand the templates of others, but its prompts render, with all the images in them."""
    client, use = tiny
    # The processor of the tiny model knows its own mark for an image only.
    marks = r"<\|begin_of_image\|><\|image\|><\|end_of_image\|>|<start_of_image>|<\|image\|>|\[IMG\]"
    use(re.sub(marks, "<|vision_start|><|image_pad|><|vision_end|>", template_text(name)))
    pictured = ask(
        client, input=[*CONVERSATIONS["parallel calls with images"], developer("Code.")], instructions="Plan."
    )
    assert pictured.status_code == 200, pictured.text
    unasked = ask(client, input=PARALLEL, tools=LOOK, stream=True)
    assert terminal_response(read_stream(unasked.content))["status"] == "incomplete"


def test_harmony_is_served(tiny_text: Served) -> None:
    """By an engine that reads only, as its models do: what it refuses is found out, and all conversations render."""
    client, use = tiny_text
    use(template_text("harmony"))
    assert {rule.name for rule in refused(templates.template_rules(server._engine))} == rules_of("harmony")
    for title, items in CONVERSATIONS.items():
        if BLUE in json.dumps(items):
            continue
        for tools in ([], LOOK):
            plain = ask(client, input=items, instructions="Plan.", tools=tools)
            assert plain.status_code == 200, (title, plain.text)
            streamed = ask(client, input=items, instructions="Plan.", tools=tools, stream=True)
            assert terminal_response(read_stream(streamed.content))["status"] == "incomplete", title


def test_an_engine_that_would_go_on_without_the_conversation_does_not(
    tiny: Served,
) -> None:
    """The simple engine swallows a refusal where there are images, and takes the last user turn for the whole."""
    client, use = tiny
    use(PICKY)
    items = [user([text("forbidden"), image(RED)])]
    refused = ask(client, input=items)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_prompt")
    failed = ask(client, input=items, stream=True)
    if failed.status_code == 200:
        assert terminal_response(read_stream(failed.content))["error"]["code"] == "invalid_prompt"
    else:
        assert failed.json()["error"]["code"] == "invalid_prompt"
