"""Makes the pictures of docs/images from real runs: `make pictures`. Needs tmux.

The command runs in a terminal of tmux; what stands on its screen is drawn by rich as an SVG.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests"))

from support.command import call_chunks, chunk, text_chunks  # noqa: E402
from support.sse_server import SseServer, wait_for  # noqa: E402

_COLUMNS = 92
_PATIENCE = 30.0
# Values that differ between runs and machines are replaced in the pictures.
_RANDOM = re.compile(r"agent-demo-\w{8}")
_ADDRESS = "agent-demo-x7k2m9q4"


class Terminal:
    """A command in a terminal of tmux."""

    def __init__(self, folder: Path, command: list[str], rows: int, **env: str) -> None:
        self._socket = str(folder / "tmux")
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
        line = f"cd {shlex.quote(str(folder))} && env {words} {shlex.join(command)}; sleep 60"
        size = ["-x", str(_COLUMNS), "-y", str(rows)]
        subprocess.run(["tmux", "-S", self._socket, "new-session", "-d", *size, line], check=True)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False)

    def type(self, *keys: str) -> None:
        subprocess.run(["tmux", "-S", self._socket, "send-keys", *keys], check=True)

    def until(self, wanted: Callable[[str], bool]) -> str:
        """The screen with its colours, once it looks as wanted."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            command = ["tmux", "-S", self._socket, "capture-pane", "-p", "-e"]
            screen = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            if wanted(Text.from_ansi(screen).plain):
                return screen
            time.sleep(0.05)
        raise SystemExit(f"the screen did not come to look as wanted:\n{screen}")


def draw(name: str, title: str, screen: str) -> None:
    """Write the screen as docs/images/NAME.svg."""
    screen = _RANDOM.sub(_ADDRESS, screen.rstrip("\n"))
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen), no_wrap=True, overflow="crop")
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / f"{name}.svg"
    path.write_text(console.export_svg(title=title, unique_id=name), encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)}")


def demo(folder: Path, python: str) -> None:
    """`agent demo`, to its end."""
    with Terminal(folder, [python, "-m", "agent", "demo"], rows=100, PYTHONPATH=str(ROOT)) as terminal:
        draw("demo", "agent demo", terminal.until(lambda screen: "the tests pass." in screen))


def interactive(folder: Path, python: str) -> None:
    """`agent` alone, at work, with a steering message on its way."""
    project = folder / "kitchen"
    project.mkdir()
    (project / "units.py").write_text("GRAMS_PER_KILOGRAM = 100\nTEASPOONS_PER_TABLESPOON = 3\n")
    go = threading.Event()
    with SseServer() as server:
        server.play(
            chunk({"content": "I look at the constants first."}),
            *call_chunks("read", {"path": "units.py"}),
        )
        change = {"path": "units.py", "oldText": "KILOGRAM = 100\n", "newText": "KILOGRAM = 1000\n"}
        server.play(*call_chunks("edit", change))
        server.play(
            chunk({"content": "The constant is **1000** now:\n\n- `grams(2)` gives 2000\n- no other "}),
            wait_for(go),
            *text_chunks("file uses it."),
        )
        command = [
            python,
            "-m",
            "agent",
            "--model",
            "local/qwen3",
            "--base-url",
            server.url,
            "--cwd",
            str(project),
        ]
        env = {"PYTHONPATH": str(ROOT), "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        with Terminal(folder, command, rows=32, **env) as terminal:
            terminal.until(lambda screen: "local/qwen3" in screen)
            terminal.type("2 kg of flour come out as 200 g. Repair it", "Enter")
            terminal.until(lambda screen: "no other" in screen)
            terminal.type("add a test for it, too", "Enter")
            terminal.until(lambda screen: "» steering" in screen)
            terminal.type("then tell me about @un")
            draw("interactive", "agent", terminal.until(lambda screen: "\n units.py" in screen))
            go.set()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        # The interpreter under a path that could be anybody's: the demo shows it.
        venv = Path(tempfile.gettempdir()) / "venv"
        venv.unlink(missing_ok=True)
        venv.symlink_to(sys.prefix)
        try:
            demo(folder, os.path.join(venv, "bin", "python"))
            interactive(folder, os.path.join(venv, "bin", "python"))
        finally:
            venv.unlink()


if __name__ == "__main__":
    main()
