"""A smaller loop for code written against that interface: rounds of an answer and all its tools at once.

    llm = functools.partial(default_stream_fn, get_model("openai/gpt-5-mini"))
    loop = AgentLoop(llm, ToolExecutor([add]))
    print(stream_chat(loop, [UserMessage("2 + 3?")], on_delta=print))

No worker, no queues, no retries of its own: everything except the tools happens on the calling thread.
`Agent` does all of this and more; this module is for applications with a conversation, limits and a screen
of their own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from agent.cancel import CancelToken
from agent.errors import ConfigurationError, RunError
from agent.events import Event, ToolExecutionEnd
from agent.hooks import Hooks, ToolCallInfo, ToolDecision
from agent.json_values import JsonMapping, JsonObject
from agent.limits import Limits
from agent.loop.config import LoopConfig
from agent.loop.history import History
from agent.loop.recorder import RunRecorder
from agent.loop.tool_call import Batch
from agent.loop.tool_scheduler import run_calls
from agent.messages import AssistantMessage, Message, TextContent, ToolCall, default_convert_to_llm
from agent.models import Model
from agent.runs import RunResult
from agent.stream import (
    AgentContext,
    BuiltMessage,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamOptions,
    TextDelta,
    ThinkingDelta,
    build_message,
)
from agent.tools import AgentTool, ToolResult, ToolSet, to_result
from agent.usage import ZERO_USAGE, Usage

LLM = Callable[[AgentContext, StreamOptions], Iterator[StreamEvent]]
"""A stream function with its model bound."""

BeforeToolCall = Callable[[ToolCall], tuple[bool, str] | None]
AfterToolCall = Callable[[ToolCall, JsonObject], JsonMapping | None]
Messages = Sequence[Message | Mapping[str, str]]

DEFAULT_MAX_LOOP = 5
_NO_MODEL = Model("", "", "")  # the bound one is known to the stream function alone


# -- tools ---------------------------------------------------------------------------------------------


class LoopText(str):
    """A text, with what led to it: `messages`, the calls of all rounds, and their usage."""

    messages: tuple[Message, ...]
    tool_calls: tuple[ToolCall, ...]
    usage: Usage

    def __new__(
        cls, text: str, messages: Sequence[Message], tool_calls: Sequence[ToolCall], usage: Usage
    ) -> LoopText:
        made = super().__new__(cls, text)
        made.messages, made.tool_calls, made.usage = tuple(messages), tuple(tool_calls), usage
        return made


class ToolExecutor:
    """Runs all calls of an answer at once; what it gives back is in the order of the calls.

    Tools are what an `Agent` takes, found by name whatever its case; they may also return a mapping in the
    form of MCP (`content`, `isError`, `structuredContent`), with `terminate: True` to ask for an end. Every
    call gets a result, also when the tool, its arguments or a hook fail.

    `before_tool_call(call)` may return `(True, reason)` to block a call; its result is the reason.
    `after_tool_call(call, result)` gets the result as such a mapping and may return another; it is
    called on the threads of the tools.
    """

    def __init__(
        self,
        tools: Iterable[Any],
        before_tool_call: BeforeToolCall | None = None,
        after_tool_call: AfterToolCall | None = None,
    ) -> None:
        self.tools = ToolSet(tools)
        self._before = before_tool_call
        self._after = after_tool_call
        self._names = {name.lower(): name for name in self.tools.names()}

    def execute_tool_calls(
        self, messages: Sequence[Message], tool_calls: Sequence[ToolCall]
    ) -> tuple[list[ToolExecutionEnd], list[Message], bool]:
        """Run the calls: their end events, the messages with the results, whether all ask to end.

        The results follow the message that called: unless `messages` ends with it, it is added too.
        """
        message = AssistantMessage(tuple(tool_calls), stop_reason="toolUse")
        history, last = list(messages), messages[-1] if messages else None
        if tool_calls and not (isinstance(last, AssistantMessage) and last.tool_calls == message.tool_calls):
            history.append(message)
        return self.execute_answer(history, BuiltMessage(message, {}), CancelToken())

    def execute_tool_call_loop(
        self, messages: Sequence[Message], chat: Callable[[list[Message]], AssistantMessage]
    ) -> LoopText:
        """Ask `chat(messages)` and run its calls until an answer has none; the text of the last one.

        Also ends when all results of a round ask for it. It has no limit of its own.
        """
        history, usage = list(messages), ZERO_USAGE
        calls: list[ToolCall] = []
        while True:
            answer = chat(list(history))
            history.append(answer)
            usage += answer.usage
            calls += answer.tool_calls
            ends = not answer.tool_calls
            if not ends:
                _, history, ends = self.execute_answer(history, BuiltMessage(answer, {}), CancelToken())
            if ends:
                return LoopText(answer.text, history, calls, usage)

    def execute_answer(
        self, messages: Sequence[Message], answer: BuiltMessage, cancel: CancelToken
    ) -> tuple[list[ToolExecutionEnd], list[Message], bool]:
        """The same for an answer as it was built; calls of one cut by its length are not run."""
        calls = tuple(self._by_its_name(call) for call in answer.message.tool_calls)
        if not calls:
            return [], list(messages), False
        events: list[Event] = []
        recorder = RunRecorder(History(messages), LoopConfig(_NO_MODEL), events.append)
        tools = ToolSet([self._beside_others(item) for item in self.tools])
        hooks, limits = Hooks(before_tool=self._gate), Limits(parallel_tools=None)
        batch = Batch(calls, 1, tools, hooks, limits, cancel)
        outcome = run_calls(batch, answer.message, answer.argument_errors, recorder, cancel)
        return _in_call_order(calls, events), recorder.history.messages, outcome.ending is not None

    def _by_its_name(self, call: ToolCall) -> ToolCall:
        name = self._names.get(call.name.lower(), call.name)
        return call if name == call.name else ToolCall(call.id, name, call.arguments, call.signature)

    def _gate(self, info: ToolCallInfo) -> ToolDecision | None:
        if self._before is None:
            return None
        blocked, reason = self._before(ToolCall(info.id, info.name, info.arguments)) or (False, "")
        return ToolDecision.deny(reason) if blocked else None

    def _beside_others(self, item: Any) -> AgentTool:
        def execute(arguments: JsonObject, context: Any) -> ToolResult:
            value = item.execute(arguments, context)
            if self._after is not None:
                value = value if isinstance(value, Mapping) else _as_mapping(to_result(value))
                call = ToolCall(context.tool_call_id, item.name, arguments)
                changed = self._after(call, dict(value))
                value = value if changed is None else changed
            return _from_mapping(value) if isinstance(value, Mapping) else to_result(value)

        timeout = getattr(item, "timeout", None)
        return AgentTool(
            item.name, item.description, dict(item.parameters), execute, parallel=True, timeout=timeout
        )


def _in_call_order(calls: Sequence[ToolCall], events: list[Event]) -> list[ToolExecutionEnd]:
    ends = [event for event in events if isinstance(event, ToolExecutionEnd)]
    ordered = []
    for call in calls:  # an id may come twice
        end = next(e for e in ends if (e.tool_call_id, e.tool_name) == (call.id, call.name))
        ends.remove(end)
        ordered.append(end)
    return ordered


def _as_mapping(result: ToolResult) -> JsonObject:
    content = [
        {"type": "text", "text": block.text}
        if isinstance(block, TextContent)
        else {"type": "image", "data": block.data, "mimeType": block.mime_type}
        for block in result.content
    ]
    return {"content": content, "isError": result.is_error, "terminate": result.terminate}


def _from_mapping(value: JsonMapping) -> ToolResult:
    content = value.get("content")
    blocks: Any = content if isinstance(content, (list, tuple)) else None
    is_error, ends = value.get("isError") is True, value.get("terminate") is True
    if blocks and any(isinstance(item, Mapping) and item.get("type") == "image" for item in blocks):
        with contextlib.suppress(TypeError):
            return ToolResult(to_result(blocks).content, None, None, is_error, ends)
    return ToolResult(result_text(value), None, None, is_error, ends)


def result_text(value: Any) -> str:
    """The text of a tool's result in the form of MCP, for a model.

    The first text item that is not empty; else `structuredContent`: as it is when it is text, its `text`,
    or as JSON; else all of it as JSON. Nothing at all is the empty text.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Mapping):
        content = value.get("content")
        for item in content if isinstance(content, (list, tuple)) else ():
            if isinstance(item, Mapping) and item.get("type") == "text" and item.get("text"):
                return str(item["text"])
        if isinstance(content, str) and content:
            return content
        structured = value.get("structuredContent")
        if isinstance(structured, str):
            return structured
        if isinstance(structured, Mapping) and isinstance(structured.get("text"), str):
            return str(structured["text"])
        if structured is not None:
            return _json(structured)
    return _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# -- the loop ------------------------------------------------------------------------------------------


