"""`agent --acp`: serves an editor over the Agent Client Protocol, through its official Python package.

Each session is an agent of its own. The protocol runs in an asyncio loop on the main thread. Agents emit
their events on worker threads, which wait until each update is written: a slow editor slows the run, and no
queue grows.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from agent.agent import Agent
from agent.cli.exit_codes import DONE
from agent.cli.interrupts import abort_on_signals
from agent.cli.modes.acp_transport import StdioTransport
from agent.cli.modes.acp_updates import Content, Update, Updates, call_update
from agent.cli.options import RunOptions
from agent.cli.permissions.gate import ALWAYS, NO, YES, Answer, Question
from agent.cli.setup.model_choice import choose_name, no_model_text
from agent.cli.setup.open_agent import open_agent
from agent.errors import AgentBusyError, ConfigurationError
from agent.events import Event
from agent.messages import ImageContent, TextContent, UserMessage
from agent.runs import RunResult

_T = TypeVar("_T")

_STOP_REASONS = {
    "max_turns": "max_turn_requests",
    "budget": "max_tokens",
    "truncated": "max_tokens",
    "aborted": "cancelled",
}
_ANSWERS = {"allow": YES, "always": ALWAYS}


def run_acp(options: RunOptions) -> int:
    """Serve the editor on standard input and output until it closes them; returns the exit code."""
    try:
        import acp  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            'agent --acp needs agent-client-protocol: pip install "steady-agent[acp]"'
        ) from None
    if options.prompt is not None or options.words or options.json or options.quiet or options.rpc:
        raise ConfigurationError("--acp takes no prompt and no other output option: the editor sends prompts")
    if choose_name(options.model, os.environ) is None:
        raise ConfigurationError(no_model_text())
    reading, writing = _descriptors()
    editor = _Editor(options)
    stdout = sys.stdout
    sys.stdout = sys.stderr  # nothing else may print between the messages
    try:
        with abort_on_signals(editor.abort_all):
            asyncio.run(_serve(editor, reading, writing))
    finally:
        sys.stdout = stdout
    return DONE


def _descriptors() -> tuple[int, int]:
    """The descriptors of standard input and output; raises ConfigurationError when one is closed."""
    try:
        return sys.stdin.fileno(), sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        raise ConfigurationError("--acp: standard input and output must be open") from None


async def _serve(editor: _Editor, reading: int, writing: int) -> None:
    from acp.agent.connection import AgentSideConnection

    editor.loop = asyncio.get_running_loop()
    served: Any = editor  # its methods name the parameters they use and take the rest as **_
    connection = AgentSideConnection(served, StdioTransport(reading, writing), listening=False)
    try:
        await connection.listen()
    finally:
        await asyncio.shield(connection.close())
        await in_thread(editor.close)


async def in_thread(function: Callable[[], _T]) -> _T:
    """Call a blocking function on a daemon thread of its own and wait for its result.

    Not `asyncio.to_thread`: its pool has a few threads, and each prompt occupies one until its run ends.
    """
    loop = asyncio.get_running_loop()
    future: concurrent.futures.Future[_T] = concurrent.futures.Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, name="acp-call", daemon=True).start()
    return await asyncio.wrap_future(future, loop=loop)


class _Session:
    """A conversation of the editor, with its agent."""

    def __init__(self, id: str, editor: _Editor, options: RunOptions) -> None:
        self.id = id
        self._editor = editor
        self._resources = ExitStack()
        self._updates = Updates(options.cwd)
        self.agent: Agent = self._resources.enter_context(
            open_agent(options, notify=_notify, ask=self._ask, default_mode="ask")
        )
        self.agent.subscribe(self._on_event)

    def close(self) -> None:
        self._resources.close()

    def _on_event(self, event: Event) -> None:
        for update in self._updates.for_event(event):
            if not self._editor.send(self.id, update):
                self.agent.abort()
                return

    def _ask(self, question: Question) -> Answer:
        """Ask in the editor; the answer is no after an abort or when the editor has gone."""
        from acp.schema import PermissionOption

        options = [PermissionOption(option_id="allow", name="Allow", kind="allow_once")]
        if question.rules:
            name = f"Always allow {', '.join(question.rules)}"
            options.append(PermissionOption(option_id="always", name=name, kind="allow_always"))
        options.append(PermissionOption(option_id="reject", name="Reject", kind="reject_once"))
        tool = next((tool for tool in self.agent.state.tools or () if tool.name == question.tool), None)
        label, hint = (tool.label, tool.display_hint) if tool is not None else ("", None)
        self._editor.send(
            self.id, self._updates.announce(question.id, question.tool, question.arguments, label, hint)
        )
        connection = self._editor.connection
        request = connection.request_permission(
            session_id=self.id, tool_call=call_update(self._updates, question), options=options
        )
        future = self._editor.submit(request)
        forget = question.cancel.on_cancel(future.cancel)
        try:
            outcome = future.result().outcome
        except (Exception, concurrent.futures.CancelledError):
            return NO
        finally:
            forget()
        return _ANSWERS.get(getattr(outcome, "option_id", ""), NO)


class _Editor:
    """Implements the protocol's methods on the event loop; slow work goes to a thread."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._sessions: dict[str, _Session] = {}
        self.connection: Any = None

    def on_connect(self, connection: Any) -> None:
        """Called by the package with the connection to the editor."""
        self.connection = connection

    def submit(self, work: Coroutine[Any, Any, _T]) -> concurrent.futures.Future[_T]:
        """Run a coroutine on the event loop. From any thread but the loop's."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def send(self, session_id: str, update: Update) -> bool:
        """Send an update and wait until it is written; returns False when the editor has gone."""
        try:
            self.submit(self.connection.session_update(session_id=session_id, update=update)).result()
        except (Exception, concurrent.futures.CancelledError):
            return False
        return True

    def abort_all(self) -> None:
        """Abort every run."""
        for session in list(self._sessions.values()):
            session.agent.abort()

    def close(self) -> None:
        """End every session."""
        self.abort_all()
        for session in list(self._sessions.values()):
            session.close()
        self._sessions.clear()

    # -- the protocol ----------------------------------------------------------------------------------

    async def initialize(self, protocol_version: int, **_: Any) -> Any:
        """Return the protocol version and the capabilities."""
        from acp import PROTOCOL_VERSION
        from acp.schema import AgentCapabilities, Implementation, InitializeResponse, PromptCapabilities

        from agent.cli.options import version

        return InitializeResponse(
            protocol_version=protocol_version
            if 1 <= protocol_version <= PROTOCOL_VERSION
            else PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=False,
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
            ),
            agent_info=Implementation(name="steady-agent", title="Steady Agent", version=version()),
        )

    async def new_session(self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any) -> Any:
        """Start a conversation in a folder."""
        from acp.schema import NewSessionResponse

        if not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise _refused(f"cwd must be the absolute path of a folder, not {cwd}")
        if mcp_servers:
            names = ", ".join(str(server.name) for server in mcp_servers)
            _notify(f"agent: MCP servers are not used yet: {names}")
        options = dataclasses.replace(self._options, cwd=cwd)
        id = f"session_{uuid4().hex}"
        try:
            self._sessions[id] = await in_thread(lambda: _Session(id, self, options))
        except ConfigurationError as error:
            raise _refused(str(error)) from None
        return NewSessionResponse(session_id=id)

    async def prompt(self, prompt: Sequence[Content], session_id: str, **_: Any) -> Any:
        """Run a prompt to its end."""
        from acp import RequestError
        from acp.schema import PromptResponse

        session = self._session(session_id)
        try:
            run = session.agent.prompt(_user_message(prompt))
        except AgentBusyError:
            raise _refused("the session is still running a prompt") from None
        except ConfigurationError as error:
            raise _refused(str(error)) from None
        try:
            result: RunResult = await in_thread(run.result)
        except asyncio.CancelledError:
            session.agent.abort_run(run)
            raise
        if result.stop == "error":
            raise RequestError(-32603, result.error or "the run failed", {"details": result.error})
        reason: Any = _STOP_REASONS.get(result.stop, "end_turn")
        return PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Abort the run of a session."""
        if session_id in self._sessions:
            self._sessions[session_id].agent.abort()

    async def close_session(self, session_id: str, **_: Any) -> None:
        """End a conversation."""
        session = self._session(session_id)
        del self._sessions[session_id]
        await in_thread(session.close)

    def _session(self, id: str) -> _Session:
        if id not in self._sessions:
            raise _refused(f"no session {id}")
        return self._sessions[id]


def _refused(text: str) -> Exception:
    from acp import RequestError

    error: Exception = RequestError(-32602, text, {"details": text})
    return error


def _user_message(prompt: Sequence[Content]) -> UserMessage:
    blocks = [_block(block) for block in prompt]
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    # Text alone goes as a string, which every model accepts.
    return UserMessage("\n".join(texts) if len(texts) == len(blocks) else blocks)


def _block(block: Content) -> TextContent | ImageContent:
    """A block of a prompt for the model: an embedded file with its path, a link as its path."""
    match block.type:
        case "text":
            return TextContent(block.text)
        case "image":
            return ImageContent(block.data, block.mime_type)
        case "resource_link":
            return TextContent(_path(block.uri))
        case "resource":
            text = getattr(block.resource, "text", None)
            path = _path(block.resource.uri)
            return TextContent(path if text is None else f'<file path="{path}">\n{text}\n</file>')
    raise _refused(f"content of type {block.type} is not supported")


def _path(uri: str) -> str:
    """The path of a `file:` URI; any other URI unchanged."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def _notify(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
