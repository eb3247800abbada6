"""`agent --acp` as a process, worked with by the client of the protocol's official package."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.command import arguments, call_chunks, chunk, environment, run_command, text_chunks
from support.sse_server import SseServer, hang

WITHOUT = "import sys; sys.modules['acp'] = None\nfrom agent.cli.main import main; sys.exit(main(['--acp']))"


def test_without_the_package_the_error_names_the_extra() -> None:
    ended = run_command([sys.executable, "-c", WITHOUT])
    assert ended.returncode == 2
    assert 'pip install "steady-agent[acp]"' in ended.stderr
    assert "Traceback" not in ended.stderr


acp = pytest.importorskip("acp", reason="needs agent-client-protocol, the extra [acp]")


class Editor:
    """An editor: keeps the updates, and answers requests for permission with the options it is shown."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.on_update: Callable[[Any], Awaitable[object] | None] = lambda update: None
        self.on_ask: Callable[[], Awaitable[object]] | None = None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        work = self.on_update(update)
        if work is not None:
            await work

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append((tool_call, options))
        if self.on_ask is not None:
            await self.on_ask()
        outcome = {"outcome": "cancelled"}
        if self.answers:
            outcome = {"outcome": "selected", "optionId": self.answers.pop(0)}
        return acp.RequestPermissionResponse.model_validate({"outcome": outcome})

    def text(self, kind: str) -> str:
        return "".join(u.content.text for u in self.updates if u.session_update == kind)

    def of_calls(self) -> list[Any]:
        return [u for u in self.updates if u.session_update in ("tool_call", "tool_call_update")]


@asynccontextmanager
async def _agent(url: str, cwd: Path, editor: Editor, *options: str) -> AsyncIterator[tuple[Any, str]]:
    """A connection to the agent, and a session in the folder."""
    command = arguments(url, "--acp", *options)
    env = environment(XDG_CONFIG_HOME=str(cwd / "config"))
    async with acp.spawn_agent_process(editor, *command, env=env) as (connection, process):
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await connection.new_session(cwd=str(cwd), mcp_servers=[])
        yield connection, session.session_id
    assert process.returncode == 0


async def _prompt(connection: Any, session: str, text: str) -> str:
    answer = await connection.prompt(session_id=session, prompt=[acp.text_block(text)])
    return str(answer.stop_reason)


def test_initialize_returns_the_version_and_the_capabilities(sse_server: SseServer, tmp_path: Path) -> None:
    async def work() -> Any:
        command = arguments(sse_server.url, "--acp")
        async with acp.spawn_agent_process(Editor(), *command, env=environment()) as (connection, _):
            return await connection.initialize(protocol_version=99)

    answer = asyncio.run(work())
    assert answer.protocol_version == acp.PROTOCOL_VERSION
    assert answer.agent_info.name == "steady-agent"
    assert answer.agent_capabilities.prompt_capabilities.image
    assert not answer.agent_capabilities.load_session


def test_answers_and_thoughts_are_streamed_and_the_conversation_goes_on(
    sse_server: SseServer, tmp_path: Path
) -> None:
    sse_server.play(chunk({"reasoning_content": "hm"}), *text_chunks("Hel", "lo."))
    sse_server.play(*text_chunks("Bye."))
    editor = Editor()

    async def work() -> None:
        async with _agent(sse_server.url, tmp_path, editor) as (connection, session):
            assert await _prompt(connection, session, "hi") == "end_turn"
            assert editor.text("agent_message_chunk") == "Hello."  # all of it is there before the response
            assert await _prompt(connection, session, "bye") == "end_turn"

    asyncio.run(work())
    assert editor.text("agent_thought_chunk") == "hm"
    assert editor.text("agent_message_chunk") == "Hello.Bye."
    assert [m["content"] for m in sse_server.requests[1].json["messages"][1:]] == ["hi", "Hello.", "bye"]


