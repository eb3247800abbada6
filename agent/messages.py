"""Messages and their content blocks as immutable values, and their JSON form.

Sequences are stored as tuples. `dataclasses.replace` makes a changed copy. Each message has one private
slot in which a wire format keeps the encoded form, so that a long history is serialised once and not at every
request; no copy, pickle, comparison or hash takes it along.

Hashes leave out what can't have one: arguments, details, meta and data.

JSON names are camelCase (`toolCallId`, `stopReason`, ...); optional fields are left out when empty, while
`content`, `usage`, `stopReason`, `isError` and `timestamp` are always there.
`message_from_json(message_to_json(m)) == m`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from agent.json_values import JsonMapping, JsonObject, json_value
from agent.usage import Cost, Usage

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]
STOP_REASONS = frozenset(("stop", "length", "toolUse", "error", "aborted"))


def now_ms() -> int:
    """The current time in Unix milliseconds, the unit of message timestamps."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class TextContent:
    """Text. `signature` is opaque provider data, replayed as it came.

    `citations` are the sources that the text cites: the provider's JSON objects as they came, which the same
    provider gets back. `AssistantMessage.sources` reads their titles and addresses.
    """

    text: str
    signature: str | None = None
    citations: tuple[JsonMapping, ...] = field(default=(), hash=False)
    type: ClassVar[str] = "text"


@dataclass(frozen=True, slots=True)
class ThinkingContent:
    """A model's reasoning. When `redacted`, the opaque payload is in `signature`."""

    thinking: str
    signature: str | None = None
    redacted: bool = False
    type: ClassVar[str] = "thinking"


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image in a user message or a tool result; `data` is base64 text."""

    data: str
    mime_type: str
    type: ClassVar[str] = "image"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to run a tool with a JSON object of arguments."""

    id: str
    name: str
    arguments: JsonObject = field(hash=False)
    signature: str | None = None
    type: ClassVar[str] = "toolCall"


@dataclass(frozen=True, slots=True)
class ServerContent:
    """A block only its provider understands; `raw` is that provider's JSON text, kept byte for byte."""

    provider_type: str
    raw: str
    display: str | None = None
    type: ClassVar[str] = "server"


@dataclass(frozen=True, slots=True)
class Source:
    """What a text cites; `url` is empty for a document of the request."""

    title: str
    url: str = ""


def source_of(citation: JsonMapping) -> Source | None:
    """The title and address in a citation of any provider; None when it has neither."""
    for nested in ("url_citation", "web", "retrievedContext", "maps"):
        if isinstance(citation.get(nested), Mapping):
            citation = citation[nested]
    url = _first_text(citation, "url", "uri", "source")
    title = _first_text(citation, "title", "document_title", "filename") or url
    return Source(title, url) if title else None


def _first_text(data: JsonMapping, *names: str) -> str:
    return next((value for name in names if isinstance(value := data.get(name), str) and value), "")


UserBlock = TextContent | ImageContent
AssistantBlock = TextContent | ThinkingContent | ToolCall | ServerContent
ContentBlock = TextContent | ThinkingContent | ImageContent | ToolCall | ServerContent


class _EncodedOnce:
    """The private slot, empty until it is used. No dataclass field, so no copy or comparison sees it."""

    __slots__ = ("_encoded",)
    _encoded: dict[object, Any]


@dataclass(frozen=True, slots=True)
class UserMessage(_EncodedOnce):
    """A message of the user: text, or text and image blocks. `timestamp` is in Unix milliseconds."""

    content: str | tuple[UserBlock, ...]
    timestamp: int = field(default_factory=now_ms)
    role: ClassVar[str] = "user"

    def __init__(self, content: str | Sequence[UserBlock], timestamp: int | None = None) -> None:
        _set(self, "content", content if isinstance(content, str) else tuple(content))
        _set(self, "timestamp", now_ms() if timestamp is None else timestamp)

    @property
    def text(self) -> str:
        """The text of the message without its images."""
        return self.content if isinstance(self.content, str) else _joined_text(self.content)


