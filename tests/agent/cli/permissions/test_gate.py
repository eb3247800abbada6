"""What the agent may do, on real processes: rules from files, modes, and being asked at a terminal."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pexpect
import pytest
from support.command import arguments, call_chunks, chunk, environment, run_command, text_chunks
from support.sse_server import SseServer

from agent.cancel import CancelToken
from agent.cli.permissions.files import Settings, load_settings, save_answer
from agent.cli.permissions.gate import ALWAYS, NO, YES, Answer, Permissions, Question
from agent.cli.permissions.terminal_prompt import body
from agent.errors import ConfigurationError
from agent.hook_types import ToolCallInfo


class Person:
    """Answers questions, and keeps them."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        return self.answers.pop(0)


class Place:
    """A project and the folder of its user's settings."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.settings = root / "config" / "steady-agent"
        self.project.mkdir()
        self.settings.mkdir(parents=True)
        self.environ = {"XDG_CONFIG_HOME": str(root / "config")}
        self.told: list[str] = []

    def user(self, text: str) -> None:
        (self.settings / "config.toml").write_text(text)

    def own(self, text: str) -> None:
        (self.project / ".steady-agent.toml").write_text(text)

    def permissions(self, ask: Person | None = None, **more: Any) -> Permissions:
        cwd = str(self.project)
        return Permissions(
            load_settings(cwd, self.environ), cwd, self.environ, ask=ask, tell=self.told.append, **more
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def _refusal(permissions: Permissions, tool: str, **arguments: Any) -> str | None:
    decision = permissions.before_tool(ToolCallInfo("c1", tool, arguments))
    return None if decision is None else decision.reason


# -- files -----------------------------------------------------------------------------------------------


def test_without_rules_everything_is_allowed(place: Place) -> None:
    assert _refusal(place.permissions(), "bash", command="rm -rf x") is None


def test_rules_of_the_user_and_of_the_project_both_hold(place: Place) -> None:
    place.user('[permissions]\ndeny = ["bash(git push *)"]\n')
    place.own('[permissions]\ndeny = ["edit(generated/**)"]\n')
    permissions = place.permissions()
    assert "bash(git push *)" in (_refusal(permissions, "bash", command="git push") or "")
    assert "edit(generated/**)" in (_refusal(permissions, "edit", path="generated/a") or "")
    assert _refusal(permissions, "edit", path="a") is None


def test_a_project_that_is_not_trusted_allows_nothing_and_that_is_said(place: Place) -> None:
    place.user('[permissions]\napprove = "ask"\n')
    place.own('[permissions]\napprove = "auto"\nallow = ["bash"]\n')
    permissions = place.permissions()
    assert permissions.mode == "ask"
    assert _refusal(permissions, "bash", command="make") is not None
    (note,) = load_settings(str(place.project), place.environ).notes
    assert str(place.project) in note
    assert "trust" in note


def test_a_trusted_project_may_allow(place: Place) -> None:
    place.user(f'[permissions]\napprove = "ask"\ntrust = ["{place.project.parent}"]\n')
    place.own('[permissions]\nallow = ["bash(make)"]\n')
    assert _refusal(place.permissions(), "bash", command="make") is None
    assert _refusal(place.permissions(), "bash", command="make x") is not None


def test_a_project_may_be_stricter_than_its_user(place: Place) -> None:
    place.own('[permissions]\napprove = "deny"\n')
    assert place.permissions().mode == "deny"


def test_the_command_line_beats_the_files(place: Place) -> None:
    place.user('[permissions]\napprove = "deny"\n')
    assert place.permissions(mode="auto").mode == "auto"


def test_a_file_at_the_top_of_the_repository_holds_in_its_folders(place: Place) -> None:
    (place.project / ".git").mkdir()
    place.own('[permissions]\ndeny = ["edit(src/*.lock)"]\n')
    (place.project / "src").mkdir()
    cwd = str(place.project / "src")
    permissions = Permissions(load_settings(cwd, place.environ), cwd, place.environ)
    assert _refusal(permissions, "edit", path="a.lock") is not None
    assert _refusal(permissions, "edit", path="a.py") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[permissions", "no valid TOML"),
        ('permissions = "x"', "must be a table"),
        ("[permissions]\ndenny = []", "no denny"),
        ('[permissions]\ndeny = "bash"', "list of texts"),
        ("[permissions]\ndeny = [1]", "list of texts"),
        ('[permissions]\ndeny = ["bash("]', "is no rule"),
        ('[permissions]\napprove = "yes"', "auto, ask, deny"),
    ],
)
def test_a_file_that_can_not_be_understood_is_never_passed_over(place: Place, text: str, said: str) -> None:
    place.own(text)
    with pytest.raises(ConfigurationError, match=said) as raised:
        place.permissions()
    assert ".steady-agent.toml" in str(raised.value)


def test_a_project_can_not_trust_itself(place: Place) -> None:
    place.own(f'[permissions]\ntrust = ["{place.project}"]\n')
    with pytest.raises(ConfigurationError, match="can't trust itself"):
        place.permissions()


# -- modes -----------------------------------------------------------------------------------------------


def test_ask_lets_reading_in_the_project_pass_and_asks_for_the_rest(place: Place) -> None:
    permissions = place.permissions(mode="ask")
    for tool in ("read", "grep", "find", "ls"):
        assert _refusal(permissions, tool, path="x", pattern="x") is None
    for tool, more in (
        ("read", {"path": "/etc/hosts"}),
        ("edit", {"path": "x"}),
        ("bash", {"command": "ls"}),
    ):
        assert "--approve" in (_refusal(permissions, tool, **more) or "")


def test_deny_asks_nobody_but_keeps_to_rules_that_allow(place: Place) -> None:
    place.user('[permissions]\nallow = ["bash(make)"]\nask = ["bash(git *)"]\n')
    person = Person()
    permissions = place.permissions(person, mode="deny")
    assert _refusal(permissions, "bash", command="make") is None
    assert "--approve deny" in (_refusal(permissions, "bash", command="git log") or "")
    assert _refusal(permissions, "write", path="x", content="") is not None
    assert person.questions == []


def test_auto_still_asks_what_a_rule_says(place: Place) -> None:
    place.user('[permissions]\nask = ["bash(git push *)"]\n')
    person = Person(YES, NO, Answer(False, reason="use make"))
    permissions = place.permissions(person)
    assert _refusal(permissions, "bash", command="make") is None
    assert _refusal(permissions, "bash", command="git push") is None
    assert _refusal(permissions, "bash", command="git push") == "The user refused this call."
    assert "use make" in (_refusal(permissions, "bash", command="git push") or "")


def test_the_files_that_hold_the_rules_are_asked_for_whatever_they_say(place: Place) -> None:
    place.user('[permissions]\nallow = ["*"]\n')
    permissions = place.permissions()
    assert _refusal(permissions, "write", path=".steady-agent.toml", content="") is not None
    assert _refusal(permissions, "edit", path=str(place.settings / "config.toml")) is not None
    assert _refusal(permissions, "write", path="other.toml", content="") is None


# -- what is asked ---------------------------------------------------------------------------------------


def test_a_question_shows_the_change_that_an_edit_would_make(place: Place) -> None:
    (place.project / "a.txt").write_text("one\ntwo\n")
    person = Person(NO, NO, NO, NO)
    permissions = place.permissions(person, mode="ask")
    _refusal(permissions, "edit", path="a.txt", oldText="two", newText="three")
    _refusal(permissions, "write", path="a.txt", content="one\n")
    _refusal(permissions, "write", path="new.txt", content="new\n")
    _refusal(permissions, "edit", path="a.txt", oldText="four", newText="five")
    edit, write, new, wrong = (question.diff for question in person.questions)
    assert edit.splitlines()[-2:] == ["-2 two", "+2 three"]
    assert write.splitlines()[-1] == "-2 two"
    assert new == "+1 new"
    assert "Could not find" in wrong
    assert (place.project / "a.txt").read_text() == "one\ntwo\n"


def test_always_is_kept_for_this_project_and_for_the_next_run(place: Place) -> None:
    person = Person(ALWAYS)
    permissions = place.permissions(person, mode="ask")
    assert _refusal(permissions, "bash", command="make 'a b' && ls") is None
    assert _refusal(permissions, "bash", command="ls") is None
    later = place.permissions(mode="ask")
    assert _refusal(later, "bash", command="make 'a b'; ls") is None
    assert _refusal(later, "bash", command="make a b") is not None
    (told,) = place.told
    assert str(place.settings / "approvals.toml") in told
    other = place.project.parent / "other"
    other.mkdir()
    elsewhere = Permissions(load_settings(str(other), place.environ), str(other), place.environ, mode="ask")
    assert _refusal(elsewhere, "bash", command="ls") is not None


def test_an_answer_that_can_not_be_kept_holds_all_the_same(place: Place) -> None:
    (place.settings / "approvals.toml").mkdir()
    cwd = str(place.project)
    person = Person(ALWAYS)
    permissions = Permissions(Settings(), cwd, place.environ, mode="ask", ask=person, tell=place.told.append)
    assert _refusal(permissions, "bash", command="ls") is None
    assert _refusal(permissions, "bash", command="ls") is None
    assert "could not be kept" in place.told[0]


def test_answers_are_added_and_nothing_of_the_file_is_lost(place: Place) -> None:
    odd = 'bash(echo "\x7f\\ é\u2028")'
    save_answer(str(place.project), ["bash(a)"], place.environ)
    path = save_answer(str(place.project), [odd], place.environ)
    text = path.read_text()
    path.write_text("# mine\n" + text)
    save_answer(str(place.project), ["bash(c)"], place.environ)
    assert path.read_text().startswith("# mine\n")
    kept = tomllib.loads(path.read_text())["allow"]
    assert [entry["rule"] for entry in kept] == ["bash(a)", odd, "bash(c)"]


# -- the command -----------------------------------------------------------------------------------------


def test_without_a_terminal_what_would_be_asked_is_denied_and_the_flag_is_named(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    sse_server.play(*text_chunks("done"))
    ended = run_command(arguments(sse_server.url, "--approve", "ask", "--cwd", str(tmp_path), "-p", "x"))
    assert ended.returncode == 0
    assert "--approve auto" in sse_server.requests[1].json["messages"][-1]["content"]
    assert not (tmp_path / "made").exists()


def test_rules_of_files_hold_for_the_command(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("bash", {"command": "true && touch made"}))
    sse_server.play(*text_chunks("done"))
    (tmp_path / ".steady-agent.toml").write_text('[permissions]\ndeny = ["bash(touch *)"]\n')
    run_command(arguments(sse_server.url, "--cwd", str(tmp_path), "-p", "x"))
    assert "bash(touch *)" in sse_server.requests[1].json["messages"][-1]["content"]
    assert not (tmp_path / "made").exists()


def test_a_broken_file_exits_with_2_and_names_it(tmp_path: Path) -> None:
    (tmp_path / ".steady-agent.toml").write_text("[permissions\n")
    ended = run_command(arguments("http://127.0.0.1:9", "--cwd", str(tmp_path), "-p", "x"))
    assert ended.returncode == 2
    assert str(tmp_path / ".steady-agent.toml") in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_rule_for_a_tool_that_is_not_there_is_named(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*text_chunks("ok"))
    (tmp_path / ".steady-agent.toml").write_text('[permissions]\ndeny = ["bsh(rm *)", "Bash(rm *)", "*"]\n')
    ended = run_command(arguments(sse_server.url, "--cwd", str(tmp_path), "-p", "x"))
    (told,) = ended.stderr.splitlines()
    assert "bsh(rm *)" in told


def test_what_is_too_long_to_be_shown_is_said_to_be() -> None:
    question = Question("c", "bash", {}, "", "x" * 1500 + "\n" + "a\n" * 40, "", (), CancelToken())
    rows = body(question)
    assert rows[0].endswith(" ... 500 more characters")
    assert "... 11 more lines ..." in rows
    assert len(rows) == 31


def _at_a_terminal(url: str, project: Path, **more: str) -> pexpect.spawn:
    command = arguments(url, "--approve", "ask", "--cwd", str(project), "-p", "x")
    env = environment(XDG_CONFIG_HOME=str(project / "config"), TERM="xterm", **more)
    return pexpect.spawn(
        command[0], command[1:], env=env, timeout=30, encoding="utf-8", dimensions=(40, 120), echo=False
    )


def _ended(child: pexpect.spawn) -> int:
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus is not None
    return child.exitstatus


@pytest.mark.parametrize("more", [{}, {"NO_COLOR": "1"}], ids=["rich", "plain"])
def test_a_person_at_the_terminal_says_yes_with_one_key(
    sse_server: SseServer, tmp_path: Path, more: dict[str, str]
) -> None:
    sse_server.play(*call_chunks("write", {"path": "a.txt", "content": "hello\n"}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path, **more)
    child.expect(r"\+1 hello")
    child.expect("y yes")
    assert not (tmp_path / "a.txt").exists()
    child.send("y")
    child.expect("allowed")
    assert _ended(child) == 0
    assert (tmp_path / "a.txt").read_text() == "hello\n"


def test_a_question_stands_below_what_was_said_before_it(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(chunk({"content": "I make it."}), *call_chunks("bash", {"command": "touch made"}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect("y yes")
    assert "I make it." in child.before
    child.send("n")
    assert _ended(child) == 0


def test_a_person_at_the_terminal_says_no_and_other_keys_say_nothing(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*call_chunks("bash", {"command": "touch made; touch $(echo x)"}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect(r"touch made; touch \$\(echo x\)")
    child.expect("n no")
    child.send("a\r\x1b[Ax")  # always is not offered for this one
    child.send("n")
    child.expect("refused")
    assert _ended(child) == 0
    assert not (tmp_path / "made").exists()
    assert "refused" in sse_server.requests[1].json["messages"][-1]["content"]


def test_always_is_said_once(sse_server: SseServer, tmp_path: Path) -> None:
    for _ in range(2):
        sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect(r"a always: bash\(touch made\)")
    child.send("a")
    assert _ended(child) == 0
    assert len(sse_server.requests) == 3
    kept = (tmp_path / "config" / "steady-agent" / "approvals.toml").read_text()
    assert 'rule = "bash(touch made)"' in kept


def test_ctrl_c_at_a_question_aborts_the_run(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect("n no")
    child.sendintr()
    assert _ended(child) == 130
    assert not (tmp_path / "made").exists()


def test_the_terminal_is_as_it_was_after_a_question(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("bash", {"command": "true"}))
    sse_server.play(*text_chunks("done"))
    script = f'before=$(stty -g); "$@"; [ "$before" = "$(stty -g)" ] && echo same; touch {tmp_path}/ended'
    command = arguments(sse_server.url, "--approve", "ask", "--cwd", str(tmp_path), "-p", "x")
    env = environment(TERM="xterm")
    child = pexpect.spawn("sh", ["-c", script, "sh", *command], env=env, timeout=30, encoding="utf-8")
    child.expect("y yes")
    child.send("y")
    child.expect("same")
    assert _ended(child) == 0
    assert os.path.exists(tmp_path / "ended")
