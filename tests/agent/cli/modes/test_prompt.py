"""The command as a process: what it prints, what it sends, how it exits."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from support.command import arguments, call_chunks, chunk, environment, run_command, text_chunks
from support.sse_server import SseServer

from agent.cli.modes.prompt import exit_code
from agent.runs import RunResult


def test_a_prompt_prints_its_answer_and_exits_with_0(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("Hel", "lo."))
    ended = run_command(arguments(sse_server.url, "-p", "hi"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Hello.\n", "")


def test_words_without_an_option_are_the_prompt(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("ok"))
    run_command(arguments(sse_server.url, "fix", "the failing test"))
    assert sse_server.requests[0].json["messages"][-1]["content"] == "fix the failing test"


def test_piped_input_is_appended_to_the_prompt(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("ok"))
    run_command(arguments(sse_server.url, "-p", "review"), stdin="+ a line\n")
    assert sse_server.requests[0].json["messages"][-1]["content"] == "review\n\n+ a line\n"


def test_piped_input_alone_is_the_prompt(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("ok"))
    assert run_command(arguments(sse_server.url), stdin="hello").returncode == 0
    assert sse_server.requests[0].json["messages"][-1]["content"] == "hello"


def test_a_tool_call_is_one_line_and_a_few_of_its_result(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("bash", {"command": "seq 1 14"}))
    sse_server.play(*text_chunks("done"))
    ended = run_command(arguments(sse_server.url, "--cwd", str(tmp_path), "-p", "count"))
    assert ended.stderr.splitlines()[:3] == ["[bash] seq 1 14", "  | ... 4 more lines", "  | 5"]
    assert "  | 14" in ended.stderr
    assert ended.stdout == "done\n"


@pytest.mark.parametrize(("more", "shown"), [([], "retry 1 in "), (["-q"], ""), (["--json"], "")])
def test_a_retry_is_reported_on_standard_error(sse_server: SseServer, more: list[str], shown: str) -> None:
    sse_server.play(b"busy", status=503, headers={"retry-after-ms": "1"})
    sse_server.play(*text_chunks("ok"))
    ended = run_command(arguments(sse_server.url, *more, "-p", "x"))
    assert ended.returncode == 0
    assert ended.stderr.startswith(shown)
    assert ended.stderr.count("\n") == bool(shown)


def test_quiet_prints_the_last_answer_alone(sse_server: SseServer) -> None:
    """N23"""
    text_chunk = chunk({"content": "I run it."})
    sse_server.play(text_chunk, *call_chunks("bash", {"command": "echo secret"}))
    sse_server.play(*text_chunks("done"))
    ended = run_command(arguments(sse_server.url, "-q", "-p", "x"))
    assert (ended.stdout, ended.stderr) == ("done\n", "")


def test_on_a_terminal_everything_is_standard_output(sse_server: SseServer) -> None:
    """N23"""
    text_chunk = chunk({"content": "I run it."})
    sse_server.play(text_chunk, *call_chunks("bash", {"command": "echo shown"}))
    sse_server.play(*text_chunks("done"))
    words = arguments(sse_server.url, "-p", "x")
    ended = pexpect.spawn(
        shlex.join(["sh", "-c", f"{shlex.join(words)} 2>/dev/null"]), env=environment(), encoding="utf-8"
    )
    shown = ended.read()
    ended.wait()
    assert shown.index("I run it.") < shown.index("echo shown") < shown.index("done")


def test_tools_work_in_the_given_folder(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("write", {"path": "new.txt", "content": "text"}))
    sse_server.play(*text_chunks("done"))
    run_command(arguments(sse_server.url, "--cwd", str(tmp_path), "-p", "write"))
    assert (tmp_path / "new.txt").read_text() == "text"


def test_json_prints_one_object_per_event(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("a", "b"))
    lines = run_command(arguments(sse_server.url, "--json", "-p", "x")).stdout.splitlines()
    events = [json.loads(line) for line in lines]
    types = [event["type"] for event in events]
    assert types[:2] == ["agent_start", "turn_start"]
    assert types[-1] == "agent_end"
    deltas = [e["stream_event"].get("delta", "") for e in events if e["type"] == "message_update"]
    assert "".join(deltas) == "ab"
    assert len({event["run_id"] for event in events}) == 1


def test_commands_of_the_model_do_not_see_keys(sse_server: SseServer) -> None:
    sse_server.play(*call_chunks("bash", {"command": "env"}))
    sse_server.play(*text_chunks("done"))
    env = environment(OPENAI_API_KEY="sk-secret", GITHUB_TOKEN="ghp-secret", HARMLESS="yes")
    run_command(arguments(sse_server.url, "-p", "x"), env=env)
    shown = sse_server.requests[1].json["messages"][-1]["content"]
    assert "HARMLESS=yes" in shown
    assert "secret" not in shown


def test_pass_env_lets_one_variable_through(sse_server: SseServer) -> None:
    sse_server.play(*call_chunks("bash", {"command": "env"}))
    sse_server.play(*text_chunks("done"))
    env = environment(GITHUB_TOKEN="let-through", OPENAI_API_KEY="sk-secret")
    run_command(arguments(sse_server.url, "--pass-env", "GITHUB_TOKEN", "-p", "x"), env=env)
    shown = sse_server.requests[1].json["messages"][-1]["content"]
    assert "GITHUB_TOKEN=let-through" in shown
    assert "sk-secret" not in shown


def test_a_failed_request_exits_with_1_and_says_why_without_the_key(sse_server: SseServer) -> None:
    sse_server.play('{"error": {"message": "Incorrect API key sk-secret"}}', status=401, repeat=True)
    env = environment(LOCAL_API_KEY="sk-secret")
    ended = run_command(arguments(sse_server.url, "-p", "x"), env=env)
    assert ended.returncode == 1
    assert "401" in ended.stderr
    assert "sk-secret" not in ended.stderr + ended.stdout


def test_the_turn_limit_is_reported(sse_server: SseServer) -> None:
    sse_server.play(*call_chunks("bash", {"command": "true"}), repeat=True)
    ended = run_command(arguments(sse_server.url, "--max-turns", "2", "-p", "x"))
    assert ended.returncode == 1
    assert "stopped after 2 turns" in ended.stderr
    assert len(sse_server.requests) == 2


def test_only_the_named_tools_are_offered(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("ok"), repeat=True)
    run_command(arguments(sse_server.url, "--tools", "read,grep", "-p", "x"))
    run_command(arguments(sse_server.url, "--tools", "none", "-p", "x"))
    offered = [[t["function"]["name"] for t in r.json.get("tools", [])] for r in sse_server.requests]
    assert offered == [["read", "grep"], []]


def test_the_system_prompt_can_be_replaced_and_added_to(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*text_chunks("ok"))
    options = ("--system-prompt", "BASE", "--append-system-prompt", "MORE", "--cwd", str(tmp_path))
    run_command(arguments(sse_server.url, *options, "-p", "x"))
    system = sse_server.requests[0].json["messages"][0]["content"]
    assert system.startswith("BASE\n")
    assert system.endswith("\nMORE")
    assert str(tmp_path) in system


def test_the_same_command_sends_the_same_system_prompt(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("ok"), repeat=True)
    for _ in range(2):
        run_command(arguments(sse_server.url, "-p", "x"))
    first, second = (request.json["messages"][0] for request in sse_server.requests)
    assert first == second


def test_control_characters_of_a_model_do_not_reach_the_terminal(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("a\x1b[2Jb\x07c"))
    assert run_command(arguments(sse_server.url, "-p", "x")).stdout == "a[2Jbc\n"


def test_a_reader_that_leaves_ends_the_run_without_a_traceback(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks(*["word " * 100] * 500))
    with subprocess.Popen(
        arguments(sse_server.url, "-p", "x"),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        errors = child.stderr.read()
    assert child.returncode == 1
    assert errors == b""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-p", "x", "--tools", "raed"], "no tool raed; there are read"),
        (["-p", "x", "--cwd", "/does/not/exist"], "is not a folder"),
        (["-p", "x", "--max-turns", "0"], "at least 1"),
        (["-p", "x", "--thinking", "hard"], "invalid choice"),
        (["-p", "x", "y"], "give the prompt once"),
        ([], "no prompt"),
    ],
)
def test_misuse_exits_with_2_and_says_what_is_wrong(words: list[str], expected: str) -> None:
    ended = run_command(arguments("http://127.0.0.1:9", *words))
    assert ended.returncode == 2
    assert expected in ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_a_model_it_says_which_variables_to_set_and_names_the_demo() -> None:
    ended = run_command([sys.executable, "-m", "agent", "-p", "x"])
    assert ended.returncode == 2
    assert "OPENAI_API_KEY" in ended.stderr
    assert "agent demo" in ended.stderr


def test_an_unknown_model_exits_with_2_and_names_near_ones() -> None:
    ended = run_command([sys.executable, "-m", "agent", "--model", "openai/gpt-5-mni", "-p", "x"])
    assert ended.returncode == 2
    assert "openai/gpt-5-mini" in ended.stderr


def test_the_error_for_an_unlisted_model_says_how_to_use_it() -> None:
    ended = run_command([sys.executable, "-m", "agent", "--model", "nowhere/x", "-p", "x"])
    assert "--model local/ID --base-url URL" in ended.stderr


def test_a_base_url_without_a_scheme_is_misuse() -> None:
    command = [sys.executable, "-m", "agent", "--model", "local/x", "--base-url", "localhost:8080", "-p", "x"]
    ended = run_command(command)
    assert ended.returncode == 2
    assert "does not begin with http://" in ended.stderr


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (["--modl", "x"], "unrecognized arguments: --modl; did you mean --model?"),
        (["--moedl=x"], "unrecognized arguments: --moedl=x; did you mean --model?"),
        (["--max-turns", "0"], "'0' is not a whole number of at least 1"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate (see agent --help)"),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(wrong: list[str], expected: str) -> None:
    ended = run_command([sys.executable, "-m", "agent", *wrong, "hi"])
    assert ended.returncode == 2
    assert expected in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_help_of_the_local_model_fetches_nothing(tmp_path: Path) -> None:
    ended = run_command([sys.executable, "-m", "agent.local_model", "--help"], cwd=tmp_path)
    assert ended.returncode == 0
    assert "125 MB" in ended.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_environment_names_the_model_and_its_server(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("ok"))
    env = environment(AGENT_MODEL="ollama/qwen3", OLLAMA_BASE_URL=sse_server.url)
    assert run_command([sys.executable, "-m", "agent", "-p", "x"], env=env).returncode == 0
    assert sse_server.requests[0].json["model"] == "qwen3"


def test_the_first_provider_with_a_key_is_used(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("ok"))
    env = environment(GROQ_API_KEY="k", GROQ_BASE_URL=sse_server.url)
    assert run_command([sys.executable, "-m", "agent", "-p", "x"], env=env).returncode == 0
    assert sse_server.requests[0].headers["authorization"] == "Bearer k"


def _run_in_shell(url: str, ending: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = f"{shlex.join(arguments(url, *words))} {ending}"
    return run_command(["bash", "-c", command])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", [["-q"], ["--json"], []], ids=["quiet", "json", "plain"])
def test_an_output_that_cannot_be_written_exits_with_1_and_says_why(
    sse_server: SseServer, form: list[str]
) -> None:
    sse_server.play(*text_chunks("Hello."))
    ended = _run_in_shell(sse_server.url, ">/dev/full", *form, "-p", "hi")
    assert ended.returncode == 1
    assert "can't be written" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_a_closed_output_is_no_reason_to_fail(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("Hello."))
    ended = _run_in_shell(sse_server.url, ">&-", "-p", "hi")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = shlex.join(arguments("http://127.0.0.1:9", "-p", "hi"))
    ended = run_command(
        ["bash", "-c", f"cd {shlex.quote(str(gone))} && rmdir {shlex.quote(str(gone))} && {command}"]
    )
    assert ended.returncode == 2
    assert "no longer exists" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_directional_overrides_are_removed(sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("a\u202eb"))
    assert run_command(arguments(sse_server.url, "-p", "x")).stdout == "ab\n"


def test_a_key_of_blanks_is_none() -> None:
    ended = run_command([sys.executable, "-m", "agent", "-p", "x"], env=environment(OPENAI_API_KEY="  "))
    assert ended.returncode == 2
    assert "no model" in ended.stderr


_LIMIT = "agent: stopped after 3 turns, the limit; --max-turns N allows more\n"


@pytest.mark.parametrize(
    ("result", "code", "reported"),
    [
        (RunResult("end_turn"), 0, ""),
        (RunResult("truncated", turns=1), 1, "agent: the answer was cut off at the model's output limit\n"),
        (
            RunResult("max_turns", turns=3),
            1,
            "agent: stopped after 3 turns, the limit; --max-turns N allows more\n",
        ),
        (RunResult("error", error="401 no"), 1, "agent: 401 no\n"),
        (RunResult("aborted"), 130, ""),
    ],
)
def test_the_exit_code_tells_how_the_run_ended(
    result: RunResult, code: int, reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """FR-7"""
    assert exit_code(result, is_shown=False) == code
    assert capsys.readouterr() == ("", reported)


@pytest.mark.parametrize("form", [[], ["-q"], ["--json"]], ids=["plain", "quiet", "json"])
@pytest.mark.parametrize("text", [["half an"], []], ids=["a text", "nothing"])
def test_an_answer_that_was_cut_off_exits_with_1_and_one_line(
    sse_server: SseServer, form: list[str], text: list[str]
) -> None:
    """FR-7"""
    sse_server.play(*text_chunks(*text, finish="length"), repeat=True)
    ended = run_command(arguments(sse_server.url, *form, "-p", "x"))
    assert ended.returncode == 1
    assert ended.stderr == "agent: the answer was cut off at the model's output limit\n"


def _in_sandbox(server: SseServer, home: Path, name: str, arguments_: dict[str, str], **env: str) -> str:
    """What the model reads of a call of its with `--sandbox`, in the folder `project` of `home`."""
    (home / "project").mkdir()
    server.play(*call_chunks(name, arguments_))
    server.play(*text_chunks("done"))
    command = arguments(server.url, "--sandbox", "--cwd", str(home / "project"), "-p", "x")
    assert run_command(command, env=environment(**env)).returncode == 0
    return str(server.requests[1].json["messages"][-1]["content"])


def test_with_a_sandbox_a_file_outside_is_refused(sse_server: SseServer, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("PRIVATE")
    answer = _in_sandbox(sse_server, tmp_path, "read", {"path": "../private"})
    assert "outside the root" in answer
    assert "PRIVATE" not in answer


def test_with_a_sandbox_a_command_sees_nothing_outside_or_does_not_run(
    sse_server: SseServer, tmp_path: Path
) -> None:
    (tmp_path / "private").write_text("PRIVATE")
    command = {"command": f"cat {tmp_path / 'private'}; touch {tmp_path / 'made'}"}
    answer = _in_sandbox(sse_server, tmp_path, "bash", command)
    assert "PRIVATE" not in answer
    assert not (tmp_path / "made").exists()


def test_without_bubblewrap_the_sandbox_refuses_commands_and_says_why(
    sse_server: SseServer, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    broken = folder / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    program = f"import sys{_WITHOUT_BWRAP}"
    (tmp_path / "project").mkdir()
    sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    sse_server.play(*text_chunks("done"))
    words = arguments(sse_server.url, "--sandbox", "--cwd", str(tmp_path / "project"), "-p", "x")[3:]
    ended = run_command([sys.executable, "-c", program, *words], env=environment(PATH=f"{folder}:/bin"))
    assert ended.returncode == 0, ended.stderr
    answer = sse_server.requests[1].json["messages"][-1]["content"]
    assert "bubblewrap" in answer
    assert not (tmp_path / "project" / "made").exists()


# No bubblewrap of the system is found either.
_WITHOUT_BWRAP = """
from agent_tools.process import sandbox
sandbox._USUAL_FOLDERS = ()
from agent.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_server_of_this_machine_that_does_not_run_is_named_without_a_retry(free_port: int) -> None:
    """N15"""
    words = [
        "--no-context-files",
        "--model",
        "ollama/qwen3",
        "--base-url",
        f"http://127.0.0.1:{free_port}/v1",
        "hi",
    ]
    ended = run_command([sys.executable, "-m", "agent", *words])
    assert ended.returncode == 1
    assert ended.stderr == (
        f"agent: nothing answers at http://127.0.0.1:{free_port}: start the server (ollama serve), "
        "or give another base URL (--base-url)\n"
    )


def test_a_rejected_key_is_named_by_its_variable(sse_server: SseServer) -> None:
    """N17"""
    sse_server.play('{"error": {"message": "Incorrect API key provided"}}', status=401)
    ended = run_command(arguments(sse_server.url, "hi"), env=environment(LOCAL_API_KEY="sk-secret"))
    host = sse_server.url.split("/")[2]
    assert f"401 Incorrect API key provided ({host} rejected the key in LOCAL_API_KEY)" in ended.stderr


@pytest.mark.parametrize(("retries", "requests"), [("0", 1), ("6", 7)])
def test_max_retries_bounds_the_tries(sse_server: SseServer, retries: str, requests: int) -> None:
    """N16"""
    sse_server.play(b"busy", status=529, headers={"retry-after-ms": "1"}, repeat=True)
    ended = run_command(arguments(sse_server.url, "--max-retries", retries, "hi"))
    assert ended.returncode == 1
    assert len(sse_server.requests) == requests
    assert ended.stderr.count("retry ") == requests - 1
