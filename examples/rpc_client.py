"""Work with the agent from another program, over JSON lines: `agent --rpc`.

python examples/rpc_client.py "What is in this folder?" --model openai/gpt-5-mini

What is needed in any language: start the process, write commands as lines, read lines until the response with
the command's id comes; everything else that comes is an event. docs/rpc.md describes both.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any


class RpcClient:
    """An agent in its own process. Used by one thread; `request` keeps events that arrive meanwhile."""

    def __init__(self, *options: str, **process: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agent", "--rpc", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **process,
        )
        self._events: deque[dict[str, Any]] = deque()
        self._last_id = 0
        self.ready = self._read()

    def request(self, command: str, **fields: Any) -> dict[str, Any]:
        """Send a command and give its result; raises RuntimeError when it is refused."""
        self._last_id += 1
        assert self._process.stdin is not None
        self._process.stdin.write(
            json.dumps({"id": self._last_id, "type": command, **fields}).encode() + b"\n"
        )
        self._process.stdin.flush()
        while True:
            line = self._read()
            if line["type"] != "response":
                self._events.append(line)
            elif not line["ok"]:
                raise RuntimeError(f"{line['error']['code']}: {line['error']['message']}")
            else:
                return dict(line["result"])

    def events(self) -> Iterator[dict[str, Any]]:
        """What happens, up to the end of the run."""
        while True:
            event = self._events.popleft() if self._events else self._read()
            yield event
            if event["type"] == "agent_end" and "parent_run_id" not in event:
                return

    def close(self) -> int:
        """End the agent once its run is over; the exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        if not self._process.stdout.closed:
            self._process.stdout.read()  # else an agent that still writes would wait for us
            self._process.stdout.close()
        return self._process.wait()

    def __enter__(self) -> RpcClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the agent has ended; its reason is on standard error")
        return dict(json.loads(line))


def main() -> None:
    """Ask one thing, answer requests for approval at the terminal, print the answer."""
    prompt, *options = sys.argv[1:] or ["Say hello."]
    with RpcClient(*options) as client:
        client.request("prompt", text=prompt)
        for event in client.events():
            match event["type"]:
                case "message_update" if event["stream_event"]["type"] == "text_delta":
                    print(event["stream_event"]["delta"], end="", flush=True)
                case "approval_request":
                    reply = input(f"\n{event['tool_name']} {event['command'] or event['diff']}\nyes or no? ")
                    client.request("approve", tool_call_id=event["tool_call_id"], answer=reply)
        print()


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(str(error))
