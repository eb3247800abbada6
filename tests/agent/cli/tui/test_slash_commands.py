"""Commands of the interactive mode, executed on a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent import Agent
from agent.cli.tui.session import Session
from agent.cli.tui.slash_commands import run_command
from agent.testing import ScriptedModel
from agent_tools import read_only_tools


class _Screen:
    """A session, and what it prints."""

    def __init__(self, agent: Agent) -> None:
        self.session = Session(agent, "/", lambda: 80, lambda: None)
        self.copied: list[str] = []

    def run(self, name: str, argument: str = "") -> str:
        run_command(self.session, name, argument, self.copied.append)
        frame = self.session.frame(80, 20)
        assert frame is not None
        return frame.printed


@pytest.fixture
def screen() -> Iterator[_Screen]:
    model = ScriptedModel("An answer.")
    agent = Agent(model.model, stream_fn=model.stream, tools=read_only_tools("."))
    screen = _Screen(agent)
    yield screen
    screen.session.close()


@pytest.mark.parametrize(
    ("name", "argument", "printed"),
    [
        ("/model", "", "window"),
        ("/model", "nowhere/x", "unknown provider"),
        ("/thinking", "", "thinking: off of off"),
        ("/thinking", "hard", "no level 'hard'"),
        ("/tools", "", "grep"),
        ("/cost", "", "0 in, 0 out"),
        ("/copy", "", "no answer to copy"),
        ("/clear", "", "conversation cleared"),
        ("/help", "", "Alt+Enter"),
        ("/tree", "", "/tree: not yet"),
    ],
)
def test_a_command_prints_its_answer(screen: _Screen, name: str, argument: str, printed: str) -> None:
    assert printed in screen.run(name, argument)


def test_the_last_answer_is_copied(screen: _Screen) -> None:
    screen.session.agent.run("hi")
    assert "copied 10 characters" in screen.run("/copy")
    assert screen.copied == ["An answer."]


def test_clear_empties_the_conversation(screen: _Screen) -> None:
    screen.session.agent.run("hi")
    screen.run("/clear")
    assert list(screen.session.agent.state.messages) == []
    assert screen.session.last_answer() == ""
