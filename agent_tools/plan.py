"""plan: keeps a visible list of steps."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import ConfigDict, WithJsonSchema

from agent_tools.tool import Arguments, DisplayHint, Result, TitleArg, Tool, ToolFailure, describe

logger = logging.getLogger("agent_tools")

STATUSES = ("pending", "in_progress", "completed")
PRIORITIES = ("high", "medium", "low")
MAX_METADATA_KEYS = 5
MAX_METADATA_LENGTH = 80  # characters; enough for "12/40 tests pass"


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One step of a plan."""

    content: str
    status: str = "pending"
    priority: str = "medium"


def valid_status(status: object) -> bool:
    """True for `pending`, `in_progress` and `completed`."""
    return isinstance(status, str) and status in STATUSES


def valid_priority(priority: object) -> bool:
    """True for `high`, `medium` and `low`."""
    return isinstance(priority, str) and priority in PRIORITIES


Metadata = Mapping[str, str] | None
PlanSink = Callable[[str, list[PlanEntry], Metadata], object]


class PlanPublisher(Protocol):
    """Called after the sink, with the id of the tool call."""

    def __call__(
        self, title: str, entries: list[PlanEntry], metadata: Metadata, tool_call_id: str, /
    ) -> object: ...


_ENTRIES_SCHEMA = {
    "type": "array",
    "description": "The complete plan: it replaces the previous one. An empty array clears the plan.",
    "items": {
        "type": "object",
        "properties": {
            "content": {"type": "string", "description": "The step: concrete, short, checkable"},
            "status": {"type": "string", "enum": list(STATUSES)},
            "priority": {"type": "string", "enum": list(PRIORITIES)},
        },
        "required": ["content", "status", "priority"],
    },
}
_METADATA_SCHEMA = {
    "type": "object",
    "description": (
        f"At most {MAX_METADATA_KEYS} short strings. progress_metric: a measure of progress such as "
        '"3/10 tests pass". next_update_in: the number of turns until your next update.'
    ),
    "properties": {
        "progress_metric": {"type": "string", "maxLength": MAX_METADATA_LENGTH},
        "next_update_in": {"type": "string", "maxLength": MAX_METADATA_LENGTH},
    },
    "additionalProperties": {"type": "string", "maxLength": MAX_METADATA_LENGTH},
}


class PlanArguments(Arguments):
    # The values are checked in the function: unknown values are accepted leniently, and an error names the
    # entry. The default lets that check, not the general one, report a missing list.
    model_config = ConfigDict(json_schema_extra={"required": ["entries"]})

    entries: Annotated[Any, WithJsonSchema(_ENTRIES_SCHEMA)] = None
    title: Annotated[Any, WithJsonSchema({"type": "string", "description": "A short title"})] = ""
    metadata: Annotated[Any, WithJsonSchema(_METADATA_SCHEMA)] = None


DESCRIPTION = """\
Keep a visible plan of the work. Make one before you start a task of 3 or more non-trivial steps.
- Send all entries each time: the list replaces the previous one.
- Mark a step in_progress when you start it and completed as soon as it is done; update at once, not later.
- Steps are concrete and checkable ("Add a test for empty input"), not vague ("Test").
- In metadata, set progress_metric to a short measure of progress (updates are counted since it \
last changed), and always next_update_in, the \
number of turns until your next update: it controls when you are reminded."""


def plan_tool(sink: PlanSink, publisher: PlanPublisher | None = None) -> Tool[PlanArguments]:
    """The tool `plan`.

    `sink(title, entries, metadata)` gets every accepted plan, also the empty one that clears it.
    `publisher(title, entries, metadata, tool_call_id)` is called after the sink. Each gets its own lists. A
    rejected call reaches neither, so the previous plan stays. If the sink raises, the call fails; if the
    publisher raises, the exception is logged, because the plan is already accepted. Both run on the thread of
    the call.
    """

    def plan(arguments: PlanArguments, context: Any) -> Result:
        entries = _entries(arguments.entries)
        title = arguments.title if isinstance(arguments.title, str) else ""
        metadata = _metadata(arguments.metadata)
        sink(title, list(entries), metadata and dict(metadata))
        if publisher is not None:
            try:
                publisher(title, list(entries), metadata and dict(metadata), context.tool_call_id)
            except Exception:
                logger.exception("the publisher of the plan failed")
        if not entries:
            return Result("The plan is cleared.")
        steps = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
        return Result(f"The plan has {steps}. Keep it updated: mark steps as you start and complete them.")

    hint = DisplayHint((TitleArg("title"),))
    return Tool("plan", DESCRIPTION, PlanArguments, plan, read_only=True, display_hint=hint)


def _entries(value: object) -> Sequence[PlanEntry]:
    if value is None:
        raise ToolFailure("entries is required and must be an array; an empty array clears the plan")
    if not isinstance(value, (list, tuple)):
        raise ToolFailure(f"entries must be an array of objects, got {describe(value)}")
    return [_entry(index, item) for index, item in enumerate(value)]


def _entry(index: int, item: object) -> PlanEntry:
    if not isinstance(item, Mapping):
        raise ToolFailure(f"entries[{index}] must be an object, got {describe(item)}")
    content = item.get("content")
    if not isinstance(content, str) or not content:
        raise ToolFailure(
            f"entries[{index}]: content is required, a string that is not empty; got {describe(content)}"
        )
    status, priority = item.get("status"), item.get("priority")
    return PlanEntry(
        content,
        str(status) if valid_status(status) else "pending",
        str(priority) if valid_priority(priority) else "medium",
    )


def _metadata(value: object) -> dict[str, str] | None:
    """The first keys in the order they were sent; None when there are none."""
    if not isinstance(value, Mapping) or not value:
        return None
    kept = list(value.items())[:MAX_METADATA_KEYS]
    return {str(key): _metadata_text(item)[:MAX_METADATA_LENGTH] for key, item in kept}


def _metadata_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, (bool, int, float)) else ""
