"""``python -m responses_plugin client-config CLIENT``: how a client reaches a running server, ready to use.

Pure text, apart from :func:`ask_server`. docs/clients.md shows what comes of it.
"""

from __future__ import annotations

import json
import logging
import os
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

DEFAULT_BASE_URL = "http://127.0.0.1:8000/v1"
#: For a server that does not tell. Too small a number only makes Codex compact early.
DEFAULT_CONTEXT_WINDOW = 32768

_TIMEOUT_SECONDS = 10
#: What the host lists beside the chat models.
_OTHER_MODELS = ("vllm-mlx-embedding", "vllm-mlx-reranker")
#: Where servers of this kind say how long a context may be.
_CONTEXT_FIELDS = ("max_model_len", "context_window", "context_length")


class ConfigError(Exception):
    """There is nothing to print; says why and what to do."""


@dataclass(frozen=True)
class Target:
    """The server and model that a client is to use."""

    base_url: str
    model: str
    context_window: int = DEFAULT_CONTEXT_WINDOW
    #: Whether the model sees.
    images: bool = True
    #: The environment variable with the server's API key, if it has one.
    api_key_env: str = ""


def configure(
    client: str,
    *,
    base_url: str,
    model: str = "",
    context_window: int = 0,
    text_only: bool = False,
    api_key_env: str = "",
    folder: str = "",
) -> str:
    """What to print for a client. Codex's files may go into a folder.

    The server tells what it serves; for a model that is named it need not run.

    Raises :class:`ConfigError`.
    """
    base_url = base_url.rstrip("/")
    if urlsplit(base_url).scheme not in ("http", "https"):
        raise ConfigError(f"{base_url} is no URL of a server; it begins with http:// and ends with /v1")
    if folder and client != "codex":
        raise ConfigError("--write is for codex; the others are one file, to be redirected")
    try:
        target = ask_server(base_url, model, api_key_env=api_key_env)
    except ConfigError as error:
        if not model:
            raise
        target = Target(base_url, model, api_key_env=api_key_env)
        if client == "codex":
            logger.warning(
                "What %s can do is not known (%s): %d tokens of context and images are assumed. Run this again while it "
                "is served, or give --context-window and --text-only.",
                *(model, error, target.context_window),
            )
    target = replace(
        target, context_window=context_window or target.context_window, images=target.images and not text_only
    )
    return write_codex_files(target, Path(folder)) if folder else CLIENTS[client](target)


# --- Asking the server -----------------------------------------------------------------------------------------------


def ask_server(base_url: str, name: str = "", *, api_key_env: str = "") -> Target:
    """A model of a running server, its only one unless there is a name. Raises :class:`ConfigError`."""
    models = _chat_models(_get(f"{base_url}/models", api_key_env), base_url)
    if name:
        models = [model for model in models if model["id"] == name]
        if not models:
            raise ConfigError(f"the server has no model {name}")
    if len(models) > 1:
        names = ", ".join(str(model["id"]) for model in models)
        raise ConfigError(f"the server has several models; choose one with --model: {names}")
    (model,) = models
    windows = [model.get(field) for field in _CONTEXT_FIELDS]
    modalities = model.get("input_modalities")
    return Target(
        base_url,
        model["id"],
        context_window=next((window for window in windows if isinstance(window, int)), DEFAULT_CONTEXT_WINDOW),
        images="image" in modalities if isinstance(modalities, list) else _sees(base_url, api_key_env),
        api_key_env=api_key_env,
    )


def _chat_models(listed: Any, base_url: str) -> list[dict[str, Any]]:
    models = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(models, list) or not all(isinstance(model, dict) and "id" in model for model in models):
        raise ConfigError(f"{base_url}/models does not list models; is this the URL that ends in /v1?")
    found = [model for model in models if model.get("owned_by") not in _OTHER_MODELS]
    if not found:
        raise ConfigError("the server has no model loaded; name the one it will serve with --model")
    return found


def _sees(base_url: str, api_key_env: str) -> bool:
    """Whether the server's model takes images: its health report tells. Yes when there is none."""
    try:
        health = _get(base_url.removesuffix("/v1") + "/health", api_key_env)
    except ConfigError:
        return True
    return not isinstance(health, dict) or health.get("model_type") != "llm"


def _get(url: str, api_key_env: str) -> Any:
    request = urllib.request.Request(url)  # noqa: S310 - the URL is the user's own
    if api_key_env:
        request.add_header("Authorization", f"Bearer {os.environ.get(api_key_env, '')}")
    # A proxy of the environment is for the world outside, not for this machine.
    is_local = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_local else []))
    try:
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        error.close()
        hint = "; name the variable that has its key with --api-key-env" if error.code in (401, 403) else ""
        raise ConfigError(f"{url} answered with status {error.code}{hint}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(
            f"no answer from {url} ({reason}); start the server, or give --base-url or --model"
        ) from error


# --- Codex -----------------------------------------------------------------------------------------------------------

