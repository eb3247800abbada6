"""The folder of the user's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.cli.setup.config_folder import config_folder


@pytest.mark.parametrize(
    ("base", "folder"),
    [
        ("/xdg", "/xdg/steady-agent"),
        ("", "/home/me/.config/steady-agent"),
        ("rel", "/home/me/.config/steady-agent"),
    ],
)
def test_it_is_below_the_configured_base(base: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert config_folder({"XDG_CONFIG_HOME": base}) == Path(folder)
