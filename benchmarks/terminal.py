"""Measures the interactive mode in a pseudo-terminal; exits 1 when a promise is missed.

Time from the start of the process to the prompt, and to the echo of a key that was pressed at once; then,
while an answer of 5,000 deltas a second comes in, the time from each key to its echo and how far the screen
is behind; and what drawing that answer costs against receiving it.
"""

from __future__ import annotations

import fcntl
import io
import itertools
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

from rich.console import Console

from agent import Agent, get_model
from agent.cli.render import RichRenderer
from agent.events import Event

STARTS = 7
DELTAS_PER_SECOND = 5000
SECONDS = 4
START_LIMIT = 0.200
ECHO_LIMIT = 0.050
BEHIND_LIMIT = 0.5
CPU_LIMIT = 3  # times the runtime's own


# An answer of the usual kind: prose, lists, tables and programs. Tokens have four or five characters.
_TEXT = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8") + "\n\n"
PIECES = itertools.cycle([_TEXT[place : place + 5] for place in range(0, len(_TEXT), 5)])


class Answers(BaseHTTPRequestHandler):
    """Streams words at a steady rate, a packet every ten milliseconds, and records begin and end."""

    began = ended = 0.0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        cls = type(self)
        cls.began = time.perf_counter()
        batch = DELTAS_PER_SECOND // 100
        for number in range(SECONDS * 100):
            self.wfile.write("".join(_chunk(next(PIECES)) for _ in range(batch)).encode())
            rest = cls.began + (number + 1) / 100 - time.perf_counter()
            if rest > 0:
                time.sleep(rest)
        cls.ended = time.perf_counter()
        self.wfile.write((_chunk("THE-END") + _chunk(None) + "data: [DONE]\n\n").encode())

    def log_message(self, *_: object) -> None:
        pass


def _chunk(text: str | None) -> str:
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": None if text is not None else "stop"}
    return f"data: {json.dumps({'id': 'x', 'choices': [choice]})}\n\n"


class Child:
    """The command in a pseudo-terminal."""

    def __init__(self, home: str, url: str) -> None:
        self.started = time.perf_counter()
        self.output = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(HOME=home, XDG_STATE_HOME=home, TERM="xterm-256color")
            command = [sys.executable, "-m", "agent", "--model", "local/x", "--base-url", url, "--cwd", home]
            os.execv(sys.executable, command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))

    def until(self, wanted: bytes, since: int = 0, timeout: float = 30.0) -> float:
        """When this was first seen."""
        end = time.perf_counter() + timeout
        while wanted not in self.output[since:]:
            if time.perf_counter() > end:
                raise SystemExit(f"{wanted!r} did not come: {self.output[-2000:]!r}")
            if select.select([self.fd], [], [], 0.5)[0]:
                self.output += os.read(self.fd, 65536)
        return time.perf_counter()

    def type(self, keys: bytes) -> float:
        os.write(self.fd, keys)
        return time.perf_counter()

    def kill(self) -> None:
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def start_times(home: str, url: str) -> tuple[float, float]:
    """Until the prompt is on screen, and until a key is echoed that was typed as soon as it was."""
    child = Child(home, url)
    shown = child.until("❯".encode())
    since = len(child.output)
    child.type(b"Q")
    echoed = child.until(b"Q", since)
    child.kill()
    return shown - child.started, echoed - child.started


def stream_times(home: str, url: str) -> tuple[list[float], float]:
    """Key to echo while the answer comes, and how long after its last delta the screen shows it."""
    child = Child(home, url)
    child.until(b"local/x")
    child.type(b"go\r")
    child.until(b"answering")
    echoes = []
    # No letter here ends an escape code that the screen is drawn with.
    for key in b"EFGIMNOPQSTUVWXYZ":
        since = len(child.output)
        typed = child.type(bytes([key]))
        echoes.append(child.until(bytes([key]), since) - typed)
        child.until(b"answering", len(child.output))
    shown = child.until(b"THE-END")
    child.kill()
    return echoes, shown - Answers.ended


def cpu_per_delta(who: str, url: str) -> float:
    """CPU seconds per delta of a process that runs the same stream, drawn or not."""
    command = [sys.executable, __file__, who, url]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(ended.stdout)


def measure(who: str, url: str) -> None:
    """In its own process: run the stream once, print the CPU time per delta from the first one on."""
    count = 0
    before = after = 0.0

    def watch(event: Event) -> None:
        nonlocal count, before, after
        if event.type == "message_update":
            count += 1
            if count == 1:
                before = time.process_time()
        elif event.type == "message_end":
            after = time.process_time()

    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=30)
    with Agent(replace(get_model("local/x"), base_url=url)) as agent:
        agent.subscribe(watch)
        if who == "drawn":
            agent.subscribe(RichRenderer(console))
        agent.prompt("go").wait()
    print((after - before) / count)


def main() -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as home:
        start_times(home, url)  # warms the disk
        shown, echoed = map(median, zip(*(start_times(home, url) for _ in range(STARTS)), strict=True))
        echoes, behind = stream_times(home, url)
        bare = cpu_per_delta("bare", url)
        drawn = cpu_per_delta("drawn", url) - bare
    rows = [
        ("start to prompt", shown, START_LIMIT),
        ("start to the echo of the first key", echoed, START_LIMIT),
        (f"key to echo at {DELTAS_PER_SECOND} deltas/s, median", median(echoes), ECHO_LIMIT),
        (f"screen behind the stream at {DELTAS_PER_SECOND} deltas/s", behind, BEHIND_LIMIT),
    ]
    for what, seconds, limit in rows:
        verdict = "ok" if seconds <= limit else "MISSED"
        print(f"{what:<48}{seconds * 1000:8.1f} ms   at most {limit * 1000:.0f} ms   {verdict}")
    is_cheap = drawn <= CPU_LIMIT * bare
    verdict = "ok" if is_cheap else "MISSED"
    costs = f"{drawn * 1e6:.1f} us of the renderer, {bare * 1e6:.1f} us of the runtime"
    print(f"CPU per delta: {costs}: {drawn / bare:.1f} x   at most {CPU_LIMIT} x   {verdict}")
    print(f"(worst key to echo: {max(echoes) * 1000:.1f} ms)")
    return int(not is_cheap or any(seconds > limit for _, seconds, limit in rows))


if __name__ == "__main__":
    sys.exit(measure(*sys.argv[1:]) if sys.argv[1:] else main())
