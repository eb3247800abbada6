"""The hooks: every point where an application can change a run, and how two sets of hooks merge.

Hooks run on the worker thread, one at a time, with no lock held. What follows when one raises is part of its
contract, and nothing fails open: `before_tool` denies the call and the model sees the text; `after_tool`
makes an error result; `transform_context` and `on_request` make an errored turn; guardrails reject;
`candidate_answer`, `prepare_turn` and `on_truncated` end the run in `error`; queue polls, stop tests and
`before_park` are logged and count as nothing and False.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.errors import ConfigurationError
from agent.hook_types import (
    KEEP,
    Candidate,
    CandidateInfo,
    InputInfo,
    OutputInfo,
    RequestUpdate,
    RunInfo,
    ToolCallInfo,
    ToolDecision,
    ToolOverride,
    ToolResultInfo,
    Truncation,
    TruncationInfo,
    TurnUpdate,
)
from agent.messages import Message
from agent.stream import AgentContext, StreamOptions

__all__ = [
    "KEEP",
    "Candidate",
    "CandidateInfo",
    "Hooks",
    "InputInfo",
    "OutputInfo",
    "RequestUpdate",
    "RunInfo",
    "ToolCallInfo",
    "ToolDecision",
    "ToolOverride",
    "ToolResultInfo",
    "Truncation",
    "TruncationInfo",
    "TurnUpdate",
    "merge_hooks",
]

BeforeTool = Callable[[ToolCallInfo], ToolDecision | None]
AfterTool = Callable[[ToolResultInfo], ToolOverride | None]
TransformContext = Callable[[list[Message]], Sequence[Message] | None]
OnRequest = Callable[[AgentContext, StreamOptions], tuple[AgentContext, StreamOptions] | None]
InputGuardrail = tuple[str, Callable[[InputInfo], object]]
OutputGuardrail = tuple[str, Callable[[OutputInfo], object]]
CandidateAnswer = Callable[[CandidateInfo], Candidate | None]
PrepareTurn = Callable[[RunInfo], TurnUpdate | None]
StopTest = Callable[[RunInfo], bool]
PollMessages = Callable[[], Sequence[Message]]
BeforePark = Callable[[RunInfo], Any]
OnTruncated = Callable[[TruncationInfo], Truncation | None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """A set of hooks; None leaves a point alone. In the order of a run:

    - `input_guardrails`, pairs of a name and a function: once for the new messages, before they are stored.
      Raising rejects them.
    - `transform_context(messages)`: the messages to send instead; None for no change. Never stored.
    - `on_request(context, options)`: may change both in place, or return other ones. For this request only.
    - `output_guardrails`: for each answer without tool calls, before it is stored. Raising rejects.
    - `candidate_answer(CandidateInfo)`: the same moment; None or a `Candidate`.
    - `on_truncated(TruncationInfo)`: an answer was cut by the output limit; None or a `Truncation`.
    - `before_tool(ToolCallInfo)`: None or a `ToolDecision`; for all calls of an answer before the first runs.
    - `after_tool(ToolResultInfo)`: None or a `ToolOverride`, as each tool ends; for denied calls too with
      `after_tool_sees_denied`.
    - `prepare_turn(RunInfo)`: after each turn but one that paused; None or a `TurnUpdate`.
    - `should_stop_after_turn(RunInfo)`: True ends the run, whatever waits. `stop_when(RunInfo)`: the same,
      but asked only when the run would go on, after the limits.
    - `steering_messages()`, `follow_up_messages()`: polled beside the queues.
    - `before_park(RunInfo)`: the payload of the `agent_parked` event.
    """

    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    transform_context: TransformContext | None = None
    on_request: OnRequest | None = None
    input_guardrails: Sequence[InputGuardrail] = ()
    output_guardrails: Sequence[OutputGuardrail] = ()
    candidate_answer: CandidateAnswer | None = None
    prepare_turn: PrepareTurn | None = None
    should_stop_after_turn: StopTest | None = None
    stop_when: StopTest | None = None
    steering_messages: PollMessages | None = None
    follow_up_messages: PollMessages | None = None
    before_park: BeforePark | None = None
    on_truncated: OnTruncated | None = None
    after_tool_sees_denied: bool = False

    def __post_init__(self) -> None:
        for kind in ("input_guardrails", "output_guardrails"):
            guards = tuple(getattr(self, kind) or ())
            for guard in guards:
                _check_guardrail(kind, guard)
            object.__setattr__(self, kind, guards)


def _check_guardrail(kind: str, guard: Any) -> None:
    if isinstance(guard, tuple | list) and len(guard) == 2:
        name, function = guard
        if isinstance(name, str) and name and callable(function):
            return
    raise ConfigurationError(f"{kind} must be pairs of a name and a function, not {guard!r}")


def merge_hooks(*hooks: Hooks | None) -> Hooks:
    """One set that acts as all of them, in order.

    `before_tool`: the first denial or pause wins; each sees the arguments as the ones before changed them.
    `after_tool`: each sees the result as the ones before left it, and a `terminate=True` of any stays.
    `transform_context`, `on_request`: one after the other. Guardrails: all, in order. `candidate_answer`: the
    first that does not accept wins. `prepare_turn`: all are asked, later fields win, the first error stays.
    Stop tests: True when any says so. Queue polls: joined. `before_park`, `on_truncated`: the last answer
    that is not None.
    """
    sets = [item for item in hooks if item is not None]
    if len(sets) == 1:
        return sets[0]
    sees_denied = any(h.after_tool_sees_denied and h.after_tool for h in sets)
    return Hooks(
        before_tool=_merge([h.before_tool for h in sets], _all_gates),
        after_tool=_merge([_for_its_calls(h, sees_denied) for h in sets], _all_overrides),
        transform_context=_merge([h.transform_context for h in sets], _all_transforms),
        on_request=_merge([h.on_request for h in sets], _all_requests),
        input_guardrails=tuple(guard for h in sets for guard in h.input_guardrails),
        output_guardrails=tuple(guard for h in sets for guard in h.output_guardrails),
        candidate_answer=_merge([h.candidate_answer for h in sets], _all_candidates),
        prepare_turn=_merge([h.prepare_turn for h in sets], _all_preparations),
        should_stop_after_turn=_merge([h.should_stop_after_turn for h in sets], _any_stop),
        stop_when=_merge([h.stop_when for h in sets], _any_stop),
        steering_messages=_merge([h.steering_messages for h in sets], _all_messages),
        follow_up_messages=_merge([h.follow_up_messages for h in sets], _all_messages),
        before_park=_merge([h.before_park for h in sets], _last_given),
        on_truncated=_merge([h.on_truncated for h in sets], _last_given),
        after_tool_sees_denied=sees_denied,
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


def _for_its_calls(hooks: Hooks, shown_denied: bool) -> AfterTool | None:
    """The set's `after_tool`, without denied calls that are shown only because another set asks for them."""
    after_tool = hooks.after_tool
    if after_tool is None or hooks.after_tool_sees_denied or not shown_denied:
        return after_tool
    return lambda info: None if info.denied else after_tool(info)


