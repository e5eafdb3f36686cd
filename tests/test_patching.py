"""Host patches: all are checked before any is applied, all are applied or none, and reverting is exact."""

from __future__ import annotations

import functools
import inspect
import logging
from types import ModuleType
from typing import Any

import pytest
from fastapi import Depends, FastAPI, HTTPException
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from responses_plugin.patching import HostMismatch, PatchSet, RoutePatch, SeamStatus, SymbolPatch, accepts


class Engine:
    def chat(self, messages, *, max_tokens=10):
        return f"chat {messages}"

    @staticmethod
    def count(text):
        return len(text)

    @classmethod
    def create(cls, name):
        return (cls, name)


class FastEngine(Engine):
    pass


@pytest.fixture
def module():
    host = ModuleType("stand_in.server")

    def greet(name, greeting="hello"):
        """Greet somebody."""
        return f"{greeting} {name}"

    host.greet = greet
    host.limit = 3
    return host


def loudly(original):
    @functools.wraps(original)
    def loud(*args, **kwargs):
        return original(*args, **kwargs).upper()

    return loud


def symbol_patch(owner, name="greet", parameters=("name",), replace=loudly, **more) -> SymbolPatch:
    return SymbolPatch(
        seam=f"seam of {name}",
        owner=owner,
        name=name,
        parameters=parameters,
        replace=replace,
        remove_when="never",
        **more,
    )


def test_a_symbol_is_wrapped_and_restored(module):
    """While applied, callers of the global meet the replacement; afterwards they meet the very same original."""
    original = module.greet
    patches = PatchSet("1.0", [symbol_patch(module)])
    patches.apply()
    assert module.greet("you") == "HELLO YOU"
    patches.revert()
    assert module.greet is original


def test_a_replacement_looks_like_the_original(module):
    """Name, docstring and signature stay readable through the replacement, even when its author forgot ``wraps``."""
    original = module.greet

    def plainly(host_function):
        def plain(*args, **kwargs):
            return host_function(*args, **kwargs)

        return plain

    PatchSet("1.0", [symbol_patch(module, replace=plainly)]).apply()
    assert module.greet.__doc__ == "Greet somebody."
    assert module.greet.__wrapped__ is original
    assert inspect.signature(module.greet) == inspect.signature(original)


def test_a_replacement_may_be_the_original(module):
    """A patch that decides to change nothing does not turn a function into its own wrapper."""
    patches = PatchSet("1.0", [symbol_patch(module, replace=lambda original: original)])
    patches.apply()
    assert not hasattr(module.greet, "__wrapped__")
    patches.revert()


def test_methods_of_every_kind_stay_what_they_are():
    """Instance, static and class methods can be patched; each is still called the way it was, and restored."""
    before = dict(vars(Engine))
    seen = []

    def spy(original):
        @functools.wraps(original)
        def spying(*args, **kwargs):
            seen.append(args)
            return original(*args, **kwargs)

        return spying

    patches = PatchSet(
        "1.0",
        [
            symbol_patch(Engine, "chat", ("self", "messages", "max_tokens"), spy),
            symbol_patch(Engine, "count", ("text",), spy),
            symbol_patch(Engine, "create", ("cls", "name"), spy),
        ],
    )
    patches.apply()
    engine = Engine()
    assert engine.chat("hi") == "chat hi"
    assert engine.count("four") == 4
    assert FastEngine.create("x") == (FastEngine, "x")
    assert seen == [(engine, "hi"), ("four",), (FastEngine, "x")]
    patches.revert()
    assert dict(vars(Engine)) == before


def test_an_inherited_method_is_restored_by_removing_ours():
    """Patching a subclass leaves no copy of the base's method behind: later changes of the base show through."""
    patches = PatchSet("1.0", [symbol_patch(FastEngine, "chat", ("self", "messages"))])
    patches.apply()
    assert FastEngine().chat("hi") == "CHAT HI"
    assert Engine().chat("hi") == "chat hi"
    patches.revert()
    assert "chat" not in vars(FastEngine)


