"""Paths are UTF-8 in every locale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_PROGRAM = """
import json, sys
from agent_tools import all_tools
tools = {tool.name: tool for tool in all_tools(sys.argv[1], confine=sys.argv[2] == "confined")}
calls = json.loads(sys.stdin.buffer.read())
results = [tools[name].execute(arguments) for name, arguments in calls]
sys.stdout.buffer.write(json.dumps([[result.text, result.is_error] for result in results]).encode())
"""

Call = tuple[str, dict[str, Any]]


def _run(root: Path, locale: dict[str, str], calls: list[Call], mode: str) -> list[tuple[str, bool]]:
    environment = {**os.environ, **locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(root), mode],
        env=environment,
        input=json.dumps(calls).encode(),
        capture_output=True,
        check=True,
    )
    return [(text, is_error) for text, is_error in json.loads(ended.stdout)]


@pytest.mark.skipif(os.name == "nt", reason="paths are text on Windows")
@pytest.mark.parametrize("mode", ["open", "confined"])
@pytest.mark.parametrize("locale", ["C", "Latin-1"])
def test_every_tool_uses_the_same_names_in_every_locale(
    locale: str, mode: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """FS-W5"""
    selected = {"LC_ALL": "C"} if locale == "C" else request.getfixturevalue("latin_1")
    (tmp_path / "Ordner \u2713").mkdir()
    (tmp_path / "de\u0301compose\u0301").write_text("old \u2713\n")
    (tmp_path / "Ordner \u2713" / "image.png").write_bytes(b"no image")
    name = "Ordner \u2713/n\u00e9 \u2713.txt"

    calls = [
        ("write", {"path": name, "content": "a \u2713\n"}),
        ("read", {"path": name}),
        ("read", {"path": "d\u00e9compos\u00e9"}),
        ("edit", {"path": name, "oldText": "\u2713", "newText": "\u00e9"}),
        ("editdiff", {"path": name, "oldText": "\u00e9", "newText": "\u2713"}),
        ("grep", {"pattern": "\u00e9", "glob": "n\u00e9*"}),
        ("grep", {"pattern": "[\u00e9]$", "path": name}),
        ("find", {"pattern": "n? \u2713.txt"}),
        ("ls", {"path": "Ordner \u2713"}),
        ("read", {"path": "Ordner \u2713/missing \u2713"}),
        ("read", {"path": "Ordner \u2713"}),
        ("imageresize", {"path": "Ordner \u2713/image.png"}),
        ("bash", {"command": "echo \u2713 O*; cat 'Ordner \u2713/n\u00e9 \u2713.txt'"}),
        ("bash", {"command": "pwd", "cwd": "Ordner \u2713"}),
    ]
    if mode == "confined":
        calls = [call for call in calls if call[0] != "bash"]

    results = _run(tmp_path, selected, calls, mode)

    assert results == _run(tmp_path, {"LC_ALL": "C.UTF-8"}, calls, mode)
    assert results[0] == ("Wrote 6 bytes to Ordner \u2713/n\u00e9 \u2713.txt", False)
    assert results[1] == ("a \u2713\n", False)
    assert results[2] == ("old \u2713\n", False)
    assert results[5][0] == "Ordner \u2713/n\u00e9 \u2713.txt:1: a \u00e9"
    assert results[7][0] == "Ordner \u2713/n\u00e9 \u2713.txt"
