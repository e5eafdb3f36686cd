"""The Open Responses compliance suite, llm-comply, on the real host with a model that thinks before it speaks."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from responses_plugin.settings import Settings
from tests.clients.scripts import calls, says
from tests.host.scripted import ScriptedHost

if TYPE_CHECKING:
    from tests.host.scripted import Script

#: Tests of an endpoint that this server has not.
NOT_SERVED = {"compact-response", "compact-missing-model"}
#: The suite asks only models with such a name for a summary of what they think.
MODEL = "o3-scripted"
THOUGHT = "<think>Let me see: how would one put it?</think>"
ANSWER = says(f"{THOUGHT}Hello to you.")
CALL = calls(("get_weather", {"location": "San Francisco"}), before=THOUGHT)


def run_suite(script: Script, dialect: str, *options: str) -> dict[str, dict[str, Any]]:
    """What came of each test, by its id."""
    host = ScriptedHost(
        script, reasoning_parser="qwen3", options=Settings(dialect=dialect), globals={"_model_name": MODEL}
    )
    with host, host.serving() as url:
        command = [sys.executable, "-m", "llm_comply.cli", "-u", f"{url}/v1", "-k", "unused", "-m", MODEL, "--json"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    return {result["id"]: result for result in json.loads(done.stdout)["results"]}


def failures(results: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """The tests that did not pass, skipped ones included, and why."""
    return {id: result.get("errors", []) for id, result in results.items() if result["status"] != "passed"}


def test_everything_but_calls() -> None:
    """Every test passes in the suite's own dialect; it has a dozen, and none is skipped."""
    results = run_suite(ANSWER, "open-responses")
    assert len(results) > 12
    assert failures(results).keys() == NOT_SERVED | {"tool-calling"}


def test_calls() -> None:
    """A model that calls the tool it must call."""
    assert failures(run_suite(CALL, "open-responses", "--filter", "tool-calling")) == {}


def test_what_the_other_dialect_is_for() -> None:
    """In OpenAI's, the events of a thought are the one thing that the suite does not know."""
    failed = failures(run_suite(ANSWER, "openai"))
    streamed = {"streaming-response", "streaming-usage"}
    assert failed.keys() == NOT_SERVED | {"tool-calling"} | streamed
    assert {line.split(": ")[-1] for name in streamed for line in failed[name]} == {
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
    }
