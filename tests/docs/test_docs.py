"""The pages tell the truth: about hooks, errors, options, commands and each other."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest
from packaging.version import Version

from responses_plugin import hookspecs
from responses_plugin.lowering import assemble, items, placement
from responses_plugin.plugins import load_plugins
from responses_plugin.protocol import host_errors
from responses_plugin.protocol.request import ResponsesRequest
from responses_plugin.protocol.response import response_object
from tests.docs.events import sent_events
from tests.docs.pages import DOCS, EXAMPLES, ROOT, Block, Page, all_pages, runnable_blocks

PAGES = all_pages()
HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("responses_")}
SOURCES = [*sorted((ROOT / "responses_plugin").rglob("*.py")), *sorted((ROOT / "hooks").rglob("*.py"))]


# --- Code blocks and links -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", runnable_blocks("python", "runnable"), ids=lambda block: block.name)
def test_runnable_examples_run(
    block: Block, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Python block marked runnable runs as it stands, and prints what its comments say."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(EXAMPLES / "sql_tool"))
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    # Blank lines in front, so that a traceback names the line of the page.
    code = compile("\n" * (block.line - 1) + block.text, str(block.path), "exec")
    exec(code, vars(module))
    assert capsys.readouterr().out.splitlines() == block.expected_output()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Page) -> None:
    """Every link to a file or heading of this repository has a target."""
    for link in page.links:
        if link.startswith(("https://", "http://")):
            continue
        target, _, anchor = link.partition("#")
        path = (page.path.parent / target).resolve() if target else page.path
        assert path.exists(), f"{page.name} links to {link}, which does not exist"
        assert path.is_relative_to(ROOT), f"{page.name} links to {link}, which lies outside the repository"
        if anchor:
            assert anchor in Page(path).anchors, f"{page.name} links to {link}, which is no heading there"


def test_every_page_can_be_found() -> None:
    """The index leads to every page of the documentation, and the README to the index."""
    index = Page(DOCS / "index.md")
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in index.links if "://" not in link}
    missing = [page.name for page in PAGES if page.path.parent == DOCS and page.path not in {*linked, index.path}]
    assert missing == []
    assert "docs/index.md" in Page(ROOT / "README.md").links


# --- Hooks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_are_documented(name: str) -> None:
    """Each hook has a section with its exact signature, how it is called, and an example that runs."""
    hook = HOOKS[name]
    section = Page(DOCS / "hooks.md").section(name)
    signature = f"def {name}{inspect.signature(hook)}".replace("'", "")
    assert f"```python\n{signature}\n```" in section
    is_first_result = vars(hook)[f"{hookspecs.PROJECT_NAME}_spec"]["firstresult"]
    assert f"\n{'*First result.*' if is_first_result else '*All.*'} " in section
    example = section.partition("```python runnable\n")[2].partition("```")[0]
    assert name in example or name == "responses_tool_kinds"
    assert f"[`{name}`](#{name})" in Page(DOCS / "hooks.md").text


def test_no_documented_hook_is_gone() -> None:
    """hooks.md describes only hooks that exist."""
    described = {heading for heading in Page(DOCS / "hooks.md").headings if heading.startswith("responses_")}
    assert described == set(HOOKS)


# --- Errors --------------------------------------------------------------------------------------------------------


def _constants(node: ast.expr | None) -> set[str]:
    """The strings that an expression can be: itself, or either branch of a condition."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, ast.IfExp):
        return _constants(node.body) | _constants(node.orelse)
    if isinstance(node, ast.BoolOp):
        return set().union(*map(_constants, node.values))
    return set()


def _codes(node: ast.AST) -> list[ast.expr | None]:
    """What is passed as, assigned to, or the default of something called ``code``."""
    if isinstance(node, ast.keyword) and node.arg == "code":
        return [node.value]
    if isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "code" for target in node.targets
    ):
        return [node.value]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "code":
        return [node.value]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        defaults = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        return [default for argument, default in defaults if argument.arg == "code"]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Failed":
        return [*node.args[1:2]]
    return []


def codes_in(source: Path) -> set[str]:
    """The error codes that a module uses."""
    nodes = ast.walk(ast.parse(source.read_text(encoding="utf-8")))
    return {code for node in nodes for value in _codes(node) for code in _constants(value)}


def test_every_error_code_is_documented() -> None:
    """errors.md has a row for each code that a client can get, and for no other."""
    documented = re.findall(r"^\| `([a-z_]+)` ", Page(DOCS / "errors.md").text, re.MULTILINE)
    raised = set().union(*map(codes_in, SOURCES)) | {code for _, code in host_errors._UNNAMED.values() if code}
    assert sorted(documented) == sorted(raised)


# --- The protocol --------------------------------------------------------------------------------------------------


def test_every_request_field_is_documented() -> None:
    """responses.md says of each request field what becomes of it."""
    section = Page(DOCS / "responses.md").section("Request fields")
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented == set(ResponsesRequest.model_fields)


