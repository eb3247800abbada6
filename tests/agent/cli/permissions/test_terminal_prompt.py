"""Questions at a real terminal in a printed run."""

from __future__ import annotations

import os
from pathlib import Path

import pexpect
import pytest
from support.command import arguments, call_chunks, chunk, environment, text_chunks
from support.sse_server import Pause, SseServer

from agent.cancel import CancelToken
from agent.cli.permissions.gate import ALWAYS, NO, YES, Answer, Question
from agent.cli.permissions.terminal_prompt import choices, parse_answer


@pytest.mark.parametrize("rules", [(), ("bash(make)",)])
def test_answers_are_whole_words(rules: tuple[str, ...]) -> None:
    question = Question("c", "bash", {}, "", "make", "", rules, CancelToken())
    assert parse_answer(question, " yes\n") == YES
    assert parse_answer(question, "No") == NO
    assert parse_answer(question, "always") == (ALWAYS if rules else Answer(False, reason="always"))
    for text in ("", "y", "n", "a", " Y ", "1"):
        assert parse_answer(question, text) is None
    for text in ("yes but", "you should", "add tests", "nope", "yess"):
        assert parse_answer(question, text) == Answer(False, reason=text)
    assert ("always" in choices(question)) == bool(rules)


@pytest.mark.parametrize("rule", ["bash(" + "make; " * 50 + "make)", "bash(a\nb)", "bash(echo '\u200b')"])
def test_a_long_or_unprintable_rule_is_not_repeated_below_its_command(rule: str) -> None:
    question = Question("c", "bash", {}, "", "make", "", (rule,), CancelToken())
    assert choices(question) == "yes · no · always (exactly this) · or say what to do instead"


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
def test_the_word_yes_allows_a_call(sse_server: SseServer, tmp_path: Path, more: dict[str, str]) -> None:
    sse_server.play(*call_chunks("write", {"path": "a.txt", "content": "hello\n"}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path, **more)
    child.expect(r"\+1 hello")
    child.expect("yes · no")
    assert not (tmp_path / "a.txt").exists()
    child.sendline("yes")
    child.expect("allowed")
    assert _ended(child) == 0
    assert (tmp_path / "a.txt").read_text() == "hello\n"


def test_a_question_is_printed_below_earlier_output(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(chunk({"content": "I make it."}), *call_chunks("bash", {"command": "touch made"}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect("yes · no")
    assert "I make it." in child.before
    child.sendline("no")
    assert _ended(child) == 0


def test_no_letter_is_an_answer_and_other_text_refuses_with_a_reason(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*call_chunks("bash", {"command": "touch made; touch $(echo x)"}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect(r"touch made; touch \$\(echo x\)")
    for line in ("y", "n", "a", "Y", ""):
        child.expect("yes · no")
        child.sendline(line)
    child.expect("yes · no")
    child.sendline("add tests instead")
    child.expect("refused")
    assert _ended(child) == 0
    assert not (tmp_path / "made").exists()
    assert "add tests instead" in sse_server.requests[1].json["messages"][-1]["content"]


def test_what_was_typed_before_the_question_is_no_answer(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(chunk({"content": "Wait."}), Pause(1.0), *call_chunks("bash", {"command": "touch made"}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect("Wait")
    child.sendline("yes")
    child.expect("yes · no")
    child.sendline("no")
    assert _ended(child) == 0
    assert not (tmp_path / "made").exists()


def test_a_long_change_is_shown_whole_before_it_can_be_allowed(sse_server: SseServer, tmp_path: Path) -> None:
    content = "".join(f"line {n}\n" for n in range(1000))
    sse_server.play(*call_chunks("write", {"path": "a.txt", "content": content}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect("rows are not shown; type show")
    child.expect("yes · no")
    child.sendline("yes")
    child.expect("type show first")
    child.sendline("show")
    child.expect("line 500")
    child.expect("line 999")
    child.expect("yes · no")
    child.sendline("yes")
    child.expect("allowed")
    assert _ended(child) == 0
    assert (tmp_path / "a.txt").read_text() == content


def test_all_of_a_command_is_printed(sse_server: SseServer, tmp_path: Path) -> None:
    command = "\n".join([*(f"echo {n}" for n in range(30)), "rm -rf hidden_middle", *("true",) * 29])
    sse_server.play(*call_chunks("bash", {"command": command}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect("hidden_middle")
    child.expect("yes · no")
    child.sendline("no")
    assert _ended(child) == 0


def test_always_asks_once(sse_server: SseServer, tmp_path: Path) -> None:
    for _ in range(2):
        sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    sse_server.play(*text_chunks("done"))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect(r"always \(bash\(touch made\)\)")
    child.sendline("always")
    assert _ended(child) == 0
    assert len(sse_server.requests) == 3
    kept = (tmp_path / "config" / "steady-agent" / "approvals.toml").read_text()
    assert 'rule = "bash(touch made)"' in kept


def test_ctrl_c_at_a_question_aborts_the_run(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    child = _at_a_terminal(sse_server.url, tmp_path)
    child.expect("yes · no")
    child.sendintr()
    assert _ended(child) == 130
    assert not (tmp_path / "made").exists()


def test_terminal_modes_are_restored_after_a_question(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("bash", {"command": "true"}))
    sse_server.play(*text_chunks("done"))
    script = f'before=$(stty -g); "$@"; [ "$before" = "$(stty -g)" ] && echo same; touch {tmp_path}/ended'
    command = arguments(sse_server.url, "--approve", "ask", "--cwd", str(tmp_path), "-p", "x")
    env = environment(TERM="xterm")
    child = pexpect.spawn("sh", ["-c", script, "sh", *command], env=env, timeout=30, encoding="utf-8")
    child.expect("yes · no")
    child.sendline("yes")
    child.expect("same")
    assert _ended(child) == 0
    assert os.path.exists(tmp_path / "ended")
