"""Adapts a history to the model that it is sent to, before a wire format encodes it.

`arrange` decides which messages are sent, in which order and under which call ids. It reads no text and runs
for every request. The `*_blocks` functions decide which blocks of one message are sent. A wire format calls
them once per message and keeps the encoded bytes, keyed by the model and the call ids (see
`agent.messages.encoded_once`), so a request encodes only new messages.

Nothing here changes a stored message.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from agent.cancel import CancelToken
from agent.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageContent,
    Message,
    ServerContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
    encoded_once,
    render_meta,
)
from agent.models import Model
from agent.providers.http.failure import aborted

Item = TypeVar("Item")

Placed: TypeAlias = tuple[UserMessage | AssistantMessage | ToolResultMessage, tuple[str, ...]]
"""A message and its call ids on the wire: those of an answer's calls in order, or the one id of a result."""

ID_LIMIT = 64  # of Anthropic, and of OpenAI for each half of a Responses id
NAME_LIMIT = 64  # of OpenAI, Anthropic and Google for tool names

NO_RESULT = "No result provided"
# The first message where a server requires one of the user and the history begins with an answer.
OPENING = "(The beginning of the conversation was left out.)"
_IMAGE_LEFT_OUT = "[An image was left out here: this model cannot see images.]"
_RESULT_IMAGE_LEFT_OUT = "[The tool returned an image, left out here: this model cannot see images.]"
# In brackets, so that no model takes it for output of the tool.
_NO_OUTPUT = "[The tool finished and there was no output.]"
_FAILED_NO_OUTPUT = "[The tool failed and there was no output.]"

_DEFAULT_LIMIT = Model("", "", "").max_tokens
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


# --- which messages, in which order, under which ids --------------------------------------------------


def legal_id(raw: str) -> str:
    """The call id with every character outside `[A-Za-z0-9_-]` as `_`, at most 64 long, never empty."""
    return _ILLEGAL.sub("_", raw)[:ID_LIMIT] or "call"


def wire_name(name: str) -> str:
    """The tool name in the characters that all providers accept, also for a name that a model invented."""
    return _ILLEGAL.sub("_", name)[:NAME_LIMIT] or "tool"


def tool_names(tools: Iterable[Any], encode: Callable[[str], str] = wire_name) -> dict[str, str]:
    """Maps each tool's name to a unique name on the wire, in legal characters."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for tool in tools:
        wire = base = encode(tool.name)
        number = 2
        while wire in taken:
            wire, number = f"{base[:56]}_{number}", number + 1
        taken.add(wire)
        names[tool.name] = wire
    return names


def stated_limit(model: Model) -> int | None:
    """The model's output limit in tokens; None for the default, which is a guess that a server may refuse."""
    return None if model.max_tokens == _DEFAULT_LIMIT else model.max_tokens


def arrange(
    messages: Iterable[Message], wire_id: Callable[[str], str] = legal_id, limit: int = ID_LIMIT
) -> list[Placed]:
    """The messages to send, in order, each with its ids on the wire.

    Answers that failed or were aborted are left out, with the results of their calls. Each result directly
    follows the answer that called, in the order of the calls. A call without a result gets one that says so.
    A result without its call is dropped. Ids are unique: the first use of an id is `wire_id(id)`, later ones
    get a number that depends only on the messages before, so the bytes of a prefix never change. `wire_id`
    must be a pure module-level function (it is a cache key) with results of at most `limit` characters.
    """
    return _Arrangement(wire_id, limit).of(messages)


class _Arrangement:
    """One pass over a history; O(1) per message and call."""

    def __init__(self, wire_id: Callable[[str], str], limit: int) -> None:
        self._wire_id = wire_id
        self._limit = limit
        self._placed: list[Placed | None] = []
        # The ids in use, each with the last number that was appended to it.
        self._used: dict[str, int] = {}
        # By the id in the history: the positions for the results of the latest answer that used it.
        self._open: dict[str, deque[int]] = {}
        self._unanswered: dict[int, tuple[AssistantMessage, int, str]] = {}

    def of(self, messages: Iterable[Message]) -> list[Placed]:
        for message in messages:
            if isinstance(message, ToolResultMessage):
                self._place_result(message)
            elif isinstance(message, AssistantMessage):
                self._place_turn(message)
            elif isinstance(message, UserMessage):
                self._placed.append((message, ()))
        for position, (turn, number, wire) in self._unanswered.items():
            self._placed[position] = (_missing_result(turn, number), (wire,))
        return [placed for placed in self._placed if placed is not None]

    def _place_turn(self, turn: AssistantMessage) -> None:
        if turn.stop_reason in ("error", "aborted"):
            return
        calls: tuple[tuple[str, str], ...] = encoded_once(turn, self._wire_id, self._calls)
        if not calls:
            self._placed.append((turn, ()))
            return
        ids = tuple([self._unique(wire) for _, wire in calls])
        self._placed.append((turn, ids))
        here: dict[str, deque[int]] = {}
        for number, (raw, _) in enumerate(calls):
            position = len(self._placed)
            here.setdefault(raw, deque()).append(position)
            self._unanswered[position] = (turn, number, ids[number])
            self._placed.append(None)
        self._open |= here

    def _place_result(self, result: ToolResultMessage) -> None:
        waiting = self._open.get(result.tool_call_id)
        if waiting:
            position = waiting.popleft()
            _, _, wire = self._unanswered.pop(position)
            self._placed[position] = (result, (wire,))

    def _calls(self, turn: AssistantMessage) -> tuple[tuple[str, str], ...]:
        return tuple((call.id, self._wire_id(call.id)) for call in turn.tool_calls)

    def _unique(self, wire: str) -> str:
        if wire not in self._used:
            self._used[wire] = 1
            return wire
        while True:
            self._used[wire] += 1
            suffix = f"_{self._used[wire]}"
            candidate = self._wire_id(wire[: self._limit - len(suffix)] + suffix)
            if candidate not in self._used:
                self._used[candidate] = 1
                return candidate


