"""Shows a run as JSON lines: one object per event, in order. docs/json.md says what they mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TextIO

from agent.events import AgentStart, Event, event_to_json

# Of docs/events.schema.json. Fields and types of events may be added without a new one.
VERSION = 1


def event_line(event: Event) -> dict[str, Any]:
    """The event as it stands in a line: `event_to_json`, with the version where a run begins."""
    data = event_to_json(event)
    if isinstance(event, AgentStart):
        data["version"] = VERSION
    return data


class JsonRenderer:
    """A subscriber that writes `event_line` of every event as a line. Called on the worker thread only.

    What JSON can't hold (a tool's own details) is written in the nearest form that it can. When the reader of
    the stream has gone, `on_closed` is called once and nothing more is written.
    """

    def __init__(self, out: TextIO, *, on_closed: Callable[[], object]) -> None:
        self._out = out
        self._on_closed = on_closed
        self.closed = False
        self.problem: Exception | None = None

    def __call__(self, event: Event) -> None:
        if self.closed:
            return
        try:
            # ASCII: lone surrogates and line separators then need no thought on the reader's side.
            self._out.write(json.dumps(event_line(event)) + "\n")
            self._out.flush()
        except (OSError, ValueError) as error:
            self.closed, self.problem = True, error
            self._on_closed()
