"""Which tools a policy allows, how the others are found, and when they can be called."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from support.runs import NO_WAITS

from agent import Agent, AgentTool, ConfigurationError, Hooks, RunMetadata, tool
from agent.catalog import Catalog, CatalogItem, Policy, ToolSearch
from agent.hook_types import RunInfo
from agent.messages import ToolResultMessage
from agent.testing import ScriptedModel, tool_call
from agent.tools import ToolContext


def named(name: str, description: str = "", **parameters: str) -> AgentTool:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties}
    return AgentTool(name, description, schema, lambda arguments, context: f"{name} ran")


def catalog_of(*items: tuple[Any, ...]) -> Catalog:
    """Each item: a tool or a name, then source, source_id and risk."""
    catalog = Catalog()
    for first, *rest in items:
        catalog.register(named(first) if isinstance(first, str) else first, *rest)
    return catalog


ALL = Policy(allowlist=["*"], max_risk="privileged")


# --- policies --------------------------------------------------------------------------------------


def test_nothing_is_allowed_unless_a_policy_says_so() -> None:
    catalog = catalog_of(("a",), ("b",))
    assert catalog.snapshot(Policy()).tools() == []
    assert catalog.snapshot(Policy(allowlist=["b"])).names() == ["b"]
    assert catalog.snapshot(Policy(allowlist=["*"])).names() == ["a", "b"]


@pytest.mark.parametrize(
    ("max_risk", "names"),
    [("read", ["r"]), ("write", ["r", "w"]), ("privileged", ["r", "w", "p"])],
)
def test_a_risk_above_the_greatest_allowed_is_out_even_when_listed(max_risk: str, names: list[str]) -> None:
    catalog = catalog_of(("r",), ("w", "local", "", "write"), ("p", "local", "", "privileged"))
    assert catalog.snapshot(Policy(allowlist=["r", "w", "p"], max_risk=max_risk)).names() == names


def test_the_authorizer_has_the_last_word() -> None:
    authorized: list[CatalogItem] = []

    def authorize(item: CatalogItem) -> bool:
        authorized.append(item)
        return item.name == "a"

    catalog = catalog_of(("a", "mcp", "github"), ("b",), ("c", "local", "", "write"))
    policy = Policy("tenant", ["a", "b", "c"], authorize=authorize)
    assert catalog.snapshot(policy).names() == ["a"]
    assert [(item.name, item.source, item.source_id, item.risk) for item in authorized] == [
        ("a", "mcp", "github", "read"),
        ("b", "local", "", "read"),
    ]


@pytest.mark.parametrize("answer", [1, "yes", None, object()])
def test_anything_but_true_is_a_no(answer: Any) -> None:
    assert catalog_of(("a",)).snapshot(Policy(allowlist=["*"], authorize=lambda item: answer)).names() == []


def test_an_authorizer_that_raises_fails_the_snapshot() -> None:
    def authorize(item: CatalogItem) -> bool:
        raise LookupError("no directory")

    with pytest.raises(LookupError, match="no directory"):
        catalog_of(("a",)).snapshot(Policy(allowlist=["*"], authorize=authorize))


def test_a_snapshot_keeps_the_order_of_registration_and_never_changes() -> None:
    catalog = catalog_of(("b",), ("a",))
    snapshot = catalog.snapshot(ALL)
    catalog.register(named("c"))
    assert snapshot.names() == ["b", "a"]
    assert catalog.snapshot(ALL).names() == ["b", "a", "c"]


def test_tools_by_name_come_in_the_order_asked_for() -> None:
    snapshot = catalog_of(("a",), ("b",), ("c",)).snapshot(ALL)
    assert [item.name for item in snapshot.tools(["c", "a"])] == ["c", "a"]
    assert snapshot.tools([]) == []


def test_a_name_that_is_unknown_or_not_allowed_is_an_error_that_does_not_say_which() -> None:
    snapshot = catalog_of(("a",), ("b",)).snapshot(Policy(allowlist=["a"]))
    with pytest.raises(ConfigurationError, match="no such tools, or not allowed: b, nope"):
        snapshot.tools(["a", "b", "nope"])


def test_a_name_is_taken_whatever_source_it_comes_from() -> None:
    catalog = catalog_of(("a", "mcp", "github"))
    with pytest.raises(ConfigurationError, match="'a' from mcp:github; give that of mcp:gitlab another name"):
        catalog.register(named("a"), "mcp", "gitlab")
    assert catalog.snapshot(ALL).items[0].source_id == "github"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("web",), "source must be one of"),
        (("mcp",), "needs a source_id"),
        (("local", "", "harmless"), "risk must be one of"),
    ],
)
def test_what_can_not_be_registered_is_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Catalog().register(named("a"), *arguments)


def test_only_tools_are_registered() -> None:
    with pytest.raises(ConfigurationError, match="is not a tool"):
        Catalog().register(len)


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_risk"):
        Policy(max_risk="any")
    with pytest.raises(ConfigurationError, match="allowlist must be a list"):
        Policy(allowlist="*")


# --- searching -------------------------------------------------------------------------------------


def search_of(*tools: AgentTool, policy: Policy = ALL, **options: Any) -> ToolSearch:
    catalog = catalog_of(*((item, "mcp", "server") for item in tools))
    return ToolSearch(catalog.snapshot(policy), **options)


def found(search: ToolSearch, query: str) -> list[str]:
    return [item.name for item in search.search(query)]


def test_a_name_counts_more_than_a_parameter_and_that_more_than_a_description() -> None:
    search = search_of(
        named("one", "About an issue."),
        named("two", "", issue="Which one."),
        named("create_issue"),
        named("other"),
    )
    assert found(search, "issue") == ["create_issue", "two", "one"]


def test_all_words_found_count_one_more() -> None:
    search = search_of(named("create_many"), named("open", "Create an issue; an issue."), named("x"))
    assert found(search, "create issue") == ["create_many", "open"]
    search = search_of(named("issue_x"), named("issue_y", "Create."), named("z"))
    assert found(search, "create issue") == ["issue_y", "issue_x"]


def test_equals_stay_in_the_order_of_registration() -> None:
    names = [f"issue_{letter}" for letter in "zyxwv"]
    assert found(search_of(*map(named, names)), "issue") == names


def test_an_empty_query_finds_all_up_to_the_limit() -> None:
    search = search_of(*(named(f"t{n}") for n in range(12)))
    assert found(search, "") == [f"t{n}" for n in range(8)]
    assert len(found(search_of(*(named(f"t{n}") for n in range(12)), limit=3), " ")) == 3


@pytest.mark.parametrize(
    ("query", "name", "hit"),
    [
        ("server", "HTTPServerTools", True),
        ("tool", "HTTPServerTools", True),
        ("http", "HTTPServerTools", True),
        ("issues", "create_issue", True),
        ("issue", "listIssues", True),
        ("iss", "create_issue", True),
        ("is", "create_issue", False),
        ("class", "classes", True),
        ("clas", "class", True),
        ("address", "set_addres", False),
        ("bus", "bu", False),
        ("größe", "bild_größe", True),
        ("v2", "api_v2", True),
    ],
)
def test_how_words_are_separated_and_matched(query: str, name: str, hit: bool) -> None:
    assert (found(search_of(named(name)), query) == [name]) is hit


# --- activating ------------------------------------------------------------------------------------


def search_result(search: ToolSearch, run: str = "r1", **arguments: Any) -> dict[str, Any]:
    context = ToolContext("c1", run=RunMetadata(run))
    return json.loads(search.execute(arguments, context).text)  # type: ignore[no-any-return]


def given(search: ToolSearch, run: str = "r1") -> list[str] | None:
    """The names of the tools that the hook gives a run; None when nothing has changed."""
    update = search.prepare_turn(RunInfo(RunMetadata(run)))
    return None if update is None else [item.name for item in update.tools or ()]


def test_an_agent_begins_with_what_is_not_deferred_and_the_search() -> None:
    catalog = catalog_of(("here",), ("far", "mcp", "s"), ("plugin", "extension", "e"), ("mate", "team", "t"))
    search = ToolSearch(catalog.snapshot(ALL))
    assert [item.name for item in search.tools()] == ["here", "mate", "tool_search"]
    assert "2 from mcp:s, extension:e" in search.description


def test_without_anything_to_find_there_is_no_search() -> None:
    search = ToolSearch(catalog_of(("here",)).snapshot(ALL))
    assert not search.enabled
    assert [item.name for item in search.tools()] == ["here"]


def test_a_search_reports_what_it_found_and_activated() -> None:
    search = search_of(named("create_issue", "Create an issue."), named("close_issue"), named("other"))
    report = search_result(search, query="issue", activate=["close_issue", "other", "nope"])
    assert report["matches"][0] == {
        "name": "create_issue",
        "description": "Create an issue.",
        "source": "mcp:server",
    }
    assert report["activated"] == ["close_issue"]
    assert report["sources"] == ["mcp:server"]
    assert "next turn" in report["hint"]
    assert given(search) == ["tool_search", "close_issue"]


def test_the_last_search_replaces_the_selection_and_the_hook_speaks_once() -> None:
    search = search_of(named("create_issue"), named("send_mail"))
    assert given(search) is None
    search_result(search, query="issue")
    assert given(search) == ["tool_search", "create_issue"]
    assert given(search) is None
    search_result(search, query="mail")
    assert given(search) == ["tool_search", "send_mail"]
    search_result(search, query="zebra")
    assert given(search) == ["tool_search"]


def test_runs_know_nothing_of_each_other_s_searches() -> None:
    search = search_of(named("create_issue"), named("send_mail"))
    search_result(search, "r1", query="issue")
    search_result(search, "r2", query="mail")
    assert given(search, "r1") == ["tool_search", "create_issue"]
    assert given(search, "r2") == ["tool_search", "send_mail"]
    assert given(search, "r3") is None


def test_sixty_four_runs_are_remembered_the_longest_unused_goes_first() -> None:
    search = search_of(named("create_issue"))
    for n in range(64):
        search_result(search, f"r{n}", query="issue")
    search_result(search, "r0", query="issue")
    search_result(search, "r64", query="issue")
    assert given(search, "r1") is None
    assert given(search, "r0") is not None
    assert given(search, "r2") is not None
    search.forget("r3")
    assert given(search, "r3") is None


def test_a_permission_withdrawn_after_the_search_is_withdrawn_at_the_next_turn() -> None:
    allowed = {"create_issue", "close_issue"}
    policy = Policy(allowlist=["*"], authorize=lambda item: item.name in allowed)
    search = search_of(named("create_issue"), named("close_issue"), policy=policy)
    search_result(search, query="issue")
    allowed.remove("create_issue")
    assert given(search) == ["tool_search", "close_issue"]
    allowed.clear()
    assert given(search) == ["tool_search"]
    assert found(search, "issue") == []


def test_a_policy_that_can_not_be_asked_any_more_gives_nothing(caplog: pytest.LogCaptureFixture) -> None:
    broken: list[bool] = []

    def authorize(item: CatalogItem) -> bool:
        if broken:
            raise LookupError("no directory")
        return True

    search = search_of(named("create_issue"), policy=Policy(allowlist=["*"], authorize=authorize))
    search_result(search, query="issue")
    broken.append(True)
    with caplog.at_level(logging.ERROR, "agent"):
        assert given(search) is None
    assert "counted as a no" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "no good"}, "is no name for a tool"),
        ({"name": "create_issue"}, "the snapshot has a tool"),
        ({"limit": 0}, "limit must be"),
        ({"deferred": ["web"]}, "deferred must be one of"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        search_of(named("create_issue"), **options)


# --- in an agent -----------------------------------------------------------------------------------


def test_a_found_tool_can_be_called_from_the_next_turn_on_and_not_before() -> None:
    search = search_of(named("create_issue"), named("send_mail"))
    model = ScriptedModel(
        [tool_call("tool_search", {"query": "issue"}), tool_call("create_issue")],
        [tool_call("create_issue"), tool_call("send_mail")],
        "done",
    )

    @tool
    def local() -> str:
        """Stay."""
        return "here"

    tools = [local, *search.tools()]
    hooks = Hooks(prepare_turn=search.prepare_turn)
    with Agent(model.model, stream_fn=model.stream, retry=NO_WAITS, tools=tools, hooks=hooks) as agent:
        agent.run("hi")
        results = [m.text for m in agent.state.messages if isinstance(m, ToolResultMessage)]
        assert list(agent.state.tools or ()) == tools
    assert "Tool create_issue not found" in results[1]
    assert results[2] == "create_issue ran"
    assert "Tool send_mail not found" in results[3]
    assert [[item.name for item in context.tools] for context in model.contexts] == [
        ["local", "tool_search"],
        ["local", "tool_search", "create_issue"],
        ["local", "tool_search", "create_issue"],
    ]