def _missing_result(turn: AssistantMessage, number: int) -> ToolResultMessage:
    def make(turn: AssistantMessage) -> ToolResultMessage:
        call = turn.tool_calls[number]
        return ToolResultMessage(call.id, call.name, NO_RESULT, is_error=True, timestamp=turn.timestamp)

    result: ToolResultMessage = encoded_once(turn, (_missing_result, number), make)
    return result


def until_cancelled(items: Iterable[Item], cancel: CancelToken | None) -> Iterator[Item]:
    """The items; raises the error of a cancelled request before the next one once the token is set."""
    if cancel is None:
        yield from items
        return
    for item in items:
        if cancel.is_set():
            raise aborted()
        yield item


# --- which blocks of one message ---------------------------------------------------------------


def assistant_blocks(
    message: AssistantMessage, model: Model, signed_blanks: bool = False
) -> list[AssistantBlock]:
    """The blocks of an answer for the model; blank texts are left out.

    With `signed_blanks` a blank text with a signature is kept for the model that made it.

    Signed thinking is kept for the provider and wire format that signed it, redacted thinking for the same
    model only. Other thinking becomes plain text, without tags, which models would imitate. For another
    provider a server block becomes its display text, or nothing.
    """
    same_provider = message.provider == model.provider and message.api == model.api
    same_model = same_provider and message.model == model.id
    blocks: list[AssistantBlock] = []
    for block in message.content:
        kept: AssistantBlock | None
        match block:
            case TextContent():
                kept = _text(block.text, block.signature if same_model else None)
                if kept is not None and block.citations and same_provider and kept.text == block.text:
                    kept = replace(kept, citations=block.citations)
                if kept is None and signed_blanks and same_model and block.signature:
                    kept = block if clean(block.text) == block.text else None
            case ThinkingContent():
                kept = _thinking(block, same_provider, same_model)
            case ToolCall():
                kept = block if same_model or block.signature is None else _unsigned(block)
            case ServerContent():
                kept = block if same_provider else _text(block.display or "")
        if kept is not None:
            blocks.append(kept)
    return blocks


def user_blocks(message: UserMessage, model: Model) -> list[UserBlock]:
    """The text and image blocks of a user message, without blank texts; empty when nothing is left."""
    if isinstance(message.content, str):
        text = _text(message.content)
        return [] if text is None else [text]
    return list(_visible(message.content, model, _IMAGE_LEFT_OUT))


def result_blocks(message: ToolResultMessage, model: Model) -> list[UserBlock]:
    """The text and image blocks of a tool result, its meta as the last text; never empty.

    An empty result becomes a sentence that says so: servers refuse an empty one.
    """
    blocks = list(_visible(message.content, model, _RESULT_IMAGE_LEFT_OUT))
    meta = _text(render_meta(message.meta))
    if meta is not None:
        blocks.append(meta)
    if not blocks:
        blocks.append(TextContent(_FAILED_NO_OUTPUT if message.is_error else _NO_OUTPUT))
    return blocks


def _visible(content: Sequence[UserBlock], model: Model, note: str) -> Iterator[UserBlock]:
    """The blocks without blank texts; consecutive images that the model can't see become one note."""
    in_images = False
    for block in content:
        if isinstance(block, ImageContent):
            if model.supports_images:
                yield block
            elif not in_images:
                yield TextContent(note)
            in_images = True
            continue
        text = _text(block.text)
        if text is not None:
            in_images = False
            yield text


def _thinking(block: ThinkingContent, same_provider: bool, same_model: bool) -> AssistantBlock | None:
    if block.redacted:
        return block if same_model else None
    text = clean(block.thinking)
    # The signature is valid for exactly this text.
    if block.signature and same_provider and text == block.thinking:
        return block
    if not text.strip():
        return None
    return ThinkingContent(text) if same_model else TextContent(text)


def _text(text: str, signature: str | None = None) -> TextContent | None:
    text = clean(text)
    return TextContent(text, signature) if text.strip() else None


def _unsigned(call: ToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, call.arguments)


# --- text and JSON for the wire -------------------------------------------------------------------


def clean(text: str) -> str:
    """The text without lone surrogates, which UTF-8 can't encode; adjacent halves of a pair are joined."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return text


_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def to_json_text(value: Any) -> str:
    """Compact JSON without lone surrogates; NaN and Infinity become null."""
    try:
        text = _dumps(value)
    except ValueError:
        text = _dumps(_finite(value))
    return clean(text)


def to_json(value: Any) -> bytes:
    """`to_json_text` in UTF-8."""
    return to_json_text(value).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