def test_two_patches_of_one_symbol_nest_and_unwind(module):
    """A second plugin may wrap what the first has wrapped; reverting goes backwards and ends at the original."""
    original = module.greet

    def with_bow(inner):
        @functools.wraps(inner)
        def bowing(*args, **kwargs):
            return inner(*args, **kwargs) + ", bows"

        return bowing

    patches = PatchSet("1.0", [symbol_patch(module), symbol_patch(module, replace=with_bow)])
    patches.apply()
    assert module.greet("you") == "HELLO YOU, bows"
    patches.revert()
    assert module.greet is original


def test_apply_and_revert_are_idempotent(module):
    """Applying twice wraps once, reverting twice restores once, and both can be repeated."""
    original = module.greet
    patches = PatchSet("1.0", [symbol_patch(module)])
    patches.revert()
    patches.apply()
    wrapped = module.greet
    patches.apply()
    assert module.greet is wrapped
    patches.revert()
    patches.revert()
    assert module.greet is original
    patches.apply()
    assert module.greet("you") == "HELLO YOU"


def test_a_foreign_replacement_is_reported_when_we_restore(module, caplog):
    """Somebody who patched the same symbol after us is not overruled in silence."""
    original = module.greet
    patches = PatchSet("1.0", [symbol_patch(module)])
    patches.apply()
    module.greet = lambda name: name
    with caplog.at_level(logging.WARNING):
        patches.revert()
    assert module.greet is original
    assert "stand_in.server.greet was replaced by someone else after us" in caplog.text


@pytest.mark.parametrize(
    ("name", "parameters", "expected", "found"),
    [
        ("farewell", ("name",), "stand_in.server.farewell(name)", "no such name"),
        ("limit", ("name",), "stand_in.server.limit(name)", "a int"),
        ("greet", ("greeting", "name"), "stand_in.server.greet(greeting, name)", "(name, greeting='hello')"),
        ("greet", ("name", "title"), "stand_in.server.greet(name, title)", "(name, greeting='hello')"),
        ("greet", (), "stand_in.server.greet()", "(name, greeting='hello')"),
    ],
)
def test_a_host_that_does_not_fit_is_named_in_full(module, name, parameters, expected, found):
    """The error names the host's version, the seam, what was expected, what was found and what to do next."""
    with pytest.raises(HostMismatch) as caught:
        PatchSet("9.9.9", [symbol_patch(module, name, parameters)]).apply()
    message = str(caught.value)
    assert "vllm-mlx 9.9.9" in message
    assert f"seam of {name}: expected {expected}, found " in message
    assert found in message
    assert "pip install --upgrade vllm-mlx-responses" in message
    assert "docs/compatibility.md" in message
    assert caught.value.host_version == "9.9.9"


def test_one_misfit_keeps_all_patches_off_and_all_misfits_are_listed(module):
    """Nothing is half patched, and an operator learns of every problem at once."""
    original = module.greet
    replaced = []
    patches = PatchSet(
        "1.0",
        [
            symbol_patch(module, replace=lambda function: replaced.append(function) or function),
            symbol_patch(module, "gone"),
            symbol_patch(Engine, "chat", ("self", "prompt")),
        ],
    )
    with pytest.raises(HostMismatch) as caught:
        patches.apply()
    assert [misfit.seam for misfit in caught.value.misfits] == ["seam of gone", "seam of chat"]
    assert module.greet is original
    assert replaced == []


def test_a_patch_that_fails_midway_takes_the_earlier_ones_with_it(module):
    """When applying raises, what was applied before is reverted and the error says which seam it was and why."""
    original = module.greet

    def refuse(original: Any) -> Any:
        raise ValueError("this one is special")

    patches = PatchSet("1.0", [symbol_patch(module), symbol_patch(Engine, "chat", ("self", "messages"), refuse)])
    with pytest.raises(HostMismatch, match=r"seam of chat.*ValueError: this one is special") as caught:
        patches.apply()
    assert isinstance(caught.value.__cause__, ValueError)
    assert module.greet is original
    patches.revert()
    assert module.greet is original


