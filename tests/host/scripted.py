"""The real host with a scripted engine.

Only the engine is replaced: routes, parsing, tool and reasoning parsers, streaming and disconnect handling are the
host's own and the plugin's. A test says what the engine emits, cut anywhere, and sees what it was asked::

    with ScriptedHost(Script(["Hel", "lo"])) as host:
        response = await host.post("/v1/responses", input="hi")
        assert host.engine.calls[0].messages == [{"role": "user", "content": "hi"}]

``host.client()`` talks to the app in process. It gets a streamed body as a whole, once the app is through with it; a
test of timing or of a client that goes away runs ``with host.serving() as url`` and a client of its own.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn
import vllm_mlx.server as host_server
from transformers import PreTrainedTokenizerFast
from vllm_mlx.engine.base import BaseEngine, GenerationOutput
from vllm_mlx.reasoning import get_parser as get_reasoning_parser

import responses_plugin
from responses_plugin.hooks.cached_tokens import scheduled
from tests.host.servers import TINY_VLM
from tests.sse import StreamEvent, read_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from responses_plugin.settings import Settings

SCRIPTED_MODEL = "scripted"
WAIT_SECONDS = 20.0


class Gate:
    """Holds an engine until the test opens it. May be opened from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_open = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        #: Set once an engine waits here.
        self.reached = threading.Event()

    def open(self) -> None:
        """Let everyone pass, now and later."""
        with self._lock:
            self._is_open = True
            for loop, event in self._waiting:
                loop.call_soon_threadsafe(event.set)
            self._waiting.clear()

    async def wait(self) -> None:
        """Return when the gate is open."""
        event = asyncio.Event()
        with self._lock:
            if self._is_open:
                event.set()
            else:
                self._waiting.append((asyncio.get_running_loop(), event))
        self.reached.set()
        await event.wait()


@dataclass(frozen=True)
class Script:
    """What the engine does in one call."""

    #: The text, as the engine's chunks cut it.
    pieces: Sequence[str] = ()
    finish_reason: str | None = "stop"
    prompt_tokens: int = 10
    #: The number of pieces unless given.
    completion_tokens: int | None = None
    #: How much of the prompt the engine's scheduler found in its prefix cache.
    cached_tokens: int = 0
    #: Seconds before each piece.
    delay: float = 0.0
    #: Raised instead of the piece with the index ``error_after``.
    error: BaseException | None = None
    error_after: int = 0
    #: The piece to wait before, by index, and what for.
    gates: Mapping[int, Gate] = field(default_factory=dict)
    #: Say that generation has finished in an output of its own, without text, as an end token without text does.
    finish_alone: bool = False
    #: Attributes to set on every output, for what only some engines report.
    output_fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass
class EngineCall:
    """One call of the engine."""

    #: As they came; a test that changes them changes nothing else.
    messages: list[dict[str, Any]]
    kwargs: dict[str, Any]
    streamed: bool
    #: How many pieces were generated.
    emitted: int = 0
    #: The script was played to its end.
    finished: bool = False
    #: The host stopped listening before that.
    aborted: bool = False
    #: Set when the call is over, however it ended.
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        tools: list[dict[str, Any]] | None = self.kwargs.get("tools")
        return tools


