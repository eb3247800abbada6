"""The permission hook: rules from files, modes, and questions at a real terminal."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.command import arguments, call_chunks, run_command, text_chunks
from support.sse_server import SseServer

from agent.cli.permissions.files import Mode, Settings, load_settings, save_answer
from agent.cli.permissions.gate import ALWAYS, NO, YES, Answer, Permissions, Question
from agent.errors import ConfigurationError
from agent.hook_types import ToolCallInfo
from agent_tools.find import find_tool
from agent_tools.grep import grep_tool
from agent_tools.ls import ls_tool


class ScriptedUser:
    """Answers questions in order, and records them."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        return self.answers.pop(0)


class Project:
    """A project folder and the settings folder of its user."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "project"
        self.settings = root / "config" / "steady-agent"
        self.folder.mkdir()
        self.settings.mkdir(parents=True)
        self.environ = {"XDG_CONFIG_HOME": str(root / "config")}
        self.notes: list[str] = []

    def user_file(self, text: str) -> None:
        (self.settings / "config.toml").write_text(text)

    def project_file(self, text: str) -> None:
        (self.folder / ".steady-agent.toml").write_text(text)

    def permissions(self, ask: ScriptedUser | None = None, **more: Any) -> Permissions:
        cwd = str(self.folder)
        return Permissions(
            load_settings(cwd, self.environ), cwd, self.environ, ask=ask, notify=self.notes.append, **more
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def _refusal(permissions: Permissions, tool: str, **arguments: Any) -> str | None:
    decision = permissions.before_tool(ToolCallInfo("c1", tool, arguments))
    return None if decision is None else decision.reason


# -- files -----------------------------------------------------------------------------------------------


def test_without_rules_every_call_is_allowed(project: Project) -> None:
    assert _refusal(project.permissions(), "bash", command="rm -rf x") is None


def test_rules_of_the_user_and_of_the_project_both_apply(project: Project) -> None:
    project.user_file('[permissions]\ndeny = ["bash(git push *)"]\n')
    project.project_file('[permissions]\ndeny = ["edit(generated/**)"]\n')
    permissions = project.permissions()
    assert "bash(git push *)" in (_refusal(permissions, "bash", command="git push") or "")
    assert "edit(generated/**)" in (_refusal(permissions, "edit", path="generated/a") or "")
    assert _refusal(permissions, "edit", path="a") is None


def test_allow_rules_of_an_untrusted_project_have_no_effect_and_are_reported(project: Project) -> None:
    project.user_file('[permissions]\napprove = "ask"\n')
    project.project_file('[permissions]\napprove = "auto"\nallow = ["bash"]\n')
    permissions = project.permissions()
    assert permissions.mode == "ask"
    assert _refusal(permissions, "bash", command="make") is not None
    (note,) = load_settings(str(project.folder), project.environ).notes
    assert str(project.folder) in note
    assert "trust" in note


def test_a_trusted_project_may_allow(project: Project) -> None:
    project.user_file(f'[permissions]\napprove = "ask"\ntrust = ["{project.folder.parent}"]\n')
    project.project_file('[permissions]\nallow = ["bash(make)"]\n')
    assert _refusal(project.permissions(), "bash", command="make") is None
    assert _refusal(project.permissions(), "bash", command="make x") is not None


def test_a_project_may_be_stricter_than_its_user(project: Project) -> None:
    project.project_file('[permissions]\napprove = "deny"\n')
    assert project.permissions().mode == "deny"


def test_the_command_line_overrides_the_files(project: Project) -> None:
    project.user_file('[permissions]\napprove = "deny"\n')
    assert project.permissions(mode="auto").mode == "auto"


def test_a_file_at_the_top_of_the_repository_applies_in_its_folders(project: Project) -> None:
    (project.folder / ".git").mkdir()
    project.project_file('[permissions]\ndeny = ["edit(src/*.lock)"]\n')
    (project.folder / "src").mkdir()
    cwd = str(project.folder / "src")
    permissions = Permissions(load_settings(cwd, project.environ), cwd, project.environ)
    assert _refusal(permissions, "edit", path="a.lock") is not None
    assert _refusal(permissions, "edit", path="a.py") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[permissions", "not valid TOML"),
        ('permissions = "x"', "must be a table"),
        ("[permissions]\ndenny = []", 'no "denny"'),
        ('[permissions]\ndeny = "bash"', "list of texts"),
        ("[permissions]\ndeny = [1]", "list of texts"),
        ('[permissions]\ndeny = ["bash("]', "is not a rule"),
        ('[permissions]\napprove = "yes"', "auto, edits, ask, deny"),
    ],
)
def test_an_invalid_file_is_an_error(project: Project, text: str, expected: str) -> None:
    project.project_file(text)
    with pytest.raises(ConfigurationError, match=expected) as raised:
        project.permissions()
    assert ".steady-agent.toml" in str(raised.value)


def test_a_project_cannot_trust_itself(project: Project) -> None:
    project.project_file(f'[permissions]\ntrust = ["{project.folder}"]\n')
    with pytest.raises(ConfigurationError, match="can't trust itself"):
        project.permissions()


# -- modes -----------------------------------------------------------------------------------------------


def test_mode_ask_allows_reading_in_the_project_and_asks_for_the_rest(project: Project) -> None:
    permissions = project.permissions(mode="ask")
    for tool in ("read", "grep", "find", "ls"):
        assert _refusal(permissions, tool, path="x", pattern="x") is None
    for tool, more in (
        ("read", {"path": "/etc/hosts"}),
        ("edit", {"path": "x"}),
        ("bash", {"command": "ls"}),
    ):
        assert "--approve" in (_refusal(permissions, tool, **more) or "")


def test_mode_edits_allows_only_edits_in_the_folder(project: Project) -> None:
    outside = project.folder.parent / "other"
    outside.mkdir()
    (project.folder / "link").symlink_to(outside)
    permissions = project.permissions(mode="edits")
    assert _refusal(permissions, "write", path="src/a.py", content="x") is None
    assert _refusal(permissions, "edit", path="a.py", old_text="a", new_text="b") is None
    for path in ("../other/a", "link/a", ".git/hooks/pre-commit", ".steady-agent.toml", str(outside / "a")):
        assert _refusal(permissions, "write", path=path, content="x"), path
    assert _refusal(permissions, "write", content="x")
    assert _refusal(permissions, "bash", command="touch a")


def test_mode_deny_asks_nothing_and_applies_allow_rules(project: Project) -> None:
    project.user_file('[permissions]\nallow = ["bash(make)"]\nask = ["bash(git *)"]\n')
    person = ScriptedUser()
    permissions = project.permissions(person, mode="deny")
    assert _refusal(permissions, "bash", command="make") is None
    assert "--approve deny" in (_refusal(permissions, "bash", command="git log") or "")
    assert _refusal(permissions, "write", path="x", content="") is not None
    assert person.questions == []


def test_mode_auto_applies_ask_rules(project: Project) -> None:
    project.user_file('[permissions]\nask = ["bash(git push *)"]\n')
    person = ScriptedUser(YES, NO, Answer(False, reason="use make"))
    permissions = project.permissions(person)
    assert _refusal(permissions, "bash", command="make") is None
    assert _refusal(permissions, "bash", command="git push") is None
    assert _refusal(permissions, "bash", command="git push") == "The user refused this call."
    assert "use make" in (_refusal(permissions, "bash", command="git push") or "")


def test_changes_of_settings_files_are_asked_whatever_the_rules(project: Project) -> None:
    project.user_file('[permissions]\nallow = ["*"]\n')
    permissions = project.permissions()
    assert _refusal(permissions, "write", path=".steady-agent.toml", content="") is not None
    assert _refusal(permissions, "edit", path=str(project.settings / "config.toml")) is not None
    assert _refusal(permissions, "write", path="other.toml", content="") is None


# -- what is asked ---------------------------------------------------------------------------------------


def test_a_question_shows_the_change_that_an_edit_would_make(project: Project) -> None:
    (project.folder / "a.txt").write_text("one\ntwo\n")
    person = ScriptedUser(NO, NO, NO, NO)
    permissions = project.permissions(person, mode="ask")
    _refusal(permissions, "edit", path="a.txt", oldText="two", newText="three")
    _refusal(permissions, "write", path="a.txt", content="one\n")
    _refusal(permissions, "write", path="new.txt", content="new\n")
    _refusal(permissions, "edit", path="a.txt", oldText="four", newText="five")
    edit, write, new, wrong = (question.diff for question in person.questions)
    assert edit.splitlines()[-2:] == ["-2 two", "+2 three"]
    assert write.splitlines()[-1] == "-2 two"
    assert new == "+1 new"
    assert "Could not find" in wrong
    assert (project.folder / "a.txt").read_text() == "one\ntwo\n"


def test_always_is_stored_for_this_project_and_the_next_run(project: Project) -> None:
    person = ScriptedUser(ALWAYS)
    permissions = project.permissions(person, mode="ask")
    assert _refusal(permissions, "bash", command="make 'a b' && ls") is None
    assert _refusal(permissions, "bash", command='make "a b"&&ls') is None
    later = project.permissions(mode="ask")
    assert _refusal(later, "bash", command="make 'a b' && ls") is None
    assert _refusal(later, "bash", command="ls") is not None
    assert _refusal(later, "bash", command="make 'a b'; ls") is not None
    assert _refusal(later, "bash", command="make a b && ls") is not None
    (note,) = project.notes
    assert str(project.settings / "approvals.toml") in note
    other = project.folder.parent / "other"
    other.mkdir()
    elsewhere = Permissions(
        load_settings(str(other), project.environ), str(other), project.environ, mode="ask"
    )
    assert _refusal(elsewhere, "bash", command="ls") is not None


def test_an_answer_that_cannot_be_saved_holds_for_the_run(project: Project) -> None:
    (project.settings / "approvals.toml").mkdir()
    cwd = str(project.folder)
    person = ScriptedUser(ALWAYS)
    permissions = Permissions(
        Settings(), cwd, project.environ, mode="ask", ask=person, notify=project.notes.append
    )
    assert _refusal(permissions, "bash", command="ls") is None
    assert _refusal(permissions, "bash", command="ls") is None
    assert "could not be saved" in project.notes[0]


def test_answers_are_appended_and_keep_the_rest_of_the_file(project: Project) -> None:
    odd = 'bash(echo "\x7f\\ é\u2028")'
    save_answer(str(project.folder), ["bash(a)"], project.environ)
    path = save_answer(str(project.folder), [odd], project.environ)
    text = path.read_text()
    path.write_text("# mine\n" + text)
    save_answer(str(project.folder), ["bash(c)"], project.environ)
    assert path.read_text().startswith("# mine\n")
    kept = tomllib.loads(path.read_text())["allow"]
    assert [entry["rule"] for entry in kept] == ["bash(a)", odd, "bash(c)"]


# -- the command -----------------------------------------------------------------------------------------


def test_without_a_terminal_a_question_is_a_denial_that_names_the_option(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    sse_server.play(*text_chunks("done"))
    ended = run_command(arguments(sse_server.url, "--approve", "ask", "--cwd", str(tmp_path), "-p", "x"))
    assert ended.returncode == 0
    assert "--approve auto" in sse_server.requests[1].json["messages"][-1]["content"]
    assert not (tmp_path / "made").exists()


def test_rules_of_files_apply_in_the_command(sse_server: SseServer, tmp_path: Path) -> None:
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


def test_a_rule_for_an_unknown_tool_is_reported(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*text_chunks("ok"))
    (tmp_path / ".steady-agent.toml").write_text(
        '[permissions]\ndeny = ["other_tool(x)", "Bash(rm *)", "*"]\n'
    )
    ended = run_command(arguments(sse_server.url, "--cwd", str(tmp_path), "-p", "x"))
    (note,) = ended.stderr.splitlines()
    assert "other_tool(x)" in note


# -- what searches show ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "ask"])
def test_searches_show_nothing_of_denied_files(project: Project, mode: Mode) -> None:
    project.user_file('[permissions]\ndeny = ["*(.env)", "*(secrets/)", "*(keys/**)"]\n')
    for path in (
        ".env",
        "sub/.env",
        "a.txt",
        "secrets/b.txt",
        "sub/secrets/c.txt",
        "keys/id",
        "sub/keys/d.txt",
    ):
        (project.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / path).write_text("KEY=1\n")
    permissions = project.permissions(mode=mode)
    shown = {}
    for name, factory in (("grep", grep_tool), ("find", find_tool), ("ls", ls_tool)):
        tool = factory(str(project.folder), exclude=permissions.exclude_for(name))
        shown[name] = tool.execute({"pattern": "KEY" if name == "grep" else "*", "path": "."}).text
    assert "a.txt" in shown["grep"]
    assert "d.txt" in shown["grep"]
    assert "left out" in shown["grep"]
    for text in shown.values():
        assert not any(name in text for name in (".env", "b.txt", "c.txt", "id:"))
    for path in ("secrets", "keys", ".env", "sub/secrets"):
        assert "deny" not in (_refusal(permissions, "ls", path="sub") or "")
        assert _refusal(permissions, "grep", pattern="KEY", path=path) is not None
        assert _refusal(permissions, "ls", path=path) is not None
    tool = grep_tool(str(project.folder), exclude=permissions.exclude_for("grep"))
    assert "KEY" not in tool.execute({"pattern": "KEY", "glob": ".env"}).text


def test_grep_searches_no_file_that_read_may_not_read(project: Project) -> None:
    project.user_file('[permissions]\ndeny = ["read(.env)"]\n')
    permissions = project.permissions()
    exclude = permissions.exclude_for("grep")
    assert exclude is not None
    assert exclude(str(project.folder / ".env"))
    assert not exclude(str(project.folder / "a"))
    assert permissions.exclude_for("find") is None


def test_a_search_enters_a_folder_that_rules_ask_for_after_a_yes(project: Project) -> None:
    project.user_file('[permissions]\nask = ["*(notes/)"]\n')
    (project.folder / "notes").mkdir()
    (project.folder / "notes" / "a.txt").write_text("KEY\n")
    permissions = project.permissions(ScriptedUser(YES))
    tool = grep_tool(str(project.folder), exclude=permissions.exclude_for("grep"))
    assert "notes" not in tool.execute({"pattern": "KEY"}).text.replace("left out", "")
    assert _refusal(permissions, "grep", pattern="KEY", path="notes") is None
    assert "a.txt" in tool.execute({"pattern": "KEY", "path": "notes"}).text


def test_the_command_hides_denied_files_from_searches(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("grep", {"pattern": "PASSWORD"}))
    sse_server.play(*text_chunks("done"))
    (tmp_path / ".env").write_text("PASSWORD=hunter2\n")
    (tmp_path / ".steady-agent.toml").write_text('[permissions]\ndeny = ["*(.env)"]\n')
    run_command(arguments(sse_server.url, "--cwd", str(tmp_path), "-p", "x"))
    result = sse_server.requests[1].json["messages"][-1]["content"]
    assert "hunter2" not in result
    assert "left out" in result


def test_searches_that_leave_files_out_stay_confined(sse_server: SseServer, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside.txt").write_text("SECRET\n")
    (tmp_path / "project" / ".steady-agent.toml").write_text('[permissions]\ndeny = ["*(.env)"]\n')
    for tool in ("grep", "find", "ls"):
        sse_server.play(*call_chunks(tool, {"pattern": "S", "path": ".."}))
    sse_server.play(*text_chunks("done"))
    command = arguments(
        sse_server.url, "--sandbox", "--tools", "grep,find,ls", "--cwd", str(tmp_path / "project")
    )
    run_command([*command, "-p", "x"])
    results = [m["content"] for m in sse_server.requests[3].json["messages"] if m["role"] == "tool"]
    assert len(results) == 3
    assert not any("SECRET" in text or "outside.txt" in text for text in results)


# -- between the question and the call -------------------------------------------------------------------


class ChangingUser(ScriptedUser):
    """Says yes to every question, after changing the world before the first answers."""

    def __init__(self, *changes: Callable[[], object]) -> None:
        super().__init__()
        self.changes = list(changes)

    def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        if self.changes:
            self.changes.pop(0)()
        return YES


def test_a_file_that_changes_during_the_question_is_asked_for_again(project: Project) -> None:
    file = project.folder / "a.txt"
    file.write_text("one\ntwo\n")
    user = ChangingUser(lambda: file.write_text("zero\none\ntwo\n"))
    permissions = project.permissions(user, mode="ask")
    assert _refusal(permissions, "edit", path="a.txt", oldText="two", newText="three") is None
    assert len(user.questions) == 2
    assert "changed while you were asked" in user.questions[1].why
    assert user.questions[0].diff != user.questions[1].diff


def test_a_folder_that_becomes_a_link_during_the_question_is_asked_for_again(project: Project) -> None:
    (project.folder / "src").mkdir()
    outside = project.folder.parent / "outside"
    outside.mkdir()

    def swap() -> None:
        (project.folder / "src").rmdir()
        (project.folder / "src").symlink_to(outside)

    user = ChangingUser(swap)
    assert _refusal(project.permissions(user, mode="ask"), "write", path="src/x.txt", content="x") is None
    assert len(user.questions) == 2
    user = ChangingUser(lambda: (project.folder / "src").unlink())
    assert _refusal(project.permissions(user, mode="ask"), "bash", command="make", cwd="src") is None
    assert len(user.questions) == 2


def test_a_path_that_becomes_denied_during_the_question_is_denied(project: Project) -> None:
    project.user_file('[permissions]\ndeny = ["*(secret)"]\n')
    (project.folder / "secret").write_text("x")
    user = ChangingUser(lambda: (project.folder / "a").symlink_to("secret"))
    refusal = _refusal(project.permissions(user, mode="ask"), "write", path="a", content="x")
    assert "*(secret)" in (refusal or "")
