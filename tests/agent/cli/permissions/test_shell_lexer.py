"""A shell command taken apart: what is note for certain, what is refused, and that bash runs nothing else."""

from __future__ import annotations

import subprocess
import tempfile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.cli.permissions.shell_lexer import Unparsable, effective_commands, split_commands, split_pattern


@pytest.mark.parametrize(
    ("command", "commands"),
    [
        ("git status", [["git", "status"]]),
        ("a; b && c || d | e |& f & g\nh", [[word] for word in "abcdefgh"]),
        ("echo 'a;b' \"c && d\" e\\;f", [["echo", "a;b", "c && d", "e;f"]]),
        ("git sta\\\ntus", [["git", "status"]]),
        ("echo ''", [["echo", ""]]),
        ('echo $HOME ${HOME} $? "$x y"', [["echo", "$HOME", "${HOME}", "$?", "$x y"]]),
        ("make 2>&1 | tail -5", [["make"], ["tail", "-5"]]),
        ("make >/dev/null 2>&1", [["make"]]),
        ("make &>/dev/null; b", [["make"], ["b"]]),
        ("A=1 git status", [["A=1", "git", "status"]]),
        ("ls *.py", [["ls", "*.py"]]),
        ("find . -name '*.py' -exec cat {} +", [["find", ".", "-name", "*.py", "-exec", "cat", "{}", "+"]]),
        ("echo a#b", [["echo", "a#b"]]),
        ("'if' x", [["if", "x"]]),
        ("", []),
    ],
)
def test_a_plain_command_is_split_into_words(command: str, commands: list[list[str]]) -> None:
    assert split_commands(command) == commands


@pytest.mark.parametrize(
    "command",
    [
        "echo $(rm x)",
        'echo "$(rm x)"',
        "echo `rm x`",
        'echo "`rm x`"',
        "echo ${x:-$(rm x)}",
        "echo ${x@P}",
        "echo $((1))",
        "echo $[1]",
        "cat <(rm x)",
        "(rm x)",
        "f() { rm x; }",
        "{ rm x; }",
        "if true; then rm x; fi",
        "for f in a; do rm $f; done",
        "! git status",
        "git diff > ~/.bashrc",
        "git diff >> x",
        "git diff &> x",
        "git diff >& x",
        "git diff >| x",
        "git diff > /dev/nullx",
        "git diff >&12",
        "cat < x",
        "cat <<EOF\nEOF",
        "git status # it's\nrm x #'",
        "echo $'\\''; rm x; echo '",
        'echo $"x"',
        "$x y",
        "{rm,x}",
        "/bin/r? x",
        "git {push,x}",
        "echo 'open",
        'echo "open',
        "echo \\",
        "printf -v 'a[$(rm x)]' y",
        "echo \0",
    ],
)
def test_what_bash_expands_or_evaluates_is_refused(command: str) -> None:
    with pytest.raises(Unparsable):
        split_commands(command)


def test_a_pattern_is_one_command() -> None:
    assert split_pattern("git diff *") == ["git", "diff", "\x01"]
    assert split_pattern("git add '*'") == ["git", "add", "*"]
    with pytest.raises(Unparsable):
        split_pattern("git status; rm *")


def test_commands_behind_wrappers_and_assignments_are_found() -> None:
    assert ["rm", "x"] in list(effective_commands(["A=1", "/bin/rm", "x"]))
    assert ["rm", "x"] in list(effective_commands(["sudo", "-u", "root", "/bin/rm", "x"]))
    assert ["rm", "x"] not in list(effective_commands(["echo", "rm", "x"]))


# Reports each command that bash does not find with its words, so that nothing runs.
_REPORT_HANDLER = "command_not_found_handle() { printf '%s\\0' \"$@\" $'\\1'; }; PATH=/nowhere; unset IFS\n"


def _run_by_bash(command: str) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            ["bash", "-c", _REPORT_HANDLER + command],
            cwd=folder,
            env={"HOME": "~"},  # so that a tilde stays one
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
    note = ended.stdout.decode("utf-8", "replace").split("\1\0")
    return [run.split("\0")[:-1] for run in note if run]


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab ab ;&|\n\t'\"\\#<>(){}*[]!=-~2/", max_size=12))
@example("a #'\nb #'")
@example("a 'b\\'; b")
@example("a\\\n;b")
@example("a 2>&1;b")
@example("a\\2>&1 b")
def test_bash_runs_only_the_split_commands(command: str) -> None:
    try:
        commands = split_commands(command)
    except Unparsable:
        return
    known = [reading for words in commands for reading in effective_commands(words)]
    for words in _run_by_bash(command):
        assert words in known, f"{command!r}: bash runs {words}, we saw {commands}"