class ScriptedEngine(BaseEngine):  # type: ignore[misc] # the host is not typed
    """What the host needs of an engine, playing scripts: one for each call, the last one again and again."""

    def __init__(self, scripts: Sequence[Script], *, mllm: bool = True, opens_thinking: bool = False) -> None:
        self.scripts = list(scripts)
        self.calls: list[EngineCall] = []
        #: The ids that the host asked to abort.
        self.abort_requests: list[str] = []
        self.use_harmony_rendering = False
        self._mllm = mllm
        self._opens_thinking = opens_thinking
        self._loaded = True

    @property
    def model_name(self) -> str:
        return SCRIPTED_MODEL

    @property
    def is_mllm(self) -> bool:
        return self._mllm

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The tiny model's: constrained decoding and some parsers need a real one."""
        return tiny_tokenizer()

    async def start(self) -> None:
        self._loaded = True

    async def stop(self) -> None:
        self._loaded = False

    async def generate(self, prompt: str, **kwargs: Any) -> GenerationOutput:
        raise NotImplementedError("the Responses API never completes a bare prompt")

    async def stream_generate(self, prompt: str, **kwargs: Any) -> AsyncIterator[GenerationOutput]:
        yield await self.generate(prompt, **kwargs)

    async def chat(self, messages: list[dict[str, Any]], **kwargs: Any) -> GenerationOutput:
        """Play the script and return the last output."""
        output = GenerationOutput(text="")
        async for output in self._play(messages, kwargs, streamed=False):  # noqa: B007 - the last one counts
            pass
        return output

    async def stream_chat(self, messages: list[dict[str, Any]], **kwargs: Any) -> AsyncIterator[GenerationOutput]:
        """Play the script output by output."""
        async for output in self._play(messages, kwargs, streamed=True):
            yield output

    async def abort_request(self, request_id: str) -> bool:
        self.abort_requests.append(request_id)
        return False

    def _apply_chat_template(self, messages: list[dict[str, Any]], **kwargs: Any) -> str:
        """What the host calls to find out whether the prompt opens a thinking block."""
        return "<|im_start|>assistant\n" + ("<think>\n" if self._opens_thinking else "")

    async def _play(
        self, messages: list[dict[str, Any]], kwargs: dict[str, Any], *, streamed: bool
    ) -> AsyncIterator[GenerationOutput]:
        script = self.scripts[min(len(self.calls), len(self.scripts) - 1)]
        call = EngineCall(messages, kwargs, streamed)
        self.calls.append(call)
        if (requests := scheduled.get()) is not None:
            requests.append(SimpleNamespace(cached_tokens=script.cached_tokens))
        try:
            async for output in _play_script(script, call):
                yield output
            call.finished = True
        except (asyncio.CancelledError, GeneratorExit):
            call.aborted = True
            raise
        finally:
            call.over.set()


async def _play_script(script: Script, call: EngineCall) -> AsyncIterator[GenerationOutput]:
    last = len(script.pieces) - 1
    text = ""

    def output(piece: str, *, finished: bool) -> GenerationOutput:
        # The last output has all tokens, so that a script can claim any number of them.
        claimed = script.completion_tokens if finished else None
        made = GenerationOutput(
            text=text,
            new_text=piece,
            prompt_tokens=script.prompt_tokens,
            completion_tokens=call.emitted if claimed is None else claimed,
            finish_reason=script.finish_reason if finished else None,
            finished=finished,
        )
        for name, value in script.output_fields.items():
            setattr(made, name, value)
        return made

    for index, piece in enumerate(script.pieces):
        await _before_piece(script, index)
        text += piece
        call.emitted += 1
        yield output(piece, finished=index == last and not script.finish_alone)
    await _before_piece(script, last + 1)
    if script.finish_alone or not script.pieces:
        yield output("", finished=True)


async def _before_piece(script: Script, index: int) -> None:
    if index in script.gates:
        await script.gates[index].wait()
    if script.delay:
        await asyncio.sleep(script.delay)
    if script.error is not None and index == script.error_after:
        raise script.error


