"""Chat templates of our own, one for each thing that templates refuse, and one in the style of each family of models.

Each says in its first line which rules it has, by the names of the fields of ``TemplateRules``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from responses_plugin.lowering.mllm import build_mllm_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from responses_plugin.lowering.template import Render

FOLDER = Path(__file__).parent / "data" / "templates"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jinja"))

_INCLUDE = '{% include "everything.jinja" %}'


def template_text(name: str) -> str:
    """The template as a model folder would hold it: in one piece."""
    text = (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    return text.replace(_INCLUDE, (FOLDER / "everything.jinja").read_text(encoding="utf-8").strip()).strip()


def rules_of(name: str) -> set[str]:
    """What the first line of a template says that it refuses."""
    names, colon, _ = template_text(name).removeprefix("{#- ").partition(": ")
    assert colon, "the first line names the rules"
    return set() if names == "nothing" else set(names.split(", "))


def renderer(name: str, *, opens_answer: bool = True) -> Render:
    """Renders with one of the templates, in the environment that transformers has for them.

    The beginning of the answer, which a prompt ends with, is no part of the next one where a thought goes there.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _raise
    template = environment.from_string(template_text(name))

    def render(messages: Sequence[Mapping[str, Any]], tools: list[dict[str, Any]] | None) -> str:
        prepared = [_prepared(message) for message in messages]
        return template.render(messages=prepared, tools=tools, add_generation_prompt=opens_answer)

    return render


def _prepared(message: Mapping[str, Any]) -> dict[str, Any]:
    """As a multimodal engine gives it to the template, but that content which is null stays so: others pass it on."""
    ready = {**build_mllm_message(message), "content": message["content"]}
    if isinstance(ready["content"], list):
        ready["content"] = [{"type": "image"} if part["type"] == "image_url" else part for part in ready["content"]]
    return ready


def _raise(message: str) -> None:
    raise TemplateError(message)
