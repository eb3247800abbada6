"""What searching costs, held against ripgrep itself: a table, and exit status 1 when a promise is missed.

python benchmarks/search.py [FOLDER]

Makes a tree of 50,000 files and a log of 100 MB in a temporary folder (or uses FOLDER, made by
`toolbox_gen.py FOLDER 100`). Each line is the median of three rounds in which ripgrep, grep with ripgrep and
grep without it take turns, after one round that warms the cache. ripgrep runs with flags that make it honour
the same rules, its output thrown away. Our tools run in this process: their import (once per process) is not
counted. A line without a bound is there to be seen.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from toolbox_gen import make_log, make_tree

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agent_tools.find import find_tool
from agent_tools.grep import grep_tool
from agent_tools.search.gitignore import Walk

ROUNDS = 3
LOG_MEGABYTES = 100
CONTRACT = ["--no-config", "--hidden", "--no-require-git", "--glob", "!.git", "--glob", "!node_modules"]
# What is promised: at most so many times ripgrep's own wall time.
MOST_SEARCH, MOST_LISTING = 2.5, 3.0
# (title, pattern, ignoreCase, promised): without a text that must occur a backtracking engine is no match for
# a finite automaton; that is what ripgrep is there for.
PATTERNS = [
    ("literal, 145 hits", "needle_alpha_omega", False, True),
    ("literal, any case", "NEEDLE_alpha_omega", True, True),
    ("literal, no hit", "needle_beta_omega", False, True),
    ("regex, 145 hits", r"needle_\w+\(\d\)", False, True),
    ("regex, 1,478 hits", r"def process_item_\d+\(self", False, True),
    ("alternatives", r"(needle|thread)_alpha", False, True),
    ("regex without a literal", r"\d{5,}", False, False),
]


def main() -> int:
    program = shutil.which("rg")
    if program is None:
        print("ripgrep (rg) is not on PATH: there is nothing to measure against")
        return 2
    if len(sys.argv) > 1:
        return report(program, Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory(prefix="search-bench-") as folder:
        tree = Path(folder) / "tree"
        print("making the tree ...", flush=True)
        make_tree(tree)
        make_log(tree.with_name("tree.log"), LOG_MEGABYTES)
        return report(program, tree)


def report(program: str, tree: Path) -> int:
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )[0]
    print(f"{version}, {os.cpu_count()} processors\n")
    print(f"{'':44} {'ripgrep':>9} {'with it':>9} {'without':>9}   ratios (at most)")
    log = tree.with_name(tree.name + ".log")
    met = [search_line(program, tree, *pattern) for pattern in PATTERNS]
    if log.exists():
        for title, pattern in (("literal", "needle_alpha_omega"), ("regex", r"ERROR \w+ code=2\d+$")):
            met.append(search_line(program, log, f"one large file, {title}", pattern, False, False))
    met.append(listing_line(program, tree))
    print("\nevery promise is kept" if all(met) else "\na promise is missed")
    return 0 if all(met) else 1


def search_line(
    program: str, where: Path, title: str, pattern: str, ignore_case: bool, promised: bool
) -> bool:
    flags = [
        *CONTRACT,
        "--line-number",
        *(["--ignore-case"] if ignore_case else []),
        "-e",
        pattern,
        "--",
        str(where),
    ]
    tool = grep_tool(where.parent)
    arguments = {"pattern": pattern, "path": str(where), "ignoreCase": ignore_case, "limit": 10_000}

    def with_path(path: str) -> str:
        before = os.environ["PATH"]
        os.environ["PATH"] = path
        try:
            result = tool.execute(arguments)
        finally:
            os.environ["PATH"] = before
        if result.is_error:  # else two errors would be compared, and found to be fast
            raise SystemExit(f"grep failed for {pattern!r}: {result.text}")
        return result.text

    here, nowhere = str(Path(program).parent), os.devnull
    if with_path(here) != with_path(nowhere):
        raise SystemExit(f"the engines disagree about {pattern!r}")
    theirs, assisted, alone = medians(
        lambda: run(program, flags), lambda: with_path(here), lambda: with_path(nowhere)
    )
    most = MOST_SEARCH if promised else None
    return line(f"grep: {title}", theirs, (assisted, most), (alone, most))


def listing_line(program: str, tree: Path) -> bool:
    def walk() -> int:
        return sum(len(names) for _, names in Walk(str(tree), files_only=True))

    find = find_tool(tree)
    theirs, walked, found = medians(
        lambda: run(program, [*CONTRACT, "--files", "--", str(tree)]),
        walk,
        lambda: find(pattern="*.py", limit=20_000),
    )
    line("list the files (walk alone)", theirs, None, (walked, MOST_LISTING))
    return line("find *.py", theirs, None, (found, MOST_LISTING)) and walked <= MOST_LISTING * theirs


def run(program: str, flags: list[str]) -> None:
    subprocess.run([program, *flags], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)


def medians(*jobs: Callable[[], object]) -> list[float]:
    times: list[list[float]] = [[] for _ in jobs]
    for turn in range(ROUNDS + 1):
        for taken, job in zip(times, jobs, strict=True):
            start = time.perf_counter()
            job()
            if turn:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def line(
    title: str, theirs: float, assisted: tuple[float, float | None] | None, alone: tuple[float, float | None]
) -> bool:
    """Print one line of the table; whether its promises are kept."""
    kept, ratios = True, []
    for measured in filter(None, (assisted, alone)):
        seconds, most = measured
        ratio = seconds / theirs
        kept = kept and (most is None or ratio <= most)
        ratios.append(f"{ratio:.2f}" + (f" ({most:g})" if most else ""))
    shown = f"{assisted[0]:8.3f}s" if assisted else " " * 9
    end = "" if kept else "  MISSED"
    print(f"{title:44} {theirs:8.3f}s {shown} {alone[0]:8.3f}s   {', '.join(ratios)}{end}", flush=True)
    return kept


if __name__ == "__main__":
    sys.exit(main())