def test_a_revert_that_fails_does_not_stop_the_others(module):
    """Reverting goes on past an error and raises it at the end."""
    original = module.greet

    class Stubborn:
        seam = "stubborn"
        remove_when = "never"

        def inspect(self):
            return symbol_patch(module).inspect()

        def apply(self):
            def revert():
                raise OSError("stuck")

            return revert

    patches = PatchSet("1.0", [symbol_patch(module), Stubborn()])
    patches.apply()
    with pytest.raises(OSError, match="stuck"):
        patches.revert()
    assert module.greet is original


def test_a_patch_that_is_not_needed_is_left_off_and_says_why(module):
    """The reason reaches the states, and the host keeps its own function."""
    original = module.greet
    patches = PatchSet("1.0", [symbol_patch(module, not_needed=lambda: "host greets loudly already")])
    patches.apply()
    (state,) = patches.states()
    assert state.status is SeamStatus.NOT_NEEDED
    assert str(state) == "not needed: host greets loudly already"
    assert module.greet is original


def test_a_probe_that_fails_is_a_misfit(module):
    """A host with the right signature that breaks under the patch's probe does not fit; nothing else is raised."""

    def probe():
        raise KeyError("messages")

    (state,) = PatchSet("1.0", [symbol_patch(module, not_needed=probe)]).states()
    assert state.status is SeamStatus.DOES_NOT_FIT
    assert state.found == "KeyError: 'messages'"


def test_a_host_that_does_right_in_another_way_needs_no_patch(module):
    """The probe is asked also where the symbol is gone: its answer counts, and its failure does not."""

    def probe():
        raise KeyError("messages")

    right, unknown = PatchSet(
        "1.0",
        [
            symbol_patch(module, "gone", not_needed=lambda: "host greets everyone"),
            symbol_patch(module, "lost", not_needed=probe),
        ],
    ).states()
    assert str(right) == "not needed: host greets everyone"
    assert str(unknown) == "does not fit: expected stand_in.server.lost(name), found no such name"


# --- Defects of the host ---------------------------------------------------------------------------------------------


def fail():
    raise KeyError("messages")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"name": "gone"}, "no such name"),
        ({"name": "limit"}, "a int"),
        ({"parameters": ("title",)}, "stand_in.server.greet(name, greeting='hello')"),
        ({"not_needed": fail}, "KeyError: 'messages'"),
        ({"owner": "responses_plugin.no_such_module"}, "ModuleNotFoundError: No module named"),
        (
            {"owner": "responses_plugin.patching:NoSuchClass"},
            "AttributeError: module 'responses_plugin.patching' has no",
        ),
    ],
    ids=["gone", "something else", "another signature", "another behaviour", "no module", "no class"],
)
def test_a_defect_that_cannot_be_mended_keeps_nothing_from_working(module, options, found):
    """What the plugin needs is patched all the same; the same place keeps all of it off when the plugin needs it."""
    patch = {"owner": module, "defect": "nobody is greeted", **options}
    patches = PatchSet("1.0", [symbol_patch(Engine, "chat", ("self", "messages")), symbol_patch(**patch)])
    patches.apply()
    try:
        assert Engine().chat("hi") == "CHAT HI"
        assert module.greet("you") == "hello you"
        needed, mending = patches.states()
    finally:
        patches.revert()
    assert needed.status is SeamStatus.TAKEN
    assert (mending.status, mending.defect) == (SeamStatus.NOT_MENDED, "nobody is greeted")
    assert mending.found.startswith(found)
    assert str(mending).startswith("not mended: expected ")
    with pytest.raises(HostMismatch, match="does not fit"):
        PatchSet("1.0", [symbol_patch(**{**patch, "defect": ""})]).apply()


def test_a_defect_is_mended_in_all_of_its_places_or_in_none(module):
    """Half of a patch may do worse than the host; a place that needs none says so still, and others are patched."""
    original = module.greet
    patches = PatchSet(
        "1.0",
        [
            symbol_patch(module, defect="nobody is greeted"),
            symbol_patch(module, "gone", defect="nobody is greeted"),
            symbol_patch(module, "limit", defect="nobody is greeted", not_needed=lambda: "there is none"),
            symbol_patch(Engine, "chat", ("self", "messages"), defect="chats are quiet"),
        ],
    )
    patches.apply()
    try:
        assert module.greet is original
        assert Engine().chat("hi") == "CHAT HI"
        assert [str(state) for state in patches.states()] == [
            "not mended: expected 'seam of gone' to fit as well, found that it does not",
            "not mended: expected stand_in.server.gone(name), found no such name",
            "not needed: there is none",
            "taken",
        ]
    finally:
        patches.revert()