class AgentLoop:
    """Rounds of one answer and its tools, `max_loop` at most (5 when it is 0 or less).

    `llm` is a stream function with its model bound: `llm(context, options)`. `tools` of the methods are
    those that the model is shown, as tools or as definitions; without any, the executor's own. `messages` may
    begin with `{"role": "system", "content": ...}`; the caller's list is never changed.
    """

    def __init__(self, llm: LLM, tool_exec: ToolExecutor, max_loop: int = DEFAULT_MAX_LOOP) -> None:
        self.llm = llm
        self.tool_exec = tool_exec
        self.max_loop = max_loop if max_loop > 0 else DEFAULT_MAX_LOOP

    def run(self, messages: Messages, tools: Iterable[Any] = ()) -> Iterator[StreamEvent | ToolExecutionEnd]:
        """The events of the model as they come; after each answer, a `ToolExecutionEnd` per call, in order.

        Ends after an answer without calls, or when all results of a round ask for it. Raises RunError when
        the model fails, and when the rounds run out. Leaving the iterator early stops the request.
        """
        for event in self._rounds(messages, tools):
            if not isinstance(event, BuiltMessage):
                yield event

    def run_non_streaming(self, messages: Messages, tools: Iterable[Any] = ()) -> str:
        """The text of the last answer. Raises as `run` does."""
        answers = [event for event in self._rounds(messages, tools) if isinstance(event, BuiltMessage)]
        return answers[-1].message.text

    def _rounds(
        self, messages: Messages, tools: Iterable[Any]
    ) -> Generator[StreamEvent | ToolExecutionEnd | BuiltMessage, None, None]:
        system_prompt, history = _split(messages)
        offered = [_as_tool(item) for item in tools] or list(self.tool_exec.tools)
        cancel = CancelToken()
        try:
            for _ in range(self.max_loop):
                context = AgentContext(system_prompt, default_convert_to_llm(history), offered)
                answer = yield from self._ask(context, cancel)
                yield answer
                if not answer.message.tool_calls:
                    return
                history.append(answer.message)
                events, history, ends = self.tool_exec.execute_answer(history, answer, cancel)
                yield from events
                if ends:
                    return
            raise RunError(f"max loop iterations ({self.max_loop}) exceeded")
        finally:
            cancel.cancel("the loop has ended")

    def _ask(self, context: AgentContext, cancel: CancelToken) -> Generator[StreamEvent, None, BuiltMessage]:
        log: list[StreamEvent] = []
        events = self.llm(context, StreamOptions(cancel=cancel))
        end: StreamEvent = StreamError("stream ended unexpectedly")
        try:
            for event in events:
                if isinstance(event, (StreamDone, StreamError)):
                    end = event
                    break
                log.append(event)
                yield event
        except GeneratorExit:
            raise
        except Exception as error:
            raise RunError(f"stream chat: {error or type(error).__name__}") from error
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()
        if isinstance(end, StreamError):
            raise RunError(f"stream chat: {end.error_message or end.stop_reason}")
        yield end
        assert isinstance(end, StreamDone)
        return build_message(log, end, _NO_MODEL, 0)