CODEX_CATALOG = "local-models.json"
CODEX_CONFIG = "config.toml"


def codex_files(target: Target) -> dict[str, str]:
    """The two files for Codex's home folder, by name."""
    return {CODEX_CONFIG: _codex_config(target), CODEX_CATALOG: _codex_catalog(target)}


def _codex_config(target: Target) -> str:
    lines = [
        f"model = {_quote(target.model)}",
        'model_provider = "vllm-mlx"',
        # Codex looks for it beside this file.
        f"model_catalog_json = {_quote(CODEX_CATALOG)}",
        "",
        "[model_providers.vllm-mlx]",
        'name = "vllm-mlx"',
        f"base_url = {_quote(target.base_url)}",
        'wire_api = "responses"',
    ]
    if target.api_key_env:
        lines.append(f"env_key = {_quote(target.api_key_env)}")
    return "\n".join(lines) + "\n"


def _codex_catalog(target: Target) -> str:
    """What Codex cannot find out about a model. Without it neither apply_patch nor whole images are sent."""
    model = {
        "slug": target.model,
        "display_name": target.model,
        "supported_reasoning_levels": [],
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "support_verbosity": False,
        "truncation_policy": {"mode": "tokens", "limit": 10000},
        "experimental_supported_tools": [],
        "base_instructions": "You are a coding agent. Use your tools to do what you are asked, then say what you did.",
        "apply_patch_tool_type": "freeform",
        "context_window": target.context_window,
        "input_modalities": ["text", "image"] if target.images else ["text"],
        # Images as large as a screen can show: the originals may have tens of megabytes.
        "supports_image_detail_original": False,
    }
    return json.dumps({"models": [model]}, indent=2, ensure_ascii=False) + "\n"


def _codex(target: Target) -> str:
    """Both files, each under a line with its path."""
    return "\n".join(f"# --- ~/.codex/{name} ---\n{text}" for name, text in codex_files(target).items())


def write_codex_files(target: Target, folder: Path) -> str:
    """Write both and say so. Raises :class:`ConfigError` before it would replace a file."""
    paths = {folder / name: text for name, text in codex_files(target).items()}
    for path in paths:
        if path.exists():
            raise ConfigError(f"{path} exists; without --write its new content is printed")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write into {folder}: {error.strerror}") from error
    return "".join(f"{path}\n" for path in paths)


# --- Libraries -------------------------------------------------------------------------------------------------------


def _openai_python(target: Target) -> str:
    return f"""\
{_import_os(target)}from openai import OpenAI

client = OpenAI(base_url={_quote(target.base_url)}, api_key={_python_key(target)})
response = client.responses.create(model={_quote(target.model)}, input="Hello!")
print(response.output_text)
"""


def _openai_agents(target: Target) -> str:
    return f"""\
{_import_os(target)}from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)  # traces would go to OpenAI
client = AsyncOpenAI(base_url={_quote(target.base_url)}, api_key={_python_key(target)})
model = OpenAIResponsesModel(model={_quote(target.model)}, openai_client=client)
agent = Agent(name="Assistant", model=model)
print(Runner.run_sync(agent, "Hello!").final_output)
"""


def _langchain(target: Target) -> str:
    return f"""\
{_import_os(target)}from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    model={_quote(target.model)},
    base_url={_quote(target.base_url)},
    api_key={_python_key(target)},
    use_responses_api=True,
)
print(model.invoke("Hello!").text)
"""


def _openai_js(target: Target) -> str:
    return f"""\
import OpenAI from "openai";

const client = new OpenAI({{ baseURL: {_quote(target.base_url)}, apiKey: {_js_key(target)} }});
const response = await client.responses.create({{ model: {_quote(target.model)}, input: "Hello!" }});
console.log(response.output_text);
"""


def _vercel(target: Target) -> str:
    return f"""\
import {{ createOpenAI }} from "@ai-sdk/openai";
import {{ generateText }} from "ai";

const server = createOpenAI({{ baseURL: {_quote(target.base_url)}, apiKey: {_js_key(target)} }});
const {{ text }} = await generateText({{ model: server.responses({_quote(target.model)}), prompt: "Hello!" }});
console.log(text);
"""


CLIENTS: Mapping[str, Callable[[Target], str]] = {
    "codex": _codex,
    "openai-python": _openai_python,
    "openai-js": _openai_js,
    "openai-agents": _openai_agents,
    "vercel": _vercel,
    "langchain": _langchain,
}


def _quote(text: str) -> str:
    """A string literal of TOML, Python and JavaScript alike."""
    return json.dumps(text, ensure_ascii=False)


def _import_os(target: Target) -> str:
    return "import os\n\n" if target.api_key_env else ""


def _python_key(target: Target) -> str:
    return f"os.environ[{_quote(target.api_key_env)}]" if target.api_key_env else '"unused"'


def _js_key(target: Target) -> str:
    return f"process.env[{_quote(target.api_key_env)}]" if target.api_key_env else '"unused"'
