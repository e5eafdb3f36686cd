"""The doctor's report, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from responses_plugin.diagnosis import Diagnosis
from responses_plugin.doctor import format_json, format_text
from responses_plugin.patching import SeamState, SeamStatus

GOOD = Diagnosis(
    plugin_version="1.2.3",
    python_version="3.12.1",
    host_version="0.6.0",
    seams=[
        SeamState(seam="POST /v1/responses", status=SeamStatus.TAKEN),
        SeamState(seam="MLLM messages", status=SeamStatus.NOT_NEEDED, reason="host keeps tool calls"),
    ],
    plugins=["kinds", "acme_tools"],
    hooks={"responses_tool_kinds": ["kinds", "acme_tools"], "responses_completed": []},
    tool_kinds=["custom", "function"],
    startup_file="/env/vllm_mlx_responses.pth",
)
BAD = Diagnosis(
    plugin_version="1.2.3",
    python_version="3.12.1",
    host_version="9.0.0",
    seams=[
        SeamState(
            seam="chat", status=SeamStatus.DOES_NOT_FIT, expected="server.chat(request)", found="server.chat(body)"
        )
    ],
    problem="vllm-mlx 9.0.0 does not fit the responses plugin",
)
UNMENDED = replace(
    GOOD,
    seams=[
        SeamState(seam="POST /v1/responses", status=SeamStatus.TAKEN),
        SeamState(
            seam="images",
            status=SeamStatus.NOT_MENDED,
            expected="a.b(c)",
            found="no such name",
            defect="images get lost",
        ),
        SeamState(
            seam="images, too",
            status=SeamStatus.NOT_MENDED,
            expected="'images' to fit as well",
            found="that it does not",
            defect="images get lost",
        ),
    ],
)


def test_a_good_report_reads_as_a_table():
    """Values stand in one column a section, and the verdict comes last."""
    assert format_text(GOOD) == (
        "responses plugin  1.2.3\n"
        "vllm-mlx          0.6.0\n"
        "Python            3.12.1\n"
        "start-up file     /env/vllm_mlx_responses.pth\n"
        "plugins           1 built in, acme_tools\n"
        "tool kinds        custom, function\n"
        "\n"
        "Seams\n"
        "  POST /v1/responses  taken\n"
        "  MLLM messages       not needed: host keeps tool calls\n"
        "\n"
        "Hooks\n"
        "  responses_tool_kinds  kinds, acme_tools\n"
        "  responses_completed   -\n"
        "\n"
        "Serving would work."
    )


def test_a_bad_report_says_what_does_not_fit_and_why_serving_would_fail():
    """The misfit shows beside its seam, and the problem as a whole at the end."""
    text = format_text(BAD)
    assert "chat  does not fit: expected server.chat(request), found server.chat(body)" in text
    assert text.endswith("Serving would fail:\nvllm-mlx 9.0.0 does not fit the responses plugin")


def test_defects_that_stay_are_told_and_are_no_failure():
    """Beside its seam what does not fit, and at the end what that means: each defect once."""
    text = format_text(UNMENDED)
    assert "  images              not mended: expected a.b(c), found no such name\n" in text
    assert "  images, too         not mended: expected 'images' to fit as well, found that it does not\n" in text
    assert text.endswith(
        "Serving would work. What may go wrong, unless this host has mended it by itself:\n  images get lost"
    )
    report = json.loads(format_json(UNMENDED))
    assert report["ok"] is True
    assert report["seams"][1] == {
        "seam": "images",
        "state": "not mended",
        "expected": "a.b(c)",
        "found": "no such name",
        "defect": "images get lost",
    }


def test_an_empty_report_is_readable():
    """Without a host and without plugins there are still facts, and words instead of gaps."""
    text = format_text(Diagnosis(plugin_version="1", python_version="3", problem="vllm-mlx is not installed"))
    assert "vllm-mlx          not found" in text
    assert "plugins           not loaded" in text
    assert "only `python -m responses_plugin serve` knows the plugin" in text
    assert "Seams" not in text


def test_json_has_the_same_facts():
    """A script finds the verdict in ``ok`` and each seam with its state and what belongs to it."""
    good, bad = json.loads(format_json(GOOD)), json.loads(format_json(BAD))
    assert good["ok"] is True
    assert good["problem"] is None
    assert good["seams"] == [
        {"seam": "POST /v1/responses", "state": "taken"},
        {"seam": "MLLM messages", "state": "not needed", "reason": "host keeps tool calls"},
    ]
    assert good["hooks"]["responses_tool_kinds"] == ["kinds", "acme_tools"]
    assert bad["ok"] is False
    assert bad["problem"] == BAD.problem
    assert bad["seams"][0] == {
        "seam": "chat",
        "state": "does not fit",
        "expected": "server.chat(request)",
        "found": "server.chat(body)",
    }
