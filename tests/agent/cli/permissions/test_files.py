"""The settings files: whatever has no meaning is an error that names file and key."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.command import arguments, environment, run_command

from agent.cli.permissions.files import load_settings, save_answer
from agent.errors import ConfigurationError


class Folders:
    """A project and a configuration folder."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.config = root / "config" / "steady-agent"
        self.project.mkdir()
        self.config.mkdir(parents=True)
        self.environ = {"XDG_CONFIG_HOME": str(root / "config")}

    def path(self, name: str) -> Path:
        return (self.project if name == ".steady-agent.toml" else self.config) / name

    def load(self) -> object:
        return load_settings(str(self.project), self.environ)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


SETTINGS = ("config.toml", ".steady-agent.toml")
ALL = (*SETTINGS, "approvals.toml")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[permission]\ndeny = ["bash(touch *)"]', 'no "permission"; did you mean permissions'),
        ('[Permissions]\ndeny = ["bash(touch *)"]', 'no "Permissions"; did you mean permissions'),
        ('deny = ["bash(touch *)"]', r'no "deny"; deny belongs into the table \[permissions\]'),
        ('[[deny]]\nrule = "bash"', 'no "deny"'),
        ("[model]\nname = 1", 'no "model"'),
        ("[permissions]\ndenied = []", 'no "denied"; did you mean deny'),
        ('[permissions]\n"\\u001b]52;c;x" = 1', r"no .\\u001b\]52"),
        ("[permissions.deny]\nx = 1", "list of texts"),
        ("permissions = []", "must be a table"),
        ("[[permissions]]\n", "must be a table"),
        ("[permissions]\nallow = 5", "list of texts"),
        ('[permissions]\nallow = [["bash"]]', "list of texts"),
        ("[permissions]\napprove = true", "auto, edits, ask, deny"),
        ('[permissions]\napprove = "Ask"', "auto, edits, ask, deny"),
        ('[permissions]\ndeny = ["bash(rm:*)"]', "can't be used: write rm *"),
        ('[permissions]\ndeny = ["bash(if *)"]', "can't be used"),
        ('[permissions]\ndeny = ["*($HOME/.ssh/**)"]', "can't be used: variables"),
        ('[permissions]\ndeny = ["plan(x)"]', "can't be used: plan uses no path"),
        ('[permissions]\ndeny = ["bsh(rm *)"]', "did you mean bash"),
        ('[permissions]\ndeny = ["edt"]', "did you mean edit"),
        ("\ufeff[permissions]", "not valid TOML"),
        ("x = " + "[" * 5000, "nested too deeply|not valid TOML"),
        ("x = " + "{a=" * 5000, "nested too deeply|not valid TOML"),
        ("#" * 65_537, "larger than 64 kB"),
        ("a = 1\na = 2", "not valid TOML"),
    ],
    ids=lambda value: value[:40],
)
def test_what_has_no_meaning_is_an_error_that_names_the_file(
    folders: Folders, name: str, text: str, message: str
) -> None:
    folders.path(name).write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match=message) as raised:
        folders.load()
    assert str(folders.path(name)) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("allow = 5", "allow must be a list"),
        ("[allow]\nproject = 'x'", "allow must be a list"),
        ("[[deny]]\nproject = '/'\nrule = 'bash'", 'no "deny"'),
        ("[[allow]]\nproject = '/'\nrule = 'bash'\nfolder = 'x'", r'\[\[allow\]\] has no "folder"'),
        ("[[allow]]\nproject = '/'", "needs a project and a rule"),
        ("allow = [1]", "needs a project and a rule"),
        ("[permissions]\nallow = []", 'no "permissions"'),
    ],
)
def test_stored_answers_are_checked_too(folders: Folders, text: str, message: str) -> None:
    folders.path("approvals.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        folders.load()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "kind", ["folder", "pipe", "dangling link", "link to a device", "link loop", "not UTF-8"]
)
def test_what_is_no_readable_file_is_an_error(folders: Folders, name: str, kind: str) -> None:
    path = folders.path(name)
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "dangling link":
            path.symlink_to("nowhere")
        case "link to a device":
            path.symlink_to("/dev/zero")
        case "link loop":
            path.symlink_to(path.name)
        case "not UTF-8":
            path.write_bytes(b"# \xff\n")
    with pytest.raises(ConfigurationError) as raised:
        folders.load()
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("entry", ["", ".", "work", "./x", "~nobody-of-that-name/x"])
def test_an_entry_of_trust_must_be_absolute(folders: Folders, entry: str) -> None:
    folders.path("config.toml").write_text(f'[permissions]\ntrust = ["{entry}"]')
    with pytest.raises(ConfigurationError, match="trust"):
        folders.load()


def test_a_file_of_nested_names_takes_no_time_to_refuse(folders: Folders) -> None:
    folders.path(".steady-agent.toml").write_text("a." * 200_000 + "a = 1")
    started = time.process_time()
    with pytest.raises(ConfigurationError):
        folders.load()
    assert time.process_time() - started < 2.0


def test_a_stored_command_holds_in_its_folder_and_a_stored_path_below_it(folders: Folders) -> None:
    (folders.project / "sub").mkdir()
    save_answer(str(folders.project), ["bash(make)", "edit(./a.py)"], folders.environ)
    below = load_settings(str(folders.project / "sub"), folders.environ)
    assert [rule.text for rule in below.rules] == ["edit(./a.py)"]
    here = load_settings(str(folders.project), folders.environ)
    assert [rule.text for rule in here.rules] == ["bash(make)", "edit(./a.py)"]


@pytest.mark.parametrize(
    "text", ['[permission]\ndeny = ["bash"]', "x = " + "[" * 5000, "[permissions]\ntrust = 1"]
)
def test_the_command_ends_with_code_2_and_one_line(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config" / "steady-agent"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(text)
    env = environment(XDG_CONFIG_HOME=str(tmp_path / "config"))
    ended = run_command(arguments("http://127.0.0.1:9", "--cwd", str(tmp_path), "-p", "x"), env=env)
    assert ended.returncode == 2
    assert str(config / "config.toml") in ended.stderr
    assert "Traceback" not in ended.stderr