def test_a_change_is_shown_as_a_diff_and_made_once_it_is_allowed(
    sse_server: SseServer, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    edit = {"path": "a.txt", "oldText": "two", "newText": "three"}
    sse_server.play(*call_chunks("edit", edit))
    sse_server.play(*text_chunks("done"))
    editor = Editor("allow")

    async def asked() -> None:
        assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"

    editor.on_ask = asked

    async def work() -> None:
        async with _agent(sse_server.url, tmp_path, editor) as (connection, session):
            assert await _prompt(connection, session, "go") == "end_turn"

    asyncio.run(work())
    assert (tmp_path / "a.txt").read_text() == "one\nthree\n"
    announced, started, ended = editor.of_calls()
    assert (announced.status, started.status, ended.status) == ("pending", "in_progress", "completed")
    assert (announced.kind, announced.raw_input) == ("edit", edit)
    assert announced.locations[0].path == str(tmp_path / "a.txt")
    ((call, options),) = editor.asked
    for shown in (announced, call, ended):
        (diff,) = shown.content
        assert (diff.path, diff.old_text, diff.new_text) == (
            str(tmp_path / "a.txt"),
            "one\ntwo\n",
            "one\nthree\n",
        )
    assert [option.kind for option in options] == ["allow_once", "allow_always", "reject_once"]


def test_a_command_that_is_rejected_does_not_run(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("bash", {"command": "touch made", "timeout": 7}))
    sse_server.play(*text_chunks("a pity"))
    editor = Editor("reject")

    async def work() -> None:
        async with _agent(sse_server.url, tmp_path, editor) as (connection, session):
            assert await _prompt(connection, session, "go") == "end_turn"

    asyncio.run(work())
    assert not (tmp_path / "made").exists()
    call, _ = editor.asked[0]
    assert call.content[0].content.text.splitlines()[:3] == ["? run bash", "  timeout: 7", "  touch made"]
    titles = {update.title for update in editor.of_calls() if update.session_update == "tool_call"}
    assert titles == {call.title} == {"bash touch made timeout 7"}
    assert editor.of_calls()[-1].status == "failed"
    assert "refused" in sse_server.requests[1].json["messages"][-1]["content"]


def test_what_is_always_allowed_is_asked_once(sse_server: SseServer, tmp_path: Path) -> None:
    for id in ("c1", "c2"):
        sse_server.play(*call_chunks("bash", {"command": "echo hi"}, id))
    sse_server.play(*text_chunks("done"))
    editor = Editor("always")

    async def work() -> None:
        async with _agent(sse_server.url, tmp_path, editor) as (connection, session):
            await _prompt(connection, session, "go")

    asyncio.run(work())
    assert len(editor.asked) == 1
    ended = [update for update in editor.of_calls() if update.status == "completed"]
    assert [update.content[0].content.text.splitlines()[0] for update in ended] == ["hi", "hi"]


def test_reading_in_the_folder_is_not_asked_and_auto_asks_nothing(
    sse_server: SseServer, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    editor = Editor()
    sse_server.play(*call_chunks("read", {"path": "a.txt"}))
    sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    sse_server.play(*text_chunks("done"))

    async def work() -> None:
        async with _agent(sse_server.url, tmp_path, editor, "--approve", "auto") as (connection, session):
            await _prompt(connection, session, "go")

    asyncio.run(work())
    assert editor.asked == []
    assert (tmp_path / "made").exists()
    assert [update.title for update in editor.of_calls() if update.session_update == "tool_call"] == [
        "read a.txt",
        "bash touch made",
    ]


def test_cancel_ends_a_prompt_that_hangs(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(chunk({"content": "thinking"}), hang())
    editor = Editor()

    async def work() -> None:
        async with _agent(sse_server.url, tmp_path, editor) as (connection, session):
            editor.on_update = lambda update: connection.cancel(session_id=session)
            assert await asyncio.wait_for(_prompt(connection, session, "go"), 20) == "cancelled"

    asyncio.run(work())


def test_cancel_ends_the_wait_for_a_permission(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*call_chunks("bash", {"command": "touch made"}))
    editor = Editor()

    async def work() -> None:
        async with _agent(sse_server.url, tmp_path, editor) as (connection, session):
            never = asyncio.Event()

            async def cancel_and_say_nothing() -> None:
                await connection.cancel(session_id=session)
                await never.wait()

            editor.on_ask = cancel_and_say_nothing
            assert await asyncio.wait_for(_prompt(connection, session, "go"), 20) == "cancelled"

    asyncio.run(work())
    assert not (tmp_path / "made").exists()


def test_files_and_images_come_with_a_prompt(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*text_chunks("ok"))
    blocks = [
        acp.text_block("look at"),
        acp.resource_link_block("a b.txt", (tmp_path / "a b.txt").as_uri()),
        acp.resource_block(acp.embedded_text_resource("file:///p/c.txt", "inside")),
        acp.image_block("QQ==", "image/png"),
    ]

    async def work() -> None:
        async with _agent(sse_server.url, tmp_path, Editor()) as (connection, session):
            await connection.prompt(session_id=session, prompt=blocks)

    asyncio.run(work())
    sent = str(sse_server.requests[0].json["messages"][-1]["content"])
    assert str(tmp_path / "a b.txt") in sent
    assert '<file path="/p/c.txt">' in sent
    assert "inside" in sent


def test_what_can_not_be_done_is_an_error_of_the_protocol(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play('{"error": {"message": "no such key"}}', status=401)
    sse_server.play(*text_chunks("ok"))

    async def work() -> None:
        async with _agent(sse_server.url, tmp_path, Editor()) as (connection, session):
            with pytest.raises(acp.RequestError, match="401"):
                await _prompt(connection, session, "go")
            with pytest.raises(acp.RequestError, match="no session"):
                await _prompt(connection, "other", "go")
            with pytest.raises(acp.RequestError, match="absolute path"):
                await connection.new_session(cwd="relative", mcp_servers=[])
            with pytest.raises(acp.RequestError):
                await connection.prompt(session_id=session, prompt=[acp.audio_block("QQ==", "audio/wav")])
            assert await _prompt(connection, session, "again") == "end_turn"

    asyncio.run(work())


def test_two_sessions_are_two_conversations(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(*text_chunks("ok"), repeat=True)

    async def work() -> None:
        async with _agent(sse_server.url, tmp_path, Editor()) as (connection, first):
            second = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            assert first != second
            await asyncio.gather(_prompt(connection, first, "one"), _prompt(connection, second, "two"))

    asyncio.run(work())
    assert all(len(request.json["messages"]) == 2 for request in sse_server.requests)


def test_the_end_of_the_connection_aborts_what_runs(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(chunk({"content": "thinking"}), hang())
    editor = Editor()

    async def work() -> None:
        seen = asyncio.Event()
        editor.on_update = lambda update: seen.set()
        async with _agent(sse_server.url, tmp_path, editor) as (connection, session):
            prompt = asyncio.create_task(_prompt(connection, session, "go"))
            await asyncio.wait_for(seen.wait(), 20)
            prompt.cancel()

    asyncio.run(work())
    assert sse_server.disconnected.wait(10)


def test_misuse_exits_with_2() -> None:
    ended = run_command(arguments("http://127.0.0.1:9", "--acp", "-p", "x"))
    assert ended.returncode == 2
    assert "takes no prompt" in ended.stderr


def _lines(url: str, standard_input: str, redirection: str = "") -> list[dict[str, Any]]:
    command = shlex.join(arguments(url, "--acp"))
    ended = run_command(["bash", "-c", f"{command} {redirection}"], stdin=standard_input)
    assert (ended.returncode, ended.stderr) == (0, "")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_odd_lines_end_no_session(sse_server: SseServer) -> None:
    """Z18"""
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 0}}
    answers = _lines(sse_server.url, f"null\n[]\n42\n{json.dumps(initialize)}\n")
    assert [answer.get("error", {}).get("code") for answer in answers] == [-32600] * 3 + [None]
    assert answers[-1]["result"]["protocolVersion"] == acp.PROTOCOL_VERSION


def test_an_empty_device_or_a_file_may_be_the_input(sse_server: SseServer, tmp_path: Path) -> None:
    """FR-18"""
    assert _lines(sse_server.url, "", "</dev/null") == []
    (tmp_path / "in").write_text("null\n")
    assert len(_lines(sse_server.url, "", f"<{tmp_path / 'in'}")) == 1


def test_a_closed_standard_input_is_misuse() -> None:
    command = shlex.join(arguments("http://127.0.0.1:9", "--acp"))
    ended = run_command(["bash", "-c", f"{command} <&-"])
    assert (ended.returncode, ended.stderr) == (2, "agent: --acp: standard input and output must be open\n")


def test_an_answer_that_was_cut_off_ends_with_max_tokens(sse_server: SseServer, tmp_path: Path) -> None:
    """FR-7"""
    sse_server.play(*text_chunks("half an", finish="length"), repeat=True)

    async def work() -> str:
        async with _agent(sse_server.url, tmp_path, Editor()) as (connection, session):
            return await _prompt(connection, session, "go")

    assert asyncio.run(work()) == "max_tokens"


def test_ten_sessions_work_at_once(sse_server: SseServer, tmp_path: Path) -> None:
    sse_server.play(chunk({"content": "x"}), hang(), repeat=True)
    editor = Editor()

    async def work() -> list[str]:
        async with _agent(sse_server.url, tmp_path, editor) as (connection, first):
            sessions = [first]
            for _ in range(9):
                sessions.append((await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id)
            prompts = [asyncio.create_task(_prompt(connection, session, "go")) for session in sessions]
            while len(editor.updates) < len(sessions):
                await asyncio.sleep(0.01)
            for session in sessions:
                await connection.cancel(session_id=session)
            return await asyncio.gather(*prompts)

    assert asyncio.run(work()) == ["cancelled"] * 10
