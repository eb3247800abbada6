"""The arguments and the return values of hooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.json_values import JsonObject
from agent.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, UserBlock
from agent.models import Model
from agent.runs import RunMetadata
from agent.stream import AgentContext
from agent.tools import ToolResult, ToolSet, unique_tools
from agent.usage import ZERO_USAGE, Usage

# -- arguments: `cancel` is the run's cancel token; a hook that waits must wait on it too --------------------


@dataclass(frozen=True, slots=True)
class ToolCallInfo:
    """A tool call that is about to run. `turn` counts from 1, `batch_index` from 0.

    A hook that waits, for an approval for instance, must also wait on `cancel`: an abort cannot end it
    otherwise.
    """

    id: str
    name: str
    arguments: JsonObject
    turn: int = 1
    batch_index: int = 0
    batch_size: int = 1
    run: RunMetadata | None = None
    cancel: CancelToken = field(default_factory=CancelToken)


@dataclass(frozen=True, slots=True)
class ToolResultInfo:
    """A tool call that has run, and its result; `denied` when `before_tool` denied it."""

    id: str
    name: str
    arguments: JsonObject
    turn: int
    batch_index: int
    batch_size: int
    run: RunMetadata | None
    result: ToolResult
    cancel: CancelToken = field(default_factory=CancelToken)
    denied: bool = False


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run after a turn: its turns and usage so far, and the turn's answer and results.

    `message` is None for a turn whose answer was discarded.
    """

    run: RunMetadata | None = None
    turns: int = 0
    usage: Usage = ZERO_USAGE
    message: AssistantMessage | None = None
    tool_results: tuple[ToolResultMessage, ...] = ()
    context: AgentContext | None = None
    new_messages: tuple[Message, ...] = ()
    cancel: CancelToken = field(default_factory=CancelToken)


@dataclass(frozen=True, slots=True)
class InputInfo:
    """The conversation so far, and the new messages of a run that is about to begin. Lists are copies."""

    messages: list[Message]
    input: list[Message]
    run: RunMetadata | None = None
    cancel: CancelToken = field(default_factory=CancelToken)


@dataclass(frozen=True, slots=True)
class OutputInfo:
    """An answer without tool calls, before it becomes part of the conversation."""

    message: AssistantMessage
    run: RunMetadata | None = None
    turns: int = 1
    usage: Usage = ZERO_USAGE
    cancel: CancelToken = field(default_factory=CancelToken)


@dataclass(frozen=True, slots=True)
class CandidateInfo:
    """An answer without tool calls, and the conversation it would end. The list is a copy."""

    message: AssistantMessage
    messages: list[Message]
    turns: int = 1
    usage: Usage = ZERO_USAGE
    run: RunMetadata | None = None
    cancel: CancelToken = field(default_factory=CancelToken)


@dataclass(frozen=True, slots=True)
class TruncationInfo:
    """An answer that was cut by the output limit, and its calls, none of which has run."""

    message: AssistantMessage
    tool_calls: tuple[ToolCall, ...] = ()
    run: RunMetadata | None = None
    cancel: CancelToken = field(default_factory=CancelToken)


# -- return values ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolDecision:
    """The decision of `before_tool`; made by `allow`, `deny` and `pause`.

    Each may give the call other arguments, which are not checked against the schema. The tool, the events and
    later hooks see them; the answer in the conversation keeps the model's own.
    """

    action: Literal["allow", "deny", "pause"]
    reason: str = ""
    updated_input: JsonObject | None = None

    @classmethod
    def allow(cls, updated_input: JsonObject | None = None) -> ToolDecision:
        """Let the call run."""
        return cls("allow", "", updated_input)

    @classmethod
    def deny(cls, reason: str = "", updated_input: JsonObject | None = None) -> ToolDecision:
        """Do not run the call; the model gets the reason as an error result."""
        return cls("deny", reason, updated_input)

    @classmethod
    def pause(cls, updated_input: JsonObject | None = None) -> ToolDecision:
        """Stop the run before this call: it and those after it are pending until they are resolved.

        The calls before it run now. The run ends as `paused`.
        """
        return cls("pause", "", updated_input)


