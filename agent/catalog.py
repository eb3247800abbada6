"""The tool catalog: which tools a conversation may see, and a search by which a model finds the others.

    catalog = Catalog()
    catalog.register(read_file)
    catalog.register(create_issue, source="mcp", source_id="github", risk="write")
    search = ToolSearch(catalog.snapshot(Policy(allowlist=["*"], max_risk="write")))
    agent = Agent(model, tools=search.tools(), hooks=Hooks(prepare_turn=search.prepare_turn))

Nothing is allowed unless a policy allows it.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, get_args

from agent.errors import ConfigurationError, ToolError
from agent.hook_types import RunInfo, TurnUpdate
from agent.json_values import JsonMapping, JsonObject
from agent.tools import ToolLike, ToolResult, ToolSet

logger = logging.getLogger("agent")

Source = Literal["local", "mcp", "extension", "team"]
Risk = Literal["read", "write", "privileged"]

SOURCES: tuple[str, ...] = get_args(Source)
RISKS: tuple[str, ...] = get_args(Risk)  # each more than those before it

SEARCH_LIMIT = 8  # tools per search: more would fill the context that searching is to save
REMEMBERED_RUNS = 64  # of a process that never calls `forget`


# -- the catalog and its policies ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CatalogItem:
    """A tool, where it comes from and how much harm it can do."""

    tool: ToolLike
    source: str = "local"
    source_id: str = ""
    risk: str = "read"

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.tool.name

    @property
    def origin(self) -> str:
        """The source with its id, such as `mcp:github`."""
        return f"{self.source}:{self.source_id}" if self.source_id else self.source


@dataclass(frozen=True, slots=True)
class Policy:
    """Which tools may be used: those in the allowlist, within the risk, that `authorize` accepts.

    `allowlist` holds names of tools; `"*"` stands for all, an empty one for none. `max_risk` is the
    greatest risk allowed. `authorize(item)` decides last: anything but True is a no. `tenant_id`
    names the tenant, for the application alone.
    """

    tenant_id: str = ""
    allowlist: Sequence[str] = ()
    max_risk: str = "read"
    authorize: Callable[[CatalogItem], bool] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check("max_risk", self.max_risk, RISKS)
        if isinstance(self.allowlist, str):
            raise ConfigurationError(f"allowlist must be a list of names, not the text {self.allowlist!r}")
        object.__setattr__(self, "allowlist", tuple(self.allowlist))

    def allows(self, item: CatalogItem) -> bool:
        """True when the item may be used now. Raises what `authorize` raises."""
        if item.name not in self.allowlist and "*" not in self.allowlist:
            return False
        if RISKS.index(item.risk) > RISKS.index(self.max_risk):
            return False
        return self.authorize is None or self.authorize(item) is True


class Catalog:
    """All tools of a process, by name.

    Threads: every method may be called from any thread; `_lock` guards the table and is not held while a
    policy is asked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[str, CatalogItem] = {}

    def register(
        self, tool: Any, source: str = "local", source_id: str = "", risk: str = "read"
    ) -> CatalogItem:
        """Add a tool.

        Raises ConfigurationError for what is no tool, an unknown source or risk, a source other than `local`
        without an id, and a name that is taken, whatever source it comes from.
        """
        ToolSet([tool])  # refuses what is no tool
        _check("source", source, SOURCES)
        _check("risk", risk, RISKS)
        if source != "local" and not source_id:
            raise ConfigurationError(f"a tool of source {source!r} needs a source_id")
        item = CatalogItem(tool, source, source_id, risk)
        with self._lock:
            taken = self._items.get(item.name)
            if taken is not None:
                raise ConfigurationError(
                    f"there is a tool {item.name!r} from {taken.origin}; "
                    f"give that of {item.origin} another name"
                )
            self._items[item.name] = item
        return item

    def snapshot(self, policy: Policy) -> Snapshot:
        """What the policy allows of what there is now, in the order of registration; it never changes.

        Raises what `authorize` raises: a policy that can't be asked allows nothing.
        """
        with self._lock:
            items = list(self._items.values())
        return Snapshot(policy, tuple(item for item in items if policy.allows(item)))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tools that a policy allowed at one moment."""

    policy: Policy
    items: tuple[CatalogItem, ...]

    def names(self) -> list[str]:
        """The names, in the order of registration."""
        return [item.name for item in self.items]

    def tools(self, names: Iterable[str] | None = None) -> list[Any]:
        """The tools, all of them or those of the given names, in the order asked for.

        Raises ConfigurationError for a name that is unknown or not allowed; it does not say which.
        """
        if names is None:
            return [item.tool for item in self.items]
        by_name = {item.name: item.tool for item in self.items}
        wanted = list(names)
        missing = [name for name in wanted if name not in by_name]
        if missing:
            raise ConfigurationError(f"no such tools, or not allowed: {', '.join(missing)}")
        return [by_name[name] for name in wanted]


def _check(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ConfigurationError(f"{what} must be one of {', '.join(known)}, not {value!r}")


# -- finding tools -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Selection:
    """What the last search of a run found, and which of it the run has been given."""

    wanted: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


class ToolSearch:
    """A tool that finds tools: those of the deferred sources are not shown to the model until it searches.

    `tools()` is what an agent begins with, and `prepare_turn` is the hook that gives it what a search has
    found, from the next turn on. A new search replaces the tools of the last one. Before each turn the
    policy is asked again: a tool whose permission was withdrawn is taken away, and one that can't be asked
    about too.

    Threads: may serve many runs at once; `_lock` guards the selections, and is not held while a policy is
    asked.
    """

    parallel = False

    def __init__(
        self,
        snapshot: Snapshot,
        name: str = "tool_search",
        limit: int = SEARCH_LIMIT,
        deferred: Sequence[str] = ("mcp", "extension"),
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise ConfigurationError(f"{name!r} is no name for a tool: at most 64 letters, digits, _ and -")
        if type(limit) is not int or limit < 1:
            raise ConfigurationError(f"limit must be a whole number of at least 1, not {limit!r}")
        for source in deferred:
            _check("deferred", source, SOURCES)
        if name in snapshot.names():
            raise ConfigurationError(f"the snapshot has a tool {name!r}; give the search another name")
        self.name = name
        self.parameters: JsonObject = _search_parameters()
        self._snapshot = snapshot
        self._limit = limit
        self._deferred = {item.name: item for item in snapshot.items if item.source in deferred}
        self._words = {name: _Words(item.tool) for name, item in self._deferred.items()}
        self._lock = threading.Lock()
        self._selections: OrderedDict[str, _Selection] = OrderedDict()

    @property
    def description(self) -> str:
        """The description that the model is shown."""
        origins = ", ".join(_origins(self._deferred.values()))
        return (
            f"Find and activate more tools ({len(self._deferred)} from {origins}). Say in a few words what "
            "you want to do. What is found can be called from your next turn on, and replaces what the last "
            "search found."
        )

    @property
    def enabled(self) -> bool:
        """False when there is nothing to find."""
        return bool(self._deferred)

    def tools(self) -> list[Any]:
        """What an agent begins with: the tools not deferred, and this one if there is something to find."""
        at_once = [item.tool for item in self._snapshot.items if item.name not in self._deferred]
        return [*at_once, self] if self.enabled else at_once

    def execute(self, arguments: JsonMapping, context: Any = None) -> ToolResult:
        """Search, and select what was found for the run's next turn."""
        query = arguments.get("query", "")
        if not isinstance(query, str):
            raise ToolError("query must be a text: a few words that say what you want to do")
        matches = self.search(query)
        names = [item.name for item in matches]
        wanted = arguments.get("activate")
        if not isinstance(wanted, (list, tuple)):
            wanted = names
        activated = [name for name in names if name in wanted]
        with self._lock:
            self._selection(_run_id(context)).wanted = tuple(activated)
        return ToolResult(json.dumps(_report(matches, activated), ensure_ascii=False))

    def search(self, query: str) -> list[CatalogItem]:
        """The deferred tools that fit best, at most `limit`; an empty query finds the first of all.

        Each word of the query counts 3 in a name, 2 in the name of a parameter, 1 in a description, and 1
        more is given when all words are found. Equals stay in the order of registration.
        """
        terms = _tokens(query)
        scored = [(self._words[name].score(terms), item) for name, item in self._deferred.items()]
        found = [entry for entry in scored if entry[0] or not terms]
        found.sort(key=lambda entry: -entry[0])
        return list(islice((item for _, item in found if self._is_allowed(item)), self._limit))

    def prepare_turn(self, info: RunInfo) -> TurnUpdate | None:
        """The hook: the run's tools with what its last search selected; None when that has not changed."""
        run_id = info.run.run_id if info.run is not None else ""
        with self._lock:
            selection = self._selections.get(run_id)
            if selection is None:
                return None
            self._selections.move_to_end(run_id)
            wanted, given = selection.wanted, selection.given
        allowed = tuple(name for name in wanted if self._is_allowed(self._deferred[name]))
        if allowed == given:
            return None
        with self._lock:
            selection.given = allowed
        current = info.context.tools if info.context is not None else self.tools()
        others = [tool for tool in current if tool.name not in given and tool.name not in allowed]
        return TurnUpdate(tools=[*others, *(self._deferred[name].tool for name in allowed)])

    def forget(self, run_id: str) -> None:
        """Drop what a run has selected; otherwise the last 64 runs are remembered."""
        with self._lock:
            self._selections.pop(run_id, None)

    def _selection(self, run_id: str) -> _Selection:
        selection = self._selections.setdefault(run_id, _Selection())
        self._selections.move_to_end(run_id)
        while len(self._selections) > REMEMBERED_RUNS:
            self._selections.popitem(last=False)
        return selection

    def _is_allowed(self, item: CatalogItem) -> bool:
        try:
            return self._snapshot.policy.allows(item)
        except Exception:
            logger.exception("the policy could not be asked about %s; counted as a no", item.name)
            return False