@functools.cache
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer of the tiny model."""
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(TINY_VLM)
    return tokenizer


class ScriptedHost:
    """Installs a scripted engine in the host's app, and the plugin; leaves both as they were.

    ``tool_parser`` and ``reasoning_parser`` are names as on the host's command line. ``globals`` are further module
    globals of ``vllm_mlx.server``, such as ``{"_default_timeout": 1.0}``. With ``plugin=False`` the host stays alone.
    """

    def __init__(
        self,
        *scripts: Script,
        mllm: bool = True,
        tool_parser: str | None = "hermes",
        reasoning_parser: str | None = None,
        opens_thinking: bool = False,
        api_key: str | None = None,
        plugin: bool = True,
        options: Settings | None = None,
        globals: Mapping[str, Any] | None = None,
    ) -> None:
        self.engine = ScriptedEngine(scripts or [Script(["Hello."])], mllm=mllm, opens_thinking=opens_thinking)
        self._api_key = api_key
        self._plugin = plugin
        self._options = options
        self._parsers = tool_parser, reasoning_parser
        self._globals = dict(globals or {})
        self._stack = ExitStack()

    @property
    def app(self) -> Any:
        """The host's app."""
        return host_server.app

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(_replaced_globals(self._host_globals()))
            self.engine.preserve_native_tool_format = host_server._detect_native_tool_support()
            # Absent before release 0.4.0, which renders no conversation in harmony's own way.
            detect_harmony = getattr(host_server, "_detect_harmony_rendering", lambda: False)
            self.engine.use_harmony_rendering = detect_harmony()
            if self._plugin:
                stack.callback(responses_plugin.disable)
                responses_plugin.enable(self._options)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def client(self) -> httpx.AsyncClient:
        """A client that calls the app in this event loop."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://host", headers=self._headers())

    async def post(self, path: str = "/v1/responses", **body: Any) -> httpx.Response:
        """One request in process; the model's name is filled in."""
        async with self.client() as client:
            return await client.post(path, json={"model": SCRIPTED_MODEL, **body})

    async def stream(self, path: str = "/v1/responses", **body: Any) -> list[StreamEvent]:
        """One streamed request in process, checked strictly."""
        response = await self.post(path, stream=True, **body)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return read_stream(response.content)

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve the app with uvicorn in a thread; gives the URL to put before ``/v1``."""
        with self.running_server() as (url, _):
            yield url

    @contextmanager
    def running_server(self, **options: Any) -> Iterator[tuple[str, uvicorn.Server]]:
        """The same with further options of uvicorn, for a test that shuts the server down itself."""
        config = uvicorn.Config(self.app, lifespan="off", log_config=None, access_log=False, **options)
        server = uvicorn.Server(config)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            try:
                wait_until(lambda: server.started or not thread.is_alive(), "uvicorn to start")
                assert server.started, "uvicorn did not start"
                yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
            finally:
                server.should_exit = True
                thread.join(WAIT_SECONDS)
                assert not thread.is_alive(), "uvicorn did not end"

    def _headers(self) -> dict[str, str]:
        return {} if self._api_key is None else {"Authorization": f"Bearer {self._api_key}"}

    def _host_globals(self) -> dict[str, Any]:
        """What ``vllm-mlx serve`` would set."""
        tool_parser, reasoning_parser = self._parsers
        return {
            "_engine": self.engine,
            "_model_name": SCRIPTED_MODEL,
            "_model_path": SCRIPTED_MODEL,
            "_model_manager": None,
            "_residency_manager": None,
            "_force_mllm_model": self.engine.is_mllm,
            "_api_key": self._api_key,
            "_enable_auto_tool_choice": tool_parser is not None,
            "_tool_call_parser": tool_parser,
            "_tool_parser_instance": None,
            "_reasoning_parser": get_reasoning_parser(reasoning_parser)() if reasoning_parser else None,
            "_reasoning_parser_name": reasoning_parser,
            **self._globals,
        }


@contextmanager
def _replaced_globals(values: Mapping[str, Any]) -> Iterator[None]:
    """Set these globals of the host's server module; one that this release does not have is a mistake."""
    before = {name: getattr(host_server, name) for name in values}
    try:
        for name, value in values.items():
            setattr(host_server, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(host_server, name, value)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Wait in a thread until the condition holds; an ``AssertionError`` names what did not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.005)


async def wait_until_async(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """The same in an event loop."""
    await asyncio.to_thread(wait_until, condition, what, seconds)
