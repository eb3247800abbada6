"""The tools that Anthropic's server runs by itself, and its compaction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.completions import Tool
from support.messages import CLAUDE, HELLO, assistant, complete, request
from support.sse_server import SseServer

from agent.errors import ConfigurationError
from agent.messages import ServerContent, TextContent, UserMessage
from agent.providers.anthropic_messages.server_tools import compaction, server_tools


def betas(server: SseServer, **more: Any) -> list[str]:
    server.play(*HELLO)
    complete(server, **more)
    return [beta for beta in server.requests[-1].headers.get("anthropic-beta", "").split(",") if beta]


def test_a_tool_is_named_like_its_type_without_the_version() -> None:
    wanted = {"type": "web_search_20250305", "name": "web_search"}
    for tool in (
        "web_search_20250305",
        {"type": "web_search_20250305", "max_uses": 0, "allowed_domains": []},
    ):
        assert server_tools([tool], None) == [wanted]


def test_a_tool_may_be_any_object_with_its_fields() -> None:
    place = SimpleNamespace(city="Paris", region="")
    search = SimpleNamespace(
        type="web_search_20250305", name="find", max_uses=3, allowed_domains=("a.org",), user_location=place
    )
    (tool,) = server_tools([search], None)
    assert tool == {
        "type": "web_search_20250305",
        "name": "find",
        "max_uses": 3,
        "allowed_domains": ["a.org"],
        "user_location": {"type": "approximate", "city": "Paris"},
    }


def test_fields_we_do_not_know_are_passed_on() -> None:
    (tool,) = server_tools([{"type": "web_fetch_20250910", "citations": {"enabled": True}}], None)
    assert tool["citations"] == {"enabled": True}


def test_too_many_domains_are_refused_by_name() -> None:
    many = [f"{n}.org" for n in range(30)]
    for field, limit in (("allowed_domains", 10), ("blocked_domains", 25)):
        with pytest.raises(ConfigurationError, match=f"{field} takes at most {limit}, got {limit + 1}"):
            server_tools([{"type": "web_search_20250305", field: many[: limit + 1]}], None)
        assert server_tools([{"type": "web_search_20250305", field: many[:limit]}], None)


@pytest.mark.parametrize("tool", [{}, {"type": ""}, 7, {"name": "x"}])
def test_a_tool_without_a_type_is_refused(tool: Any) -> None:
    with pytest.raises(ConfigurationError, match="needs a type"):
        server_tools([tool], None)


def test_a_model_that_names_its_tools_gets_no_others() -> None:
    both = ["web_search_20250305", "web_fetch_20250910"]
    assert [tool["name"] for tool in server_tools(both, ["web_fetch"])] == ["web_fetch"]
    assert server_tools(both, []) == []


def test_server_tools_stand_after_ours_and_the_last_is_marked() -> None:
    tools = request(tools=[Tool("zz")], server_tools=["web_search_20250305"])["tools"]
    assert [tool["name"] for tool in tools] == ["zz", "web_search"]
    assert ["cache_control" in tool for tool in tools] == [False, True]


def test_each_kind_of_tool_brings_its_beta_once(sse_server: SseServer) -> None:
    types = ["web_search_20250305", "web_search_20260209", "web_fetch_20250910", "code_execution_20250825"]
    assert betas(sse_server, server_tools=types) == [
        "web-search-2025-03-05",
        "web-fetch-2025-09-10",
        "code-execution-2025-08-25",
    ]


def test_a_wrong_tool_is_an_error_in_the_stream(sse_server: SseServer) -> None:
    message = complete(sse_server, server_tools=[{}])
    assert message.stop_reason == "error"
    assert "needs a type" in message.error_message


# --- compaction ---


@pytest.mark.parametrize("off", [None, False, {}, {"enabled": False, "triggerTokens": 60_000}])
def test_no_compaction_is_asked_for_unless_it_is_wanted(off: Any) -> None:
    assert compaction(off) is None
    assert "context_management" not in request(server_compaction=off)


@pytest.mark.parametrize("on", [True, {"enabled": True}, {"enabled": True, "triggerTokens": 0}])
def test_compaction_leaves_the_trigger_to_the_server(on: Any) -> None:
    assert compaction(on) == {"edits": [{"type": "compact_20260112"}]}


@pytest.mark.parametrize("key", ["trigger_tokens", "triggerTokens"])
def test_compaction_has_its_trigger_and_its_own_prompt(key: str, sse_server: SseServer) -> None:
    settings = {"enabled": True, key: 80_000, "instructions": "be brief"}
    assert betas(sse_server, server_compaction=settings) == ["compact-2026-01-12"]
    edit = {
        "type": "compact_20260112",
        "trigger": {"type": "input_tokens", "value": 80_000},
        "instructions": "be brief",
    }
    assert sse_server.requests[0].json["context_management"] == {"edits": [edit]}


def test_compaction_may_be_any_object() -> None:
    edits = compaction(SimpleNamespace(enabled=True, trigger_tokens=50_000))
    assert edits is not None
    assert edits["edits"][0]["trigger"]["value"] == 50_000


def test_a_trigger_the_server_would_refuse_is_refused_with_its_least() -> None:
    with pytest.raises(ConfigurationError, match="at least 50000, got 49999"):
        compaction({"trigger_tokens": 49_999})


def test_a_summary_in_the_history_keeps_its_beta(sse_server: SseServer) -> None:
    """It goes back to a server that would not know it otherwise, though no more compaction is wanted."""
    summary = ServerContent("compaction", '{"type":"compaction","content":"so far"}', "so far")
    history = [UserMessage("a"), assistant(summary, TextContent("x")), UserMessage("b")]
    assert betas(sse_server, messages=history) == ["compact-2026-01-12"]
    assert sse_server.requests[0].json["messages"][1]["content"][0]["type"] == "compaction"
    foreign = [UserMessage("a"), assistant(summary, provider="other"), UserMessage("b")]
    assert betas(sse_server, messages=foreign, model=CLAUDE) == []
