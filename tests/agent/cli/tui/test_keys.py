"""Which key calls which action."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import get_app, set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.layout import BufferControl, Layout, Window
from prompt_toolkit.output import DummyOutput

from agent.cli.tui.keys import key_bindings


class _Actions:
    """Records the actions; the states are set by the tests."""

    def __init__(self) -> None:
        self.buffer = Buffer(multiline=True)
        self.calls: list[str] = []
        self.is_busy = self.has_queued = False

    def submit(self, follow_up: bool = False) -> None:
        self.calls.append(f"submit {self.buffer.text!r}{' follow-up' if follow_up else ''}")

    def paste(self, text: str) -> None:
        self.calls.append(f"paste {text!r}")

    def newline(self) -> None:
        self.calls.append("newline")

    def escape(self) -> None:
        self.calls.append("escape")

    def interrupt(self) -> None:
        self.calls.append("interrupt")

    def end_of_input(self) -> None:
        self.calls.append("end_of_input")

    def take_back(self) -> None:
        self.calls.append("take_back")

    def next_thinking_level(self) -> None:
        self.calls.append("next_thinking_level")


@pytest.fixture
def actions() -> _Actions:
    return _Actions()


@pytest.fixture
def typed(actions: _Actions) -> Iterator[PipeInput]:
    with create_pipe_input() as source:
        app: Application[None] = Application(
            layout=Layout(Window(BufferControl(actions.buffer))),
            key_bindings=key_bindings(actions),
            input=source,
            output=DummyOutput(),
        )
        with set_app(app):
            yield source
            app.key_processor.reset()


def _press(actions: _Actions, source: PipeInput, text: str) -> list[str]:
    """The actions after these keys; asyncio is needed by the key processor."""

    async def press() -> None:
        processor = get_app().key_processor
        source.send_text(text)
        processor.feed_multiple(source.read_keys() + source.flush_keys())
        processor.process_keys()

    asyncio.run(press())
    return actions.calls


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("hi\r", ["submit 'hi'"]),
        ("\n", ["newline"]),
        ("\x03", ["interrupt"]),
        ("\x04", ["end_of_input"]),
        ("\x1b[Z", ["next_thinking_level"]),
        ("\x1b[1;3A", ["take_back"]),
        ("\x1b[200~pasted\x1b[201~", ["paste 'pasted'"]),
        ("y", []),
        ("\x1b[A", []),
    ],
    ids=["enter", "ctrl-j", "ctrl-c", "ctrl-d", "shift-tab", "alt-up", "paste", "letter", "up"],
)
def test_a_key_calls_its_action(actions: _Actions, typed: PipeInput, text: str, calls: list[str]) -> None:
    assert _press(actions, typed, text) == calls


def test_a_backslash_before_enter_is_a_new_line(actions: _Actions, typed: PipeInput) -> None:
    assert _press(actions, typed, "a\\\rb") == []
    assert actions.buffer.text == "a\nb"


@pytest.mark.parametrize(("busy", "calls"), [(True, ["submit 'a' follow-up"]), (False, [])])
def test_alt_enter_queues_a_follow_up_while_busy(
    actions: _Actions, typed: PipeInput, busy: bool, calls: list[str]
) -> None:
    actions.is_busy = busy
    assert _press(actions, typed, "a\x1b\r") == calls
    assert actions.buffer.text == ("a" if busy else "a\n")


def test_up_takes_a_queued_message_back_on_an_empty_line(actions: _Actions, typed: PipeInput) -> None:
    actions.has_queued = True
    assert _press(actions, typed, "\x1b[A") == ["take_back"]
