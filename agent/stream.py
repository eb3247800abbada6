"""Stream events, and the assistant message that they build, with every byte handled once.

A stream function is any callable `stream_fn(model, context, options)` that returns an iterator of the events
below. The first event opens the message, `StreamDone` or `StreamError` closes it; an iterator that ends
without one is a broken stream. Events carry deltas only. `index` is the block that a delta belongs to; a
block that was never opened is opened by its first delta, and a delta for a block that has ended begins a new
one. Deltas of several blocks may alternate. A second end, and a second start of an open call under the same
id, change nothing.

The runtime keeps the events of a response in one growing list, the log. A view of the message so far is the
log and a length, so it is made in constant time and stays correct when kept; its text is joined when it is
read. The final message is built from the same log by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from agent.cancel import CancelToken
from agent.messages import (
    AssistantBlock,
    AssistantMessage,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    block_to_json,
)
from agent.models import Model
from agent.partial_json import checked_depth, parse_arguments, parse_partial_object
from agent.retry import RetryPolicy
from agent.usage import ZERO_USAGE, Usage, priced

_T = TypeVar("_T")


@dataclass(slots=True)
class StreamStart:
    """The answer begins; `model` is the id the server reports when it differs from the one asked for."""

    response_id: str = ""
    model: str = ""
    type: ClassVar[str] = "start"


@dataclass(slots=True)
class TextStart:
    """A text block begins."""

    index: int
    type: ClassVar[str] = "text_start"


@dataclass(slots=True)
class TextDelta:
    """More text of a block."""

    index: int
    delta: str
    type: ClassVar[str] = "text_delta"


@dataclass(slots=True)
class TextEnd:
    """A text block ends, perhaps with the provider's signature and the sources that the text cites."""

    index: int
    signature: str | None = None
    citations: Sequence[Mapping[str, Any]] = ()
    type: ClassVar[str] = "text_end"


@dataclass(slots=True)
class ThinkingStart:
    """A thinking block begins."""

    index: int
    type: ClassVar[str] = "thinking_start"


@dataclass(slots=True)
class ThinkingDelta:
    """More thinking of a block."""

    index: int
    delta: str
    type: ClassVar[str] = "thinking_delta"


@dataclass(slots=True)
class ThinkingEnd:
    """A thinking block ends; when redacted, the signature holds the opaque payload."""

    index: int
    signature: str | None = None
    redacted: bool = False
    type: ClassVar[str] = "thinking_end"


@dataclass(slots=True)
class ToolCallStart:
    """A tool call begins."""

    index: int
    id: str
    name: str
    type: ClassVar[str] = "toolcall_start"


@dataclass(slots=True)
class ToolCallDelta:
    """More of the JSON text of a call's arguments."""

    index: int
    delta: str
    type: ClassVar[str] = "toolcall_delta"


@dataclass(slots=True)
class ToolCallEnd:
    """A tool call ends; `arguments`, when given, replace those of the deltas."""

    index: int
    arguments: dict[str, Any] | None = None
    signature: str | None = None
    type: ClassVar[str] = "toolcall_end"


@dataclass(slots=True)
class ServerBlock:
    """A complete block that only the provider understands."""

    index: int
    block: ServerContent
    type: ClassVar[str] = "server_block"


@dataclass(slots=True)
class StreamDone:
    """The answer is complete. `message`, when given, replaces what the deltas built.

    `paused`: the provider interrupted its own work (Claude's `pause_turn`) and continues it when the message
    is sent back as it is, without a message after it.
    """

    stop_reason: Literal["stop", "length", "toolUse"] = "stop"
    usage: Usage | None = None
    message: AssistantMessage | None = None
    paused: bool = False
    type: ClassVar[str] = "done"


@dataclass(slots=True)
class StreamError:
    """The answer failed, or was aborted; what came so far is kept."""

    error_message: str
    stop_reason: Literal["error", "aborted"] = "error"
    usage: Usage | None = None
    message: AssistantMessage | None = None
    type: ClassVar[str] = "error"


StreamEvent: TypeAlias = (
    StreamStart
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | ServerBlock
    | StreamDone
    | StreamError
)

STREAM_EVENTS: frozenset[type] = frozenset(
    (
        StreamStart,
        TextStart,
        TextDelta,
        TextEnd,
        ThinkingStart,
        ThinkingDelta,
        ThinkingEnd,
        ToolCallStart,
        ToolCallDelta,
        ToolCallEnd,
        ServerBlock,
        StreamDone,
        StreamError,
    )
)


@dataclass(slots=True)
class AgentContext:
    """The input of a request. `tools` is any iterable of tools (a `ToolSet` too)."""

    system_prompt: str = ""
    messages: Sequence[Message] = ()
    tools: Any = ()


