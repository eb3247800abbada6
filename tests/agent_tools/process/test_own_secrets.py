"""The keys of this process, hidden from the commands that it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses Linux's /proc and prctl")

_PROGRAM = """
import ctypes, os, subprocess
from agent_tools.process.own_secrets import hide_own_secrets
assert hide_own_secrets()
print(os.environ["TEST_API_KEY"], ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)
subprocess.run("echo env: $TEST_API_KEY; cat /proc/$PPID/environ; cat /proc/$PPID/cmdline", shell=True)
"""


def _run(**environ: str) -> list[str]:
    env = {"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": "/usr/bin:/bin", **environ}
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], env=env, capture_output=True, check=False)
    return ended.stdout.decode("utf-8", "replace").splitlines()


@pytest.mark.parametrize("value", ["sk-secret", "", "a=b=c", "sch\u00f6n"])
def test_a_key_is_erased_from_proc_and_still_set_in_the_environment(value: str) -> None:
    """FT-S9"""
    own, inherited, *rest = _run(TEST_API_KEY=value, HARMLESS="yes")
    assert own == f"{value} 0"  # 0: not dumpable, so that only root may read the memory
    assert inherited.rstrip() == f"env: {value}".rstrip()
    assert not value or value not in "".join(rest)
