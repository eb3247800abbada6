"""Paths as people read them."""

from __future__ import annotations

import pytest

from agent.cli.display.paths import short_path


@pytest.mark.parametrize(
    ("path", "cwd", "short"),
    [
        ("/w/a/b", "/w/a", "b"),
        ("/w/a", "/w/a", "/w/a"),
        ("/w/ab", "/w/a", "/w/ab"),
        ("/w/a/b", "/w/a/", "b"),
        ("/etc/x", "/", "/etc/x"),
        ("/home/me/x", "", "~/x"),
        ("/home/me", "/w", "~"),
        ("/home/me2/x", "/w", "/home/me2/x"),
        ("", "/w", ""),
    ],
)
def test_a_path_is_relative_to_the_folder_or_the_home(
    path: str, cwd: str, short: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert short_path(path, cwd) == short


def test_a_home_of_root_shortens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert short_path("/etc/x") == "/etc/x"
