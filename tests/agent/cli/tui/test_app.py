"""The interactive mode in a real pseudo-terminal: typed into, resized, signalled."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import ROOT, call_chunks, chunk, environment, text_chunks
from support.interactive import Interactive
from support.sse_server import SseServer, hang, wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")

ENTER, ESC, ALT_ENTER, CTRL_C, CTRL_D, CTRL_J = "\r", "\x1b", "\x1b\r", "\x03", "\x04", "\n"
SHIFT_TAB, ALT_UP, UP, CTRL_U = "\x1b[Z", "\x1b[1;3A", "\x1b[A", "\x15"


def _pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


@pytest.fixture
def agent(sse_server: SseServer, tmp_path: Path) -> Iterator[Interactive]:
    """The command at its prompt."""
    with Interactive(sse_server.url, tmp_path) as running:
        yield running


def _prompts(server: SseServer, request: int = -1) -> list[str]:
    messages = server.requests[request].json["messages"]
    return [message["content"] for message in messages if message["role"] == "user"]


def test_a_prompt_is_answered_below_it_and_the_line_is_free_again(
    sse_server: SseServer, agent: Interactive
) -> None:
    sse_server.play(*text_chunks("It **is** ", "so."))
    agent.type("Is it so?" + ENTER)
    agent.wait_for(r"❯ Is it so\?\n\nIt is so\.\n\n1 turn · ")
    assert _prompts(sse_server) == ["Is it so?"]
    agent.wait_until(lambda: agent.line == "", "an empty line")


def test_enter_steers_while_it_works(sse_server: SseServer, agent: Interactive, tmp_path: Path) -> None:
    go = tmp_path / "go"
    sse_server.play(*call_chunks("bash", {"command": f"until [ -e {go} ]; do sleep 0.02; done"}))
    sse_server.play(*text_chunks("Steered."))
    agent.type("Start" + ENTER)
    agent.wait_for("running bash")
    agent.type("Turn left" + ENTER)
    agent.wait_for("» steering: Turn left")
    go.touch()
    agent.wait_for(r"❯ Turn left  \(steering, delivered in turn 2\)\n\nSteered\.")
    agent.wait_gone("» steering")
    assert _prompts(sse_server) == ["Start", "Turn left"]


def test_alt_enter_queues_a_follow_up_for_after_the_answer(sse_server: SseServer, agent: Interactive) -> None:
    """L08"""
    go = threading.Event()
    sse_server.play(chunk({"content": "One"}), wait_for(go), *text_chunks("."))
    sse_server.play(*text_chunks("Two."))
    sse_server.play(*text_chunks("Three."))
    agent.type("Start" + ENTER)
    agent.wait_for("answering")
    agent.type("Later" + ALT_ENTER)
    agent.wait_for("» follow-up: Later")
    agent.type("Now" + ENTER)
    agent.wait_for("» steering: Now")
    go.set()
    agent.wait_for(r"Three\.\n\n3 turns")
    assert _prompts(sse_server) == ["Start", "Now", "Later"]
    assert "❯ Later  (follow-up, delivered in turn 3)" in agent.text


def test_esc_stops_it_and_gives_the_queued_text_back(sse_server: SseServer, agent: Interactive) -> None:
    sse_server.play(chunk({"content": "Half an answer"}), hang())
    sse_server.play(*text_chunks("Fine."))
    agent.type("Start" + ENTER)
    agent.wait_for("Half an answer")
    agent.type("do this" + ENTER)
    agent.wait_for("» steering: do this")
    agent.type(ESC)
    agent.wait_for("aborted · ")
    agent.wait_until(lambda: agent.line == "do this", "the text in the line")
    agent.type(" instead" + ENTER)
    agent.wait_for(r"Fine\.")
    assert _prompts(sse_server)[-1] == "do this instead"


def test_the_last_queued_message_can_be_taken_back(sse_server: SseServer, agent: Interactive) -> None:
    go = threading.Event()
    sse_server.play(chunk({"content": "Well"}), wait_for(go), *text_chunks("."))
    sse_server.play(*text_chunks("Done."), repeat=True)
    agent.type("Start" + ENTER)
    agent.wait_for("answering")
    agent.type("first" + ENTER + "second" + ENTER)
    agent.wait_for("» steering: second")
    agent.type(ALT_UP)
    agent.wait_until(lambda: agent.line == "second", "the text in the line")
    agent.type(CTRL_U)
    go.set()
    agent.wait_for(r"Done\.\n\n2 turns")
    assert _prompts(sse_server) == ["Start", "first"]


def test_a_shell_command_is_shown_to_the_model(sse_server: SseServer, agent: Interactive) -> None:
    sse_server.play(*text_chunks("I see."))
    agent.type("!echo one two" + ENTER)
    agent.wait_for("! echo one two\n    one two")
    agent.type("Well?" + ENTER)
    agent.wait_for(r"I see\.")
    shown, asked = _prompts(sse_server)
    assert "$ echo one two\none two" in shown
    assert asked == "Well?"


def test_a_shell_command_with_two_marks_is_not_shown_to_the_model(
    sse_server: SseServer, agent: Interactive
) -> None:
    sse_server.play(*text_chunks("I see."))
    agent.type("!!echo secret" + ENTER)
    agent.wait_for("! echo secret\n    secret")
    agent.type("Well?" + ENTER)
    agent.wait_for(r"I see\.")
    assert _prompts(sse_server) == ["Well?"]


@pytest.fixture
def asking(sse_server: SseServer, tmp_path: Path) -> Iterator[Interactive]:
    """The command, asked for something that needs a yes, with the question on screen."""
    sse_server.play(*call_chunks("write", {"path": "new.txt", "content": "text"}))
    sse_server.play(*text_chunks("Well."))
    with Interactive(sse_server.url, tmp_path, "--approve", "ask") as running:
        running.type("write it" + ENTER)
        running.wait_for(r"\? write new\.txt")
        running.wait_for("yes · no · always")
        yield running


def _answer(agent: Interactive, text: str) -> None:
    """Type an answer; Enter is pressed until the question is old enough to be answered."""
    agent.type(text)
    agent.wait_until(lambda: agent.line == text, "the answer in the line")
    agent.wait_until(lambda: agent.type(ENTER) or agent.line != text, "the answer being taken")


def _settled(agent: Interactive) -> None:
    agent.wait_for(r"Well\.")


def test_an_approval_is_asked_for_in_place(asking: Interactive, tmp_path: Path) -> None:
    _answer(asking, "yes")
    asking.wait_for("allowed")
    _settled(asking)
    assert (tmp_path / "new.txt").read_text() == "text"
    asking.wait_gone("yes · no")


def test_other_text_refuses_the_call_and_reaches_the_model(
    asking: Interactive, sse_server: SseServer, tmp_path: Path
) -> None:
    _answer(asking, "use another name")
    asking.wait_for("refused")
    _settled(asking)
    assert not (tmp_path / "new.txt").exists()
    assert "use another name" in sse_server.requests[-1].json["messages"][-1]["content"]


@pytest.mark.parametrize("letter", ["y", "n", "a"])
def test_a_single_letter_answers_nothing(asking: Interactive, tmp_path: Path, letter: str) -> None:
    asking.type(letter)
    asking.wait_until(lambda: asking.line == letter, "the letter in the line")
    asking.wait_until(lambda: asking.type(ENTER) or "type a whole word" in asking.text, "the hint")
    assert asking.line == letter
    assert not (tmp_path / "new.txt").exists()
    asking.type(CTRL_U)
    _answer(asking, "always")
    _settled(asking)
    assert (tmp_path / "new.txt").exists()


def test_a_draft_is_no_answer_and_comes_back_after_the_question(
    sse_server: SseServer, tmp_path: Path
) -> None:
    go = threading.Event()
    sse_server.play(wait_for(go), *call_chunks("write", {"path": "new.txt", "content": "text"}))
    sse_server.play(*text_chunks("Well."))
    with Interactive(sse_server.url, tmp_path, "--approve", "ask") as agent:
        agent.type("write it" + ENTER)
        agent.wait_for("waiting for the model")
        agent.type("yes")
        agent.wait_until(lambda: agent.line == "yes", "the draft")
        go.set()
        agent.wait_for("yes · no · always")
        agent.wait_until(lambda: agent.line == "", "an empty line")
        _answer(agent, "no")
        agent.wait_for("refused")
        agent.wait_until(lambda: agent.line == "yes", "the draft again")
        assert not (tmp_path / "new.txt").exists()


def test_all_of_a_long_command_is_shown(sse_server: SseServer, tmp_path: Path) -> None:
    """Z26"""
    lines = [f"echo step {number}" for number in range(60)]
    lines[30] = "rm -rf hidden_middle"
    sse_server.play(*call_chunks("bash", {"command": "\n".join(lines), "timeout": 7}))
    sse_server.play(*text_chunks("Well."))
    with Interactive(sse_server.url, tmp_path, "--approve", "ask") as agent:
        agent.type("go" + ENTER)
        agent.wait_for("yes · no")
        shown = [line.strip() for line in agent.screen.lines]
        assert [line for line in shown if line in lines] == lines
        assert "timeout: 7" in shown
        _answer(agent, "no")
        agent.wait_for("refused")


def test_esc_stops_a_run_that_asks(asking: Interactive, tmp_path: Path) -> None:
    asking.type(ESC)
    asking.wait_for("aborted · ")
    assert not (tmp_path / "new.txt").exists()


def test_pasted_lines_are_one_prompt(sse_server: SseServer, agent: Interactive) -> None:
    sse_server.play(*text_chunks("ok"))
    agent.type(_pasted("one\r\ntwo\rthree"))
    agent.wait_for("❯ one\n  two\n  three")
    agent.type(ENTER)
    agent.wait_for("1 turn")
    assert _prompts(sse_server) == ["one\ntwo\nthree"]


def test_a_long_paste_is_a_label_in_the_line_and_sent_whole(
    sse_server: SseServer, agent: Interactive
) -> None:
    sse_server.play(*text_chunks("ok"))
    pasted = "\n".join(f"line {n}" for n in range(500))
    agent.type("see: " + _pasted(pasted))
    agent.wait_for(r"see: \[pasted #1: 500 lines\]")
    agent.type(ENTER)
    agent.wait_for("1 turn")
    assert _prompts(sse_server) == ["see: " + pasted]


def test_a_paste_without_an_end_is_left_with_esc(sse_server: SseServer, agent: Interactive) -> None:
    """Z20"""
    sse_server.play(*text_chunks("ok"))
    agent.type("\x1b[200~abc")
    # A key that comes with the paste is part of it, so it is pressed until it arrives alone.
    agent.wait_until(lambda: agent.type(ESC) or agent.line.startswith("abc"), "the pasted text")
    agent.type(CTRL_U + "hello" + ENTER)
    agent.wait_for("1 turn")
    assert _prompts(sse_server) == ["hello"]


@pytest.mark.parametrize("keys", [CTRL_J, "\\" + ENTER, ALT_ENTER], ids=["ctrl-j", "backslash", "alt-enter"])
def test_a_prompt_may_have_several_lines(sse_server: SseServer, agent: Interactive, keys: str) -> None:
    sse_server.play(*text_chunks("ok"))
    agent.type("one" + keys)
    agent.wait_until(lambda: agent.line == "one", "the first line")
    agent.type("two" + ENTER)
    agent.wait_for("1 turn")
    assert _prompts(sse_server) == ["one\ntwo"]


def test_other_scripts_and_wide_characters_stand_where_they_should(
    sse_server: SseServer, agent: Interactive
) -> None:
    sse_server.play(*text_chunks("日本語 ", "и кириллица, e\u0301, 👍"))
    agent.type("héllo 世界 🎉" + ENTER)
    agent.wait_for(r"❯ héllo 世界 🎉\n\n日本語 и кириллица, e\u0301?, 👍\n\n1 turn")
    assert _prompts(sse_server) == ["héllo 世界 🎉"]


def test_a_narrow_window_wraps_and_loses_nothing(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*text_chunks("A sentence that is longer than the window.\n\n| a | b |\n|-|-|\n| 1 | 2 |"))
    with Interactive(sse_server.url, tmp_path, columns=24, rows=10) as agent:
        agent.type("A prompt that is also longer than that" + ENTER)
        agent.wait_for(r"1 turn")
        assert " ".join(agent.text.split()).count("A sentence that is longer than the window.") == 1
        assert all(len(line) <= 24 for line in agent.screen.lines)


def test_a_new_size_is_drawn_for_at_once(sse_server: SseServer, agent: Interactive) -> None:
    agent.wait_for("─{80}")
    agent.resize(50, 12)
    agent.wait_until(lambda: "─" * 50 in agent.screen.visible, "a rule of the new width")
    sse_server.play(*text_chunks("word " * 30))
    agent.type("go" + ENTER)
    agent.wait_for("1 turn")
    assert all(len(line) <= 50 for line in agent.text.partition("❯ go")[2].splitlines())


def test_shift_tab_goes_through_the_thinking_levels_of_the_model(
    sse_server: SseServer, tmp_path: Path
) -> None:
    with Interactive(sse_server.url, tmp_path, "--model", "anthropic/claude-haiku-4-5") as agent:
        agent.wait_for("thinking off")
        for level in ("low", "medium", "high", "off"):
            agent.type(SHIFT_TAB)
            agent.wait_for(f"thinking {level}")


def test_commands_and_files_are_completed(agent: Interactive, tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "network.py").touch()
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    (tmp_path / "ignored.py").touch()
    agent.type("/th")
    agent.wait_for("/thinking  show the thinking level")
    agent.type(CTRL_U + "see @net")
    agent.wait_for(r"\n sources/network\.py")
    agent.type("\t")
    agent.wait_until(lambda: agent.line == "see @sources/network.py", "the completed path")
    agent.type(CTRL_U + "@ignor")
    agent.wait_until(lambda: agent.line == "@ignor", "the line")
    assert "ignored.py" not in agent.text


def test_slash_commands_print_their_answer(sse_server: SseServer, agent: Interactive) -> None:
    for command, shown in (
        ("/model", "local/test: window 128k, price unknown"),
        ("/model nowhere/x", "unknown provider 'nowhere'"),
        ("/thinking", "thinking: off of off"),
        ("/thinking hard", "no level 'hard'"),
        ("/tools", r"grep   Search the contents of files"),
        ("/cost", r"0 in, 0 out · cost unknown"),
        ("/copy", "no answer to copy"),
        ("/tree", "/tree: not yet"),
        ("/help", "Alt\\+Enter      while it works"),
    ):
        agent.type(command + ENTER)
        agent.wait_for(shown)
    assert sse_server.requests == []


def test_a_misspelt_command_is_reported_and_not_sent_to_the_model(
    sse_server: SseServer, agent: Interactive
) -> None:
    sse_server.play(*text_chunks("A folder."))
    agent.type("/modl" + ENTER)
    agent.wait_for(r"no command /modl; did you mean /model\?")
    assert sse_server.requests == []
    agent.type("/usr/bin" + ENTER)
    agent.wait_for(r"A folder\.")
    assert _prompts(sse_server) == ["/usr/bin"]


def test_a_level_that_the_model_has_not_is_explained(sse_server: SseServer, tmp_path: Path) -> None:
    with Interactive(sse_server.url, tmp_path) as agent:
        agent.type("/thinking high" + ENTER)
        agent.wait_for("thinking: off, as no other level is known of local/test")
        agent.type("/model anthropic/claude-haiku-4-5" + ENTER + "/thinking max" + ENTER)
        agent.wait_for("thinking: high, as anthropic/claude-haiku-4-5 has off, low, medium, high")


def test_the_start_names_help_once(agent: Interactive) -> None:
    agent.wait_for("/help lists the keys and the commands")
    agent.type("/cost" + ENTER)
    agent.wait_for("0 in, 0 out")
    assert agent.text.count("/help lists") == 1


def test_a_price_is_unknown_before_the_first_token_too(sse_server: SseServer, tmp_path: Path) -> None:
    with Interactive(sse_server.url, tmp_path) as agent:
        agent.wait_for("128k · cost unknown")
    with Interactive(sse_server.url, tmp_path, "--model", "anthropic/claude-haiku-4-5") as agent:
        agent.wait_for(r"200k · \$0\.00")


def test_another_model_is_used_from_the_next_prompt_on(sse_server: SseServer, agent: Interactive) -> None:
    sse_server.play(*text_chunks("ok"))
    agent.type("/model ollama/other" + ENTER)
    agent.wait_for("\nollama/other · thinking off")


def test_clear_forgets_the_conversation(sse_server: SseServer, agent: Interactive) -> None:
    sse_server.play(*text_chunks("ok"), repeat=True)
    agent.type("one" + ENTER)
    agent.wait_for("1 turn")
    agent.type("/clear" + ENTER)
    agent.wait_for("conversation cleared")
    agent.type("two" + ENTER)
    agent.wait_until(lambda: agent.text.count("1 turn") == 2, "the second answer")
    assert _prompts(sse_server) == ["two"]


def test_copy_gives_the_last_answer_to_the_terminal(sse_server: SseServer, agent: Interactive) -> None:
    sse_server.play(*text_chunks("ok"))
    agent.type("one" + ENTER)
    agent.wait_for("1 turn")
    agent.type("/copy" + ENTER)
    agent.wait_for("copied 2 characters")
    assert "\x1b]52;c;b2s=\x07" in agent.raw


def test_earlier_prompts_come_back_with_up_also_in_the_next_session(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*text_chunks("ok"), repeat=True)
    with Interactive(sse_server.url, tmp_path) as agent:
        agent.type("remember me" + ENTER)
        agent.wait_for("1 turn")
        agent.type(CTRL_D)
        assert agent.wait_exit() == 0
    with Interactive(sse_server.url, tmp_path) as agent:
        agent.type(UP)
        agent.wait_until(lambda: agent.line == "remember me", "the earlier prompt")
    (history,) = (tmp_path / "state").rglob("history")
    assert history.stat().st_mode & 0o077 == 0


def test_a_prompt_typed_before_everything_is_loaded_is_answered(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*text_chunks("Here."))
    agent = Interactive(sse_server.url, tmp_path)
    agent.type("early" + ENTER)
    with agent:
        # The line about /help comes once the rest is loaded: before this prompt's echo, or after it.
        agent.wait_for(r"❯ early\n\n(/help [^\n]*\n\n)?Here\.")


def test_an_error_is_shown_and_the_next_prompt_works(sse_server: SseServer, agent: Interactive) -> None:
    sse_server.play('{"error": {"message": "no such model"}}', status=404)
    sse_server.play(*text_chunks("Better."))
    agent.type("one" + ENTER)
    agent.wait_for("404.*no such model")
    agent.type("two" + ENTER)
    agent.wait_for(r"Better\.")


def test_a_prompt_that_got_no_answer_comes_back_into_the_line(
    sse_server: SseServer, agent: Interactive
) -> None:
    """N43"""
    sse_server.play('{"error": {"message": "no such model"}}', status=404)
    sse_server.play(*text_chunks("Better."))
    agent.type("fix it" + ENTER)
    agent.wait_for("404.*no such model")
    agent.wait_until(lambda: agent.line == "fix it", "the prompt in the line")
    agent.type(" now" + ENTER)
    agent.wait_for(r"Better\.")
    assert [m["content"] for m in sse_server.requests[1].json["messages"][1:]] == ["fix it now"]


def test_ctrl_d_while_it_works_leaves_only_the_second_time(sse_server: SseServer, agent: Interactive) -> None:
    """N45"""
    sse_server.play(chunk({"content": "Half an answer"}), hang())
    agent.type("go" + ENTER)
    agent.wait_for("answering")
    agent.type(CTRL_D)
    agent.wait_for("still working: Ctrl\\+D again")
    agent.type(CTRL_D)
    assert agent.wait_exit() == 0


def test_ctrl_c_twice_leaves(agent: Interactive) -> None:
    agent.type("half a line" + CTRL_C)
    agent.wait_for("Ctrl\\+C again leaves")
    agent.wait_until(lambda: agent.line == "", "an empty line")
    agent.type(CTRL_C)
    assert agent.wait_exit() == 0


def test_ctrl_c_stops_the_run_first(sse_server: SseServer, agent: Interactive) -> None:
    sse_server.play(chunk({"content": "Half"}), hang())
    agent.type("go" + ENTER)
    agent.wait_for("Half")
    agent.type(CTRL_C)
    agent.wait_for("aborted · ")
    assert agent.child.isalive()


def test_sigterm_ends_it_with_the_terminal_restored_and_no_command_left(
    sse_server: SseServer, agent: Interactive, tmp_path: Path
) -> None:
    sse_server.play(*call_chunks("bash", {"command": "echo $$ > pid; sleep 60"}))
    agent.type("go" + ENTER)
    pid = tmp_path / "pid"
    agent.wait_until(lambda: pid.exists() and bool(pid.read_text().strip()), "the command")
    agent.child.kill(signal.SIGTERM)
    assert agent.wait_exit() == 143
    assert agent.raw.rstrip().endswith("\x1b[J")
    assert "\x1b[?2004l" in agent.raw
    deadline = time.monotonic() + 5
    while _is_alive(int(pid.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_alive(int(pid.read_text()))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_unknown_model_ends_the_interactive_mode_with_an_error(tmp_path: Path) -> None:
    agent = Interactive("http://127.0.0.1:9", tmp_path, "--model", "nowhere/x")
    try:
        assert agent.wait_exit() == 2
        assert "unknown provider 'nowhere'" in agent.text
    finally:
        agent.child.close(force=True)


_NO_TOOLKIT = """
import sys
sys.modules["prompt_toolkit"] = None
from agent.cli import main
main._is_interactive = lambda options: True
sys.exit(main.main([]))
"""


def test_a_missing_extra_is_named() -> None:
    command = [sys.executable, "-c", _NO_TOOLKIT]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert 'pip install "steady-agent[tui]"' in ended.stderr


def test_the_prompt_needs_neither_the_agent_nor_rich_nor_a_provider() -> None:
    probe = "import sys, agent.cli.main, agent.cli.tui.app; print(*sys.modules)"
    command = [sys.executable, "-c", probe]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, cwd=ROOT)
    loaded = set(ended.stdout.split())
    assert "prompt_toolkit" in loaded, ended.stderr
    heavy = {"httpx", "rich", "pydantic", "pygments", "agent.agent", "agent.providers", "agent_tools"}
    assert loaded.isdisjoint(heavy)


def test_a_fast_stream_delays_neither_the_keys_nor_itself(sse_server: SseServer, agent: Interactive) -> None:
    """20,000 deltas at once: keys typed meanwhile arrive, and the whole answer is printed once."""
    go = threading.Event()
    words = [f"w{n}\n\n" if n % 50 == 49 else f"w{n} " for n in range(20_000)]
    body = [chunk({"content": word}) for word in words]
    sse_server.play("".join(body[:10_000]), wait_for(go), "".join(body[10_000:]), *text_chunks("the end"))
    agent.type("go" + ENTER)
    agent.wait_for("w9949")
    agent.type("typed meanwhile")
    agent.wait_until(lambda: agent.line == "typed meanwhile", "what is typed")
    go.set()
    agent.wait_for(r"the end\n\n1 turn")
    answer = agent.text.partition("❯ go")[2].partition("the end")[0].split()
    assert answer == [word.strip() for word in words]


def test_no_color_asks_for_no_colours(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*text_chunks("`code` **bold**\n\n```python\nx = 1\n```"))
    with Interactive(sse_server.url, tmp_path, NO_COLOR="1") as agent:
        agent.type("go" + ENTER)
        agent.wait_for("1 turn")
        colours = re.findall(r"\x1b\[(?:\d+;)*(?:3[0-7]|4[0-7]|9[0-7]|38|48)[;m]", agent.raw)
        assert colours == []


def test_a_printed_run_on_a_terminal_is_drawn_and_with_no_color_plain(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*text_chunks("a **bold** word"), repeat=True)
    drawn = Interactive(sse_server.url, tmp_path, "-p", "go")
    plain = Interactive(sse_server.url, tmp_path, "-p", "go", NO_COLOR="1")
    assert (drawn.wait_exit(), plain.wait_exit()) == (0, 0)
    assert drawn.screen.lines[0] == "a bold word"
    assert "\x1b[1mbold" in drawn.raw
    assert plain.raw == "a **bold** word\r\n"


def test_ctrl_c_in_a_printed_run_on_a_terminal_leaves_a_whole_screen(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(chunk({"content": "Half an answer"}), hang())
    agent = Interactive(sse_server.url, tmp_path, "-p", "go")
    agent.wait_for("Half an answer\n+. answering")
    agent.type(CTRL_C)
    assert agent.wait_exit() == 130
    lines = [line for line in agent.screen.lines if line]
    assert lines[-2:-1] == ["Half an answer"]
    assert lines[-1].startswith("aborted · ")
    assert any("aborting; Ctrl-C again ends at once" in line for line in lines)


def test_writing_over_a_file_shows_what_changed(sse_server: SseServer, tmp_path: Path) -> None:
    """N36"""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    sse_server.play(*call_chunks("write", {"path": "a.txt", "content": "one\n2\n"}))
    sse_server.play(*text_chunks("Done."))
    agent = Interactive(sse_server.url, tmp_path, "-p", "go")
    assert agent.wait_exit() == 0
    assert re.search(r"write a\.txt\n +1 one\n +-2 two\n +\+2 2\n", agent.text), agent.text


def test_an_error_of_a_printed_run_is_shown_once(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play('{"error": {"message": "no such model"}}', status=404)
    agent = Interactive(sse_server.url, tmp_path, "-p", "go")
    assert agent.wait_exit() == 1
    assert agent.text.count("404 no such model") == 1
