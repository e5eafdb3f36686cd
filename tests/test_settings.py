"""The settings: what the command line carries, and what cannot be meant."""

from __future__ import annotations

from argparse import Namespace

import pytest

from responses_plugin.settings import Settings


def test_settings_come_from_a_command_line():
    """Each option's value reaches its field; the host's own options are not our business."""
    args = Namespace(
        model="m",
        responses_plugin=True,
        responses_keepalive_seconds=2.5,
        responses_max_stored_responses=7,
        responses_max_stored_bytes=0,
        responses_dialect="open-responses",
        responses_trace_hooks=True,
    )
    assert Settings.from_args(args) == Settings(
        keepalive_seconds=2.5, max_stored_responses=7, max_stored_bytes=0, dialect="open-responses", trace_hooks=True
    )


def test_an_option_that_is_missing_keeps_its_default():
    """A program that embeds the host need not know all of our options."""
    assert Settings.from_args(Namespace(responses_keepalive_seconds=None)) == Settings()


@pytest.mark.parametrize("name", ["keepalive_seconds", "max_stored_responses", "max_stored_bytes"])
def test_a_negative_number_is_refused(name):
    """A setting that cannot be meant is an error that names it."""
    with pytest.raises(ValueError, match=f"{name} cannot be negative, got -1"):
        Settings(**{name: -1})


def test_a_dialect_that_there_is_not_is_refused():
    """The message lists those that there are."""
    with pytest.raises(ValueError, match="dialect must be one of openai, open-responses, got 'klingon'"):
        Settings(dialect="klingon")