def test_what_the_plugin_needs_is_named_alone(module):
    """A defect that cannot be mended is not what keeps the server from starting."""
    patches = PatchSet("1.0", [symbol_patch(module, "gone"), symbol_patch(module, "lost", defect="x")])
    with pytest.raises(HostMismatch) as caught:
        patches.apply()
    assert [misfit.seam for misfit in caught.value.misfits] == ["seam of gone"]


def test_an_owner_can_be_named():
    """It is imported when it is looked at; the patch is the same as with the owner itself."""
    before = dict(vars(Engine))
    patches = PatchSet("1.0", [symbol_patch(f"{__name__}:Engine", "chat", ("self", "messages"))])
    patches.apply()
    assert Engine().chat("hi") == "CHAT HI"
    patches.revert()
    assert dict(vars(Engine)) == before
    (state,) = PatchSet("1.0", [symbol_patch(f"{__name__}:Engine", "talk", ("self",))]).states()
    assert state.expected == f"{__name__}.Engine.talk(self)"


def test_states_do_not_change_by_being_applied(module):
    """While applied, the states are those found before: a probe would otherwise meet the patch instead of the host."""
    patches = PatchSet(
        "1.0", [symbol_patch(module, not_needed=lambda: "already loud" if module.greet("x").isupper() else None)]
    )
    before = patches.states()
    patches.apply()
    assert patches.states() == before
    assert [str(state) for state in before] == ["taken"]


parameter_names = st.lists(st.sampled_from("abcdef"), unique=True)


@given(positional=parameter_names, extra=st.booleans())
def test_a_signature_is_accepted_by_its_own_names(positional, extra):
    """A function accepts its own parameters, with an optional one more, and not the same names in another order."""
    names = ", ".join(positional + (["extra=None"] if extra else []))
    signature = inspect.signature(eval(f"lambda {names}: None"))
    assert accepts(signature, positional)
    if len(positional) > 1:
        assert not accepts(signature, positional[::-1])
        assert not accepts(signature, positional[:-1])


def test_keyword_only_parameters_are_accepted_anywhere():
    """Keyword-only names may be listed in any place, and ``**kwargs`` alone does not count as accepting a name."""
    signature = inspect.signature(lambda engine, *, stream, model=None, **kwargs: None)
    assert accepts(signature, ("engine", "stream"))
    assert accepts(signature, ("stream", "model", "engine"))
    assert not accepts(signature, ("engine",))
    assert not accepts(signature, ("engine", "stream", "other"))


# --- Routes --------------------------------------------------------------------------------------------------------


@pytest.fixture
def app():
    host = FastAPI()

    @host.get("/health")
    async def health():
        return {"from": "host"}

    @host.post("/v1/responses")
    async def create_response():
        return {"from": "host"}

    @host.get("/v1/{anything:path}")
    async def anything(anything: str):
        return {"from": "host's last resort"}

    return host


async def ours(response_id: str = ""):
    """Answer in place of the host."""
    return {"from": "plugin", "id": response_id}


def route_patch(app, path="/v1/responses", method="POST", **more) -> RoutePatch:
    return RoutePatch(
        seam=f"{method} {path}", app=app, path=path, method=method, endpoint=ours, remove_when="never", **more
    )


def test_a_route_is_replaced_where_it_stands_and_restored(app):
    """The new route has the old one's index, is a plain APIRoute, and the old object comes back."""
    before = list(app.router.routes)
    client = TestClient(app)
    patches = PatchSet("1.0", [route_patch(app)])
    patches.apply()
    assert client.post("/v1/responses").json()["from"] == "plugin"
    index = next(i for i, route in enumerate(before) if route.path == "/v1/responses")
    assert len(app.router.routes) == len(before)
    assert type(app.router.routes[index]) is APIRoute
    assert app.router.routes[index].endpoint is ours
    patches.revert()
    assert client.post("/v1/responses").json() == {"from": "host"}
    assert all(now is then for now, then in zip(app.router.routes, before, strict=True))


