"""Matching command patterns: what cannot match is refused, and the work is proportional to the command."""

from __future__ import annotations

import time

import pytest

from agent.cli.permissions.command_patterns import CommandPattern
from agent.cli.permissions.shell_lexer import Command, Unparsable, parse_script
from agent.cli.permissions.wrapped_commands import effects_of


def _allows(pattern: str, command: str) -> bool:
    (parsed,) = parse_script(command).commands
    return CommandPattern.parse(pattern, allows=True).allows(parsed)


def _restricts(pattern: str, command: str) -> str:
    (parsed,) = parse_script(command).commands
    return CommandPattern.parse(pattern, allows=False).restricts(parsed, effects_of(parsed))


@pytest.mark.parametrize(
    "pattern",
    [
        "rm:*",
        "git diff:*",
        "if *",
        "$x y",
        "a?b",
        "{a,b} x",
        "a > x",
        "a $(b)",
        "a # b",
        "a " * 101,
        "'open",
        "! a; *",
    ],
)
def test_a_pattern_that_can_match_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(Unparsable):
        CommandPattern.parse(pattern, allows=True)


@pytest.mark.parametrize("pattern", ["a; b", "a | b", "(a)", "a < x", "time a"])
def test_only_an_allowing_pattern_can_be_a_compound_command(pattern: str) -> None:
    assert CommandPattern.parse(pattern, allows=True).matches_whole(parse_script(pattern))
    assert not CommandPattern.parse(pattern, allows=True).matches_whole(parse_script(f"{pattern}; c"))
    with pytest.raises(Unparsable):
        CommandPattern.parse(pattern, allows=False)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("* * * * * * * * * * * * zz", "echo" + " a" * 20_000),
        ("* a * a * a * a * a * a * b", "echo" + " a" * 20_000),
        ("echo " + "*a" * 40 + "*b", "echo " + "a" * 200_000),
        ("rm * x", "sudo -Z " + "rm " * 20_000),
        ("rm * x", "env " * 5_000 + "ls"),
        ("rm * x", "find . " + "-exec a " * 5_000),
        ("git push * x", "git -C " * 10_000 + "y"),
        ("git push * x", "git $x " * 10_000),
        ("a * b", "a " + "$x " * 10_000),
        ("xargs grep *", "xargs " + "grep " * 10_000),
    ],
    ids=lambda text: text[:30],
)
def test_no_pattern_takes_long(pattern: str, command: str) -> None:
    started = time.process_time()
    _allows(pattern, command)
    _restricts(pattern, command)
    assert time.process_time() - started < 5.0  # measured: below 0.5; a pattern with backtracking never ends


def test_a_star_is_any_number_of_words_and_any_part_of_one() -> None:
    assert _allows("git diff *", "git diff")
    assert _allows("git diff *", "git diff a 'b c'")
    assert _allows("a * c * e", "a b c c d e")
    assert not _allows("a * c * e", "a b c d")
    assert _allows("a x*y*z", "a xyz")
    assert not _allows("a xy*yz", "a xyz")
    assert _allows("* --version", "python --version")


def test_a_star_does_not_name_an_option_that_writes_but_its_name_does() -> None:
    assert not _allows("sort *", "sort -o x")
    assert _allows("sort -o *", "sort -o x")
    assert _allows("git diff --output=*", "git diff --output=x")
    assert _allows("git log * --output=x", "git log -1 --output=x")
    assert not _allows("git log --*", "git log --output=x")


def test_the_name_of_a_wrapped_command_must_be_in_the_pattern() -> None:
    assert _allows("timeout 60 make *", "timeout 60 make test")
    assert not _allows("timeout *", "timeout 60 make")
    assert not _allows("timeout 60 *", "timeout 60 make")
    assert not _allows("xargs sort *", "xargs sort -o x")
    assert not _allows("sudo *", "sudo ls")


def test_only_harmless_assignments_may_stand_before_an_allowed_command() -> None:
    assert _allows("make", "FOO=1 make")
    assert _allows("make", "LC_ALL=C CI=true make")
    for assignment in ("FOO=bar", "PATH=1", "GIT_DIR=1", "FOO=$x", "LD_PRELOAD=1", "CI=/bin/x", "X=~"):
        assert not _allows("make", f"{assignment} make")
    assert _allows("FOO=* make", "FOO=bar make")
    assert not _allows("FOO=* make", "make")


def test_an_expansion_in_a_place_that_the_pattern_names_may_match() -> None:
    assert _restricts("git push *", "git push $x") == "yes"
    assert _restricts("git push *", "git $x") == "maybe"
    assert _restricts("git push *", "git pu?h") == "maybe"
    assert _restricts("git push *", "git $x push") == "maybe"
    assert _restricts("git push *", "git log $x") == "no"
    assert _restricts("git push --force *", "git push $x") == "maybe"
    assert _restricts("ls -R *", "ls *.py") == "no"
    assert _restricts("rm -r ~", 'rm -r "$HOME"') == "yes"


def test_an_assignment_of_a_restricting_pattern_must_be_there() -> None:
    assert _restricts("GIT_DIR=* git *", "GIT_DIR=x git log") == "yes"
    assert _restricts("GIT_DIR=* git *", "git log") == "no"


def test_no_words_match_nothing() -> None:
    assert not CommandPattern.parse("*", allows=True).allows(Command(()))
