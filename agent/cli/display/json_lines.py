"""Writes a run as JSON lines: one object per event, in order. docs/json.md describes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TextIO

from agent.events import AgentStart, Event, event_to_json

# Of docs/events.schema.json. Fields and types of events may be added without a new one.
VERSION = 1


def event_line(event: Event) -> dict[str, Any]:
    """The event as an object of a line: `event_to_json`, with the version where a run begins."""
    data = event_to_json(event)
    if isinstance(event, AgentStart):
        data["version"] = VERSION
    return data


class JsonRenderer:
    """A subscriber that writes `event_line` of every event as a line. Called on the worker thread only.

    A value that JSON lacks (in a tool's details) is written in the nearest form. When the reader of the
    stream has gone, `on_closed` is called once and nothing more is written. Retries are not reported.
    """

    shows_errors = False

    def __init__(self, out: TextIO, *, on_closed: Callable[[], object]) -> None:
        self._out = out
        self._on_closed = on_closed
        self.closed = False
        self.problem: BaseException | None = None

    def __call__(self, event: Event) -> None:
        if self.closed:
            return
        try:
            # ASCII only, so the reader meets no lone surrogates and no other line separators.
            self._out.write(json.dumps(event_line(event)) + "\n")
            self._out.flush()
        except (OSError, ValueError) as error:
            self.closed, self.problem = True, error
            self._on_closed()

    def on_retry(self, attempt: int, delay: float, error: str) -> None:
        """Does nothing: a line is an event, and a retry of a request is none."""
