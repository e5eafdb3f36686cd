"""How ``python -m responses_plugin doctor`` words a diagnosis: as text for people, as JSON for scripts."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from responses_plugin.lowering.template import RULES, matters, refused
from responses_plugin.patching import SeamStatus, unmended_defects
from responses_plugin.runtime import describe_plugins

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from responses_plugin.diagnosis import Diagnosis
    from responses_plugin.lowering.template import TemplateRules
    from responses_plugin.patching import SeamState

_INDENT = "  "
_NO_STARTUP_FILE = "missing, so that only `python -m responses_plugin serve` knows the plugin"


def format_text(diagnosis: Diagnosis) -> str:
    """The report as aligned lines, the verdict last."""
    facts = [
        ("responses plugin", diagnosis.plugin_version),
        ("vllm-mlx", diagnosis.host_version or "not found"),
        ("Python", diagnosis.python_version),
        ("start-up file", diagnosis.startup_file or _NO_STARTUP_FILE),
        ("plugins", ", ".join(describe_plugins(diagnosis.plugins)) if diagnosis.plugins else "not loaded"),
        ("tool kinds", ", ".join(diagnosis.tool_kinds) or "none"),
    ]
    sections = [
        _align(facts),
        _section("Seams", [(state.seam, str(state)) for state in diagnosis.seams]),
        _section("Hooks", [(hook, ", ".join(names) or "-") for hook, names in diagnosis.hooks.items()]),
        _section(f"Chat template of {diagnosis.model}", _template_rows(diagnosis.template)),
        _verdict(diagnosis),
    ]
    return "\n\n".join(section for section in sections if section)


def format_json(diagnosis: Diagnosis) -> str:
    """The same facts as one JSON object, with ``ok`` for the verdict."""
    return json.dumps(
        {
            "ok": not diagnosis.problem,
            "problem": diagnosis.problem or None,
            "plugin_version": diagnosis.plugin_version,
            "host_version": diagnosis.host_version or None,
            "python_version": diagnosis.python_version,
            "startup_file": diagnosis.startup_file or None,
            "seams": [_seam_as_json(state) for state in diagnosis.seams],
            "plugins": list(diagnosis.plugins),
            "hooks": {hook: list(names) for hook, names in diagnosis.hooks.items()},
            "tool_kinds": list(diagnosis.tool_kinds),
            "template": _template_as_json(diagnosis.template),
        },
        indent=2,
    )


def _verdict(diagnosis: Diagnosis) -> str:
    if diagnosis.problem:
        return f"Serving would fail:\n{diagnosis.problem}"
    if defects := unmended_defects(diagnosis.seams):
        listed = "\n".join(f"{_INDENT}{defect}" for defect in defects)
        return f"Serving would work. What may go wrong, unless this host has mended it by itself:\n{listed}"
    return "Serving would work."


def _seam_as_json(state: SeamState) -> dict[str, str]:
    known = {"reason": state.reason, "expected": state.expected, "found": state.found}
    if state.status is SeamStatus.NOT_MENDED:
        known["defect"] = state.defect
    return {"seam": state.seam, "state": state.status.value} | {name: text for name, text in known.items() if text}


def _template_rows(rules: TemplateRules | None) -> list[tuple[str, str]]:
    if rules is None:
        return []
    states = {rule.name: f"refused: {rule.instead}" if rule.instead else "refused" for rule in refused(rules)}
    return [(rule.what, states.get(rule.name, "accepted")) for rule in RULES if matters(rule, rules)]


def _template_as_json(rules: TemplateRules | None) -> dict[str, object] | None:
    if rules is None:
        return None
    placements = [rule.instead for rule in refused(rules) if rule.instead]
    return {"accepts": dataclasses.asdict(rules), "instead": placements}


def _section(title: str, rows: Sequence[tuple[str, str]]) -> str:
    return f"{title}\n{_align(rows, _INDENT)}" if rows else ""


def _align(rows: Iterable[tuple[str, str]], indent: str = "") -> str:
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{indent}{name:<{width}}  {text}" for name, text in rows)