def _all_overrides(overriders: list[AfterTool]) -> AfterTool:
    def after_tool(info: ToolResultInfo) -> ToolOverride | None:
        merged = ToolOverride()
        for overrider in overriders:
            override = overrider(info)
            if override is not None:
                merged = merged.then(override)
                info = replace(info, result=merged.apply(info.result))
        return None if merged == ToolOverride() else merged

    return after_tool


def _all_transforms(transforms: list[TransformContext]) -> TransformContext:
    def transform_context(messages: list[Message]) -> Sequence[Message] | None:
        for transform in transforms:
            changed = transform(list(messages))
            if changed is not None:
                messages = list(changed)
        return messages

    return transform_context


def _all_requests(parts: list[OnRequest]) -> OnRequest:
    def on_request(context: AgentContext, options: StreamOptions) -> tuple[AgentContext, StreamOptions]:
        for part in parts:
            context, options = part(context, options) or (context, options)
        return context, options

    return on_request


def _all_candidates(parts: list[CandidateAnswer]) -> CandidateAnswer:
    def candidate_answer(info: CandidateInfo) -> Candidate | None:
        for part in parts:
            verdict = part(replace(info, messages=list(info.messages)))
            if verdict is not None and verdict.action != "accept":
                return verdict
        return None

    return candidate_answer


def _all_preparations(parts: list[PrepareTurn]) -> PrepareTurn:
    def prepare_turn(info: RunInfo) -> TurnUpdate | None:
        merged = TurnUpdate()
        for update in [part(info) for part in parts]:
            if update is not None:
                merged = _both(merged, update)
        return merged

    return prepare_turn


def _both(first: TurnUpdate, later: TurnUpdate) -> TurnUpdate:
    return TurnUpdate(
        later.error if first.error is None else first.error,
        first.model if later.model is None else later.model,
        first.messages if later.messages is None else later.messages,
        first.tools if later.tools is None else later.tools,
        first.next_request if later.next_request is None else later.next_request,
    )


def _any_stop(tests: list[StopTest]) -> StopTest:
    def should_stop(info: RunInfo) -> bool:
        answers = [test(info) for test in tests]  # all are asked: each may count turns
        return any(answers)

    return should_stop


def _all_messages(polls: list[PollMessages]) -> PollMessages:
    return lambda: [message for poll in polls for message in poll() or ()]


def _last_given(parts: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def last_given(info: Any) -> Any:
        answers = [answer for part in parts if (answer := part(info)) is not None]
        return answers[-1] if answers else None

    return last_given