@dataclass(slots=True, kw_only=True)
class StreamOptions:
    """How a request is to be made. A stream function reads what it understands and ignores the rest.

    The one list of request options: `LoopConfig` and the settings of an agent inherit it, and the loop makes
    each request's options from theirs. The fields up to `output_schema` are set again for each request. Times
    are in seconds.

    - `cancel`: the stop signal; it must be obeyed, since it is how `abort()` reaches a request.
    - `api_key`: the key for the model's provider; empty means that the provider looks for one itself.
    - `api_key_error`: why `get_api_key` gave no key; shown if the provider finds none either.
    - `refresh_api_key(provider)`: asks for another key after the server rejected this one; "" for none.
    - `reasoning`: the thinking level, one that the model has; "" leaves the choice to the server.
    - `tool_choice`: "auto", "none", "required" or a tool's name; "" leaves it to the server.
    - `output_schema`: a JSON schema of an object that an answer in text must match; left out where the
      server takes none.
    - `session_id`: names the conversation to providers that cache by it.
    - `thinking_budgets`: tokens for thinking by level, for models that take a budget.
    - `transport`: "auto" or "sse".
    - `max_tokens`, `temperature`: as the provider defines them; None leaves them to the server.
    - `headers`: additional HTTP headers.
    - `server_tools`: tools that the provider runs itself, in the provider's form.
    - `server_compaction`: how the provider compacts the history itself, in the provider's form.
    - `cache_retention`: "" or "short" for the provider's usual time, "long" for its longest, "none" for none.
    - `retry`: the waits before a request is sent again.
    - `max_retry_delay`: the longest wait that a server may ask for; a longer one fails at once. None: any.
    - `on_retry(attempt, delay, error_text)`: called before each wait.
    - `on_payload(payload, model)`: may return a replacement of the request body.
    - `timeout`: the longest silence of the server; any byte restarts it. None: the provider's default.
    """

    cancel: CancelToken = field(default_factory=CancelToken)
    api_key: str = field(default="", repr=False)
    api_key_error: str = ""
    refresh_api_key: Callable[[str], str | None] | None = None
    reasoning: str = ""
    tool_choice: str = ""
    output_schema: Mapping[str, Any] | None = None
    session_id: str = ""
    thinking_budgets: Mapping[str, int] | None = None
    transport: str = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    server_tools: Sequence[Any] = ()
    server_compaction: Any = None
    cache_retention: str = ""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_retry_delay: float | None = 60.0
    on_retry: Callable[[int, float, str], object] | None = None
    on_payload: Callable[[dict[str, Any], Model], dict[str, Any] | None] | None = None
    timeout: float | None = None


StreamFn: TypeAlias = Callable[[Model, AgentContext, StreamOptions], Iterator[StreamEvent]]


def stream_event_to_json(event: StreamEvent) -> dict[str, Any]:
    """The event as JSON data: its type, `contentIndex` and what it carries; no accumulated text."""
    data: dict[str, Any] = {"type": event.type}
    index = getattr(event, "index", None)
    if index is not None:
        data["contentIndex"] = index
    for name, wire in _JSON_FIELDS:
        value = getattr(event, name, None)
        if value not in (None, "", False, ()):
            data[wire] = value
    if isinstance(event, ServerBlock):
        data["block"] = block_to_json(event.block)
    return data


_JSON_FIELDS = (
    ("delta", "delta"),
    ("id", "id"),
    ("name", "name"),
    ("arguments", "arguments"),
    ("signature", "signature"),
    ("redacted", "redacted"),
    ("citations", "citations"),
    ("paused", "paused"),
    ("response_id", "responseId"),
    ("model", "model"),
    ("stop_reason", "reason"),
    ("error_message", "errorMessage"),
)


class EventLog(list[StreamEvent]):
    """The events of a response as they arrive; only ever appended to.

    It keeps what the latest view has read, so that reading each view in turn handles every event once. A
    reader takes the fold out while it uses it, so readers on several threads need no lock: the second one
    begins a fold of its own.
    """

    __slots__ = ("_folds",)

    def __init__(self) -> None:
        super().__init__()
        self._folds: list[_Fold] = []

    def take_fold(self, length: int) -> _Fold:
        """A fold of the first `length` events, which no other reader uses."""
        try:
            fold = self._folds.pop()
        except IndexError:
            fold = _Fold()
        if fold.length > length:  # an earlier view is read again
            self.give_back(fold)
            fold = _Fold()
        fold.extend(self, length)
        return fold

    def give_back(self, fold: _Fold) -> None:
        """Leave the fold to the next reader, unless another reader left one already."""
        if not self._folds:
            self._folds.append(fold)