def stream_chat(
    loop: AgentLoop,
    messages: Messages,
    tools: Iterable[Any] = (),
    on_delta: Callable[[str], object] | None = None,
    on_think: Callable[[str], object] | None = None,
) -> str:
    """All text of a run of the loop; `on_delta` and `on_think` get each piece of text and of thought.

    After an answer with calls `on_think` gets a newline. A failed run raises RunError whose
    `partial_result` holds the text so far; what a callback raises ends the run.
    """
    pieces: list[str] = []
    events = loop.run(messages, tools)
    with contextlib.closing(events):  # type: ignore[type-var]
        try:
            for event in events:
                if isinstance(event, TextDelta) and event.delta:
                    pieces.append(event.delta)
                    _call(on_delta, event.delta)
                elif isinstance(event, ThinkingDelta) and event.delta:
                    _call(on_think, event.delta)
                elif isinstance(event, StreamDone) and event.stop_reason == "toolUse":
                    _call(on_think, "\n")
        except RunError as error:
            if error.partial_result is None:
                error.partial_result = RunResult("error", text="".join(pieces), error=str(error))
            raise
    return "".join(pieces)


def _call(callback: Callable[[str], object] | None, piece: str) -> None:
    if callback is not None:
        callback(piece)


def _split(messages: Messages) -> tuple[str, list[Message]]:
    """The system prompt and the rest."""
    system: list[str] = []
    history: list[Message] = []
    for message in messages:
        if not isinstance(message, Mapping):
            history.append(message)
        elif message.get("role") == "system" and not history:
            system.append(message.get("content", ""))
        else:
            raise ConfigurationError(f"only system messages, and only in front, may be mappings: {message!r}")
    return "\n".join(system), history


