"""Our client against an independent fault injector, which also judges how the client coped."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from support.ports import find_free_port
from support.real import require_or_skip

import agent as runtime
from agent import AUTO_RESUME_MARKER, Agent, Model, RetryPolicy, RunResult, tool

# Short waits, so that each layer tries as often as it would in earnest, only sooner; growing, as in earnest.
FAST = RetryPolicy(
    auto_resume=(0.1, 0.2, 0.4),
    mid_tool_call=(0.1, 0.2, 0.4),
    side_query=(0.1, 0.2),
    request=(0.1, 0.2, 0.4, 0.8),
)
_PROGRAM = "from llmock.cli import app; app()"


class Injector:
    """The fault injector's control interface."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=10)

    def close(self) -> None:
        self._http.close()

    def ready(self) -> bool:
        try:
            return self._http.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def reset(self) -> None:
        self._http.post("/_llmock/reset").raise_for_status()

    def queue(self, *behaviours: dict[str, Any]) -> None:
        self._http.post("/_llmock/scenario", json={"behaviors": behaviours}).raise_for_status()

    def requests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._http.get("/_llmock/requests").json()["requests"]
        return found

    def assert_green(self, *, faults: int, warnings: tuple[str, ...] = ()) -> None:
        """The faults happened, and the judge found no error and no warning but those named."""
        verdict = self._http.get("/_llmock/verdict").json()
        assert verdict["faults_injected"] == faults, verdict
        assert [finding["code"] for finding in verdict["findings"]] == list(warnings), verdict
        assert verdict["passed"]