class PartialMessage:
    """An assistant message as far as it had come when this view was made.

    Made in constant time, and stays correct; reading costs the length of what is read, once per view.
    Immutable, may be read on any thread.
    """

    __slots__ = ("_content", "_length", "_log")

    role: ClassVar[str] = "assistant"

    def __init__(self, log: list[StreamEvent], length: int) -> None:
        self._log = log
        self._length = length
        self._content: tuple[AssistantBlock, ...] | None = None

    @property
    def content(self) -> tuple[AssistantBlock, ...]:
        """The blocks so far; arguments of an unfinished call hold what is certain."""
        if self._content is None:
            self._content = self._read(lambda blocks: tuple(block.partial() for block in blocks))
        return self._content

    @property
    def text(self) -> str:
        """The text so far."""
        if self._content is None and isinstance(self._log, EventLog):
            return self._read(lambda blocks: _joined(blocks, "text"))
        return "".join(block.text for block in self.content if isinstance(block, TextContent))

    @property
    def thinking(self) -> str:
        """The thinking so far."""
        if self._content is None and isinstance(self._log, EventLog):
            return self._read(lambda blocks: _joined(blocks, "thinking"))
        return "".join(block.thinking for block in self.content if isinstance(block, ThinkingContent))

    def _read(self, read: Callable[[list[_Block]], _T]) -> _T:
        """The result of `read` for the blocks of this view."""
        if not isinstance(self._log, EventLog):
            return read(_fold(self._log, self._length))
        fold = self._log.take_fold(self._length)
        try:
            return read(fold.blocks)
        finally:
            self._log.give_back(fold)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls so far."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))

    def __copy__(self) -> PartialMessage:
        return self

    def __deepcopy__(self, memo: object) -> PartialMessage:
        return self

    def __reduce__(self) -> tuple[type[PartialMessage], tuple[list[StreamEvent], int]]:
        return PartialMessage, (self._log[: self._length], self._length)

    def __repr__(self) -> str:
        return f"<PartialMessage of {self._length} events>"


def _joined(blocks: list[_Block], kind: str) -> str:
    """The text of all blocks of a kind; nothing is parsed for it."""
    return "".join(block.joined() for block in blocks if block.kind == kind)


@dataclass(slots=True)
class BuiltMessage:
    """A finished message and, by position among its calls, what is wrong with the arguments of some.

    `has_broken_call`: a call was never closed, or its arguments never became a whole JSON object.
    """

    message: AssistantMessage
    argument_errors: Mapping[int, str]
    has_broken_call: bool = False


def build_message(
    log: list[StreamEvent], end: StreamDone | StreamError, model: Model, timestamp: int
) -> BuiltMessage:
    """The final message of a response: that of the end event if it has one, else built from the log."""
    error_message = end.error_message if isinstance(end, StreamError) else ""
    if end.message is not None:
        return _canned(end.message, end, error_message, model)
    blocks: list[AssistantBlock] = []
    errors: dict[int, str] = {}
    calls = 0
    has_broken_call = False
    for block in _fold(log, len(log)):
        content, problem = block.final()
        if problem:
            errors[calls] = problem
        if isinstance(content, ToolCall):
            calls += 1
            has_broken_call = has_broken_call or bool(problem) or not block.closed
            if not content.id:  # results refer to it
                content = replace(content, id=f"call_{timestamp}_{calls}")
        if content is not None:
            blocks.append(content)
    response_id, response_model = _identity(log, model)
    message = AssistantMessage(
        blocks,
        model.api,
        model.provider,
        model.id,
        priced(end.usage or ZERO_USAGE, model.cost),
        end.stop_reason,
        error_message,
        response_id,
        response_model,
        timestamp,
    )
    return BuiltMessage(message, errors, has_broken_call)


def _canned(
    message: AssistantMessage, end: StreamDone | StreamError, error_message: str, model: Model
) -> BuiltMessage:
    if isinstance(end, StreamError):
        failed = message.stop_reason in ("error", "aborted")
        message = replace(
            message,
            stop_reason=message.stop_reason if failed else end.stop_reason,
            error_message=(message.error_message if failed else "") or error_message,
        )
    usage = priced(message.usage if message.usage != ZERO_USAGE else end.usage or ZERO_USAGE, model.cost)
    if usage is not message.usage:
        message = replace(message, usage=usage)
    return BuiltMessage(message, {}, any(not call.arguments for call in message.tool_calls))