def _search_parameters() -> JsonObject:
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What you want to do, in a few words; empty for all."},
            "activate": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Only these of the tools found; all of them by default.",
            },
        },
        "required": ["query"],
    }


def _report(matches: Sequence[CatalogItem], activated: Sequence[str]) -> JsonObject:
    hint = "Call the activated tools from your next turn on." if activated else "Try other or fewer words."
    return {
        "matches": [
            {"name": item.name, "description": item.tool.description, "source": item.origin}
            for item in matches
        ],
        "activated": list(activated),
        "sources": _origins(matches),
        "hint": hint,
    }


def _origins(items: Iterable[CatalogItem]) -> list[str]:
    return list(dict.fromkeys(item.origin for item in items))


def _run_id(context: Any) -> str:
    run = getattr(context, "run", None)
    return run.run_id if run is not None else ""


class _Words:
    """The words of a tool by the place they stand in, each worth less than the one before."""

    def __init__(self, tool: ToolLike) -> None:
        properties = tool.parameters.get("properties")
        schemas = properties if isinstance(properties, Mapping) else {}
        described = [s.get("description", "") for s in schemas.values() if isinstance(s, Mapping)]
        self._places = (
            (3, frozenset(_tokens(tool.name))),
            (2, frozenset(_tokens(" ".join(map(str, schemas))))),
            (1, frozenset(_tokens(" ".join([tool.description, *map(str, described)])))),
        )

    def score(self, terms: Sequence[str]) -> int:
        values = [self._value(term) for term in terms]
        return sum(values) + bool(values and all(values))

    def _value(self, term: str) -> int:
        for value, words in self._places:
            if term in words or (len(term) >= 3 and any(word.startswith(term) for word in words)):
                return value
        return 0


_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _tokens(text: str) -> list[str]:
    """The words of a text, `HTTPServerTools` as three, without case and without the s of a plural."""
    return [_singular(part.lower()) for word in _WORD.findall(text) for part in _HUMP.split(word)]


def _singular(word: str) -> str:
    return word[:-1] if len(word) >= 4 and word.endswith("s") and not word.endswith("ss") else word
