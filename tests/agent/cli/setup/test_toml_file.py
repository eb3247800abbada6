"""Settings files of every kind, from missing to hostile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command import arguments, environment, run_command

from agent.cli.setup.toml_file import read_toml
from agent.errors import ConfigurationError


def test_a_table_is_read_and_a_missing_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[permissions]\nallow = ['ls']\n")
    assert read_toml(tmp_path / "a.toml") == {"permissions": {"allow": ["ls"]}}
    assert read_toml(tmp_path / "no" / "b.toml") == {}
    assert read_toml(tmp_path / "a.toml" / "c.toml") == {}


def _content(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


HOSTILE = {
    "not TOML": (_content(b"= 1"), "not valid TOML"),
    "not text": (_content(b"\xff\xfe\x00"), "not valid TOML"),
    "arrays nested 5,000 deep": (_content(b"a = " + b"[" * 5000 + b"]" * 5000), "nested too deeply"),
    "tables nested 5,000 deep": (_content(b"a = " + b"{a=" * 5000 + b"1" + b"}" * 5000), "nested too deeply"),
    "large": (_content(b"a.a.a." * 100_000 + b"a = 1"), "larger than 64 kB"),
    "a folder": (lambda path: path.mkdir(), "can't be read|not a regular file"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "does not exist"),
    "a link to itself": (lambda path: path.symlink_to(path), "can't be read"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
}
if hasattr(os, "mkfifo"):
    HOSTILE["a pipe"] = (lambda path: os.mkfifo(path), "not a regular file")


@pytest.mark.parametrize(("make", "reason"), HOSTILE.values(), ids=list(HOSTILE))
def test_a_file_that_is_no_settings_file_is_an_error_with_its_name(
    tmp_path: Path, make: Callable[[Path], object], reason: str
) -> None:
    """FR-19"""
    path = tmp_path / "config.toml"
    make(path)
    with pytest.raises(ConfigurationError, match=reason) as raised:
        read_toml(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("kind", ["a pipe", "arrays nested 5,000 deep", "a dangling link"])
@pytest.mark.parametrize("name", ["project/.steady-agent.toml", "config/steady-agent/config.toml"])
def test_the_command_ends_with_2(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / "project").mkdir(exist_ok=True)
    HOSTILE[kind][0](tmp_path / name)
    env = environment(XDG_CONFIG_HOME=str(tmp_path / "config"))
    command = arguments("http://127.0.0.1:9", "--cwd", str(tmp_path / "project"), "-p", "hi")
    ended = run_command(command, env=env)
    assert ended.returncode == 2
    assert name in ended.stderr
    assert ended.stderr.count("\n") == 1
