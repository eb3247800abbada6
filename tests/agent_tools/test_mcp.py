"""The MCP server without its SDK; with it: tests/integrations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_tools.mcp import _parseable

WITHOUT = (
    "import sys; sys.modules['mcp'] = None; from agent_tools.mcp import main; sys.exit(main(sys.argv[1:]))"
)


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_without_the_sdk_the_error_names_the_extra(tmp_path: Path) -> None:
    done = run(WITHOUT, "--root", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == "error: mcp is not installed: pip install 'steady-agent[mcp]'\n"
    assert done.stdout == ""


def test_an_old_sdk_is_refused_by_name() -> None:
    code = "import sys, types; sys.modules['mcp'] = types.ModuleType('mcp'); "
    done = run(code + "from agent_tools.mcp import make_server; make_server([])")
    assert done.stderr.rstrip().endswith("older than 2: pip install 'steady-agent[mcp]'")


SERVED = """
import asyncio, json, sys
from agent_tools import mcp

def make_server(tools):
    by_name = {tool.name: tool for tool in tools}
    print(json.dumps([list(by_name), by_name["bash"](command="echo $MY_TOKEN,$OTHER_TOKEN,$PLAIN").text]))
    sys.exit()

mcp.make_server = make_server
mcp.main(sys.argv[1:])
"""


def test_commands_of_the_server_see_no_keys_but_those_that_are_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FT-M9"""
    for name in ("MY_TOKEN", "OTHER_TOKEN", "PLAIN"):
        monkeypatch.setenv(name, name.lower())
    done = run(SERVED, "--root", str(tmp_path))
    assert json.loads(done.stdout)[1] == ",,plain\n"
    done = run(SERVED, "--root", str(tmp_path), "--pass-env", "MY_TOKEN", "--pass-env", "X")
    assert json.loads(done.stdout)[1] == "my_token,,plain\n"


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (r'{"a": "\ud800x"}', '{"a": "\ufffdx"}'),
        (r'{"a": "x\uDFFF", "b": "\ud83d\ude00"}', '{"a": "x\ufffd", "b": "\U0001f600"}'),
        (r'{"a": "\\ud800"}', r'{"a": "\\ud800"}'),
        (r'{"a": "\ud83d\ude00"}', '{"a": "\U0001f600"}'),
        (r'{"a": "\u00e9"}', r'{"a": "\u00e9"}'),
        (r'{"a": "\ud800"', r'{"a": "\ud800"'),
        ("null", "null"),
    ],
)
def test_half_a_surrogate_pair_in_a_line_is_replaced(line: str, read: str) -> None:
    """Z18: the parser of the SDK refuses such a line, and the call would never be answered."""
    assert _parseable(f"{line}\n") == f"{read}\n"


@pytest.mark.parametrize("arguments", [("--root", "/no/such/folder"), ("--nonsense",)])
def test_wrong_arguments_print_the_usage(arguments: tuple[str, ...]) -> None:
    done = run(WITHOUT, *arguments)
    assert done.returncode == 2
    assert "usage: python -m agent_tools.mcp" in done.stderr