@dataclass(frozen=True, slots=True)
class AssistantMessage(_EncodedOnce):
    """One answer of a model. `error_message` is set when `stop_reason` is `error` or `aborted`."""

    content: tuple[AssistantBlock, ...]
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    stop_reason: StopReason = "stop"
    error_message: str = ""
    response_id: str = ""
    response_model: str = ""
    timestamp: int = field(default_factory=now_ms)
    role: ClassVar[str] = "assistant"

    def __init__(
        self,
        content: str | Sequence[AssistantBlock],
        api: str = "",
        provider: str = "",
        model: str = "",
        usage: Usage | None = None,
        stop_reason: StopReason = "stop",
        error_message: str = "",
        response_id: str = "",
        response_model: str = "",
        timestamp: int | None = None,
    ) -> None:
        _set(self, "content", (TextContent(content),) if isinstance(content, str) else tuple(content))
        _set(self, "api", api)
        _set(self, "provider", provider)
        _set(self, "model", model)
        _set(self, "usage", Usage() if usage is None else usage)
        _set(self, "stop_reason", stop_reason)
        _set(self, "error_message", error_message)
        _set(self, "response_id", response_id)
        _set(self, "response_model", response_model)
        _set(self, "timestamp", now_ms() if timestamp is None else timestamp)

    @property
    def text(self) -> str:
        """The text blocks, joined without a separator."""
        return _joined_text(self.content)

    @property
    def thinking(self) -> str:
        """The thinking blocks, joined without a separator."""
        return "".join(block.thinking for block in self.content if isinstance(block, ThinkingContent))

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that the text cites, each once, in the order of their first citation."""
        found = (
            source_of(item)
            for block in self.content
            if isinstance(block, TextContent)
            for item in block.citations
        )
        return tuple(dict.fromkeys(source for source in found if source is not None))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


@dataclass(frozen=True, slots=True)
class ToolResultMessage(_EncodedOnce):
    """The answer to one tool call.

    `details` is for screens and logs and never sent; `meta` is small text the model sees after the content.
    """

    tool_call_id: str
    tool_name: str
    content: tuple[UserBlock, ...]
    is_error: bool = False
    details: Any = field(default=None, hash=False)
    meta: Mapping[str, str] | None = field(default=None, hash=False)
    timestamp: int = field(default_factory=now_ms)
    role: ClassVar[str] = "toolResult"

    def __init__(
        self,
        tool_call_id: str,
        tool_name: str,
        content: str | Sequence[UserBlock],
        is_error: bool = False,
        details: Any = None,
        meta: Mapping[str, str] | None = None,
        timestamp: int | None = None,
    ) -> None:
        _set(self, "tool_call_id", tool_call_id)
        _set(self, "tool_name", tool_name)
        _set(self, "content", (TextContent(content),) if isinstance(content, str) else tuple(content))
        _set(self, "is_error", is_error)
        _set(self, "details", details)
        _set(self, "meta", meta)
        _set(self, "timestamp", now_ms() if timestamp is None else timestamp)

    @property
    def text(self) -> str:
        """The text blocks, joined without a separator."""
        return _joined_text(self.content)


@dataclass(frozen=True, slots=True)
class CustomMessage:
    """An entry of the application: stored and shown, never sent to a model."""

    kind: str
    data: Any = field(default=None, hash=False)
    timestamp: int = field(default_factory=now_ms)
    role: ClassVar[str] = "custom"


Message = UserMessage | AssistantMessage | ToolResultMessage | CustomMessage

_set = object.__setattr__


def encoded_once(message: Message, key: object, encode: Any) -> Any:
    """The value `encode(message)` made for `key`, made once per message and key.

    For wire formats. Threads: two may both encode at first; they store equal values, so either may win.
    """
    if isinstance(message, CustomMessage):
        return encode(message)
    slot: dict[object, Any] | None = getattr(message, "_encoded", None)
    if slot is None:
        slot = {}
        _set(message, "_encoded", slot)
    try:
        return slot[key]
    except KeyError:
        value = slot[key] = encode(message)
        return value


def render_meta(meta: Mapping[str, str] | None) -> str:
    """The meta as the model sees it: `[key: value]` lines sorted by key, the same bytes at every call."""
    if not meta:
        return ""
    return "\n".join(f"[{key}: {meta[key]}]" for key in sorted(meta))


def default_convert_to_llm(messages: Sequence[Message]) -> list[Message]:
    """The messages a model may see, in order: everything but `CustomMessage`s."""
    return [m for m in messages if not isinstance(m, CustomMessage)]


def checked_messages(messages: Iterable[Message | str]) -> tuple[Message, ...]:
    """Messages of the application as the runtime can store and send them; a text becomes a user message.

    Raises TypeError that names the message and the field, for anything else.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise TypeError(f"messages must be a list of messages, not {type(messages).__name__}")
    return tuple(checked_message(message) for message in messages)


