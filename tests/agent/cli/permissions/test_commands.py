"""A corpus of commands under rules: `commands.txt` says what must happen to each."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.cli.permissions.files import MODES, Mode, Settings
from agent.cli.permissions.gate import NO, Answer, Permissions, Question
from agent.cli.permissions.rules import parse_rule
from agent.cli.permissions.shell_lexer import parse_script, without_markers
from agent.hook_types import ToolCallInfo

_VERDICTS = ("allow", "ask", "deny")


@dataclass(frozen=True)
class Case:
    """One line of the corpus."""

    section: str
    mode: Mode
    rules: tuple[tuple[str, str], ...]
    command: str
    verdict: str


def _read_corpus() -> list[Case]:
    cases: list[Case] = []
    section, mode, rules, in_commands = "", "auto", list[tuple[str, str]](), False
    for line in (Path(__file__).parent / "commands.txt").read_text("utf-8").split("\n"):
        head, _, rest = line.partition(" ")
        if head == "==":
            section, rules, in_commands = rest, [], False
        elif head == "mode":
            mode = rest
        elif head == "--":
            in_commands = True
        elif head in _VERDICTS and in_commands:
            command = rest.replace("⏎", "\n")
            cases.append(Case(section, mode, tuple(rules), command, head))  # type: ignore[arg-type]
        elif head.endswith("-path"):
            rules.append((head.removesuffix("-path"), f"*({rest})"))
        elif head in _VERDICTS:
            rules.append((head, rest if rest == "bash" else f"bash({rest})"))
        else:
            assert not line or head == "#", line
    return cases


CASES = _read_corpus()


def _verdict(case: Case, folder: Path, mode: Mode | None = None) -> str:
    asked: list[Question] = []

    def ask(question: Question) -> Answer:
        asked.append(question)
        return NO

    rules = tuple(
        parse_rule(verdict, text, base=str(folder), is_project=False, source="test")  # type: ignore[arg-type]
        for verdict, text in case.rules
    )
    permissions = Permissions(Settings(rules, mode or case.mode), str(folder), {}, ask=ask)
    decision = permissions.before_tool(ToolCallInfo("c", "bash", {"command": case.command}))
    return "ask" if asked else "allow" if decision is None else "deny"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "sub").mkdir()
    return folder


def test_the_corpus_has_hundreds_of_commands() -> None:
    assert len({case.command for case in CASES}) >= 300


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.section}: {case.command}")
def test_each_command_gets_its_verdict(case: Case, folder: Path) -> None:
    assert _verdict(case, folder) == case.verdict


@pytest.mark.parametrize("mode", MODES)
def test_the_corpus_holds_in_every_mode(mode: Mode, folder: Path) -> None:
    for case in CASES:
        expected = {case.verdict}
        if mode == "deny" and case.verdict == "ask":
            expected = {"deny"}  # it asks nothing
        elif mode != case.mode and "auto" in (mode, case.mode):  # differs only where no rule applies
            if mode == "auto" and case.verdict == "ask":
                expected = {"ask", "allow"}
            elif mode != "auto" and case.verdict == "allow":
                expected = {"allow", "deny" if mode == "deny" else "ask"}
        assert _verdict(case, folder, mode) in expected, case


# Reports each command that bash does not find with its words, so that nothing runs.
_REPORT = "command_not_found_handle() { printf '%s\\0' \"$1\"; }; PATH=/nowhere; cd sub; cd ..\n"


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.verdict == "allow" and case.mode == "ask" and case.rules[0][1] != "bash"],
    ids=lambda case: case.command,
)
def test_bash_runs_only_the_commands_that_were_allowed(case: Case, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("x\n")
    ended = subprocess.run(
        ["bash", "-c", _REPORT + case.command],
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=20,
        check=False,
    )
    names = {without_markers(command.words[0]) for command in parse_script(case.command).commands}
    ran = {name for name in ended.stdout.decode().split("\0")[:-1] if "\n" not in name}
    assert ran <= names
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "sub"]
