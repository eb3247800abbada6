"""Completion of commands, their arguments and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agent.cli.tui.completion import PromptCompleter


def _completions(cwd: Path, line: str) -> list[str]:
    found = PromptCompleter(str(cwd)).get_completions(Document(line), CompleteEvent())
    return [completion.text for completion in found]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/mo", ["/model"]),
        ("/thinking hi", ["xhigh", "high"]),
        ("/model claude-haiku-4", ["anthropic/claude-haiku-4-5"]),
        ("/tools x", []),
        ("hello", []),
        ("a\n/mo", []),
    ],
)
def test_commands_and_their_arguments_are_completed(tmp_path: Path, line: str, expected: list[str]) -> None:
    completions = _completions(tmp_path, line)
    assert [text for text in completions if text in expected] == sorted(expected, key=completions.index)
    assert bool(completions) == bool(expected)


def test_files_are_completed_with_the_best_matches_first(tmp_path: Path) -> None:
    for name in ("src/network.py", "net.py", "docs/internet.md", "with space.net"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    expected = ["@net.py", "@src/network.py", '@"with space.net"', "@docs/internet.md"]
    assert _completions(tmp_path, "see @net") == expected


def test_ignored_files_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("secret.txt\n")
    (tmp_path / "secret.txt").touch()
    assert _completions(tmp_path, "@secret") == []


def test_a_folder_that_is_gone_completes_nothing(tmp_path: Path) -> None:
    assert _completions(tmp_path / "gone", "@x") == []