def test_a_route_that_the_host_lacks_is_added_and_removed(app):
    """An added route is gone after reverting, whatever was added in between."""
    before = list(app.router.routes)
    patches = PatchSet("1.0", [route_patch(app, "/responses/{response_id}", "GET"), route_patch(app, "/x", "DELETE")])
    patches.apply()
    client = TestClient(app)
    assert client.get("/responses/resp_1").json() == {"from": "plugin", "id": "resp_1"}
    assert client.delete("/x").json()["from"] == "plugin"
    patches.revert()
    assert app.router.routes == before
    assert client.get("/responses/resp_1").status_code == 404


def test_a_path_parameter_of_another_name_is_the_same_route(app):
    """The host's ``/v1/things/{id}`` is replaced by our ``/v1/things/{response_id}``, not left to shadow it."""

    @app.get("/things/{id}")
    async def thing(id: str):
        return {"from": "host"}

    PatchSet("1.0", [route_patch(app, "/things/{response_id}", "GET")]).apply()
    assert TestClient(app).get("/things/1").json() == {"from": "plugin", "id": "1"}


def test_a_route_keeps_the_guards_it_is_given(app):
    """Dependencies run before the endpoint."""

    def refuse():
        raise HTTPException(401, "API key required")

    PatchSet("1.0", [route_patch(app, dependencies=[Depends(refuse)])]).apply()
    assert TestClient(app).post("/v1/responses").status_code == 401


def test_a_route_may_bring_its_own_class(app):
    """An endpoint that needs to see the raw request first gets its subclass of APIRoute."""

    class OwnRoute(APIRoute):
        pass

    patches = PatchSet("1.0", [route_patch(app, route_class=OwnRoute)])
    patches.apply()
    assert [type(route) for route in app.router.routes if route.path == "/v1/responses"] == [OwnRoute]


def test_the_description_of_the_app_follows(app):
    """/openapi.json describes our route while it is there, and the host's again afterwards."""
    host_schema = app.openapi()
    patches = PatchSet("1.0", [route_patch(app), route_patch(app, "/mine", "GET", openapi_extra={"x-mine": True})])
    patches.apply()
    assert app.openapi()["paths"]["/mine"]["get"]["x-mine"] is True
    assert app.openapi()["paths"]["/v1/responses"]["post"]["description"] == "Answer in place of the host."
    patches.revert()
    assert app.openapi() is host_schema


@pytest.mark.parametrize(
    ("methods", "found"),
    [(["GET", "POST"], "one for GET, POST"), (["POST"], "2 of them")],
)
def test_a_route_shared_or_doubled_does_not_fit(app, methods, found):
    """Replacing a route that also serves another method, or one of two, would change more than we say."""
    app.add_api_route("/v1/responses" if methods == ["POST"] else "/other", ours, methods=methods)
    before = list(app.router.routes)
    path = "/v1/responses" if methods == ["POST"] else "/other"
    with pytest.raises(HostMismatch, match=f"at most one route for POST {path}.*{found}"):
        PatchSet("1.0", [route_patch(app, "/new", "GET"), route_patch(app, path)]).apply()
    assert app.router.routes == before


def test_something_that_is_no_app_does_not_fit():
    """An ``app`` that is not FastAPI's is named, not tripped over."""
    (state,) = PatchSet("1.0", [route_patch(object())]).states()
    assert str(state) == "does not fit: expected a FastAPI app, found a object"


def test_a_route_that_is_gone_is_reported_when_we_restore(app, caplog):
    """Somebody who removed our route meanwhile is reported, and nothing else is lost."""
    patches = PatchSet("1.0", [route_patch(app)])
    patches.apply()
    app.router.routes[:] = [route for route in app.router.routes if route.path != "/v1/responses"]
    left = list(app.router.routes)
    with caplog.at_level(logging.WARNING):
        patches.revert()
    assert "POST /v1/responses was removed by someone else after us" in caplog.text
    assert app.router.routes == left