def checked_message(message: Message | str) -> Message:
    """The same for one message."""
    if isinstance(message, str):
        return UserMessage(message)
    if isinstance(message, CustomMessage):
        return message
    if isinstance(message, UserMessage):
        kinds: tuple[type, ...] = (TextContent, ImageContent)
    elif isinstance(message, AssistantMessage):
        kinds = (TextContent, ThinkingContent, ToolCall, ServerContent)
    elif isinstance(message, ToolResultMessage):
        kinds = (TextContent, ImageContent)
        _check_field(message, "tool_call_id", str)
        _check_field(message, "tool_name", str)
    else:
        raise TypeError(f"a message must be text or a message object, not {type(message).__name__}")
    if isinstance(message.content, str):
        return message
    for block in message.content:
        if not isinstance(block, kinds):
            raise TypeError(f"the content of a {message.role} message can't hold {block!r:.80}")
        for name, kind in _BLOCK_FIELDS[type(block)]:
            _check_field(block, name, kind)
    return message


def _check_field(item: object, name: str, kind: type) -> None:
    value = getattr(item, name)
    if not isinstance(value, kind):
        raise TypeError(f"{type(item).__name__}.{name} must be a {kind.__name__}, not {value!r:.80}")


_BLOCK_FIELDS: dict[type, tuple[tuple[str, type], ...]] = {
    TextContent: (("text", str),),
    ThinkingContent: (("thinking", str),),
    ImageContent: (("data", str), ("mime_type", str)),
    ToolCall: (("id", str), ("name", str), ("arguments", dict)),
    ServerContent: (("provider_type", str), ("raw", str)),
}


def message_to_json(message: Message) -> JsonObject:
    """The message as JSON data; `details` and `data` in the nearest form (see `json_value`)."""
    match message:
        case UserMessage():
            content: Any = message.content
            if not isinstance(content, str):
                content = [block_to_json(block) for block in content]
            return {"role": "user", "content": content, "timestamp": message.timestamp}
        case AssistantMessage():
            return _assistant_to_json(message)
        case ToolResultMessage():
            data: JsonObject = {
                "role": "toolResult",
                "toolCallId": message.tool_call_id,
                "toolName": message.tool_name,
                "content": [block_to_json(block) for block in message.content],
            }
            if message.details is not None:
                data["details"] = json_value(message.details)
            if message.meta is not None:
                data["meta"] = dict(message.meta)
            return data | {"isError": message.is_error, "timestamp": message.timestamp}
        case CustomMessage():
            return {
                "role": "custom",
                "kind": message.kind,
                "data": json_value(message.data),
                "timestamp": message.timestamp,
            }
    raise TypeError(f"not a message: {message!r}")