def test_every_response_field_is_documented() -> None:
    """responses.md names each field of the response object."""
    section = Page(DOCS / "responses.md").section("The response object")
    request = ResponsesRequest.parse({"model": "m", "input": "Hi."}, "")
    for field in response_object(request, id="resp_1", created_at=0, status="completed"):
        assert f"`{field}`" in section, field


def test_every_stream_event_is_documented() -> None:
    """responses.md lists each event that can be sent, by the events of the protocol and of the built-in tool kinds."""
    section = Page(DOCS / "responses.md").section("Stream events")
    for event_type in sent_events():
        assert f"`{event_type}`" in section, event_type


def test_every_part_type_is_documented() -> None:
    """responses.md says of each content part what becomes of it."""
    section = Page(DOCS / "responses.md").section("Content parts")
    for part_type in load_plugins(discover=False).content_parts:
        assert f"`{part_type}`" in section, part_type


# --- Lowering ------------------------------------------------------------------------------------------------------


def test_every_text_of_our_own_is_documented() -> None:
    """architecture.md shows each text that the model may be given and that nobody sent."""
    text = Page(DOCS / "architecture.md").text
    orphan = f"[{assemble._ORPHAN}]"
    for ours in (
        assemble.NO_OUTPUT,
        orphan,
        items.IMAGE_FOLLOWS,
        items.IMAGE_NOT_SHOWN,
        placement.IMAGES_OF,
        placement.OPENING,
        placement.WAITING,
    ):
        assert f"`{ours.format('ID')}`" in text, ours


# --- Commands ------------------------------------------------------------------------------------------------------


def our_options() -> set[str]:
    """The command-line options of the plugin, the flag aside."""
    parser = argparse.ArgumentParser(add_help=False)
    load_plugins(discover=False).add_options(parser)
    return {option for action in parser._actions for option in action.option_strings}


def test_every_option_is_documented() -> None:
    """quickstart.md lists each of our options with its default; no page speaks of one that does not exist."""
    options = our_options()
    section = Page(DOCS / "quickstart.md").section("Options")
    assert {option for option in options if f"`{option}" in section} == options
    audit = {"--responses-audit"}  # the option that an example adds
    for page in PAGES:
        mentioned = set(re.findall(r"--responses-[a-z-]*[a-z]", page.text))
        assert mentioned <= {*options, *audit, "--responses-plugin"}, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Page) -> None:
    """Every make command that a page names is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    lines = [line for block in page.blocks for line in block.text.splitlines()]
    for code in [*re.findall(r"`(make [^`]*)`", page.prose), *lines]:
        for target in re.findall(r"(?:^|[;&(] *|\$ )make(?: [A-Z]+=\S+)* ([a-z][a-z-]*)", code):
            assert target in targets, f"{page.name}: make {target}"


def test_make_help_lists_every_target() -> None:
    """``make help`` explains each target that a person would call."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert re.findall(r"^make ([a-z-]+)", shown, re.MULTILINE) == phony.split()


# --- Clients -------------------------------------------------------------------------------------------------------


def releases_tested_with(heading: str) -> dict[str, str]:
    """The packages that a client's section says it was tested with, and which release of each."""
    (tested,) = re.findall(r"^Tested with (.+?\d)\.(?: |$)", Page(DOCS / "clients.md").section(heading), re.MULTILINE)
    return dict(package.rsplit(" ", 1) for package in tested.split(" and "))


@pytest.mark.parametrize(
    ("heading", "packages"),
    [
        ("Codex", {"Codex": "@openai/codex"}),
        ("openai-js", {"openai": "openai"}),
        ("Vercel AI SDK", {"ai": "ai", "@ai-sdk/openai": "@ai-sdk/openai"}),
    ],
)
def test_clients_from_npm_are_tested_as_documented(heading: str, packages: dict[str, str]) -> None:
    """clients.md names the releases that the tests pin."""
    pinned = json.loads((ROOT / "tests" / "clients" / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert releases_tested_with(heading) == {name: pinned[package] for name, package in packages.items()}


@pytest.mark.parametrize(
    ("heading", "package"),
    [("openai-python", "openai"), ("openai-agents", "openai-agents"), ("LangChain", "langchain-openai")],
)
def test_python_clients_are_tested_as_documented(heading: str, package: str) -> None:
    """The tests run the release that clients.md names or a newer one; a new major release is to be named there."""
    (named,) = [Version(release) for name, release in releases_tested_with(heading).items() if name == package]
    installed = Version(version(package))
    assert named <= installed, f"clients.md says {named}, and the tests run {installed}"
    assert named.major == installed.major, f"clients.md still says {named}, and the tests run {installed}"


# --- Compatibility -------------------------------------------------------------------------------------------------


def test_every_seam_is_documented() -> None:
    """compatibility.md names each place where the plugin attaches to the host."""
    from responses_plugin import runtime
    from responses_plugin.settings import Settings

    host = runtime.make_host(Settings(), load_plugins(discover=False))
    states = [*runtime.command_line_states(host), *runtime.collect_patches(host).states()]
    text = Page(DOCS / "compatibility.md").text
    for state in states:
        assert f"| {state.seam} |" in text, state.seam
