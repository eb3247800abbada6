"""Every point where an application can step into a run, what each is told, and how two sets of hooks merge.

Hooks run on the worker thread, one at a time, with no lock held. What follows when one raises is part of its
contract, and nothing fails open: `before_tool` denies the call and the model sees the text; `after_tool`
makes an error result; `transform_context` makes an errored turn; `should_stop_after_turn` is logged and
counts as False.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from agent.cancel import CancelToken
from agent.errors import ConfigurationError
from agent.messages import AssistantMessage, Message, ToolResultMessage, UserBlock
from agent.runs import RunMetadata
from agent.stream import AgentContext
from agent.tools import ToolResult
from agent.usage import ZERO_USAGE, Usage


@dataclass(frozen=True, slots=True)
class ToolCallInfo:
    """A tool call that is about to run. `turn` counts from 1, `batch_index` from 0.

    `cancel` is the run's stop signal: a hook that waits, for a person say, waits on it too, or an abort can't
    free it.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    turn: int = 1
    batch_index: int = 0
    batch_size: int = 1
    run: RunMetadata | None = None
    cancel: CancelToken = field(default_factory=CancelToken)


@dataclass(frozen=True, slots=True)
class ToolResultInfo:
    """A tool call that has run, and its result. `cancel` is the run's stop signal."""

    id: str
    name: str
    arguments: dict[str, Any]
    turn: int
    batch_index: int
    batch_size: int
    run: RunMetadata | None
    result: ToolResult
    cancel: CancelToken = field(default_factory=CancelToken)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run after a turn: its turns and usage so far, and the turn's answer and results.

    `cancel` is the run's stop signal.
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
class ToolDecision:
    """What `before_tool` answers; made by `allow` and `deny`."""

    action: Literal["allow", "deny", "pause"]
    reason: str = ""
    updated_input: dict[str, Any] | None = None

    @classmethod
    def allow(cls, updated_input: dict[str, Any] | None = None) -> ToolDecision:
        """Let the call run, with other arguments if given. They are not checked against the schema."""
        return cls("allow", "", updated_input)

    @classmethod
    def deny(cls, reason: str = "", updated_input: dict[str, Any] | None = None) -> ToolDecision:
        """Do not run the call; the model gets the reason as an error result."""
        return cls("deny", reason, updated_input)

    @classmethod
    def pause(cls, updated_input: dict[str, Any] | None = None) -> ToolDecision:
        """Stop the run until the call is resolved."""
        raise ConfigurationError("ToolDecision.pause is not supported yet")


class _Keep:
    """Stands for an override that was not given."""

    def __repr__(self) -> str:
        return "KEEP"


KEEP = _Keep()


@dataclass(frozen=True, slots=True)
class ToolOverride:
    """What `after_tool` changes of a result; what is left out stays as it is."""

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


BeforeTool = Callable[[ToolCallInfo], ToolDecision | None]
AfterTool = Callable[[ToolResultInfo], ToolOverride | None]
TransformContext = Callable[[list[Message]], Sequence[Message] | None]
ShouldStop = Callable[[RunInfo], bool]


@dataclass(frozen=True, slots=True)
class Hooks:
    """A set of hooks; None leaves a point alone.

    `before_tool(ToolCallInfo)` returns None or a ToolDecision, and is asked for all calls of an answer before
    the first of them runs; `after_tool(ToolResultInfo)` returns None or a ToolOverride;
    `transform_context(messages)` returns what to send instead, or None; `should_stop_after_turn(RunInfo)`
    returns True to end the run.
    """

    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    transform_context: TransformContext | None = None
    on_request: Any = None
    input_guardrails: Sequence[Any] = ()
    output_guardrails: Sequence[Any] = ()
    candidate_answer: Any = None
    prepare_turn: Any = None
    should_stop_after_turn: ShouldStop | None = None
    stop_when: Any = None
    steering_messages: Any = None
    follow_up_messages: Any = None
    before_park: Any = None
    on_truncated: Any = None
    after_tool_sees_denied: bool = False

    def __post_init__(self) -> None:
        for entry in fields(self):
            if entry.name not in _SUPPORTED and getattr(self, entry.name) not in (None, (), [], False):
                raise ConfigurationError(f"Hooks({entry.name}=...) is not supported yet")


_SUPPORTED = frozenset(("before_tool", "after_tool", "transform_context", "should_stop_after_turn"))


def merge_hooks(*hooks: Hooks | None) -> Hooks:
    """One set that acts as all of them, in order.

    `before_tool`: the first denial wins, and each sees the arguments as the ones before changed them.
    `after_tool`: each sees the result as the ones before left it, and a `terminate=True` of any stays.
    `transform_context`: one after the other, each with a list of its own. `should_stop_after_turn`: True when
    any says so.
    """
    sets = [item for item in hooks if item is not None]
    if len(sets) == 1:
        return sets[0]
    return Hooks(
        before_tool=_merge([h.before_tool for h in sets], _all_gates),
        after_tool=_merge([h.after_tool for h in sets], _all_overrides),
        transform_context=_merge([h.transform_context for h in sets], _all_transforms),
        should_stop_after_turn=_merge([h.should_stop_after_turn for h in sets], _any_stop),
    )


def _merge(parts: Sequence[Any], combine: Callable[[list[Any]], Any]) -> Any:
    given = [part for part in parts if part is not None]
    return None if not given else given[0] if len(given) == 1 else combine(given)


def _all_gates(gates: list[BeforeTool]) -> BeforeTool:
    def before_tool(info: ToolCallInfo) -> ToolDecision | None:
        updated = None
        for gate in gates:
            decision = gate(info)
            if decision is None:
                continue
            if decision.updated_input is not None:
                updated = decision.updated_input
                info = replace(info, arguments=updated)
            if decision.action != "allow":
                return replace(decision, updated_input=updated)
        return ToolDecision.allow(updated)

    return before_tool


def _all_overrides(overriders: list[AfterTool]) -> AfterTool:
    def after_tool(info: ToolResultInfo) -> ToolOverride | None:
        merged = ToolOverride()
        for overrider in overriders:
            override = overrider(info)
            if override is not None:
                merged = _merged_override(merged, override)
                info = replace(info, result=merged.apply(info.result))
        return None if merged == ToolOverride() else merged

    return after_tool


def _merged_override(first: ToolOverride, second: ToolOverride) -> ToolOverride:
    keep_terminate = first.terminate is True or isinstance(second.terminate, _Keep)
    return ToolOverride(
        first.content if isinstance(second.content, _Keep) else second.content,
        first.is_error if isinstance(second.is_error, _Keep) else second.is_error,
        first.terminate if keep_terminate else second.terminate,
    )


def _all_transforms(transforms: list[TransformContext]) -> TransformContext:
    def transform_context(messages: list[Message]) -> Sequence[Message] | None:
        for transform in transforms:
            changed = transform(list(messages))
            if changed is not None:
                messages = list(changed)
        return messages

    return transform_context


def _any_stop(tests: list[ShouldStop]) -> ShouldStop:
    def should_stop(info: RunInfo) -> bool:
        answers = [test(info) for test in tests]  # all are asked: each may count turns
        return any(answers)

    return should_stop