def message_from_json(data: JsonMapping) -> Message:
    """The message of such JSON data.

    Unknown blocks are left out; a message of an unknown role comes back as a `CustomMessage` of kind
    `unknown` that holds the data, so a file written by a newer version still loads. Raises ValueError,
    naming the field, for data that is no message at all.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"a message must be a JSON object, not {type(data).__name__}")
    role = _field(data, "role", str)
    if role not in _ROLES:
        return CustomMessage("unknown", dict(data), data.get("timestamp") or 0)
    timestamp = _field(data, "timestamp", _NUMBER, 0)
    match role:
        case "user":
            content = data.get("content", "")
            if isinstance(content, str):
                return UserMessage(content, timestamp)
            return UserMessage(_blocks_from_json(content, _USER_BLOCKS), timestamp)
        case "assistant":
            return _assistant_from_json(data)
        case "toolResult":
            return ToolResultMessage(
                _field(data, "toolCallId", str),
                _field(data, "toolName", str, ""),
                _blocks_from_json(data.get("content", ()), _USER_BLOCKS),
                bool(data.get("isError", False)),
                data.get("details"),
                _field(data, "meta", Mapping, None),
                timestamp,
            )
    return CustomMessage(_field(data, "kind", str, ""), data.get("data"), timestamp)


def usage_to_json(usage: Usage) -> JsonObject:
    """The usage as JSON data."""
    cost = usage.cost
    data: JsonObject = {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": usage.total_tokens,
        "cost": {
            "input": cost.input,
            "output": cost.output,
            "cacheRead": cost.cache_read,
            "cacheWrite": cost.cache_write,
            "total": cost.total,
        },
    }
    data |= {name: value for name, value in _details(usage) if value}
    if cost.server_tools:
        data["cost"]["serverTools"] = cost.server_tools
    if cost.is_estimate:
        data["cost"]["isEstimate"] = True
    return data


def _details(usage: Usage) -> tuple[tuple[str, int], ...]:
    """The counts that are left out when they are zero, under their JSON names."""
    return (
        ("reasoning", usage.reasoning),
        ("cacheWrite1h", usage.cache_write_1h),
        ("webSearches", usage.web_searches),
    )


def usage_from_json(data: JsonMapping) -> Usage:
    """The usage of such JSON data; what is missing counts as zero. Raises ValueError for other data."""
    if not isinstance(data, Mapping):
        raise ValueError(f"usage: expected an object, got {data!r:.80}")
    cost: JsonMapping = _field(data, "cost", Mapping, {})
    return Usage(
        *_numbers(data),
        total_tokens=_field(data, "totalTokens", _NUMBER, 0),
        cost=Cost(
            *_numbers(cost),
            total=_field(cost, "total", _NUMBER, 0.0),
            server_tools=_field(cost, "serverTools", _NUMBER, 0.0),
            is_estimate=cost.get("isEstimate") is True,
        ),
        reasoning=_field(data, "reasoning", _NUMBER, 0),
        cache_write_1h=_field(data, "cacheWrite1h", _NUMBER, 0),
        web_searches=_field(data, "webSearches", _NUMBER, 0),
    )


def _numbers(data: JsonMapping) -> tuple[Any, Any, Any, Any]:
    """The four kinds of tokens, or what each cost."""
    input, output, read, write = (_field(data, name, _NUMBER, 0) for name in _KINDS)
    return input, output, read, write


def _joined_text(blocks: Sequence[ContentBlock]) -> str:
    return "".join(block.text for block in blocks if isinstance(block, TextContent))


def _assistant_to_json(message: AssistantMessage) -> JsonObject:
    data: JsonObject = {
        "role": "assistant",
        "content": [block_to_json(block) for block in message.content],
        "api": message.api,
        "provider": message.provider,
        "model": message.model,
    }
    if message.response_model:
        data["responseModel"] = message.response_model
    data["usage"] = usage_to_json(message.usage)
    data["stopReason"] = message.stop_reason
    if message.response_id:
        data["responseId"] = message.response_id
    if message.error_message:
        data["errorMessage"] = message.error_message
    data["timestamp"] = message.timestamp
    return data


def _assistant_from_json(data: JsonMapping) -> AssistantMessage:
    stop_reason = _field(data, "stopReason", str, "stop")
    if stop_reason not in STOP_REASONS:
        raise ValueError(
            f"stopReason: expected one of {', '.join(sorted(STOP_REASONS))}, got {stop_reason!r}"
        )
    return AssistantMessage(
        _blocks_from_json(data.get("content", ()), _ASSISTANT_BLOCKS),
        _field(data, "api", str, ""),
        _field(data, "provider", str, ""),
        _field(data, "model", str, ""),
        usage_from_json(_field(data, "usage", Mapping, {})),
        stop_reason,
        _field(data, "errorMessage", str, ""),
        _field(data, "responseId", str, ""),
        _field(data, "responseModel", str, ""),
        _field(data, "timestamp", _NUMBER, 0),
    )


def block_to_json(block: ContentBlock) -> JsonObject:
    """The block as JSON data; the arguments of a call are passed as they are."""
    match block:
        case TextContent():
            data = _with({"type": "text", "text": block.text}, textSignature=block.signature)
            return data | {"citations": list(block.citations)} if block.citations else data
        case ThinkingContent():
            data = _with({"type": "thinking", "thinking": block.thinking}, thinkingSignature=block.signature)
            return data | {"redacted": True} if block.redacted else data
        case ImageContent():
            return {"type": "image", "data": block.data, "mimeType": block.mime_type}
        case ToolCall():
            data = {"type": "toolCall", "id": block.id, "name": block.name, "arguments": block.arguments}
            return _with(data, thoughtSignature=block.signature)
        case ServerContent():
            data = {"type": "server", "providerType": block.provider_type, "raw": block.raw}
            return _with(data, display=block.display)
    raise TypeError(f"not a content block: {block!r}")


def _with(data: JsonObject, **optional: Any) -> JsonObject:
    return data | {key: value for key, value in optional.items() if value is not None}


_ROLES = ("user", "assistant", "toolResult", "custom")
_USER_BLOCKS = ("text", "image")
_ASSISTANT_BLOCKS = ("text", "thinking", "toolCall", "server")


def _blocks_from_json(items: Any, allowed: tuple[str, ...]) -> list[Any]:
    if isinstance(items, str):
        return [TextContent(items)]
    if not isinstance(items, Sequence):
        raise ValueError(f"content: expected a list of blocks, got {type(items).__name__}")
    blocks = (
        _block_from_json(item) for item in items if isinstance(item, Mapping) and item.get("type") in allowed
    )
    return [block for block in blocks if block is not None]


def _block_from_json(data: JsonMapping) -> ContentBlock | None:
    match data["type"]:
        case "text":
            citations = _field(data, "citations", list, ())
            return TextContent(
                _field(data, "text", str),
                _field(data, "textSignature", str, None),
                tuple(citation for citation in citations if isinstance(citation, Mapping)),
            )
        case "thinking":
            return ThinkingContent(
                _field(data, "thinking", str),
                _field(data, "thinkingSignature", str, None),
                bool(data.get("redacted", False)),
            )
        case "image":
            return ImageContent(_field(data, "data", str), _field(data, "mimeType", str))
        case "toolCall":
            return ToolCall(
                _field(data, "id", str),
                _field(data, "name", str),
                _field(data, "arguments", dict, {}),
                _field(data, "thoughtSignature", str, None),
            )
        case "server":
            return ServerContent(
                _field(data, "providerType", str),
                _field(data, "raw", str),
                _field(data, "display", str, None),
            )
    return None


def _field(data: JsonMapping, name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
    """A field of that type; null and a missing one stand for the default, if there is one."""
    value = data.get(name)
    if value is None and default is not ...:
        return default
    if not isinstance(value, kind):
        raise ValueError(f"{name}: expected {_JSON_NAMES[kind]}, got {value!r:.80}")
    return value


_KINDS = ("input", "output", "cacheRead", "cacheWrite")
_NUMBER = (int, float)
_JSON_NAMES: dict[Any, str] = {
    str: "a string",
    _NUMBER: "a number",
    dict: "an object",
    list: "a list",
    Mapping: "an object",
}
