"""Shows a run as JSON lines: one object per event, in order."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TextIO

from agent.events import Event, event_to_json


class JsonRenderer:
    """A subscriber that writes `event_to_json` of every event as a line. Called on the worker thread only.

    What JSON can't hold (a tool's own details) is written as its text. When the reader of the stream has
    gone, `on_closed` is called once and nothing more is written.
    """

    def __init__(self, out: TextIO, *, on_closed: Callable[[], object]) -> None:
        self._out = out
        self._on_closed = on_closed
        self.closed = False

    def __call__(self, event: Event) -> None:
        if self.closed:
            return
        try:
            # ASCII: lone surrogates and line separators then need no thought on the reader's side.
            self._out.write(json.dumps(event_to_json(event), default=str) + "\n")
            self._out.flush()
        except (BrokenPipeError, ValueError):
            self.closed = True
            self._on_closed()
