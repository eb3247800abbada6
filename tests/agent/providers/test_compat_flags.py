"""The flags of `Model.compat` replace those that are detected."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agent.errors import ConfigurationError
from agent.providers.compat_flags import with_overrides


@dataclass(frozen=True, slots=True)
class Flags:
    sends_names: bool = False
    tool_format: str = "new"


CHOICES = {"tool_format": ("new", "old")}


def changed(**compat: object) -> Flags:
    return with_overrides(Flags(), compat, "my-format", CHOICES)


def test_without_flags_the_detected_ones_are_used() -> None:
    detected = Flags(True)
    assert with_overrides(detected, None, "my-format", CHOICES) is detected
    assert with_overrides(detected, {}, "my-format", CHOICES) is detected


def test_a_flag_is_set_in_snake_case_or_camel_case() -> None:
    assert changed(sends_names=True) == Flags(True)
    assert changed(sendsNames=True, toolFormat="old") == Flags(True, "old")


def test_an_unknown_flag_names_similar_ones() -> None:
    with pytest.raises(ConfigurationError, match="'send_names' for my-format: did you mean sends_names"):
        changed(send_names=True)


def test_a_flag_that_resembles_none_lists_all() -> None:
    with pytest.raises(ConfigurationError, match="known flags: sends_names, tool_format"):
        changed(qqq=1)


def test_a_wrong_value_lists_the_right_ones() -> None:
    with pytest.raises(ConfigurationError, match="'toolFormat' must be one of 'new', 'old', got 'odd'"):
        changed(toolFormat="odd")
