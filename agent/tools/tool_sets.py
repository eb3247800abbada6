"""Sets of tools by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from agent.errors import ConfigurationError
from agent.json_values import JsonObject


class ToolGroups(NamedTuple):
    """Tool names by origin, each list sorted."""

    builtin: list[str]
    extensions: dict[str, list[str]]


class ToolSet:
    """Tools by name, in order. Adding a tool under an existing name replaces the old one in its place.

    Threads: reads may run beside writes (a write swaps the table, so a reader sees the old or the new one);
    writers are serialised by the owner, `Agent.update_tools`.
    """

    __slots__ = ("_tools",)

    def __init__(self, tools: Iterable[Any] | None = ()) -> None:
        self._tools: JsonObject = {}
        for item in tools or ():
            _check_tool(item)
            self._tools[item.name] = item

    def add(self, item: Any) -> None:
        """Add a tool. Raises ConfigurationError for an object that is no tool."""
        _check_tool(item)
        self._tools = {**self._tools, item.name: item}

    def remove(self, name: str) -> None:
        """Remove the tool of that name, if there is one."""
        self._tools = {key: item for key, item in self._tools.items() if key != name}

    def get(self, name: str) -> Any | None:
        """The tool of that exact name, or None."""
        return self._tools.get(name)

    def names(self) -> list[str]:
        """The names, in order."""
        return list(self._tools)

    def copy(self) -> ToolSet:
        """An independent set of the same tools."""
        copy = ToolSet()
        copy._tools = self._tools
        return copy

    def classify(self, extension_tools: Mapping[str, Iterable[str]] | None = None) -> ToolGroups:
        """The names by origin: the tools of each extension, and the rest as builtin.

        Tools named `mcp__...` are left out.
        """
        owner = {name: extension for extension, names in (extension_tools or {}).items() for name in names}
        groups = ToolGroups([], {})
        for name in sorted(self._tools):
            if name.startswith("mcp__"):
                continue
            if name in owner:
                groups.extensions.setdefault(owner[name], []).append(name)
            else:
                groups.builtin.append(name)
        return groups

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._tools.values()))

    def __repr__(self) -> str:
        return f"ToolSet({', '.join(self._tools)})"


class JoinedTools(ToolSet):
    """A live set plus a few fixed tools, which win over tools of the same name. For reading only."""

    __slots__ = ("_fixed", "_live")

    def __init__(self, live: ToolSet, fixed: Iterable[Any]) -> None:
        super().__init__()
        self._live = live
        self._fixed = ToolSet(fixed)

    def get(self, name: str) -> Any | None:
        return self._fixed.get(name) or self._live.get(name)

    def names(self) -> list[str]:
        return [item.name for item in self]

    def copy(self) -> ToolSet:
        return ToolSet(self)

    def __contains__(self, name: object) -> bool:
        return name in self._fixed or name in self._live

    def __len__(self) -> int:
        return len(self.names())  # not len(list(self)): making that list would ask for the length again

    def __iter__(self) -> Iterator[Any]:
        return iter([*(item for item in self._live if item.name not in self._fixed), *self._fixed])


def unique_tools(tools: Iterable[Any]) -> ToolSet:
    """A new set of these tools.

    Raises ConfigurationError for an object that is no tool and for two tools of one name.
    """
    made: JsonObject = {}
    for item in tools:
        _check_tool(item)
        if item.name in made:
            raise ConfigurationError(
                f"two tools have the same name, {item.name!r}: {_in_short(made[item.name])} and "
                f"{_in_short(item)}; rename one of them or leave it out"
            )
        made[item.name] = item
    return ToolSet(made.values())


def _in_short(item: Any) -> str:
    """A tool's description, cut to a few words."""
    text = " ".join(item.description.split())
    return f'"{text[:60]}{"..." if len(text) > 60 else ""}"'


def _check_tool(item: Any) -> None:
    missing = [name for name in ("name", "description", "parameters", "execute") if not hasattr(item, name)]
    if missing:
        hint = "; decorate it with @tool" if inspect.isfunction(item) else ""
        raise ConfigurationError(f"{item!r} is not a tool: it has no {', '.join(missing)}{hint}")
    if not isinstance(item.name, str) or not item.name:
        raise ConfigurationError(f"the name of a tool must be a non-empty string, not {item.name!r}")
    if not isinstance(item.description, str):
        raise ConfigurationError(f"the description of tool {item.name!r} must be a string")
    if not isinstance(item.parameters, Mapping):
        raise ConfigurationError(f"the parameters of tool {item.name!r} must be a JSON Schema object")
    if not callable(item.execute):
        raise ConfigurationError(f"tool {item.name!r} can't be executed: execute is not callable")
