"""From options to an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.cli.options import RunOptions
from agent.cli.setup.open_agent import choose_tools, open_agent, retry_policy
from agent.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def _options(tmp_path: Path, **more: object) -> RunOptions:
    return RunOptions(cwd=str(tmp_path), model="local/x", base_url="http://127.0.0.1:9", **more)  # type: ignore[arg-type]


def test_the_agent_has_the_model_prompt_tools_and_limits_of_the_options(tmp_path: Path) -> None:
    options = _options(
        tmp_path, tools=["read"], max_turns=3, append_system_prompt="Be brief.", thinking="low"
    )
    with open_agent(options) as agent:
        assert agent.model is not None
        assert agent.model.base_url == "http://127.0.0.1:9"
        assert agent.system_prompt.endswith("Be brief.")
        assert [tool.name for tool in agent.state.tools or ()] == ["read"]
        assert agent.thinking_level == "low"


def test_context_files_are_notified_and_part_of_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    notes: list[str] = []
    with open_agent(_options(tmp_path), notify=notes.append) as agent:
        assert "Use tabs." in agent.system_prompt
    assert [note for note in notes if note.startswith("context:") and "AGENTS.md" in note]
    with open_agent(_options(tmp_path, context_files=False)) as agent:
        assert "Use tabs." not in agent.system_prompt


def test_tools_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    assert [tool.name for tool in choose_tools(str(tmp_path), ["grep", "read"])] == ["grep", "read"]
    assert choose_tools(str(tmp_path), []) == []
    with pytest.raises(ConfigurationError, match="no tool raed, no; there are read, bash"):
        choose_tools(str(tmp_path), ["raed", "no"])


def test_confined_tools_refuse_paths_outside(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "private").write_text("x")
    (read,) = choose_tools(str(tmp_path / "project"), ["read"], is_confined=True)
    assert read.run(path="../private").is_error


@pytest.mark.parametrize(("retries", "quick", "busy"), [(0, 0, 0), (3, 3, 0), (6, 4, 2), (12, 4, 8)])
def test_a_command_tries_a_busy_server_as_often_as_asked(retries: int, quick: int, busy: int) -> None:
    """N16"""
    policy = retry_policy(retries)
    assert (len(policy.request), len(policy.busy)) == (quick, busy)


def test_by_default_a_busy_server_is_tried_for_minutes() -> None:
    """N16"""
    policy = retry_policy(RunOptions().max_retries)
    assert 120 < sum(policy.request) + sum(policy.busy) < 600
