"""Every format against a mock server that others wrote: thinking, tool calls and usage by a script."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.ports import find_free_port

from agent import Agent, AssistantMessage, Model, RetryPolicy, RunResult, ThinkingContent, tool
from agent.providers import _WIRE_FORMATS as REGISTERED

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".aimock"
PROGRAM = FOLDER / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
AT_ONCE = RetryPolicy((), (), (), (0.0, 0.0))

QUESTION = "What is a halibut?"
THOUGHT, SECOND_THOUGHT = "I should look it up.", "So it is a fish."
ANSWER = "A halibut is a flat fish that lives in the sea."


def _usage(taken: int, made: int) -> dict[str, int]:
    """The counts in every spelling: the server picks those of the format."""
    return {
        "prompt_tokens": taken,
        "input_tokens": taken,
        "promptTokenCount": taken,
        "completion_tokens": made,
        "output_tokens": made,
        "candidatesTokenCount": made,
        "total_tokens": taken + made,
        "totalTokenCount": taken + made,
    }


def _case(match: dict[str, Any], **response: Any) -> dict[str, Any]:
    return {"match": match, "response": response}


FIXTURES = [
    _case(
        {"userMessage": QUESTION, "hasToolResult": False},
        reasoning=THOUGHT,
        toolCalls=[
            {"name": "look_up", "arguments": '{"word":"halibut"}'},
            {"name": "look_up", "arguments": '{"word":"fish"}'},
        ],
        usage=_usage(11, 7),
    ),
    _case(
        {"userMessage": QUESTION, "hasToolResult": True},
        reasoning=SECOND_THOUGHT,
        content=ANSWER,
        usage=_usage(30, 12),
    ),
    _case({"userMessage": "Say something long."}, content="word " * 200, usage=_usage(5, 200)),
    _case({"userMessage": "Be cut off."}, content="And so", finishReason="length"),
    _case(
        {"userMessage": "Fail."},
        error={"message": "no such luck", "type": "invalid_request_error"},
        status=400,
    ),
]


@dataclass
class Server:
    url: str

    def last_body(self) -> dict[str, Any]:
        """What was asked for last."""
        journal = httpx.get(f"{self.url}/__aimock/journal", trust_env=False, timeout=10).json()
        body: dict[str, Any] = journal[-1]["body"]
        return body


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    node = _installed()
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": FIXTURES}), encoding="utf-8")
    port = find_free_port()
    command = [node, str(PROGRAM), "--port", str(port), "--fixtures", str(fixtures), "--strict"]
    process = subprocess.Popen(
        [*command, "--log-level", "silent", "--validate-on-load", "--chunk-size", "7"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    found = Server(f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + 30
        while not _is_up(found.url):
            assert process.poll() is None, "aimock ended while it was starting"
            assert time.monotonic() < deadline, "aimock was not ready after 30 s"
            time.sleep(0.05)
        yield found
    finally:
        process.kill()
        process.wait()


def _installed() -> str:
    """The node program, with aimock in its folder; else the test is skipped with the reason."""
    node = shutil.which("node")
    if node is None or (shutil.which("npm") is None and not PROGRAM.exists()):
        pytest.skip("aimock needs node with npm, and there is none here")
    if not PROGRAM.exists():
        script = subprocess.run(
            ["sh", str(ROOT / "scripts" / "get_aimock.sh"), str(FOLDER)],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        if script.returncode:
            pytest.skip(f"aimock could not be installed: {script.stderr.strip()[-300:]}")
    return node


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/__aimock/health", trust_env=False, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: lives in the sea"


def _model(server: Server, api: str) -> Model:
    ids = {
        "anthropic-messages": ("claude-sonnet-4-5", "anthropic"),
        "google-generative-ai": ("gemini-2.5-pro", "google"),
    }
    id, provider = ids.get(api, ("gpt-5", "openai"))
    return Model(id, api, provider, server.url, reasoning=True, max_tokens=32_000)


def _run(server: Server, api: str, prompt: str = QUESTION) -> RunResult:
    with Agent(
        _model(server, api),
        tools=[look_up],
        retry=AT_ONCE,
        thinking_level="low",
        get_api_key=lambda provider: "key-123456",
    ) as agent:
        return agent.prompt(prompt).result(30)


def _thoughts(message: Any) -> str:
    return "".join(block.thinking for block in message.content if isinstance(block, ThinkingContent))


def _turns(result: RunResult) -> list[AssistantMessage]:
    return [message for message in result.messages if isinstance(message, AssistantMessage)]


@pytest.mark.parametrize("api", sorted(REGISTERED))
def test_thinking_and_parallel_calls_run_to_the_end(server: Server, api: str) -> None:
    result = _run(server, api)
    assert (result.stop, result.text) == ("end_turn", ANSWER)
    first, second = _turns(result)
    assert [call.arguments for call in first.tool_calls] == [{"word": "halibut"}, {"word": "fish"}]
    assert first.stop_reason == "toolUse"
    assert (_thoughts(first), _thoughts(second)) == (THOUGHT, SECOND_THOUGHT)
    results: list[Any] = [m for m in result.messages if m.role == "toolResult"]
    assert [message.content[0].text for message in results] == [
        "halibut: lives in the sea",
        "fish: lives in the sea",
    ]


@pytest.mark.parametrize("api", sorted(REGISTERED))
def test_the_counts_are_those_of_the_script(server: Server, api: str) -> None:
    first, second = _turns(_run(server, api))
    assert (first.usage.input, first.usage.output, first.usage.total_tokens) == (11, 7, 18)
    assert (second.usage.input, second.usage.output, second.usage.total_tokens) == (30, 12, 42)


@pytest.mark.parametrize("api", sorted(REGISTERED))
def test_the_second_request_brings_both_results_back(server: Server, api: str) -> None:
    _run(server, api)
    sent = json.dumps(server.last_body())
    assert "halibut: lives in the sea" in sent
    assert "fish: lives in the sea" in sent


def test_the_signature_of_a_thought_is_kept(server: Server) -> None:
    first, _ = _turns(_run(server, "anthropic-messages"))
    (block,) = [block for block in first.content if isinstance(block, ThinkingContent)]
    assert block.signature


@pytest.mark.parametrize("api", sorted(REGISTERED))
def test_a_long_text_arrives_whole(server: Server, api: str) -> None:
    assert _run(server, api, "Say something long.").text == "word " * 200


@pytest.mark.parametrize("api", sorted(REGISTERED))
def test_an_answer_that_hit_the_limit_says_so(server: Server, api: str) -> None:
    result = _run(server, api, "Be cut off.")
    assert result.text == "And so"
    assert _turns(result)[-1].stop_reason == "length"


@pytest.mark.parametrize("api", sorted(REGISTERED))
def test_a_refusal_ends_the_run_with_its_text(server: Server, api: str) -> None:
    result = _run(server, api, "Fail.")
    assert result.stop == "error"
    assert "no such luck" in result.error
