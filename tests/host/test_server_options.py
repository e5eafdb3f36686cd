"""A server that is really started with a key, a limit and a name: ``/v1/responses`` heeds them as the chat endpoint does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests import tiny
from tests.host.both_paths import CHAT, RESPONSES, body_for, model_of, refused_alike, text_of
from tests.host.servers import MODEL_NAME, TINY_OPTIONS, TINY_VLM, running_host
from tests.images import data_url

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.contract

KEY = "sk-right"
#: Requests a minute: those of the test up to where it runs into the limit.
LIMIT = 8


def test_the_options_of_a_server_hold_for_both_endpoints(tmp_path: Path) -> None:
    """``--api-key``, ``--served-model-name`` and ``--rate-limit``: same status, headers and words, and same answers."""
    options = [*TINY_OPTIONS, "--api-key", KEY, "--rate-limit", str(LIMIT)]
    with (
        running_host(options, tmp_path / "host.log") as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        let_in = 0

        def ask_both(key: str | None = KEY, model: str = MODEL_NAME, **fields: Any) -> list[httpx.Response]:
            """The answers of both to the same question, each request counted unless it is kept out."""
            nonlocal let_in
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            asked = {"model": model, "temperature": 0, "image": data_url("blue"), **fields}
            answers = [
                client.post(path, json=body_for(path, tiny.ASK_COLOUR, **asked), headers=headers)
                for path in (RESPONSES, CHAT)
            ]
            let_in += sum(answer.status_code not in (401, 429) for answer in answers)
            return answers

        for stream in (False, True):
            for key in (None, "sk-wrong"):
                assert refused_alike(*ask_both(key, stream=stream))["code"] == "invalid_api_key"
            assert refused_alike(*ask_both(model=str(TINY_VLM), stream=stream))["code"] == "model_not_found"
            for answer in ask_both(stream=stream):
                assert (text_of(answer), model_of(answer)) == (tiny.colour_answer("blue"), MODEL_NAME)
        assert let_in == LIMIT
        for stream in (False, True):
            ours, chat = ask_both(stream=stream)
            assert refused_alike(ours, chat)["code"] == "rate_limit_exceeded"
            assert all(1 <= int(answer.headers["retry-after"]) <= 60 for answer in (ours, chat))
        # Whoever has no key learns nothing of the limit.
        assert refused_alike(*ask_both(None))["code"] == "invalid_api_key"
