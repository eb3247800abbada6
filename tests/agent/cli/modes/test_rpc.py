"""`agent --rpc` as a process, worked with by the client of the examples and by hand."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command import ROOT, arguments, call_chunks, chunk, environment, run_command, text_chunks
from support.json_schema import schema_errors
from support.sse_server import SseServer, hang, wait_for

_SPEC = importlib.util.spec_from_file_location("rpc_client", ROOT / "examples" / "rpc_client.py")
assert _SPEC is not None
assert _SPEC.loader is not None
rpc_client = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(rpc_client)

SCHEMA = json.loads((ROOT / "docs" / "events.schema.json").read_text("utf-8"))


def _client(url: str, cwd: Path, *options: str) -> Any:
    env = environment(XDG_CONFIG_HOME=str(cwd / "config"))
    return rpc_client.RpcClient(
        "--model", "local/test", "--base-url", url, "--cwd", str(cwd), *options, env=env
    )


@pytest.fixture
def client(sse_server: SseServer, tmp_path: Path) -> Iterator[Any]:
    with _client(sse_server.url, tmp_path) as client:
        yield client


def _ask(url: str, *lines: str) -> list[dict[str, Any]]:
    """What comes out when these lines go in and standard input ends."""
    ended = run_command(arguments(url, "--rpc"), stdin="".join(f"{line}\n" for line in lines))
    assert ended.stderr == ""
    assert ended.returncode == 0
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_a_prompt_is_answered_at_once_and_followed_by_events(client: Any, sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("Hel", "lo."))
    run_id = client.request("prompt", text="hi")["run_id"]
    events = list(client.events())
    assert {event["run_id"] for event in events} == {run_id}
    assert [errors for event in events if (errors := schema_errors(event, SCHEMA))] == []
    assert events[-1]["messages"][-1]["content"] == [{"type": "text", "text": "Hello."}]


def test_the_conversation_goes_on_from_prompt_to_prompt(client: Any, sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("one"))
    sse_server.play(*text_chunks("two"))
    for text in ("first", "second"):
        client.request("prompt", text=text)
        list(client.events())
    assert [m["content"] for m in sse_server.requests[1].json["messages"][1:]] == ["first", "one", "second"]


def test_a_prompt_carries_images(client: Any, sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("a dot"))
    client.request("prompt", text="what is it?", images=[{"data": "QQ==", "mimeType": "image/png"}])
    (ended,) = (event for event in client.events() if event["type"] == "agent_end")
    assert ended["messages"][0]["content"][1] == {"type": "image", "data": "QQ==", "mimeType": "image/png"}


def test_a_run_is_steered_and_followed_up(client: Any, sse_server: SseServer, tmp_path: Path) -> None:
    gate = threading.Event()
    sse_server.play(wait_for(gate), *call_chunks("ls", {"path": "."}))
    for text in ("a", "b"):
        sse_server.play(*text_chunks(text))
    client.request("prompt", text="go")
    assert client.request("follow_up", text="after")["is_running"]
    assert client.request("steer", text="now")["is_running"]
    assert client.request("state")["follow_ups"][0]["content"] == "after"
    gate.set()
    list(client.events())
    shown = [m["content"] for m in sse_server.requests[2].json["messages"] if m["role"] == "user"]
    assert shown == ["go", "now", "after"]


def test_abort_ends_a_run_that_hangs(client: Any, sse_server: SseServer) -> None:
    sse_server.play(chunk({"content": "thinking"}), hang())
    client.request("prompt", text="go")
    events = client.events()
    while next(events)["type"] != "message_update":
        pass
    with pytest.raises(RuntimeError, match="busy"):
        client.request("prompt", text="another")
    assert client.request("abort") == {"was_running": True}
    assert [event["stop"] for event in events if event["type"] == "agent_end"] == ["aborted"]
    assert client.request("abort") == {"was_running": False}


def test_the_state_describes_the_conversation(client: Any, sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("hello"))
    client.request("prompt", text="hi")
    list(client.events())
    state = client.request("state", messages=True)
    assert (state["model"], state["thinking_level"], state["is_running"]) == ("local/test", "off", False)
    assert state["message_count"] == 2
    assert [message["role"] for message in state["messages"]] == ["user", "assistant"]
    assert "messages" not in client.request("state")


def test_model_and_thinking_are_set_for_the_next_run(client: Any, sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("hello"))
    assert client.request("set_thinking", level="high") == {"level": "high"}
    assert client.request("set_model", model="ollama/qwen3", base_url=sse_server.url) == {
        "model": "ollama/qwen3"
    }
    client.request("prompt", text="hi")
    list(client.events())
    assert sse_server.requests[0].json["model"] == "qwen3"
    assert client.request("state")["thinking_level"] == "high"
    for command, fields in (("set_model", {"model": "nowhere/x"}), ("set_thinking", {"level": "hard"})):
        with pytest.raises(RuntimeError, match="invalid"):
            client.request(command, **fields)


def test_only_the_events_that_are_asked_for_come(client: Any, sse_server: SseServer) -> None:
    sse_server.play(*text_chunks("hello"))
    client.request("events", only=["agent_end"])
    client.request("prompt", text="hi")
    assert [event["type"] for event in client.events()] == ["agent_end"]


def test_a_call_waits_for_its_approval(sse_server: SseServer, tmp_path: Path) -> None:
    for _ in range(3):
        sse_server.play(*call_chunks("write", {"path": "a.txt", "content": "new\n"}))
    sse_server.play(*text_chunks("done"))
    with _client(sse_server.url, tmp_path, "--approve", "ask") as client:
        client.request("prompt", text="go")
        answers = [{"answer": "no", "reason": "not now"}, {"answer": "always"}]
        asked = []
        for event in client.events():
            if event["type"] == "approval_request":
                asked.append(event)
                assert client.request("state")["approvals"] == ["c1"]
                client.request("approve", tool_call_id=event["tool_call_id"], **answers.pop(0))
    assert [event["diff"] for event in asked] == ["+1 new", "+1 new"]
    assert asked[0]["text"].splitlines()[:2] == ["? write a.txt", "  +1 new"]
    assert "not now" in sse_server.requests[1].json["messages"][-1]["content"]
    assert (tmp_path / "a.txt").read_text() == "new\n"


def test_an_approval_without_a_waiting_call_is_refused(client: Any) -> None:
    with pytest.raises(RuntimeError, match="invalid: no approval"):
        client.request("approve", tool_call_id="c9", answer="yes")
    with pytest.raises(RuntimeError, match="yes, no or always"):
        client.request("approve", tool_call_id="c9", answer="maybe")


def test_an_abort_ends_the_wait_for_an_approval(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    with _client(sse_server.url, tmp_path, "--approve", "ask") as client:
        client.request("prompt", text="go")
        for event in client.events():
            if event["type"] == "approval_request":
                client.request("abort")
    assert event["stop"] == "aborted"
    assert not (tmp_path / "made").exists()


def test_what_is_asked_after_the_end_of_the_commands_is_refused(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    sse_server.play(*text_chunks("done"))
    with _client(sse_server.url, tmp_path, "--approve", "ask") as client:
        client.request("prompt", text="go")
    assert "refused" in sse_server.requests[1].json["messages"][-1]["content"]
    assert not (tmp_path / "made").exists()


def test_what_is_no_command_is_answered_with_an_error() -> None:
    wrong = {
        "nonsense": "malformed",
        "[1]": "malformed",
        "[" * 100_000: "malformed",
        "null": "malformed",
        "42": "malformed",
        '{"id": NaN, "type": "abort"}': "malformed",
        '{"id": [-Infinity], "type": "abort"}': "malformed",
        '{"id": 1e999, "type": "abort"}': "malformed",
        '{"type": "fly"}': "unknown_command",
        '{"type": ["prompt"]}': "unknown_command",
        "{}": "unknown_command",
        '{"type": "prompt"}': "invalid",
        '{"type": "prompt", "text": 5}': "invalid",
        '{"type": "prompt", "text": "x", "images": [1]}': "invalid",
        '{"type": "events", "only": "all"}': "invalid",
    }
    ready, *answers, right = _ask("http://127.0.0.1:9", *wrong, "", '{"id": "next", "type": "state"}')
    assert ready["type"] == "ready"
    assert [answer["error"]["code"] for answer in answers] == list(wrong.values())
    assert all(answer["ok"] is False and answer["error"]["message"] for answer in answers)
    assert (right["id"], right["ok"]) == ("next", True)


def test_ids_come_back_as_they_are() -> None:
    ids = [7, "a", None, {"any": ["thing"]}, 1.5]
    lines = _ask("http://127.0.0.1:9", *(json.dumps({"id": id, "type": "abort"}) for id in ids))
    assert [line["id"] for line in lines[1:]] == ids
    assert lines[1] == {
        "type": "response",
        "id": 7,
        "command": "abort",
        "ok": True,
        "result": {"was_running": False},
    }


def test_bytes_that_are_no_text_are_answered_too() -> None:
    command = arguments("http://127.0.0.1:9", "--rpc")
    ended = subprocess.run(command, input=b"\xff\xfe\n", env=environment(), capture_output=True, check=False)
    assert json.loads(ended.stdout.splitlines()[1])["error"]["code"] == "malformed"
    assert ended.stderr == b""


def test_when_the_commands_end_the_run_goes_on_to_its_end(sse_server: SseServer) -> None:
    sse_server.play(*call_chunks("ls", {"path": "."}))
    sse_server.play(*text_chunks("done"))
    lines = _ask(sse_server.url, '{"type": "prompt", "text": "go"}')
    assert lines[-1]["type"] == "agent_end"
    assert lines[-1]["stop"] == "end_turn"


def test_a_failed_run_is_reported_and_the_next_command_is_read(client: Any, sse_server: SseServer) -> None:
    sse_server.play("no", status=401)
    client.request("prompt", text="go")
    assert list(client.events())[-1]["stop"] == "error"
    assert "401" in client.request("state")["error"]


def test_quit_ends_at_once_with_a_run_under_way(client: Any, sse_server: SseServer) -> None:
    sse_server.play(hang())
    client.request("prompt", text="go")
    client.request("quit")
    assert client.close() == 0


def test_a_client_that_dies_takes_the_agent_along(sse_server: SseServer) -> None:
    gate = threading.Event()
    sse_server.play(wait_for(gate), *text_chunks(*["word "] * 200), hang())
    command = arguments(sse_server.url, "--rpc")
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write(b'{"type": "prompt", "text": "go"}\n')
        child.stdin.flush()
        while b"response" not in child.stdout.readline():
            pass
        child.stdin.close()
        child.stdout.close()
        gate.set()
        errors = child.stderr.read()
    assert child.returncode == 1
    assert errors == b""


def test_sigterm_ends_it(client: Any) -> None:
    os.kill(client._process.pid, signal.SIGTERM)
    assert client.close() == 128 + signal.SIGTERM


def test_misuse_exits_with_2() -> None:
    ended = run_command(arguments("http://127.0.0.1:9", "--rpc", "-p", "x"))
    assert ended.returncode == 2
    assert "--rpc takes no prompt" in ended.stderr


def test_the_client_is_a_program_too(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(chunk({"reasoning_content": "hm"}), *text_chunks("Hello ", "there."))
    command = [sys.executable, str(ROOT / "examples" / "rpc_client.py"), "hi"]
    ended = run_command(
        [*command, "--model", "local/test", "--base-url", sse_server.url, "--no-context-files"]
    )
    assert (ended.stdout, ended.stderr) == ("Hello there.\n", "")


def test_a_closed_standard_input_is_misuse() -> None:
    """FR-18"""
    command = shlex.join(arguments("http://127.0.0.1:9", "--rpc"))
    ended = run_command(["bash", "-c", f"{command} <&-"])
    assert (ended.returncode, ended.stderr) == (2, "agent: --rpc: standard input must be open\n")