class _Keep:
    """Stands for an override that was not given."""

    def __repr__(self) -> str:
        return "KEEP"


KEEP = _Keep()


@dataclass(frozen=True, slots=True)
class ToolOverride:
    """The changes that `after_tool` makes to a result; an argument left out keeps its part."""

    content: str | Sequence[UserBlock] | _Keep = KEEP
    is_error: bool | _Keep = KEEP
    terminate: bool | _Keep = KEEP

    def apply(self, result: ToolResult) -> ToolResult:
        """The result with the given parts replaced."""
        return ToolResult(
            result.content if isinstance(self.content, _Keep) else self.content,
            result.details,
            result.meta,
            result.is_error if isinstance(self.is_error, _Keep) else self.is_error,
            result.terminate if isinstance(self.terminate, _Keep) else self.terminate,
        )

    def then(self, later: ToolOverride) -> ToolOverride:
        """Both as one: the later wins, but a `terminate=True` stays."""
        keep_terminate = self.terminate is True or isinstance(later.terminate, _Keep)
        return ToolOverride(
            self.content if isinstance(later.content, _Keep) else later.content,
            self.is_error if isinstance(later.is_error, _Keep) else later.is_error,
            self.terminate if keep_terminate else later.terminate,
        )


@dataclass(frozen=True, slots=True)
class RequestUpdate:
    """A constraint for one request; a field that is None or empty changes nothing.

    `tools` are all that the model is shown and may call in that turn (an empty list: none). `tool_choice`
    is "auto", "none", "required" or the name of a tool. `system_suffix` goes behind the system prompt.
    """

    tools: Sequence[Any] | None = None
    tool_choice: str | None = None
    system_suffix: str = ""

    def checked(self, tools: ToolSet) -> RequestUpdate:
        """This update with its tools as a set. Raises ConfigurationError when it does not fit these tools."""
        chosen = tools if self.tools is None else unique_tools(self.tools)
        choice = self.tool_choice
        if choice == "required" and not len(chosen):
            raise ConfigurationError(
                "agent: next model request: tool_choice 'required' needs a tool, there is none"
            )
        if choice and choice not in ("auto", "none", "required") and choice not in chosen:
            known = ", ".join(chosen.names()) or "none"
            raise ConfigurationError(
                f"agent: next model request: tool_choice {choice!r} is neither auto, none or required "
                f"nor a tool; available: {known}"
            )
        return RequestUpdate(None if self.tools is None else chosen, choice, self.system_suffix)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Candidate:
    """The decision of `candidate_answer`; made by `accept`, `abort` and `retry`."""

    action: Literal["accept", "abort", "retry"]
    error: BaseException | str | None = None
    request: RequestUpdate | None = None

    @classmethod
    def accept(cls) -> Candidate:
        """Let the answer become part of the conversation."""
        return cls("accept")

    @classmethod
    def abort(cls, error: BaseException | str) -> Candidate:
        """Discard the answer and end the run in `error`; an exception becomes the cause of the RunError."""
        return cls("abort", error)

    @classmethod
    def retry(cls, request: RequestUpdate | None = None) -> Candidate:
        """Discard the answer and ask again, with a constraint for that one request."""
        return cls("retry", None, request or RequestUpdate())


@dataclass(frozen=True, slots=True)
class TurnUpdate:
    """The changes of `prepare_turn` for the rest of the run; a field that is None changes nothing.

    Applied in this order: `error` ends the run; `model` (or its name) answers from now on; `messages` replace
    the conversation (an empty list clears it); `tools` replace the run's tools (an empty list: none);
    `next_request` constrains the next request only. The agent's own settings stay as they are.
    """

    error: BaseException | str | None = None
    model: Model | str | None = None
    messages: Sequence[Message] | None = None
    tools: Sequence[Any] | None = None
    next_request: RequestUpdate | None = None


@dataclass(frozen=True, slots=True)
class Truncation:
    """The decision of `on_truncated` about an answer that was cut.

    `messages` enter the conversation: results for the calls (one that is missing is filled in), and whatever
    else the model should read. Then it is asked again, or with `retry=False` the run ends as `truncated`.
    """

    retry: bool = False
    messages: Sequence[Message] = ()