@pytest.fixture(scope="module")
def server() -> Iterator[Injector]:
    if importlib.util.find_spec("llmock") is None:
        require_or_skip("llmock is not installed: pip install 'steady-agent[dev]'")
    port = find_free_port()
    # A process of its own: its threads and its event loop are none of this process's business.
    command = [sys.executable, "-c", _PROGRAM, "serve", "--port", str(port), "--log-level", "warning"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    injector = Injector(f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + 30
        while not injector.ready():
            assert process.poll() is None, "llmock ended while it was starting"
            assert time.monotonic() < deadline, "llmock was not ready after 30 s"
            time.sleep(0.05)
        yield injector
    finally:
        injector.close()
        process.kill()
        process.wait()


@pytest.fixture
def llmock(server: Injector) -> Injector:
    server.reset()
    return server


def _model(llmock: Injector, api: str) -> Model:
    if api == "anthropic-messages":
        return Model("claude-sonnet-4-5", api, "anthropic", f"{llmock.url}/anthropic")
    if api == "google-generative-ai":
        return Model("gemini-2.5-pro", api, "google", f"{llmock.url}/gemini")
    return Model("gpt-4o", api, "openai", f"{llmock.url}/v1")


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a fish"


def _run(llmock: Injector, api: str = "openai-completions", *, silence: float | None = None) -> RunResult:
    def stream(model: Any, context: Any, options: Any) -> Any:
        assert runtime.default_stream_fn is not None
        return runtime.default_stream_fn(model, context, replace(options, timeout=silence))

    with Agent(
        _model(llmock, api), tools=[look_up], stream_fn=stream, retry=FAST, get_api_key=lambda provider: "key"
    ) as agent:
        return agent.run("What is a halibut?")


FORMATS = ("openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai")
APIS = FORMATS


@pytest.mark.parametrize("api", APIS)
def test_a_tool_loop_runs_to_its_end(llmock: Injector, api: str) -> None:
    llmock.queue({"type": "reply", "tool_calls": [{"name": "look_up", "arguments": {"word": "halibut"}}]})
    llmock.queue({"type": "reply", "text": "A fish."})
    result = _run(llmock, api)
    assert (result.stop, result.text) == ("end_turn", "A fish.")
    assert [m.content[0].text for m in result.messages if m.role == "toolResult"] == ["halibut: a fish"]
    llmock.assert_green(faults=0)


@pytest.mark.parametrize("api", APIS)
def test_a_rate_limit_is_waited_out(llmock: Injector, api: str) -> None:
    llmock.queue({"type": "fail", "status": 429, "retry_after": 1, "times": 2})
    llmock.queue({"type": "reply", "text": "A fish."})
    assert _run(llmock, api).text == "A fish."
    assert [r["status"] for r in llmock.requests()] == [429, 429, 200]
    llmock.assert_green(faults=2)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [500, 502, 503, 529])
def test_a_failing_server_is_asked_again(llmock: Injector, api: str, status: int) -> None:
    llmock.queue({"type": "fail", "status": status, "retry_after": 0.1, "times": 2})
    llmock.queue({"type": "reply", "text": "A fish."})
    assert _run(llmock, api).text == "A fish."
    llmock.assert_green(faults=2)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", ["disconnect", "truncate"])
def test_a_stream_that_breaks_before_its_text_is_asked_again(llmock: Injector, api: str, kind: str) -> None:
    llmock.queue({"type": "reply", "text": "This answer never comes to its end."})
    llmock.queue({"type": "stream_fault", "kind": kind, "after_chunks": _BEFORE_THE_TEXT.get(api, 1)})
    llmock.queue({"type": "reply", "text": "A fish."})
    result = _run(llmock, api)
    assert (result.stop, result.text) == ("end_turn", "A fish.")
    llmock.assert_green(faults=1)


# How many events to let through: formats say more or less before the text. Gemini's calls come whole.
_BEFORE_THE_TEXT = {"google-generative-ai": 0}
_IN_THE_TEXT = {"openai-responses": 6, "google-generative-ai": 3}
_IN_A_CALL = {"openai-completions": 2, "openai-responses": 4}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", ["disconnect", "truncate"])
def test_a_stream_that_breaks_in_its_text_is_taken_up_where_it_broke(
    llmock: Injector, api: str, kind: str
) -> None:
    """The new request carries the text so far; the judge compares bodies and can't know it for a retry."""
    llmock.queue({"type": "reply", "text": "A halibut is a fish that lives in the sea."})
    llmock.queue({"type": "stream_fault", "kind": kind, "after_chunks": _IN_THE_TEXT.get(api, 4)})
    llmock.queue({"type": "reply", "text": "fish."})
    result = _run(llmock, api)
    assert (result.stop, result.text) == ("end_turn", "fish.")
    _, broken, marker, _ = result.messages
    assert "A halibut is".startswith(broken.text.strip())
    assert broken.text
    assert marker.content == AUTO_RESUME_MARKER
    assert [r["fault"] is None for r in llmock.requests()] == [False, True]


@pytest.mark.parametrize("api", APIS)
def test_a_chunk_that_is_no_json_ends_nothing(llmock: Injector, api: str) -> None:
    """Servers do send such lines; the judge warns that a client which goes on may have lost text."""
    llmock.queue({"type": "reply", "text": "A fish."})
    llmock.queue({"type": "stream_fault", "kind": "malformed", "after_chunks": 1})
    assert _run(llmock, api).stop == "end_turn"
    llmock.assert_green(faults=1, warnings=("malformed_chunk_ignored",))


@pytest.mark.parametrize("api", APIS)
def test_a_stream_that_stalls_is_left_and_asked_again(llmock: Injector, api: str) -> None:
    llmock.queue({"type": "reply", "text": "This answer never comes to its end."})
    llmock.queue({"type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 20})
    llmock.queue({"type": "reply", "text": "A fish."})
    assert _run(llmock, api, silence=0.5).text == "A fish."
    llmock.assert_green(faults=1)


@pytest.mark.parametrize("api", _IN_A_CALL)
@pytest.mark.parametrize("kind", ["disconnect", "truncate"])
def test_a_stream_that_breaks_inside_a_tool_call_runs_the_tool_once(
    llmock: Injector, api: str, kind: str
) -> None:
    call = {"type": "reply", "tool_calls": [{"name": "look_up", "arguments": {"word": "halibut"}}]}
    llmock.queue(call, {"type": "stream_fault", "kind": kind, "after_chunks": _IN_A_CALL[api]})
    llmock.queue(call, {"type": "reply", "text": "A fish."})
    result = _run(llmock, api)
    assert (result.stop, result.text) == ("end_turn", "A fish.")
    assert len([m for m in result.messages if m.role == "toolResult"]) == 1
    llmock.assert_green(faults=1)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_final(llmock: Injector, api: str, status: int) -> None:
    llmock.queue({"type": "fail", "status": status, "message": "no such luck", "times": None})
    with pytest.raises(runtime.RunError, match="no such luck"):
        _run(llmock, api)
    assert len(llmock.requests()) == 1
    llmock.assert_green(faults=1)


@pytest.mark.parametrize("api", APIS)
def test_an_outage_ends_after_a_bounded_number_of_tries(llmock: Injector, api: str) -> None:
    llmock.queue({"type": "fail", "status": 503, "retry_after": 0.1, "times": None})
    with pytest.raises(runtime.RunError):
        _run(llmock, api)
    assert len(llmock.requests()) == 1 + len(FAST.request)
    llmock.assert_green(faults=1 + len(FAST.request))


@pytest.mark.parametrize("api", APIS)
def test_arguments_that_are_no_json_run_nothing_and_are_answered(llmock: Injector, api: str) -> None:
    llmock.queue({"type": "tool_fault", "kind": "malformed_arguments"})
    result = _run(llmock, api)
    (answer,) = [m for m in result.messages if m.role == "toolResult"]
    assert answer.is_error
    assert result.stop == "end_turn"
    llmock.assert_green(faults=0)  # the judge counts faults of the transport alone


@pytest.mark.parametrize("api", APIS)
def test_a_call_of_a_tool_that_does_not_exist_is_answered(llmock: Injector, api: str) -> None:
    llmock.queue({"type": "tool_fault", "kind": "unknown_tool"})
    result = _run(llmock, api)
    (answer,) = [m for m in result.messages if m.role == "toolResult"]
    assert answer.is_error
    assert "Available: look_up" in answer.content[0].text
