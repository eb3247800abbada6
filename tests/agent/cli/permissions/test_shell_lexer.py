"""Splitting shell commands: accepted and refused ones, and comparisons with bash itself."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.rounds import rounds

from agent.cli.permissions.shell_lexer import (
    Command,
    Unparsable,
    fragments,
    parse_pattern,
    parse_script,
    without_markers,
)

# A multiplier for the number of random commands; 1 takes a few seconds.
BASH = shutil.which("bash") or "bash"


def _words(command: str) -> list[list[str]]:
    """The commands of a text, each with its assignments and words as plain text."""
    return [
        [without_markers(word) for word in (*command.assignments, *command.words)]
        for command in parse_script(command).commands
    ]


@pytest.mark.parametrize(
    ("command", "commands"),
    [
        ("git status", [["git", "status"]]),
        ("a; b && c || d | e |& f & g\nh", [[word] for word in "abcdefgh"]),
        ("echo 'a;b' \"c && d\" e\\;f", [["echo", "a;b", "c && d", "e;f"]]),
        ("git sta\\\ntus", [["git", "status"]]),
        ("echo ''", [["echo", ""]]),
        ('echo $HOME ${HOME} $? "$x y"', [["echo", "${HOME}", "${HOME}", "${?}", "${x} y"]]),
        ("make 2>&1 | tail -5", [["make"], ["tail", "-5"]]),
        ("make >/dev/null 2>&1", [["make"]]),
        ("make &>/dev/null; b", [["make"], ["b"]]),
        ("A=1 git status", [["A=1", "git", "status"]]),
        ("ls *.py", [["ls", "*.py"]]),
        ("find . -name '*.py' -exec cat {} +", [["find", ".", "-name", "*.py", "-exec", "cat", "{}", "+"]]),
        ("echo a#b", [["echo", "a#b"]]),
        ("'if' x", [["if", "x"]]),
        ("", []),
        ("(a; b) && { c; } | d", [["a"], ["b"], ["c"], ["d"]]),
        ("! a; time -p b", [["a"], ["b"]]),
        ("git status # it's\nrm x #'", [["git", "status"], ["rm", "x"]]),
        ("wc < 'a b' 2>/dev/null", [["wc"]]),
        ("git show stash@{0} HEAD^{commit}", [["git", "show", "stash@{0}", "HEAD^{commit}"]]),
        ("echo '\\\n' \"\\\n\" \\\\", [["echo", "\\\n", "", "\\"]]),
        ("[ -f x ] && make", [["[", "-f", "x", "]"], ["make"]]),
        ("make 2&>/dev/null", [["make", "2"]]),
    ],
)
def test_a_plain_command_is_split_into_words(command: str, commands: list[list[str]]) -> None:
    assert _words(command) == commands


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
        "f() { rm x; }",
        "if true; then rm x; fi",
        "for f in a; do rm $f; done",
        "git diff > ~/.bashrc",
        "git diff >> x",
        "git diff &> x",
        "git diff >& x",
        "git diff >| x",
        "git diff > /dev/nullx",
        "git diff >&12",
        "cat <<EOF\nEOF",
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
        'echo "A$\\\n(rm x)"',
        "echo $\\\n(rm x)",
        "((1+1))",
        "(\\\n(1+1))",
        "a | time b",
        "{PATH}>/dev/null",
        "a 9999>/dev/null",
        "echo a{},b}",
        "cat < $x",
        "cat < /dev/tcp/h/1",
        "< x {",
        "(a",
        "a)",
        "(a) b",
        "{ a; } b",
        "}",
    ],
)
def test_what_bash_expands_or_evaluates_is_refused(command: str) -> None:
    with pytest.raises(Unparsable):
        parse_script(command)


def test_quoted_and_expanded_characters_are_different_words() -> None:
    def words(text: str) -> tuple[str, ...]:
        return parse_script(text).commands[0].words

    for quoted, expanded in (
        ("'*'", "*"),
        ("'~'", "~"),
        ("'$x'", "$x"),
        ("'$x'", '"$x"'),
        ('"$x"', "$x"),
        ("\\?", "?"),
    ):
        assert words(f"rm {quoted}") != words(f"rm {expanded}")
    assert words("rm $x") == words("rm ${x}")
    assert words("rm 'a'b") == words('rm a"b"')


def test_an_unquoted_star_of_a_pattern_is_a_wildcard() -> None:
    assert parse_pattern("git diff *").commands == [Command(("git", "diff", "\x01"))]
    assert parse_pattern("git add '*'").commands == [Command(("git", "add", "*"))]


def test_fragments_leave_out_the_bodies_of_here_documents() -> None:
    def names(text: str) -> list[str]:
        return [command.words[0] for command in fragments(text)]

    assert names("cat <<EOF; a\nrm x\nEOF\nb") == ["cat", "EOF", "a", "b"]
    assert names("cat <<-'E F'\nrm x\n\tE F\nb")[-1] == "b"
    assert "rm" not in names("cat <<A <<B\nrm x\nA\nrm y\nB\n")
    assert "rm" in names("cat <<EOF\nrm x\n")  # no end: it may be no here-document
    assert "rm" in names("x $(rm y)")


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


@settings(max_examples=rounds(150), deadline=None)
@given(st.text(alphabet="ab ab ;&|\n\t'\"\\#<>(){}*[]!=-~2/", max_size=12))
@example("a #'\nb #'")
@example("a 'b\\'; b")
@example("a\\\n;b")
@example("a 2>&1;b")
@example("a\\2>&1 b")
def test_bash_runs_only_the_split_commands(command: str) -> None:
    try:
        commands = _words(command)
    except Unparsable:
        return
    known = [words[start:] for words in commands for start in range(len(words) + 1)]
    for words in _run_by_bash(command):
        assert words in known, f"{command!r}: bash runs {words}, we saw {commands}"


# Pieces of words in double quotes and outside, chosen to make bash and a lexer disagree about where they end.
_PIECES = (
    "$ \\\n ( (evil) {x:- ` \\ \" ' evil ) } $( [ ] (( x[ = < ! # \r $' | { ; & ~ * evil; a=1 time {evil,x} "
    "<<E \n \t >& 2> &> /dev/null ${x} $x -v @ : , .."
).split(" ")


@pytest.mark.parametrize("seed", range(4))
def test_bash_runs_no_command_that_the_lexer_does_not_name(seed: int, tmp_path: Path) -> None:
    """Compare with bash on random commands: stubs log which programs really run."""
    log = tmp_path / "log"
    for name in ("git", "evil"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >> {log}\n")
        (tmp_path / name).chmod(0o755)
    choose = random.Random(seed)
    accepted = 0
    for _ in range(rounds(2500)):
        quote = choose.choice(('"', "", ""))
        pieces = (choose.choice((*_PIECES, " ")) for _ in range(choose.randint(2, 7)))
        command = f"git {quote}{''.join(pieces)}{quote}"
        try:
            commands = parse_script(command).commands
        except Unparsable:
            continue
        if any(command.words and command.words[0] == "evil" for command in commands) or "evil" not in command:
            continue
        accepted += 1
        log.unlink(missing_ok=True)
        subprocess.run(
            [BASH, "-c", command],
            cwd=tmp_path,
            env={"PATH": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        assert not log.exists() or "evil" not in log.read_text(), repr(command)
    assert accepted > rounds(5)
