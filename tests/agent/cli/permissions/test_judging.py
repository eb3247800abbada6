"""Judging calls by rules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rounds import rounds

from agent.cli.permissions.judging import judge, narrowest_rules
from agent.cli.permissions.rules import Call, Verdict, parse_rule
from agent.errors import ConfigurationError


def _judged(
    call: Call, project: dict[Verdict, list[str]], user: dict[Verdict, list[str]] | None = None
) -> object:
    rules = [
        parse_rule(verdict, text, base=call.cwd, is_project=is_project, source="file")
        for is_project, table in ((True, project), (False, user or {}))
        for verdict, texts in table.items()
        for text in texts
    ]
    return judge(call, rules).verdict


def _command(text: str, project: str = "/", **more: str) -> Call:
    return Call("bash", {"command": text, **more}, project)


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("git diff", "allow"),
        ("git diff --stat 'a b'", "allow"),
        ("git status", "allow"),
        ("git status -s", None),
        ("git diffx", None),
        ("./git diff", None),
        ("PATH=. git diff", None),
        ("git diff; git status", "allow"),
        ("git diff && rm -r x", None),
        ("git diff | tee x", None),
        ("git diff $(rm x)", None),
        ('git diff "$(rm x)"', None),
        ("git diff > x", None),
        ("git diff\nrm x", None),
        ("git diff & rm x", None),
        ("git diff `rm x`", None),
        ("git diff <(rm x)", None),
        ("git diff 2>/dev/null", "allow"),
        ("git diff # '\nrm x '", None),
        ("bash -c 'git diff'", None),
    ],
)
def test_a_compound_command_is_allowed_when_every_part_is(command: str, verdict: str | None) -> None:
    assert _judged(_command(command), {"allow": ["bash(git diff *)", "bash(git status)"]}) == verdict


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("rm x", "deny"),
        ("ls && rm x", "deny"),
        ("/bin/rm x", "deny"),
        ("sudo -u me rm x", "deny"),
        ("A=1 rm x", "deny"),
        ("r''m x", "deny"),
        ("echo $(rm x)", "deny"),
        ("(rm x)", "deny"),
        ("for f in *; do rm x; done", "deny"),
        ("xargs rm", "deny"),
        ("echo $(ls)", "ask"),  # no rule can be held against it
        ("bash -c 'r''m x'", "deny"),
        ('bash -c "$x"', "ask"),
        ("x=rm; $x y", "ask"),
        ("echo rm", None),
        ("ls", None),
    ],
)
def test_a_denied_command_is_found_in_other_forms(command: str, verdict: str | None) -> None:
    assert _judged(_command(command), {"deny": ["bash(rm *)"]}) == verdict


def test_a_word_of_a_pattern_may_contain_a_star() -> None:
    allow: dict[Verdict, list[str]] = {"allow": ["bash(npm run test:*)", "bash(* --version)"]}
    assert _judged(_command("npm run test:unit"), allow) == "allow"
    assert _judged(_command("npm run build"), allow) is None
    assert _judged(_command("python --version"), allow) == "allow"


def test_a_command_in_another_folder_matches_no_pattern(tmp_path: Path) -> None:
    allow: dict[Verdict, list[str]] = {"allow": ["bash(make)"]}
    (tmp_path / "in").mkdir()
    assert _judged(_command("make", str(tmp_path), cwd="in"), allow) == "allow"
    assert _judged(_command("make", str(tmp_path / "in"), cwd=".."), allow) is None


@pytest.mark.parametrize(
    ("pattern", "path", "verdict"),
    [
        ("src/**", "src/a/b.py", "allow"),
        ("src", "src/a/b.py", "allow"),
        ("src/", "src/a", "allow"),
        ("./src/*.py", "src/a.py", "allow"),
        ("src/*.py", "src/a/b.py", None),
        ("*.py", "src/a.py", "allow"),
        (".", "src/a.py", "allow"),
        ("src/**", "src/../x", None),
        ("src/**", "../x/src/a", None),
        ("*.py", "/elsewhere/a.py", None),
        ("/elsewhere/**", "/elsewhere/a.py", "allow"),
        ("/**", "/elsewhere/a.py", "allow"),
        ("~/notes/**", "~/notes/a", "allow"),
        ("../other/**", "../other/a", "allow"),
        ("SRC/**", "src/a", None),
    ],
)
def test_a_path_is_allowed_by_its_pattern(
    tmp_path: Path, pattern: str, path: str, verdict: str | None
) -> None:
    project = tmp_path / "project [1]"  # the folder's own name is no pattern
    project.mkdir()
    call = Call("edit", {"path": path}, str(project))
    assert _judged(call, {"allow": [f"edit({pattern})"]}) == verdict


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (".env", ".env"),
        (".env", "deep/.env"),
        (".env", "/elsewhere/.env"),
        (".env", ".ENV"),
        (".env", "x/../.env"),
        (".env", "@.env"),
        ("secrets", "secrets/key"),
        ("secrets/**", "Secrets/key"),
        ("/etc/**", "/etc/passwd"),
    ],
)
def test_a_path_is_denied_in_every_notation(tmp_path: Path, pattern: str, path: str) -> None:
    assert _judged(Call("read", {"path": path}, str(tmp_path)), {"deny": [f"*({pattern})"]}) == "deny"


def test_links_neither_allow_their_target_nor_hide_it(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "secret").write_text("x")
    (tmp_path / "src" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "alias").symlink_to(tmp_path / "src")
    through = Call("edit", {"path": "src/link"}, str(tmp_path))
    assert _judged(through, {"allow": ["edit(src/**)"]}) is None
    assert _judged(through, {"deny": ["edit(secret)"]}) == "deny"
    assert _judged(through, {"deny": ["edit(src/link)"]}) == "deny"
    assert _judged(Call("edit", {"path": "alias/a"}, str(tmp_path)), {"allow": ["edit(src/**)"]}) == "allow"
    assert _judged(Call("edit", {"path": "a"}, str(tmp_path / "alias")), {"allow": ["edit(.)"]}) == "allow"


def test_a_search_without_a_path_is_in_the_working_folder(tmp_path: Path) -> None:
    call = Call("grep", {"pattern": "x"}, str(tmp_path))
    assert _judged(call, {"allow": ["grep(.)"]}) == "allow"
    assert _judged(call, {"deny": [f"grep({tmp_path})"]}) == "deny"


def test_of_several_paths_the_strictest_verdict_counts(tmp_path: Path) -> None:
    call = Call("imageresize", {"path": "in/a.png", "output": "out/a.png"}, str(tmp_path))
    assert _judged(call, {"allow": ["imageresize(in/**)"]}) is None
    assert _judged(call, {"allow": ["imageresize(in/**)", "imageresize(out/**)"]}) == "allow"
    assert _judged(call, {"allow": ["imageresize"], "deny": ["*(out)"]}) == "deny"


def test_deny_beats_more_specific_rules() -> None:
    assert _judged(_command("git push"), {"allow": ["bash(git push)"], "deny": ["bash"]}) == "deny"
    assert _judged(_command("git push"), {"allow": ["bash(git push)"]}, {"deny": ["*"]}) == "deny"


def test_the_more_specific_of_ask_and_allow_applies() -> None:
    rules: dict[Verdict, list[str]] = {"ask": ["bash", "bash(git push *)"], "allow": ["bash(git *)", "*"]}
    assert _judged(_command("git log"), rules) == "allow"
    assert _judged(_command("git push origin"), rules) == "ask"
    assert _judged(_command("make"), rules) == "ask"
    assert _judged(Call("read", {"path": "x"}, "/"), rules) == "allow"


def test_the_project_beats_the_user_for_equally_specific_rules() -> None:
    assert _judged(_command("make"), {"allow": ["bash(make)"]}, {"ask": ["bash(make)"]}) == "allow"
    assert _judged(_command("make"), {"ask": ["bash(make)"]}, {"allow": ["bash(make)"]}) == "ask"
    assert _judged(_command("make"), {"allow": ["bash"]}, {"ask": ["bash(make)"]}) == "ask"


def test_ask_beats_allow_for_equal_rules() -> None:
    assert _judged(_command("make"), {"allow": ["bash(make)"], "ask": ["bash(make)"]}) == "ask"


def test_tool_names_match_in_any_case() -> None:
    assert _judged(_command("rm x"), {"deny": ["Bash(rm *)"]}) == "deny"


def test_an_impossible_path_matches_no_allow_rule(tmp_path: Path) -> None:
    for path in ("a\0b", "a\ud800"):
        call = Call("edit", {"path": path}, str(tmp_path))
        assert _judged(call, {"allow": ["edit(.)"]}) is None
        assert narrowest_rules(call) == ()


@pytest.mark.parametrize(
    "call",
    [
        _command("git commit -m 'a * b' && echo \"it's\" '#x' ''"),
        _command("ls $HOME"),
        Call("edit", {"path": "src/a (1).py"}, "/tmp"),
        Call("edit", {"path": "/elsewhere/x"}, "/tmp"),
        Call("add", {}, "/tmp"),
    ],
    ids=lambda call: call.tool,
)
def test_the_stored_rule_allows_exactly_its_call(call: Call) -> None:
    texts = narrowest_rules(call)
    assert texts
    assert _judged(call, {"allow": list(texts)}) == "allow"
    if call.command:
        assert _judged(_command("git commit -m 'a x b'"), {"allow": list(texts)}) is None
    elif call.uses:
        other = Call("edit", {"path": call.arguments["path"] + "x"}, call.cwd)
        assert _judged(other, {"allow": list(texts)}) is None


@pytest.mark.parametrize(
    ("seen", "later"),
    [
        ("rm -r '~'", "rm -r ~"),
        ("rm '*'", "rm *"),
        ("rm -rf '$HOME'", "rm -rf $HOME"),
        ("cd build && rm -rf x", "rm -rf x"),
        ("test -f x || git reset --hard", "git reset --hard"),
        ("mysql < a.sql", "mysql < b.sql"),
        ("FOO=bar make", "FOO=baz make"),
        ("bash -c 'ls'", "bash -c 'ls x'"),
    ],
)
def test_always_keeps_no_more_than_was_seen(seen: str, later: str) -> None:
    allow: dict[Verdict, list[str]] = {"allow": list(narrowest_rules(_command(seen)))}
    assert _judged(_command(seen), allow) == "allow"
    assert _judged(_command(later), allow) is None


def test_always_is_not_offered_for_another_folder_or_unnamed_arguments(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    assert narrowest_rules(_command("make", str(tmp_path), cwd=".")) == ("bash(make)",)
    assert narrowest_rules(_command("make", str(tmp_path), cwd="build")) == ()
    assert narrowest_rules(Call("deploy", {"env": "staging"}, "/")) == ()
    assert narrowest_rules(Call("deploy", {"env": "staging", "path": "x"}, "/")) == ()
    assert narrowest_rules(Call("mcp:deploy", {}, "/")) == ("mcp:deploy",)


@pytest.mark.parametrize("command", ["echo $(x)", "ls *.py", "make > x"])
def test_always_is_not_offered_when_no_rule_can_express_the_call(command: str) -> None:
    assert narrowest_rules(_command(command)) == ()


def test_home_is_expanded_in_patterns() -> None:
    key = os.path.expanduser("~/.ssh/id")
    assert _judged(Call("read", {"path": key}, "/"), {"deny": ["read(~/.ssh/**)"]}) == "deny"


_TEXT = st.text(
    alphabet=st.sampled_from("ab gitrm*?[]{}()<>|&;$'\"\\`#~!=-/.,:%\n\t\0\x01\x7f\ud800\u200b0123"),
    max_size=24,
)
_NAMES = st.sampled_from(
    "sudo env find xargs sh bash git docker npx sed awk python tar sort eval time [ uv".split()
)
_COMMANDS = st.one_of(
    _TEXT,
    st.lists(st.one_of(_NAMES, _TEXT, st.sampled_from(["-c", "-exec", "--", "$x"])), max_size=6).map(
        " ".join
    ),
)


@settings(max_examples=rounds(400), deadline=None)
@given(_COMMANDS, _COMMANDS, st.sampled_from(["allow", "ask", "deny"]), st.booleans())
def test_no_rule_and_no_call_raises(pattern: str, command: str, verdict: Verdict, is_path: bool) -> None:
    """Every text is a rule or a ConfigurationError, and every call gets a judgement."""
    tool = "*" if is_path else "bash"
    try:
        rule = parse_rule(verdict, f"{tool}({pattern})", base="/", is_project=False, source="test")
    except ConfigurationError:
        return
    for call in (_command(command), Call("edit", {"path": command, "oldText": "a", "newText": "b"}, "/")):
        judge(call, [rule])
        narrowest_rules(call)


@settings(max_examples=rounds(300), deadline=None)
@given(_COMMANDS)
def test_a_stored_rule_allows_its_command_and_no_other(command: str) -> None:
    texts = narrowest_rules(_command(command))
    if not texts:
        return
    allow: dict[Verdict, list[str]] = {"allow": list(texts)}
    assert _judged(_command(command), allow) == "allow"
    for other in (f"{command} x", f"x; {command}", f"{command}; x", f"X=y {command}", f"sudo {command}"):
        assert _judged(_command(other), allow) is None, other
