"""The store in memory: chains, conversations, items by id, and what goes when it is full."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_plugin.protocol.items import Item, Message
from responses_plugin.store.base import StoredTurn
from responses_plugin.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

MANY = 1_000_000


def message(text: str, id: str | None = None, role: str = "user") -> Item:
    return Message.parse({"role": role, "content": text, "id": id}, "")


def turn(
    id: str,
    *,
    after: str | None = None,
    conversation: str | None = None,
    said: str = "hi",
    items: Sequence[Item] | None = None,
) -> StoredTurn:
    """A turn of one question and one answer."""
    return StoredTurn(
        response={"id": id, "output": []},
        input=[message(f"{said} {id}")] if items is None else items,
        output=[message(f"answer to {id}", f"msg_{id}", "assistant")],
        previous_response_id=after,
        conversation_id=conversation,
    )


def store_of(*turns: StoredTurn, entries: int = MANY, bytes: int = MANY) -> MemoryStore:
    store = MemoryStore(entries, bytes)
    for one in turns:
        store.save(one)
    return store


def texts(items: Sequence[Any]) -> list[str]:
    return [item.content for item in items]


# --- Turns -------------------------------------------------------------------------------------------------------


def test_a_turn_is_kept_until_it_is_deleted() -> None:
    """What was saved is found, once deleted it is not, and deleting tells whether there was something."""
    store = store_of(turn("a"))
    found = store.get("a")
    assert found is not None
    assert found.id == "a"
    assert store.delete("a")
    assert store.get("a") is None
    assert not store.delete("a")
    assert store.get("never") is None


def test_the_history_of_a_chain() -> None:
    """The items of all turns up to the one asked for, oldest first, questions and answers."""
    store = store_of(turn("a"), turn("b", after="a"), turn("c", after="b"), turn("other"))
    assert texts(store.history("b")) == ["hi a", "answer to a", "hi b", "answer to b"]
    assert texts(store.history("a")) == ["hi a", "answer to a"]


def test_a_chain_may_fork() -> None:
    """Two turns may continue the same one; neither sees the other."""
    store = store_of(turn("a"), turn("b", after="a"), turn("c", after="a"))
    assert texts(store.history("c")) == ["hi a", "answer to a", "hi c", "answer to c"]


@pytest.mark.parametrize("missing", ["a", "b", "c"])
def test_a_broken_chain_names_what_is_missing(missing: str) -> None:
    """History is whole or not at all."""
    store = store_of(turn("a"), turn("b", after="a"), turn("c", after="b"))
    store.delete(missing)
    with pytest.raises(KeyError) as raised:
        store.history("c")
    assert raised.value.args == (missing,)


# --- Conversations -----------------------------------------------------------------------------------------------


def test_a_conversation_holds_its_turns_in_order() -> None:
    """Whoever saved in between; one that has not begun is empty."""
    store = store_of(turn("a", conversation="x"), turn("b"), turn("c", conversation="x"), turn("d", conversation="y"))
    assert texts(store.conversation("x")) == ["hi a", "answer to a", "hi c", "answer to c"]
    assert texts(store.conversation("y")) == ["hi d", "answer to d"]
    assert store.conversation("z") == []


def test_a_conversation_that_lost_a_turn_is_not_shown_as_whole() -> None:
    """Making room takes the oldest turns; what is left of their conversation would be another conversation."""
    store = store_of(turn("a", conversation="x"), turn("b", conversation="x"), turn("c"), entries=2)
    assert store.get("b") is not None
    with pytest.raises(KeyError, match="x"):
        store.conversation("x")


def test_a_deleted_turn_leaves_its_conversation() -> None:
    """The rest of the conversation stays."""
    store = store_of(turn("a", conversation="x"), turn("b", conversation="x"))
    store.delete("a")
    assert texts(store.conversation("x")) == ["hi b", "answer to b"]
    store.delete("b")
    assert store.conversation("x") == []


# --- Items by id -------------------------------------------------------------------------------------------------


def test_items_are_found_by_id() -> None:
    """Input items that have an id and output items, as long as their turn is there."""
    store = store_of(turn("a", items=[message("q", "msg_q"), message("no id")]))
    found = [store.item("msg_q"), store.item("msg_a")]
    assert texts([item for item in found if item]) == ["q", "answer to a"]
    assert store.item("msg_b") is None
    store.delete("a")
    assert store.item("msg_q") is store.item("msg_a") is None


def test_an_item_that_was_replayed_is_found_as_long_as_one_turn_has_it() -> None:
    """Clients send whole histories: deleting one turn does not take the item from the others."""
    first = turn("a")
    store = store_of(first, turn("b", items=[*first.input, *first.output, message("next")]))
    store.delete("b")
    assert store.item("msg_a") is not None
    store.save(turn("c", items=first.output))
    store.delete("a")
    assert store.item("msg_a") is not None
    store.delete("c")
    assert store.item("msg_a") is None


def test_the_newest_of_two_items_of_one_id_is_meant() -> None:
    """Clients that make up ids may use one twice, in one request as well."""
    store = store_of(
        turn("a", items=[message("one", "msg_1"), message("two", "msg_1")]),
        turn("b", items=[message("three", "msg_1")]),
    )
    found = store.item("msg_1")
    assert isinstance(found, Message)
    assert found.content == "three"


# --- What goes when it is full -------------------------------------------------------------------------------------


def test_the_oldest_goes_first() -> None:
    """Over the limit of entries, the turn that was not used for longest is dropped, with its items."""
    store = store_of(*map(turn, "abcd"), entries=3)
    assert [store.get(id) is not None for id in "abcd"] == [False, True, True, True]
    assert store.item("msg_a") is None


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.get("a"),
        lambda store: store.history("a"),
        lambda store: store.item("msg_a"),
        lambda store: store.conversation("x"),
    ],
    ids=["get", "history", "item", "conversation"],
)
def test_whatever_is_used_is_recent(use: Any) -> None:
    """Each way to read a turn makes it the last to go."""
    store = store_of(turn("a", conversation="x"), turn("b"), turn("c"), entries=3)
    use(store)
    store.save(turn("d"))
    assert [store.get(id) is not None for id in "abcd"] == [True, False, True, True]


def test_an_active_chain_is_kept_whole() -> None:
    """A session that goes on keeps its beginning, however many others come and go."""
    store = store_of(turn("s0"), entries=6)
    for step in range(1, 5):
        for other in range(5 - step):
            store.save(turn(f"other {step} {other}"))
        store.history(f"s{step - 1}")
        store.save(turn(f"s{step}", after=f"s{step - 1}"))
    assert len(store.history("s4")) == 10


def test_the_limit_of_bytes() -> None:
    """Large turns push out as many old ones as it takes."""
    large = "x" * 10_000
    store = store_of(*(turn(id, said=large) for id in "abc"), bytes=50_000)
    assert all(store.get(id) for id in "abc")
    store.save(turn("d", said=large * 3))
    assert [store.get(id) is not None for id in "abcd"] == [False, False, True, True]


def test_images_count_with_all_their_bytes() -> None:
    """A session of screenshots must not fill the memory."""
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 20_000}
    item = Message.parse({"role": "user", "content": [image]}, "")
    store = store_of(turn("a", items=[item]), turn("b", items=[item]), turn("c", items=[item]), bytes=50_000)
    assert store.get("a") is None
    assert store.get("b") is not None


@pytest.mark.parametrize(("entries", "bytes"), [(1, MANY), (MANY, 10), (0, 0)])
def test_the_newest_turn_stays(entries: int, bytes: int) -> None:
    """Its id has just been given to the client, so it is there even if it alone is too much."""
    store = store_of(*map(turn, "ab"), entries=entries, bytes=bytes)
    assert store.get("a") is None
    assert store.get("b") is not None


steps = st.lists(
    st.tuples(st.sampled_from(["save", "delete", "history", "item", "conversation"]), st.integers(0, 9)), max_size=40
)


@given(steps, st.integers(1, 6))
def test_nothing_is_left_of_what_is_gone(steps: list[tuple[str, int]], entries: int) -> None:
    """After any use the indexes hold exactly the turns that are there, and an emptied store holds nothing."""
    store = MemoryStore(entries, MANY)
    saved: list[str] = []
    for number, (step, pick) in enumerate(steps):
        id = saved[pick % len(saved)] if saved else "none"
        if step == "save":
            new = f"r{number}"
            store.save(turn(new, after=id if pick > 4 and saved else None, conversation="x" if pick % 2 else None))
            saved.append(new)
        elif step == "delete":
            store.delete(id)
        elif step == "history":
            with suppress(KeyError):
                store.history(id)
        elif step == "item":
            assert (store.item(f"msg_{id}") is None) == (store.get(id) is None)
        else:
            with suppress(KeyError):
                store.conversation("x")
    there = set(store._turns)
    assert len(there) <= max(entries, 1)
    assert store._sizes.keys() == there
    assert store._bytes == sum(store._sizes.values())
    assert {holder for holders in store._items.values() for holder in holders} == there
    assert {id for ids in store._conversations.values() for id in ids} <= there
    for id in there:
        store.delete(id)
    assert store._bytes == 0
    assert (store._turns, store._sizes, store._items, store._conversations) == ({}, {}, {}, {})
