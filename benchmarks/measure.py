"""Runs a scenario with one client and prints what it cost, one JSON line per repeat.

    measure.py CLIENT PORT SCENARIO         a script of mock_server.py, or "agents"

Clients are `baseline`, `ours` and the names of wire formats, which are ours in that format.

The baseline is the minimum for a client on httpx: read lines, `json.loads` each event, keep the text and the
calls, run the tool, send the history again. Ours is an `Agent` with a tool and a subscriber that counts.
CPU seconds are those of this process, all threads; the mock server is another one.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# One conversation with the named script of the mock server: (deltas seen, tool calls run).
Client = Callable[[str], tuple[int, int]]

# Enough repeats for a median to stand on, fewer where one run takes seconds.
REPEATS = {"tools-200": 2, "bigargs-200k": 2, "agents": 1}
AGENTS = 100


def baseline(port: str) -> Client:
    import httpx

    limits = httpx.Limits(max_connections=1000, max_keepalive_connections=1000)
    client = httpx.Client(timeout=60, limits=limits)
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    headers = {"content-type": "application/json", "authorization": "Bearer x"}
    schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    tools = [
        {"type": "function", "function": {"name": "noop", "description": "Nothing.", "parameters": schema}}
    ]

    def request(body: bytes, text: list[str], calls: dict[int, dict[str, Any]]) -> int:
        seen = 0
        with client.stream("POST", url, content=body, headers=headers) as response:
            for line in response.iter_lines():
                if not line.startswith("data:") or line.endswith("[DONE]"):
                    continue
                for choice in json.loads(line[5:])["choices"]:
                    seen += keep(choice["delta"], text, calls)
        return seen

    def keep(delta: dict[str, Any], text: list[str], calls: dict[int, dict[str, Any]]) -> int:
        if delta.get("content"):
            text.append(delta["content"])
            return 1
        for piece in delta.get("tool_calls") or ():
            call = calls.setdefault(piece["index"], {"id": piece.get("id"), "name": "", "arguments": []})
            call["name"] = piece["function"].get("name") or call["name"]
            if piece["function"].get("arguments"):
                call["arguments"].append(piece["function"]["arguments"])
                return 1
        return 0

    def converse(script: str) -> tuple[int, int]:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "You are a test."},
            {"role": "user", "content": "go"},
        ]
        deltas = ran = 0
        while True:
            text: list[str] = []
            calls: dict[int, dict[str, Any]] = {}
            body = {"model": script, "stream": True, "messages": messages, "tools": tools}
            deltas += request(json.dumps(body).encode(), text, calls)
            if not calls:
                return deltas, ran
            for call in calls.values():
                function = {"name": call["name"], "arguments": "".join(call["arguments"])}
                asked = {"id": call["id"], "type": "function", "function": function}
                messages.append(
                    {"role": "assistant", "content": "".join(text) or None, "tool_calls": [asked]}
                )
                json.loads(function["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})
                ran += 1

    return converse


def ours(port: str, api: str = "openai-completions") -> Client:
    from agent import Agent, Model, ToolExecutionEnd, tool
    from agent.events import MessageUpdate

    @tool
    def noop(value: str) -> str:
        """Nothing."""
        return "ok"

    def converse(script: str) -> tuple[int, int]:
        counted = {"deltas": 0, "calls": 0}

        def count(event: Any) -> None:
            if isinstance(event, MessageUpdate):
                counted["deltas"] += event.stream_event.type in ("text_delta", "toolcall_delta")
            elif isinstance(event, ToolExecutionEnd):
                counted["calls"] += 1

        model = Model(script, api, "local", f"http://127.0.0.1:{port}")
        with Agent(model, system_prompt="You are a test.", tools=[noop], get_api_key=lambda _: "x") as agent:
            agent.subscribe(count)
            agent.run("go")
        return counted["deltas"], counted["calls"]

    return converse


def measure(run: Callable[[], tuple[int, int]]) -> dict[str, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    deltas, calls = run()
    cost = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    return {**cost, "deltas": deltas, "calls": calls}


def many(client: Client) -> tuple[int, int]:
    """Run AGENTS conversations of ten turns at once, one thread each; returns all deltas and calls."""
    ended: list[tuple[int, int]] = []
    threads = [threading.Thread(target=lambda: ended.append(client("tools-10"))) for _ in range(AGENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(deltas for deltas, _ in ended), sum(calls for _, calls in ended)


def peak_kb(reset: bool = False) -> int:
    """The peak of resident memory, since the last reset where the system can reset it (Linux)."""
    status = Path("/proc/self/status")
    if not status.exists():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak // 1024 if sys.platform == "darwin" else peak
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return int(status.read_text().partition("VmHWM:")[2].split()[0])


def main(which: str, port: str, scenario: str) -> None:
    client = baseline(port) if which == "baseline" else ours(port, *([which] if which != "ours" else []))
    client("text-20")
    client("tools-2")
    for _ in range(REPEATS.get(scenario, 5)):
        before = peak_kb(reset=True)
        cost = measure(lambda: many(client) if scenario == "agents" else client(scenario))
        print(json.dumps({**cost, "growth_mb": (peak_kb() - before) / 1024}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
