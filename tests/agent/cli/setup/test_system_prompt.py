"""The system prompt of the command."""

from __future__ import annotations

from agent.cli.setup.system_prompt import build_system_prompt


def test_it_is_the_same_for_the_same_folder_and_tools() -> None:
    first, second = (build_system_prompt("/w", ["read"], context_files=[("/w/A", "text")]) for _ in range(2))
    assert first == second
    assert "Working directory: /w" in first
    assert "Tools: read" in first


def test_its_parts_come_in_order_and_may_be_replaced() -> None:
    prompt = build_system_prompt(
        "/w", [], "BASE", "MORE", [("/a", "outer\n"), ("/w/b", "  "), ("/w/c", "inner")]
    )
    assert prompt.startswith("BASE\n")
    assert prompt.endswith("\n\nMORE")
    assert prompt.index("outer") < prompt.index("inner") < prompt.index("MORE")
    assert '<file path="/a">\nouter\n</file>' in prompt
    assert "/w/b" not in prompt
    assert "Tools:" not in prompt
