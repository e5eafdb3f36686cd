"""The loaded model's chat template, asked what it accepts, with what the engine renders its prompts with.

Nothing is generated: processors and tokenizers render by themselves. A template is asked once, at the first request
for an engine that has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from responses_plugin.lowering.mllm import build_mllm_message
from responses_plugin.lowering.template import Render, TemplateRules, describe, probe_template

logger = logging.getLogger(__name__)

#: By template text.
_known: dict[str, TemplateRules] = {}
#: What the host calls the parts of a message, and what templates call them.
_TEMPLATE_PARTS = {"image_url": "image", "audio_url": "audio", "video_url": "video"}


def template_rules(engine: Any) -> TemplateRules:
    """What the template of a loaded engine accepts; everything where it cannot be asked."""
    owner = _template_owner(engine)
    if owner is None:
        return TemplateRules()
    key = f"{_harmony(engine)} {getattr(owner, 'chat_template', None) or engine.model_name}"
    if key not in _known:
        _known[key] = _ask(_renderer(engine, owner), str(engine.model_name))
    return _known[key]


def check_rendering(engine: Any, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> None:
    """Raise what the template raises in order to refuse a conversation, where the engine would not let it through.

    ``SimpleEngine`` swallows it when there is media, and goes on with nothing but the text of the last user turn. All
    others raise it, so that a second rendering is spared there. ``options`` are the keyword arguments of the engine
    call.
    """
    owner = _template_owner(engine)
    swallows = getattr(getattr(engine, "_model", None), "processor", None) is not None and any(
        map(_has_media, messages)
    )
    if owner is None or not swallows:
        return
    arguments = dict(options.get("chat_template_kwargs") or {})
    if (thinking := options.get("enable_thinking")) is not None:
        arguments.setdefault("enable_thinking", thinking)
    try:
        _rendering_with(owner.apply_chat_template, arguments)(messages, options.get("tools"))
    except Exception as error:
        # This class itself is what templates raise on purpose. Whatever else it is, the engine may not meet it.
        if type(error).__name__ == "TemplateError":
            raise
        logger.debug("the prompt cannot be rendered ahead of the engine", exc_info=True)


def read_rules(folder: str) -> TemplateRules:
    """The rules of the template in a model folder, of which no weights are read. ``ValueError`` if it has none."""
    if not Path(folder).is_dir():
        raise ValueError(f"{folder} is not a model folder")
    owner = _load_owner(folder)
    rules = probe_template(_rendering_with(owner.apply_chat_template, {}))
    if rules is None:
        raise ValueError(f"{folder} has no chat template, or one that does not render a single user turn")
    return rules


def _ask(render: Render, model_name: str) -> TemplateRules:
    rules = probe_template(render)
    if rules is None:
        logger.warning("the chat template of %s cannot be asked what it accepts; messages go as they are", model_name)
        return TemplateRules()
    logger.info("the chat template of %s %s", model_name, describe(rules))
    return rules


def _template_owner(engine: Any) -> Any:
    """What renders the prompts: the processor, or the tokenizer where that one has no template. None before loading."""
    model = getattr(engine, "_model", None)
    processor = getattr(engine, "_processor", None) or getattr(model, "processor", None)
    tokenizer = getattr(engine, "tokenizer", None)
    owners = [owner for owner in (processor, tokenizer) if hasattr(owner, "apply_chat_template")]
    return next((owner for owner in owners if getattr(owner, "chat_template", None)), next(iter(owners), None))


def _harmony(engine: Any) -> bool:
    return bool(getattr(engine, "use_harmony_rendering", False))


def _renderer(engine: Any, owner: Any) -> Render:
    if not _harmony(engine) or not hasattr(engine, "_apply_chat_template"):
        return _rendering_with(owner.apply_chat_template, {})

    def render(messages: Sequence[Mapping[str, Any]], tools: list[dict[str, Any]] | None) -> str:
        # The engine has a renderer of its own then, beside the template.
        return str(engine._apply_chat_template([_prepared(message) for message in messages], tools))  # noqa: SLF001

    return render


def _rendering_with(apply: Callable[..., Any], arguments: Mapping[str, Any]) -> Render:
    def render(messages: Sequence[Mapping[str, Any]], tools: list[dict[str, Any]] | None) -> str:
        prepared = [_prepared(message) for message in messages]
        return str(apply(prepared, tools=tools, tokenize=False, add_generation_prompt=True, **arguments))

    return render


def _prepared(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as the engines give it to the template: arguments as mappings, media as what they are, without data."""
    ready = build_mllm_message(message)
    if isinstance(ready.get("content"), list):
        ready["content"] = [_placeholder(part) for part in ready["content"]]
    return ready


def _placeholder(part: Any) -> Any:
    return {"type": _TEMPLATE_PARTS[part["type"]]} if _is_media(part) else part


def _has_media(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(map(_is_media, content))


def _is_media(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _TEMPLATE_PARTS


def _load_owner(folder: str) -> Any:
    from transformers import AutoProcessor, AutoTokenizer

    try:
        processor = AutoProcessor.from_pretrained(folder, local_files_only=True)  # type: ignore[no-untyped-call]
        if getattr(processor, "chat_template", None):
            return processor
    except (OSError, ValueError, ImportError):  # a text model, or a processor that needs more than is installed
        logger.debug("no processor in %s", folder, exc_info=True)
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)
