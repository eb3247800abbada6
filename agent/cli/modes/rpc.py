"""`agent --rpc`: serves another program over standard input and output, in lines of JSON.

docs/rpc.md describes the protocol. Each input line is a command and gets one response with its id; between
the responses come the events of runs, as `--json` writes them, and requests for approval.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import BinaryIO, NoReturn, TextIO, TypeVar

from agent.agent import Agent
from agent.cli.display.clean_text import discard_output, unwrapped
from agent.cli.display.json_lines import VERSION, event_line
from agent.cli.exit_codes import DONE, FAILED
from agent.cli.interrupts import abort_on_signals
from agent.cli.options import RunOptions
from agent.cli.permissions.gate import NO, Answer, Question
from agent.cli.permissions.question_text import question_rows
from agent.cli.setup.model_choice import open_model
from agent.cli.setup.open_agent import open_agent
from agent.errors import AgentBusyError, AgentError, ConfigurationError
from agent.events import Event
from agent.messages import ImageContent, Message, message_to_json, usage_to_json
from agent.thinking import THINKING_LADDER

# Enough for several images of the largest size that models accept.
_LONGEST_LINE = 64 * 1024 * 1024


_T = TypeVar("_T")
Command = Mapping[str, object]
Result = dict[str, object]


def run_rpc(options: RunOptions) -> int:
    """Serve commands until `quit`, or until standard input and the run have ended; returns the exit code."""
    if options.prompt is not None or options.words or options.json or options.quiet:
        raise ConfigurationError("--rpc takes no prompt and no other output option: prompts are commands")
    if sys.stdin is None:
        raise ConfigurationError("--rpc: standard input must be open")
    stdout = sys.stdout
    out = Lines(unwrapped(stdout))
    sys.stdout = sys.stderr  # nothing else may print between the lines
    try:
        approvals = _Approvals(out)
        with open_agent(options, notify=_notify, ask=approvals.ask) as agent:
            out.on_closed = agent.abort
            with abort_on_signals(agent.abort), ExitStack() as models:
                server = _Server(agent, options, out, approvals, models)
                agent.subscribe(server.on_event)
                server.serve(sys.stdin.buffer)
    finally:
        sys.stdout = stdout
    return FAILED if out.closed else DONE


class Lines:
    """Writes objects as lines, each in one piece, from any thread.

    When the reader has gone, `on_closed` is called once and nothing more is written.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.on_closed: Callable[[], object] = lambda: None
        self.closed = False
        self._lock = threading.Lock()

    def write(self, data: Mapping[str, object]) -> None:
        """Write one object."""
        line = json.dumps(data) + "\n"
        try:
            with self._lock:
                if self.closed:
                    return
                self.stream.write(line)
                self.stream.flush()
                return
        except (OSError, ValueError):
            self.closed = True
        discard_output(self.stream)
        self.on_closed()


