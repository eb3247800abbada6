"""Every Python block of the README and of docs/ runs: from the built wheel, without network or a key.

Each block is a separate program, run in an empty folder. Two comments on the line before a block change it:
`<!-- no-run: reason -->` leaves it out, `<!-- continues -->` runs the blocks before it in the page first.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))) if page.is_file()]

_BLOCK = re.compile(
    r"^(?:<!-- *(?P<mark>no-run: *\S[^\n]*?|continues) *-->\n)?```python[^\n]*\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

# Loaded by the interpreter before the block: what leaves the machine is refused.
_NO_NETWORK = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        host = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
        host = host[0] if isinstance(host, tuple) else host
        if host not in ("127.0.0.1", "::1", "localhost", b"127.0.0.1", b"localhost", None):
            raise OSError(f"a block of the documentation may not reach {host!r}")

sys.addaudithook(refuse)
"""


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def _blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    blocks: list[Block] = []
    before = ""
    for found in _BLOCK.finditer(text):
        mark = found["mark"] or ""
        if mark.startswith("no-run"):
            continue
        code = before + found["code"] if mark == "continues" else found["code"]
        blocks.append(Block(page, text.count("\n", 0, found.start("code")) + 1, code))
        before = code
    return blocks


BLOCKS = [block for page in PAGES for block in _blocks(page)]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the contents of the wheel, and nothing of the source tree."""
    built = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = built.glob("steady_agent-*.whl")
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    (target / "sitecustomize.py").write_text(_NO_NETWORK)
    return target


def _run(code: str, installed: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    keep = ("PATH", "HOME", "TMPDIR", "SYSTEMROOT", "LANG")
    environment = {name: os.environ[name] for name in keep if name in os.environ}
    environment |= {"PYTHONPATH": str(installed), "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_blocks_run_from_the_wheel_and_reach_no_network(installed: Path, tmp_path: Path) -> None:
    code = "import agent, socket; print(agent.__file__); socket.create_connection(('192.0.2.1', 9), 1)"
    ended = _run(code, installed, tmp_path)
    assert ended.stdout.startswith(str(installed))
    assert "may not reach '192.0.2.1'" in ended.stderr


def test_the_wheel_ships_what_is_not_python(installed: Path) -> None:
    for name in ("agent/py.typed", "agent_tools/py.typed", "agent/local_model/tools.jinja"):
        assert (installed / name).is_file(), name


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_of_the_documentation_runs(block: Block, installed: Path, tmp_path: Path) -> None:
    ended = _run(block.code, installed, tmp_path)
    assert ended.returncode == 0, f"{block}:\n{block.code}\n{ended.stdout}\n{ended.stderr}"


def test_the_blocks_of_the_readme_for_other_frameworks_are_those_that_their_own_tests_run() -> None:
    foreign = re.compile(r"^<!-- no-run: needs \S+ -->\n```python\n.*?^```$", re.MULTILINE | re.DOTALL)
    readme, toolbox = (
        foreign.findall((ROOT / page).read_text(encoding="utf-8"))
        for page in ("README.md", "docs/toolbox.md")
    )
    assert len(readme) == 3
    assert readme == toolbox
