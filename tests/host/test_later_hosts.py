"""A host that has changed where the plugin attaches: played by the installed one, with one place at a time taken away."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from responses_plugin import __main__ as command_line
from responses_plugin import runtime
from responses_plugin.hooks.host import host_version
from responses_plugin.patching import HostMismatch, PatchSet, SeamStatus, SymbolPatch
from tests.host.scripted import Script, ScriptedHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

pytestmark = pytest.mark.contract


@pytest.fixture(autouse=True)
def _fresh_plugins() -> Iterator[None]:
    runtime.installed_plugins.cache_clear()
    yield
    runtime.installed_plugins.cache_clear()


def symbol_patches() -> list[SymbolPatch]:
    """The built-in patches of functions, none applied."""
    host = runtime.make_host(runtime.Settings(), runtime.installed_plugins())
    return [patch for patch in runtime.collect_patches(host).patches if isinstance(patch, SymbolPatch)]


def place(patch: SymbolPatch) -> tuple[ModuleType | type, str]:
    return patch.find_owner(), patch.name


def found_at(patch: SymbolPatch) -> Any:
    """The host's function as it stands there, or ``None``."""
    return inspect.getattr_static(*place(patch), None)


MENDING = [patch.seam for patch in symbol_patches() if patch.defect]
NEEDED = [patch.seam for patch in symbol_patches() if not patch.defect]


def without(seam: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[SymbolPatch], SymbolPatch]:
    """All patches, and that of this seam, whose place the host has no more."""
    patches = symbol_patches()
    [gone] = [patch for patch in patches if patch.seam == seam]
    monkeypatch.delattr(gone.find_owner(), gone.name)
    return patches, gone


@pytest.mark.parametrize("seam", MENDING)
def test_a_defect_is_left_alone_where_one_of_its_places_is_gone(seam: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of its places is touched then, and every patch of other defects or of the plugin's own is what it was."""
    before = [state.status for state in PatchSet(host_version(), symbol_patches()).states()]
    patches, gone = without(seam, monkeypatch)
    # A place may have patches for several defects.
    left_alone = {patch.defect for patch in patches if place(patch) == place(gone)}
    originals = {patch.seam: found_at(patch) for patch in patches}
    applied = PatchSet(host_version(), patches)
    applied.apply()
    try:
        for patch, state, was in zip(patches, applied.states(), before, strict=True):
            if patch.defect in left_alone:
                assert state.status in (SeamStatus.NOT_MENDED, SeamStatus.NOT_NEEDED), patch.seam
                if not any(place(other) == place(patch) for other in patches if other.defect not in left_alone):
                    assert found_at(patch) is originals[patch.seam], patch.seam
            else:
                assert state.status is was, patch.seam
    finally:
        applied.revert()


@pytest.mark.parametrize("seam", NEEDED)
def test_the_server_does_not_start_without_what_the_plugin_needs(seam: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the place, and nothing is patched."""
    patches, _ = without(seam, monkeypatch)
    with pytest.raises(HostMismatch, match="nothing was changed") as caught:
        PatchSet(host_version(), patches).apply()
    assert [misfit.seam for misfit in caught.value.misfits] == [seam]


async def test_a_server_answers_with_a_defect_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As ever, and its log says once what was not mended."""
    monkeypatch.setattr("vllm_mlx.engine.batched.extract_multimodal_content", lambda conversation: conversation)
    with ScriptedHost(Script(["Hello."])) as host:
        answer = await host.post(input="hi")
    assert answer.json()["output"][0]["content"][0]["text"] == "Hello."
    [record] = [record for record in caplog.records if "mends defects of it" in record.getMessage()]
    assert record.levelname == "WARNING"
    assert "batched images of tool messages: not mended: expected vllm_mlx.engine.batched." in record.getMessage()
    assert "the images of tool messages do not reach the model" in record.getMessage()


def test_the_doctor_tells_it_apart(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, and the defect in words."""
    monkeypatch.setattr("vllm_mlx.engine.batched.extract_multimodal_content", lambda conversation: conversation)
    assert command_line.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "not mended: expected vllm_mlx.engine.batched.extract_multimodal_content(messages" in text
    assert "Serving would work. What may go wrong" in text