class _Refused(Exception):
    """A refused command: a code for programs and a text for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Approvals:
    """Questions that wait for an `approve`.

    Threads: asked on worker threads, answered on the main thread; `_lock` guards the open questions.
    """

    def __init__(self, out: Lines) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._open: dict[str, tuple[threading.Event, list[Answer]]] = {}
        self._ended = False

    def ask(self, question: Question) -> Answer:
        """Send the question and wait for an answer, an abort or the end of the input."""
        answered, answers = threading.Event(), list[Answer]()
        with self._lock:
            if self._ended:
                return NO
            self._open[question.id] = (answered, answers)
        forget = question.cancel.on_cancel(answered.set)
        self._out.write(
            {
                "type": "approval_request",
                "tool_call_id": question.id,
                "tool_name": question.tool,
                "arguments": question.arguments,
                "why": question.why,
                "command": question.command,
                "diff": question.diff,
                "rules": list(question.rules),
                "text": "\n".join(row.text for row in question_rows(question)),
            }
        )
        answered.wait()
        forget()
        with self._lock:
            self._open.pop(question.id, None)
        return answers[0] if answers else NO

    def answer(self, call_id: str, answer: Answer) -> None:
        """Answer a question; raises _Refused when no call of that id is waiting."""
        with self._lock:
            waiting = self._open.pop(call_id, None)
        if waiting is None:
            raise _Refused("invalid", f"no approval is asked for {call_id!r}")
        waiting[1].append(answer)
        waiting[0].set()

    def end(self) -> None:
        """Refuse the waiting questions and all later ones: no answer can arrive any more."""
        with self._lock:
            self._ended = True
            waiting = list(self._open.values())
        for answered, _ in waiting:
            answered.set()

    def ids(self) -> list[str]:
        """The ids of the calls that wait for an answer."""
        with self._lock:
            return list(self._open)


class _Server:
    """Executes commands, one after the other, on the main thread."""

    def __init__(
        self, agent: Agent, options: RunOptions, out: Lines, approvals: _Approvals, models: ExitStack
    ) -> None:
        self._agent = agent
        self._options = options
        self._out = out
        self._approvals = approvals
        self._models = models
        self._event_types: frozenset[str] | None = None
        self._commands: dict[str, Callable[[Command], Result | None]] = {
            "prompt": self._prompt,
            "steer": self._steer,
            "follow_up": self._follow_up,
            "abort": self._abort,
            "approve": self._approve,
            "state": self._state,
            "set_model": self._set_model,
            "set_thinking": self._set_thinking,
            "events": self._events,
            "quit": self._quit,
        }
        self._is_quitting = False

    def serve(self, source: BinaryIO) -> None:
        """Execute commands until `quit`, or until the input and then the run have ended."""
        self._out.write({"type": "ready", "version": VERSION, "cwd": self._options.cwd})
        for line in _lines(source):
            self._serve_line(line)
            if self._is_quitting or self._out.closed:
                return
        self._approvals.end()
        self._agent.wait_for_idle()

    def on_event(self, event: Event) -> None:
        """Write an event if its type is selected."""
        if self._event_types is None or event.type in self._event_types:
            self._out.write(event_line(event))

    def _serve_line(self, line: bytes | None) -> None:
        command: Command = {}
        try:
            command = _parse(line)
            result = self._execute(command)
        except _Refused as refusal:
            self._respond(command, error={"code": refusal.code, "message": str(refusal)})
        except AgentBusyError as error:
            self._respond(command, error={"code": "busy", "message": str(error)})
        except AgentError as error:
            self._respond(command, error={"code": "invalid", "message": str(error)})
        except Exception as error:  # a bug is reported too: the client must not wait for ever
            text = f"{type(error).__name__}: {error}"
            self._respond(command, error={"code": "internal", "message": text})
        else:
            self._respond(command, result=result or {})

    def _execute(self, command: Command) -> Result | None:
        name = command.get("type")
        execute = self._commands.get(name) if isinstance(name, str) else None
        if execute is None:
            known = ", ".join(self._commands)
            raise _Refused("unknown_command", f"no command {name!r}; type is one of {known}")
        return execute(command)

    def _respond(self, command: Command, **outcome: object) -> None:
        head = {"type": "response", "id": command.get("id"), "command": command.get("type")}
        self._out.write(head | {"ok": "result" in outcome} | outcome)

    # -- commands --------------------------------------------------------------------------------------

    def _prompt(self, command: Command) -> Result:
        text, images = _field(command, "text", str), _images(command)
        return {"run_id": self._agent.prompt(text, images).run_id}

    def _steer(self, command: Command) -> Result:
        self._agent.steer(_field(command, "text", str))
        return self._queued()

    def _follow_up(self, command: Command) -> Result:
        self._agent.follow_up(_field(command, "text", str))
        return self._queued()

    def _queued(self) -> Result:
        return {"is_running": self._agent.state.is_streaming}

    def _abort(self, command: Command) -> Result:
        was_running = self._agent.state.is_streaming
        self._agent.abort()
        return {"was_running": was_running}

    def _approve(self, command: Command) -> None:
        answers = {"yes": Answer(True), "always": Answer(True, always=True)}
        answers["no"] = Answer(False, reason=_field(command, "reason", str, ""))
        answer = _field(command, "answer", str)
        if answer not in answers:
            raise _Refused("invalid", f"answer must be yes, no or always, not {answer!r}")
        self._approvals.answer(_field(command, "tool_call_id", str), answers[answer])

    def _state(self, command: Command) -> Result:
        state, transcript = self._agent.state, self._agent.transcript
        model = state.model
        data: Result = {
            "model": f"{model.provider}/{model.id}" if model else "",
            "thinking_level": state.thinking_level,
            "is_running": state.is_streaming,
            "message_count": len(state.messages),
            "follow_ups": [_message(message) for message in self._agent.follow_up_queue()],
            "approvals": self._approvals.ids(),
            "usage": usage_to_json(transcript.usage),
            "error": state.error,
        }
        if _field(command, "messages", bool, False):
            data["messages"] = [_message(message) for message in state.messages]
        return data

    def _set_model(self, command: Command) -> Result:
        name = _field(command, "model", str)
        base_url = _field(command, "base_url", str, "")
        self._agent.model = self._models.enter_context(open_model(name, base_url, os.environ))
        return {"model": name}

    def _set_thinking(self, command: Command) -> Result:
        level = _field(command, "level", str)
        if level not in THINKING_LADDER:
            raise _Refused("invalid", f"level must be one of {', '.join(reversed(THINKING_LADDER))}")
        self._agent.thinking_level = level
        return {"level": level}

    def _events(self, command: Command) -> None:
        only = command.get("only")
        if only is not None and not (isinstance(only, list) and all(isinstance(kind, str) for kind in only)):
            raise _Refused("invalid", "only must be a list of event types, or null for all")
        self._event_types = None if only is None else frozenset(only)

    def _quit(self, command: Command) -> None:
        self._is_quitting = True


def _lines(source: BinaryIO) -> Iterator[bytes | None]:
    """The lines that are not blank; None for one that is too long, which is skipped to its end."""
    while line := source.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = source.readline(_LONGEST_LINE)
            yield None
        elif line.strip():
            yield line


def _parse(line: bytes | None) -> Result:
    if line is None:
        raise _Refused("malformed", f"a line is at most {_LONGEST_LINE} bytes long")
    try:
        command = json.loads(line, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise _Refused("malformed", f"the line is not JSON: {error}") from None
    if not isinstance(command, dict):
        raise _Refused("malformed", "a command is a JSON object")
    return command


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is out of range")
    return number


def _field(command: Command, name: str, kind: type[_T], default: _T | None = None) -> _T:
    """A field of a command; raises _Refused when it has another type, or is missing and has no default."""
    value = command.get(name, default)
    if value is None:
        raise _Refused("invalid", f"{name} is missing")
    if not isinstance(value, kind):
        raise _Refused("invalid", f"{name} must be a {'text' if kind is str else kind.__name__}")
    return value


def _images(command: Command) -> list[ImageContent]:
    images = _field(command, "images", list, [])
    try:
        return [ImageContent(str(image["data"]), str(image["mimeType"])) for image in images]
    except (TypeError, KeyError, IndexError):
        raise _Refused("invalid", "images are objects with data (base64) and mimeType") from None


def _message(message: Message) -> Result:
    from agent.json_values import json_value

    data: Result = json_value(message_to_json(message))
    return data


def _notify(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
