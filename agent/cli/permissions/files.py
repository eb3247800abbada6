"""Reads the permission settings from files, and appends the answers "always" to `approvals.toml`.

The settings are the table `[permissions]` of `config.toml` in the user's configuration folder and of
`.steady-agent.toml` in the project. A project can come from anywhere, so its file may deny and ask more, but
allows nothing unless the user trusts its folder. `approvals.toml` is in the folder of `config.toml`.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.cli.options import ApprovalMode
from agent.cli.permissions.rules import VERDICTS, Rule, parse_rule, runs_commands
from agent.cli.setup.config_folder import config_folder
from agent.cli.setup.toml_file import read_toml
from agent.errors import ConfigurationError

Mode = ApprovalMode
MODES: tuple[Mode, ...] = ("auto", "edits", "ask", "deny")  # from the most permissive on

PROJECT_FILE = ".steady-agent.toml"
USER_FILE = "config.toml"
ANSWERS_FILE = "approvals.toml"
_KEYS = ("approve", "trust", *VERDICTS)
_ANSWER_KEYS = ("project", "rule")
_MAX_ANSWERS_BYTES = 1_000_000  # some thousands of answers
_ANSWERS_HEADER = """\
# Written by agent: one entry for each answer "always". Delete an entry to be asked again.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """The contents of the settings files.

    `mode` is the user's choice, if any; `at_least` the minimum that an untrusted project asks for.
    `notes` are lines to show to the user.
    """

    rules: tuple[Rule, ...] = ()
    mode: Mode | None = None
    at_least: Mode = "auto"
    notes: tuple[str, ...] = ()


def load_settings(cwd: str, environ: Mapping[str, str]) -> Settings:
    """Load the settings for a working folder; raises ConfigurationError for an invalid file."""
    folder = config_folder(environ)
    user = _table(folder / USER_FILE)
    rules = _rules(user, base=cwd, is_project=False, source=str(folder / USER_FILE))
    mode = _mode(user, folder / USER_FILE)
    rules += _answers(folder / ANSWERS_FILE, cwd)
    trusted = _trusted_folders(user, folder / USER_FILE)
    project = _project_file(cwd)
    at_least: Mode = "auto"
    notes: list[str] = []
    if project is not None:
        is_trusted = _is_trusted(project.parent, trusted)
        project_rules, project_mode = _load_project(project)
        if is_trusted:
            mode = project_mode or mode
        else:
            at_least = project_mode or "auto"
            kept = [rule for rule in project_rules if rule.verdict != "allow"]
            notes = [_untrusted_note(project, folder)] if len(kept) < len(project_rules) else []
            project_rules = kept
        rules += project_rules
    return Settings(tuple(rules), mode, at_least, tuple(notes))


def save_answer(cwd: str, rules: Sequence[str], environ: Mapping[str, str]) -> Path:
    """Append rules that allow calls in this project, and return the file. Raises OSError or ValueError.

    The entries are appended in one write, so two processes can do so at the same time.
    """
    path = config_folder(environ) / ANSWERS_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    project = os.path.realpath(cwd)
    entries = "".join(
        f"\n[[allow]]\nproject = {_string(project)}\nrule = {_string(rule)}\n" for rule in rules
    )
    is_new = not path.exists()
    with open(path, "ab", buffering=0) as file:
        file.write(((_ANSWERS_HEADER if is_new else "") + entries).encode())
    return path


def _table(path: Path) -> dict[str, object]:
    content = read_toml(path)
    _check_keys(path, "the file", content, ("permissions",))
    permissions = content.get("permissions", {})
    if not isinstance(permissions, dict):
        raise ConfigurationError(f"{path}: [permissions] must be a table")
    _check_keys(path, "[permissions]", permissions, _KEYS)
    return permissions


def _check_keys(path: Path, where: str, table: Mapping[str, object], known: Sequence[str]) -> None:
    """Refuse keys that have no meaning: a rule under a misspelt one would have no effect."""
    unknown = sorted(set(table) - set(known))
    if not unknown:
        return
    names = ", ".join(json.dumps(key[:100]) for key in unknown[:5])
    key = unknown[0].lower()
    close = difflib.get_close_matches(key[:100], (*known, *_KEYS), n=1)
    if close and close[0] in known:
        hint = f"did you mean {close[0]}?"
    elif close:
        hint = f"{close[0]} belongs into the table [permissions]"
    else:
        hint = f"known: {', '.join(sorted(known))}"
    raise ConfigurationError(f"{path}: {where} has no {names}; {hint}")


def _rules(table: Mapping[str, object], *, base: str, is_project: bool, source: str) -> list[Rule]:
    return [
        parse_rule(verdict, text, base=base, is_project=is_project, source=source)
        for verdict in VERDICTS
        for text in _strings(table, verdict, source)
    ]


def _strings(table: Mapping[str, object], key: str, source: object) -> list[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigurationError(f"{source}: {key} must be a list of texts")
    return value


def _mode(table: Mapping[str, object], source: object) -> Mode | None:
    mode = table.get("approve")
    if mode is not None and mode not in MODES:
        raise ConfigurationError(f"{source}: approve must be one of {', '.join(MODES)}, not {mode!r}")
    return mode


def _project_file(cwd: str) -> Path | None:
    """The nearest project file, from the working folder up to the top of its repository."""
    folder = Path(os.path.abspath(cwd))
    for parent in (folder, *folder.parents):
        if os.path.lexists(parent / PROJECT_FILE):
            return parent / PROJECT_FILE
        if (parent / ".git").exists():
            break
    return None


def _load_project(path: Path) -> tuple[list[Rule], Mode | None]:
    table = _table(path)
    if "trust" in table:
        raise ConfigurationError(f"{path}: a project can't trust itself; trust belongs into {USER_FILE}")
    return _rules(table, base=str(path.parent), is_project=True, source=str(path)), _mode(table, path)


def _untrusted_note(path: Path, folder: Path) -> str:
    return (
        f"the allow rules of {path} have no effect until you trust the project: "
        f"trust = [{json.dumps(str(path.parent))}] under [permissions] in {folder / USER_FILE}"
    )


def _trusted_folders(table: Mapping[str, object], source: Path) -> list[str]:
    """The entries of `trust`; one that is not absolute would depend on the folder the command starts in."""
    folders = [os.path.expanduser(entry) for entry in _strings(table, "trust", source)]
    for folder in folders:
        if not os.path.isabs(folder) or "\0" in folder:
            raise ConfigurationError(
                f"{source}: trust: {folder!r} is not an absolute path; write /... or ~/..."
            )
    return folders


def _is_trusted(folder: Path, trusted: Sequence[str]) -> bool:
    real = Path(os.path.realpath(folder))
    return any(real.is_relative_to(os.path.realpath(place)) for place in trusted)


def _answers(path: Path, cwd: str) -> list[Rule]:
    """The stored answers for this project and for the folders that contain it."""
    content = read_toml(path, max_bytes=_MAX_ANSWERS_BYTES)
    _check_keys(path, "the file", content, ("allow",))
    entries = content.get("allow", [])
    if not isinstance(entries, list):
        raise ConfigurationError(f"{path}: allow must be a list of tables [[allow]]")
    here = Path(os.path.realpath(cwd))
    rules = []
    for entry in entries:
        project, text = (entry.get(key) if isinstance(entry, dict) else None for key in _ANSWER_KEYS)
        if not isinstance(project, str) or not isinstance(text, str):
            raise ConfigurationError(f"{path}: each [[allow]] needs a project and a rule")
        _check_keys(path, "[[allow]]", entry, _ANSWER_KEYS)
        if not here.is_relative_to(project):
            continue
        rule = parse_rule("allow", text, base=project, is_project=True, source=str(path))
        # A command was approved for the folder it ran in, not for the folders below.
        if here == Path(project) or not runs_commands(rule.tool):
            rules.append(rule)
    return rules


def _string(text: str) -> str:
    """The text as a TOML string; raises ValueError for text that is not valid Unicode."""
    text.encode("utf-8")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