# -- texts for models ----------------------------------------------------------------------------------

_SYSTEM_PROMPT = (
    "You are a helpful assistant. Answer in the language of the question, briefly and truthfully."
)
_TOOLS_PROMPT = (
    "You have tools. Use one whenever it knows better than you do, give it complete arguments, and answer "
    "from what it returns. If a tool fails, say so or try another way; never invent a result."
)


def build_system_message(
    tools: Iterable[Any], sys_prompt: str = "", tools_prompt: str = ""
) -> tuple[str, list[JsonObject]]:
    """The system prompt for these tools, and their definitions; an empty prompt means the default."""
    definitions = [
        _definition(item.name, item.description, item.parameters) for item in (_as_tool(t) for t in tools)
    ]
    text = sys_prompt or _SYSTEM_PROMPT
    return (f"{text}\n{tools_prompt or _TOOLS_PROMPT}" if definitions else text), definitions


def convert_mcp_tools(descriptors: Iterable[Any]) -> list[JsonObject]:
    """Definitions of tools that an MCP server lists, as mappings or objects."""
    definitions = []
    for item in descriptors or ():
        read = item.get if isinstance(item, Mapping) else lambda key, item=item: getattr(item, key, None)
        schema = read("inputSchema") or read("input_schema") or {"type": "object", "properties": {}}
        definitions.append(_definition(str(read("name")), read("description") or "", schema))
    return definitions


def _definition(name: str, description: str, parameters: Any) -> JsonObject:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": dict(parameters)},
    }


def _as_tool(item: Any) -> Any:
    """A tool as it is, or one that stands for a definition."""
    if not isinstance(item, Mapping):
        return item
    function = item.get("function") or item
    schema = function.get("parameters") or {"type": "object", "properties": {}}

    def not_here(arguments: JsonObject, context: Any) -> ToolResult:
        raise NotImplementedError("a definition is run by the ToolExecutor that has a tool of its name")

    return AgentTool(function["name"], function.get("description") or "", dict(schema), not_here)


# The twelve double hours of a day, from the one that begins at 23:00.
_DOUBLE_HOURS = "子丑寅卯辰巳午未申酉戌亥"


def this_moment(now: datetime | float | None = None, tz: tzinfo | None = None) -> str:
    """The date and the double hour, such as `当前时辰: 2025-03-01 午时`, for a system prompt.

    It changes once in two hours, so a prompt that holds it stays in the caches of providers. `now` is a
    moment (by default this one) in `tz` (by default local time); a datetime without a zone is taken as the
    clock shows it. The day changes at midnight, in the middle of the first double hour.
    """
    if not isinstance(now, datetime):
        now = datetime.now(tz) if now is None else datetime.fromtimestamp(now, tz)
    elif now.tzinfo is not None:
        now = now.astimezone(tz)
    name = _DOUBLE_HOURS[(now.hour + 1) // 2 % 12]
    return f"当前时辰: {now:%Y-%m-%d} {name}时"
