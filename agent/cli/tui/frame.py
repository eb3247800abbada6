"""The data of one drawing of the interactive mode. Imports neither the agent nor rich."""

from __future__ import annotations

from dataclasses import dataclass, field

# Styled text as prompt_toolkit takes it: pairs of a style and a text.
Fragments = list[tuple[str, str]]


@dataclass(slots=True)
class Frame:
    """The text to print above the input line, and the lines to redraw around it."""

    printed: str = ""  # with escape codes, printed once
    live: Fragments = field(default_factory=list)
    status: Fragments = field(default_factory=list)
    queued: list[str] = field(default_factory=list)  # messages that wait for delivery
    question: str = ""  # what an open approval question can be answered with
    returned: list[str] = field(default_factory=list)  # texts to put back into the input line
    is_running: bool = False
