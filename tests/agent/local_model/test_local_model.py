"""The local server: ready when entered, gone when left, and an error that says what went wrong. The engine is
a stand-in of the same interface; the real one: tests/real."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from support.running import becomes_true

from agent.errors import ConfigurationError
from agent.local_model import LocalParts, LocalServer
from agent.local_model.parts import WEIGHTS_FILE

pytestmark = pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is not None, reason="it would be used")

ENGINE = """
import http.server, threading

class Part:
    pass

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = Part(), Part(), Part()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status": "ok"}')

    def log_message(self, *arguments):
        pass

class Server:
    def __init__(self, params):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.listening_address = "http://127.0.0.1:%d" % self.server.server_address[1]
"""


def parts(folder: Path, engine: str) -> LocalParts:
    (folder / "engine" / "xllamacpp").mkdir(parents=True)
    (folder / "engine" / "xllamacpp" / "__init__.py").write_text(engine)
    (folder / WEIGHTS_FILE).write_bytes(b"")
    return LocalParts(folder)


def is_alive(pid: int | None) -> bool:
    try:
        os.kill(pid or 0, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_server_answers_inside_and_is_gone_after(tmp_path: Path) -> None:
    server = LocalServer(parts(tmp_path, ENGINE))
    with server:
        pid = server.pid
        assert server.model.base_url == server.base_url == f"{server.url}/v1"
        with urllib.request.urlopen(f"{server.url}/health", timeout=5) as response:
            assert json.load(response) == {"status": "ok"}
    assert server.pid is None
    assert not is_alive(pid)
    server.stop()


def test_it_can_be_started_again(tmp_path: Path) -> None:
    server = LocalServer(parts(tmp_path, ENGINE))
    urls = []
    for _ in range(2):
        with server:
            urls.append(server.url)
    assert all(url.startswith("http://127.0.0.1:") for url in urls)


def test_the_server_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    parts(tmp_path, ENGINE)
    code = (
        "import sys, pathlib\nfrom agent.local_model import LocalParts, LocalServer\n"
        "server = LocalServer(LocalParts(pathlib.Path(sys.argv[1])))\nserver.start()\n"
        "print(server.pid, flush=True)\nsys.stdin.read()"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        program.kill()
    assert becomes_true(lambda: not is_alive(pid))


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("raise ImportError('libgomp.so.1: cannot open')", "cannot be loaded.*libgomp"),
        ("import sys; print('out of memory'); sys.exit(7)", "exit code 7: out of memory"),
        ("import os; os._exit(3)", "exit code 3: it printed nothing"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "AVX2"),
    ],
)
def test_a_server_that_does_not_start_is_an_error_with_its_output(
    tmp_path: Path, engine: str, message: str
) -> None:
    server = LocalServer(parts(tmp_path, engine))
    with pytest.raises(ConfigurationError, match=f"(?s){message}"):
        server.start()
    assert server.pid is None


def test_a_start_that_takes_too_long_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    server = LocalServer(
        parts(tmp_path, "import time; print('loading', flush=True); time.sleep(60)"), timeout=0.3
    )
    with pytest.raises(ConfigurationError, match=r"not ready after 0.3 s"):
        server.start()
    assert server.pid is None


def test_a_start_can_be_cancelled(tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    server = LocalServer(parts(tmp_path, "import time; time.sleep(60)"), cancel=cancel)
    with pytest.raises(ConfigurationError, match="cancelled"):
        server.start()
    assert server.pid is None
