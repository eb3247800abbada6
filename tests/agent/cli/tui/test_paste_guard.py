"""Pastes with and without their marks, in reads of every size."""

from __future__ import annotations

import pytest
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from agent.cli.tui.paste_guard import PasteGuard

START, END = "\x1b[200~", "\x1b[201~"
Keyed = list[tuple[str, str]]


@pytest.fixture
def keys() -> Keyed:
    return []


@pytest.fixture
def guard(keys: Keyed) -> PasteGuard:
    def add(press: KeyPress) -> None:
        keys.append((str(getattr(press.key, "value", press.key)), press.data))

    return PasteGuard(Vt100Parser(add))


PASTE, CTRL_C, ESCAPE = Keys.BracketedPaste.value, Keys.ControlC.value, Keys.Escape.value


def _typed(text: str) -> Keyed:
    return [(character, character) for character in text]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize("text", ["abc", "a\nb\x1b[31mc", "x" * 50, "\x1b", "a\x03b"])
def test_a_whole_paste_arrives_as_it_is(guard: PasteGuard, keys: Keyed, text: str, size: int) -> None:
    if "\x03" in text and size == 1:
        pytest.skip("alone, that is a key")
    stream = f"a{START}{text}{END}b"
    for place in range(0, len(stream), size):
        guard.feed(stream[place : place + size])
    assert keys == [*_typed("a"), (PASTE, text), *_typed("b")]


def test_ctrl_c_ends_a_paste_and_is_pressed(guard: PasteGuard, keys: Keyed) -> None:
    """Z20"""
    for data in (f"{START}abc", "\x03", "hello"):
        guard.feed(data)
    assert keys == [(PASTE, "abc"), (CTRL_C, "\x03"), *_typed("hello")]


def test_esc_ends_a_paste_when_nothing_follows(guard: PasteGuard, keys: Keyed) -> None:
    guard.feed(f"{START}abc")
    guard.feed("\x1b")
    assert keys == []  # it may be the beginning of the end mark
    guard.flush()
    guard.feed("hello")
    assert keys == [(PASTE, "abc"), *_typed("hello")]


def test_a_start_mark_in_two_reads_is_seen(guard: PasteGuard, keys: Keyed) -> None:
    for data in (START[:3], f"{START[3:]}abc", "\x03"):
        guard.feed(data)
    assert keys == [(PASTE, "abc"), (CTRL_C, "\x03")]


def test_outside_a_paste_keys_are_as_ever(guard: PasteGuard, keys: Keyed) -> None:
    guard.feed(f"{START}a{END}")
    guard.feed("\x03")
    guard.feed("\x1b")
    guard.flush()
    assert keys == [(PASTE, "a"), (CTRL_C, "\x03"), (ESCAPE, "\x1b")]