def _identity(log: list[StreamEvent], model: Model) -> tuple[str, str]:
    """The first response id and the first model name the server reported that is not the one asked for."""
    response_id = response_model = ""
    for event in log:
        if isinstance(event, StreamStart):
            response_id = response_id or event.response_id
            if event.model != model.id:
                response_model = response_model or event.model
    return response_id, response_model


class _Block:
    """One block while a log is folded."""

    __slots__ = (
        "arguments", "citations", "closed", "id", "kind", "name", "parts", "redacted", "server", "signature"
    )  # fmt: skip

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.parts: list[str] = []
        self.closed = False
        self.signature: str | None = None
        self.citations: tuple[Mapping[str, Any], ...] = ()
        self.redacted = False
        self.id = ""
        self.name = ""
        self.arguments: Any = None
        self.server: ServerContent | None = None

    def end(self, signature: str | None) -> None:
        """Close the block; a second end adds what the first did not say."""
        self.closed = True
        if signature is not None:
            self.signature = signature

    def is_same_call(self, start: ToolCallStart) -> bool:
        """True for the start of this very call once more, while it is open."""
        return self.kind == "toolcall" and not self.closed and self.id == start.id != ""

    def joined(self) -> str:
        """The text of the deltas; joined text replaces them, so that none is joined one by one again."""
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return self.parts[0] if self.parts else ""

    def partial(self) -> AssistantBlock:
        """The block for a view."""
        if self.kind == "toolcall":
            arguments = self.arguments
            if not isinstance(arguments, dict):
                arguments = parse_partial_object(self.joined())
            return ToolCall(self.id, self.name, arguments, self.signature)
        return self._plain()

    def final(self) -> tuple[AssistantBlock | None, str]:
        """The block of the final message, None when it is empty, and what is wrong with its arguments."""
        if self.kind == "toolcall":
            return self._call()
        block = self._plain()
        empty = not self.parts or not any(self.parts)
        if empty and not self.signature and self.server is None:
            return None, ""
        return block, ""

    def _plain(self) -> AssistantBlock:
        if self.server is not None:
            return self.server
        text = self.joined()
        if self.kind == "text":
            return TextContent(text, self.signature, self.citations)
        return ThinkingContent(text, self.signature, self.redacted)

    def _call(self) -> tuple[AssistantBlock, str]:
        if self.arguments is None:
            arguments, problem = parse_arguments("".join(self.parts))
        elif isinstance(self.arguments, dict):
            arguments, problem = checked_depth(self.arguments)
        else:
            arguments, problem = {}, "the arguments must be a JSON object"
        return ToolCall(self.id, self.name, arguments, self.signature), problem


class _Fold:
    """The blocks of the first `length` events of a log, in the order in which they were opened."""

    __slots__ = ("_by_index", "blocks", "length")

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.length = 0
        self._by_index: dict[int, _Block] = {}

    def extend(self, log: list[StreamEvent], length: int) -> None:
        """Handle the events up to `length`."""
        for position in range(self.length, length):
            event = log[position]
            match event:
                case TextDelta():
                    self._block(event.index, "text").parts.append(event.delta)
                case ToolCallDelta():
                    self._block(event.index, "toolcall").parts.append(event.delta)
                case ThinkingDelta():
                    self._block(event.index, "thinking").parts.append(event.delta)
                case TextStart():
                    self._block(event.index, "text", fresh=True)
                case ThinkingStart():
                    self._block(event.index, "thinking", fresh=True)
                case ToolCallStart():
                    open_call = self._by_index.get(event.index)
                    if open_call is None or not open_call.is_same_call(event):
                        block = self._block(event.index, "toolcall", fresh=True)
                        block.id, block.name = event.id, event.name
                case TextEnd():
                    block = self._block(event.index, "text", ending=True)
                    block.end(event.signature)
                    block.citations = tuple(event.citations) or block.citations
                case ThinkingEnd():
                    block = self._block(event.index, "thinking", ending=True)
                    block.end(event.signature)
                    block.redacted = block.redacted or event.redacted
                case ToolCallEnd():
                    block = self._block(event.index, "toolcall", ending=True)
                    block.end(event.signature)
                    if event.arguments is not None:
                        block.arguments = event.arguments
                case ServerBlock():
                    self._block(event.index, "server", fresh=True).server = event.block
        self.length = max(self.length, length)

    def _block(self, index: int, kind: str, fresh: bool = False, ending: bool = False) -> _Block:
        block = self._by_index.get(index)
        if block is None or fresh or block.kind != kind or (block.closed and not ending):
            block = self._by_index[index] = _Block(kind)
            self.blocks.append(block)
        return block


def _fold(log: list[StreamEvent], length: int) -> list[_Block]:
    """The blocks of the first `length` events of a log."""
    fold = _Fold()
    fold.extend(log, length)
    return fold.blocks
