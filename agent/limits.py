"""How far a run may go."""

from __future__ import annotations

from dataclasses import dataclass, fields

from agent.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run; None means no limit. `max_turns` counts completed answers of the model.

    A natural end beats a limit: an answer on the last allowed turn ends the run as usual.
    """

    max_turns: int | None = None
    max_total_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    tool_timeout: float | None = None
    parallel_tools: int = 4
    final_answer: bool = False
    turns_since_input: bool = False

    def __post_init__(self) -> None:
        if self.max_turns is not None and (type(self.max_turns) is not int or self.max_turns < 1):
            raise ConfigurationError(
                f"max_turns must be a whole number of at least 1, or None, not {self.max_turns!r}"
            )
        for entry in fields(self):
            if entry.name != "max_turns" and getattr(self, entry.name) != entry.default:
                raise ConfigurationError(f"Limits({entry.name}=...) is not supported yet")
