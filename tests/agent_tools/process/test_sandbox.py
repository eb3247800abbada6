"""bash confined by bubblewrap: what a command reaches, that it ends, and that without it nothing runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.running import becomes_true, running
from support.sandbox import needs_sandbox

import agent_tools
from agent_tools import JobTable, bash_tool, jobs_tool
from agent_tools.process.sandbox import Bubblewrap
from agent_tools.process.scratch import delete_all
from agent_tools.tool import Context


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("SECRET\n")
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    return root


def bash(root: Path, **options: Any) -> Any:
    return bash_tool(root, confine=True, **options)


@needs_sandbox
def test_a_command_changes_the_root(root: Path) -> None:
    result = bash(root)(command="pwd; echo made > folder/made.txt")
    assert not result.is_error
    assert bash(root)(command="pwd; cat folder/*").text == f"{root}\nmade\n"
    assert bash(root)(command="pwd", cwd="folder").text == f"{root}/folder\n"
    assert (root / "folder/made.txt").read_text() == "made\n"


@needs_sandbox
def test_a_command_reaches_no_file_outside(root: Path) -> None:
    (root / "link").symlink_to("../secret.txt")
    result = bash(root)(
        command=f"cat ../secret.txt; cat link; cat {root.parent}/secret.txt; ls ..; ls ~ /work"
    )
    assert "SECRET" not in result.text
    assert "secret.txt\n" not in result.text.replace("secret.txt: No such", "")
    for target in ("/usr/made", "/etc/made", "../made"):
        bash(root)(command=f"echo x > {target}")
        assert not (root / target).exists()


@needs_sandbox
def test_no_hard_link_brings_a_file_in(root: Path) -> None:
    assert bash(root)(command="ln /etc/passwd passwd").is_error
    assert not (root / "passwd").exists()


@needs_sandbox
def test_a_directory_outside_is_refused(root: Path) -> None:
    (root / "out").symlink_to("..")
    for cwd in ("/etc", "..", "out"):
        result = bash(root)(command="pwd", cwd=cwd)
        assert result.is_error
        assert f"outside the root {root}" in result.text


@needs_sandbox
def test_tmp_is_its_own_and_lasts_from_call_to_call(root: Path) -> None:
    tool = bash(root)
    marker = f"/tmp/agent-test-{os.getpid()}"
    tool(command=f"echo kept > {marker}")
    assert not os.path.exists(marker)
    assert tool(command=f"cat {marker}").text == "kept\n"
    assert bash(root)(command=f"cat {marker}").is_error


@needs_sandbox
def test_a_long_output_is_found_in_the_sandbox_and_by_the_host(root: Path) -> None:
    tool = bash(root)
    result = tool(command="seq 5000")
    where = result.text.rpartition("Full output: ")[2].partition(" in the sandbox, only bash can open it")[0]
    assert where.startswith("/agent-logs/bash-")
    assert tool(command=f"head -n 1 {where}; wc -l < {where}").text == "1\n5000\n"
    assert Path(result.details["fullOutputPath"]).read_text().endswith("\n5000\n")


@needs_sandbox
def test_a_command_cannot_make_a_log_lead_elsewhere(root: Path) -> None:
    """FT-M9"""
    tool = bash(root)
    path = tool(command="seq 5000").details["fullOutputPath"]
    attempts = "ln -sf ~/x /agent-logs/*; rm -rf /agent-logs/*; mv /agent-logs /tmp/x; echo x > /agent-logs/y"
    result = tool(command=f"{attempts}; seq 5000")
    for log in (path, result.details["fullOutputPath"]):
        assert not os.path.islink(log)
        assert Path(log).read_text().endswith("\n5000\n")
    assert tool(command="touch /agent-logs/z").is_error


@needs_sandbox
def test_logs_of_other_tools_are_not_seen(root: Path) -> None:
    bash_tool(root)(command="seq 5000; echo SECRET")
    bash(root)(command="seq 5000; echo SECRET")
    assert "SECRET" not in bash(root)(command="cat /agent-logs/* /tmp/*/*/*").text


@needs_sandbox
def test_confined_commands_do_not_see_keys(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FT-M9"""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MY_TOKEN", "t")
    assert "sk-secret" not in bash(root)(command="env").text
    assert bash(root, pass_env=["MY_TOKEN"])(command="echo $MY_TOKEN").text == "t\n"
    assert "sk-secret" in bash(root, env_filter=False)(command="env").text
    assert "sk-secret" in bash_tool(root)(command="env").text


