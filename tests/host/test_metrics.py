"""The host's own metrics see our requests."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from vllm_mlx.metrics import MetricsCollector

from tests.host.reading import streaming
from tests.host.scripted import Gate, Script, ScriptedHost, wait_until_async

pytestmark = pytest.mark.contract

TEXT_FORMAT = {"format": {"type": "json_object"}}
PATH = 'method="POST",path="/v1/responses"'
IN_FLIGHT = f"vllm_mlx_http_requests_in_flight{{{PATH}}}"


@pytest.fixture
def metrics() -> Iterator[MetricsCollector]:
    """What ``--enable-metrics`` makes."""
    collector = MetricsCollector()
    collector.configure(enabled=True)
    return collector


async def read(client: httpx.AsyncClient) -> dict[str, float]:
    """The samples of ``/metrics`` by name and labels."""
    lines = (await client.get("/metrics")).text.splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


async def test_requests_are_counted_under_their_path(metrics: MetricsCollector) -> None:
    """One series for each path, ids left out, with the status that the client got."""
    with ScriptedHost(Script(["Hello."]), globals={"_metrics": metrics}) as host:
        response_id = (await host.post(input="hi")).json()["id"]
        await host.stream(input="hi")
        await host.post(input="hi", model="gpt-none")
        async with host.client() as client:
            assert (await client.get(f"/v1/responses/{response_id}")).status_code == 200
            assert (await client.get("/v1/responses/resp_none")).status_code == 404
            samples = await read(client)
    total = "vllm_mlx_http_requests_total"
    assert samples[f'{total}{{{PATH},status_code="200"}}'] == 2
    assert samples[f'{total}{{{PATH},status_code="404"}}'] == 1
    stored = 'method="GET",path="/v1/responses/{response_id}"'
    assert samples[f'{total}{{{stored},status_code="200"}}'] == 1
    assert samples[f'{total}{{{stored},status_code="404"}}'] == 1
    assert samples[IN_FLIGHT] == 0


async def test_generation_is_counted_as_the_hosts_own(metrics: MetricsCollector) -> None:
    """Tokens, results and time to the first token, under the name of the chat endpoint that does the work."""
    script = Script(["Hel", "lo"], prompt_tokens=7)
    broken = Script(["Hel"], error=RuntimeError("boom"), error_after=1)
    with ScriptedHost(script, script, broken, globals={"_metrics": metrics}) as host:
        await host.post(input="hi")
        await host.stream(input="hi")
        await host.stream(input="hi")
        async with host.client() as client:
            samples = await read(client)
    for stream in ("true", "false"):
        labels = f'endpoint="chat_completions",stream="{stream}"'
        by_result = (
            f'vllm_mlx_inference_requests_total{{endpoint="chat_completions",result="success",stream="{stream}"}}'
        )
        assert samples[by_result] == 1
        assert samples[f"vllm_mlx_prompt_tokens_total{{{labels}}}"] >= 7
        assert samples[f"vllm_mlx_completion_tokens_total{{{labels}}}"] >= 2
    failed = 'vllm_mlx_inference_requests_total{endpoint="chat_completions",result="error",stream="true"}'
    assert samples[failed] == 1
    assert samples['vllm_mlx_inference_ttft_seconds_count{endpoint="chat_completions",stream="true"}'] == 2


# Older hosts count a request as over once its answer has begun.
@pytest.mark.since("0.6.0")
@pytest.mark.parametrize("leave", [False, True])
async def test_a_stream_is_in_flight_until_it_ends(metrics: MetricsCollector, leave: bool) -> None:
    """Not only until it has begun; and no longer than that when the client goes away."""
    gate = Gate()
    script = Script(["Hel", "lo"], gates={1: gate})
    with ScriptedHost(script, globals={"_metrics": metrics}) as host, host.serving() as url:
        async with httpx.AsyncClient(base_url=url) as client:
            async with streaming(url) as stream:
                await stream.until("response.output_text.delta")
                assert (await read(client))[IN_FLIGHT] == 1
                if not leave:
                    gate.open()
                    await stream.rest()
            gauge = metrics._prom["http_requests_in_flight"]
            in_flight = gauge.labels(method="POST", path="/v1/responses")
            await wait_until_async(lambda: in_flight._value.get() == 0, "the stream to be over", 3)
