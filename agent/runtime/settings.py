"""The settings of an agent, and the descriptor that makes each of them an attribute of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, Protocol, Self, TypeVar, cast, overload

from agent.cancel import CancelToken
from agent.loop.config import LoopConfig, RunOptions
from agent.models import Model
from agent.runs import RunMetadata
from agent.stream import StreamFn

Value = TypeVar("Value")
Given = TypeVar("Given", contravariant=True)


@dataclass(slots=True, kw_only=True)
class Settings(RunOptions):
    """The options of an agent's runs and requests, and who answers: model, level, prompt, stream function.

    Used as a value: a change makes a copy, and a run keeps the settings that it was accepted with.
    `thinking_level` stands for the `reasoning` of the requests.
    """

    system_prompt: str = ""
    model: Model | None = None
    thinking_level: str = "off"
    stream_fn: StreamFn | None = None

    def loop_config(self, model: Model, cancel: CancelToken, run: RunMetadata | None = None) -> LoopConfig:
        """The same options for the loop."""
        config = LoopConfig(model, **{name: getattr(self, name) for name in _SHARED_FIELDS}, run=run)
        config.reasoning = "" if self.thinking_level == "off" else self.thinking_level
        config.cancel = cancel
        return config

    def side_query_config(self, model: Model, reasoning: str | None, cancel: CancelToken) -> LoopConfig:
        """The options for a side query: no hooks, callbacks, limits or tools."""
        config = self.loop_config(model, cancel)
        config.reasoning = reasoning or self.thinking_level
        config.transform_context = config.on_payload = config.on_retry = config.hooks = config.limits = None
        config.server_tools, config.server_compaction = (), None
        return config


_SHARED_FIELDS = tuple(option.name for option in fields(RunOptions))


class HasSettings(Protocol):
    """An object whose attributes may be of class `Setting`."""

    _settings: Settings

    def _set(self, **changes: Any) -> None:
        """Replace fields of the settings."""


class Setting(Generic[Value, Given]):
    """An attribute that reads and writes the field of its name in the owner's settings.

    `convert` makes the stored value of the assigned one, and raises for one that is not allowed. The text is
    the attribute's documentation.
    """

    def __init__(self, doc: str, convert: Callable[[Given], Value] | None = None) -> None:
        self.__doc__ = doc
        self._convert = convert
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: HasSettings, owner: type) -> Value: ...
    def __get__(self, instance: HasSettings | None, owner: type) -> Self | Value:
        return self if instance is None else cast(Value, getattr(instance._settings, self._name))

    def __set__(self, instance: HasSettings, value: Given) -> None:
        instance._set(**{self._name: value if self._convert is None else self._convert(value)})