@needs_sandbox
@pytest.mark.parametrize(
    "path",
    ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/mtrr"],
)
def test_no_setting_of_the_machine_can_be_written(root: Path, path: str) -> None:
    """FT-S2"""
    result = bash(root)(command=f"[ -e {path} ] && exec 3>>{path} && echo WROTE")
    assert result.is_error
    assert "WROTE" not in result.text


@needs_sandbox
def test_no_file_of_proc_but_those_of_processes_can_be_written(root: Path) -> None:
    """FT-S2"""
    search = "find /proc -xdev ! -path '/proc/[0-9]*' ! -path '/proc/self*' ! -path '/proc/thread-self*'"
    assert bash(root)(command=f"{search} -type f -writable 2>/dev/null; true").text == "(no output)"
    assert bash(root)(command="cat /proc/sys/kernel/ostype").text == "Linux\n"


@needs_sandbox
def test_the_tmp_is_deleted_with_the_tool(root: Path) -> None:
    folder = Bubblewrap(str(root)).tmp
    assert not os.path.exists(folder)
    box = Bubblewrap(str(root))
    assert os.path.isdir(box.tmp)
    delete_all()
    assert not os.path.exists(box.tmp)


@needs_sandbox
@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_off_unless_asked_for(root: Path, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = bash(root, network=network)(command=f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")
    assert ("connected" in result.text) == network


@needs_sandbox
def test_no_process_of_the_host_is_seen_or_signalled(root: Path) -> None:
    result = bash(root)(command=f"kill -9 {os.getpid()}; ls /proc | grep -c '^[0-9]'")
    assert int(result.text.split("\n")[-2]) < 10
    assert "kill" in result.text


@needs_sandbox
def test_exit_codes_and_signals_come_through(root: Path) -> None:
    assert "exited with code 3" in bash(root)(command="exit 3").text
    assert "137 (128 + 9 (SIGKILL))" in bash(root)(command="kill -9 $$").text


@needs_sandbox
@pytest.mark.parametrize("way", ["end", "timeout", "cancel"])
def test_all_that_a_command_started_ends_with_it(root: Path, way: str) -> None:
    marker = {"end": "sleep 81.1", "timeout": "sleep 81.2", "cancel": "sleep 81.3"}[way]
    command = f"{marker} & setsid {marker} & (trap '' TERM HUP; set -m; {marker} &) ; "
    command += "echo ready" if way == "end" else f"echo ready; {marker}; true"
    context = Context(on_update=lambda partial: way == "cancel" and context.cancel.set())  # type: ignore[attr-defined]
    result = bash(root).execute({"command": command, "timeout": 0.7 if way == "timeout" else 30}, context)
    assert "ready" in result.text
    assert result.is_error == (way != "end")
    assert becomes_true(lambda: not running(marker))


@needs_sandbox
def test_a_sandbox_dies_with_the_program(root: Path) -> None:
    code = (
        "import sys, agent_tools\n"
        "agent_tools.bash_tool(sys.argv[1], confine=True)(command='setsid sleep 82.1 & sleep 82.1')\n"
    )
    environment = {**os.environ, "TMPDIR": str(root.parent)}  # what a killed program cannot delete
    with subprocess.Popen([sys.executable, "-c", code, str(root)], env=environment) as program:
        assert becomes_true(lambda: len(running("sleep 82.1")) >= 3, 10)
        program.kill()
    assert becomes_true(lambda: not running("sleep 82.1"))


@needs_sandbox
def test_a_background_job_outlives_the_thread_that_asked_for_it(root: Path) -> None:
    with JobTable() as table:
        tool, jobs = bash(root, jobs=table), jobs_tool(table)
        command = {"command": "echo ready; sleep 83.1; true", "background": True}
        thread = threading.Thread(target=tool.execute, args=(command,))
        thread.start()
        thread.join()
        assert "ready" in jobs(action="wait", id="job-1", pattern="ready", timeout=5).text
        assert "running" in jobs(action="wait", id="job-1", timeout=0.3).text
        assert running("sleep 83.1")
        jobs(action="kill", id="job-1")
        assert becomes_true(lambda: not running("sleep 83.1"))


@needs_sandbox
def test_more_folders_can_be_made_readable(root: Path) -> None:
    (root.parent / "tools").mkdir()
    (root.parent / "tools/data").write_text("data\n")
    tool = bash(root, readable=[root.parent / "tools"])
    assert tool(command="cat ../tools/data").text == "data\n"
    assert tool(command="echo x > ../tools/data").is_error


@needs_sandbox
def test_a_root_below_a_folder_of_the_system_can_be_written(root: Path) -> None:
    result = bash(root, env={"HOME": str(root), "TMPDIR": "/nowhere"})(command="echo ~ $TMPDIR; echo x > ~/y")
    assert result.text == f"{root} /tmp\n"


def test_a_bwrap_inside_the_root_is_never_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = root / "bwrap"
    fake.write_text("#!/bin/sh\necho escaped\n")
    fake.chmod(0o755)
    monkeypatch.setattr("agent_tools.process.sandbox._USUAL_FOLDERS", ())
    monkeypatch.setenv("PATH", str(root))
    result = bash(root, env={"PATH": "/usr/bin:/bin"})(command="echo escaped")
    assert result.is_error
    assert "escaped" not in result.text
    assert "in that folder" in result.text or not sys.platform.startswith("linux")


@pytest.mark.parametrize("options", [{"confine": True}, {"sandbox": "bwrap"}])
def test_without_bubblewrap_nothing_runs_and_the_error_gives_the_reason(
    root: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_tools.process.sandbox._USUAL_FOLDERS", ())
    monkeypatch.setenv("PATH", str(root))
    with JobTable() as table:
        tool = bash_tool(root, env={"PATH": "/usr/bin:/bin"}, jobs=table, **options)
        for background in (False, True):
            result = tool(command="echo ran > made.txt", background=background)
            assert result.is_error
            assert result.text.startswith(f"bash is off: commands may only run confined to {root}")
            assert "bubblewrap" in result.text
            assert "install bubblewrap" in result.text or not sys.platform.startswith("linux")
    assert not (root / "made.txt").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap exists for Linux only")
def test_a_kernel_that_refuses_is_quoted_and_nothing_runs(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = tmp_path / "bin/bwrap"
    refusing.parent.mkdir()
    refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr("agent_tools.process.sandbox._USUAL_FOLDERS", (str(refusing.parent),))
    tool = bash(root)
    for _ in range(2):
        result = tool(command="echo ran > made.txt")
        assert result.is_error
        assert "No permissions to create a new namespace" in result.text
    assert not (root / "made.txt").exists()


def test_another_sandbox_is_refused_when_the_tool_is_made(root: Path) -> None:
    with pytest.raises(ValueError, match="'bwrap'"):
        bash_tool(root, sandbox="docker")


def test_the_description_tells_the_model_where_it_is(root: Path) -> None:
    assert f"change files below {root} and in /tmp" in bash(root).description
    assert "no network" in bash(root).description
    assert "no network" not in bash(root, network=True).description
    assert "sandbox" not in bash_tool(root).description


def test_a_set_confines_all_of_its_tools(root: Path) -> None:
    (root.parent / "secret.txt").write_text("SECRET")
    by_name = {tool.name: tool for tool in agent_tools.coding_tools(root, confine=True, network=True)}
    assert by_name["read"](path="../secret.txt").is_error
    assert "SECRET" not in by_name["bash"](command="cat ../secret.txt").text
    with pytest.raises(TypeError, match="network"):
        agent_tools.read_only_tools(root, confine=True, network=True)
