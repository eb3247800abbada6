"""The descendants of this process, from /proc and from ps."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from agent_tools.contract import processes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the contract is not for Windows")


def test_children_and_their_children_are_found() -> None:
    code = (
        "import subprocess, sys; subprocess.Popen(['sleep', '30']); print('', flush=True); sys.stdin.read()"
    )
    before = processes.children()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        started = processes.children() - before
        assert child.pid in started
        assert len(started) == 2
        os.killpg(child.pid, 9)
    assert processes.wait_gone(started, 5) == set()


def test_those_that_live_on_are_returned_after_the_time() -> None:
    with subprocess.Popen(["sleep", "30"]) as child:
        assert processes.wait_gone({child.pid}, 0.05) == {child.pid}
        child.kill()
