"""The model and the thinking level of the interactive mode: shows and changes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from agent.agent import Agent
from agent.cli.display.amounts import short_count
from agent.cli.setup.model_choice import open_model
from agent.errors import ConfigurationError
from agent.thinking import THINKING_LADDER, clamp_thinking_level


class ModelSettings:
    """The settings of one agent's requests. `note(text, style)` prints a line for the user.

    For the terminal's thread. A change applies to the next run.
    """

    def __init__(
        self, agent: Agent, note: Callable[[str, str], None], is_running: Callable[[], bool]
    ) -> None:
        self._agent = agent
        self._note = note
        self._is_running = is_running
        self._models = ExitStack()

    def close(self) -> None:
        """Stop the servers of local models."""
        self._models.close()

    def show_or_set_model(self, name: str) -> None:
        """Show the model, or use the named one from the next run on."""
        model = self._agent.model
        if not name:
            assert model is not None
            price = "price unknown"
            if model.cost is not None:
                price = f"${model.cost.input:g} in, ${model.cost.output:g} out per million tokens"
            window = short_count(model.context_window)
            self._note(f"{model.provider}/{model.id}: window {window}, {price}", "dim")
            return
        try:
            chosen = self._models.enter_context(open_model(name, "", os.environ))
        except ConfigurationError as error:
            self._note(str(error), "red")
            return
        self._agent.model = chosen
        self._note(f"model: {name}{', from the next prompt on' if self._is_running() else ''}", "dim")

    def show_or_set_thinking(self, level: str) -> None:
        """Show the thinking level, or set it for the next run."""
        if not level:
            self._note(f"thinking: {self.level} of {', '.join(self._levels())}", "dim")
        elif level not in THINKING_LADDER:
            self._note(f"no level {level!r}; there are {', '.join(reversed(THINKING_LADDER))}", "red")
        else:
            self._agent.thinking_level = level
            self._note(f"thinking: {self.level}{self._limitation(level)}", "dim")

    def next_thinking_level(self) -> None:
        """Set the next level that the model offers; after the last one the first."""
        levels = self._levels()
        index = levels.index(self.level) if self.level in levels else -1
        self._agent.thinking_level = levels[(index + 1) % len(levels)]

    @property
    def level(self) -> str:
        """The thinking level that a request made now would have."""
        return clamp_thinking_level(self._agent.thinking_level, self._levels())

    def _limitation(self, level: str) -> str:
        """Why a request would have another level than the requested one; empty when it would not."""
        levels, model = self._levels(), self._agent.model
        if model is None or self.level == level:
            return ""
        name = f"{model.provider}/{model.id}"
        if levels == ["off"]:
            return f", as no other level is known of {name}"
        return f", as {name} has {', '.join(levels)}"

    def _levels(self) -> Sequence[str]:
        """The levels of the model, from the lowest up."""
        model = self._agent.model
        offered = model.available_thinking_levels if model else ("off",)
        return [level for level in reversed(THINKING_LADDER) if level in offered] or ["off"]
