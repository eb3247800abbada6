"""What the tools cost, each held against a bare way to do the same: a table; exits 1 when one is missed.

python benchmarks/toolbox.py

Each line is the median of several rounds in which both sides take turns, in this process and in one run, so a
busy moment hits both. Files are in the page cache. Ratios are promised; the one time is generous.
"""

from __future__ import annotations

import io
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from PIL import Image
from promises import Row, report

from agent_tools import bash_tool, edit_tool, read_tool
from agent_tools.diff import generate_diff
from agent_tools.images import QUALITY, resize_image

LOG_MEGABYTES = 200
EDITED_MEGABYTES = 10
DIFF_LINES = 20_000
SHOWN_LINES = 100


Side = Callable[[], object]


def medians(ours: Side, baseline: Side, rounds: int) -> tuple[float, float]:
    """Seconds of each, the two taking turns, after one turn that warms up."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for side, times in zip((ours, baseline), taken, strict=True):
            began = time.perf_counter()
            side()
            if number:
                times.append(time.perf_counter() - began)
    return statistics.median(taken[0]), statistics.median(taken[1])


def ratio(what: str, ours: Side, baseline: Side, limit: float, rounds: int = 9) -> Row:
    mine, other = medians(ours, baseline, rounds)
    return Row(what, f"{mine * 1e3:,.2f} ms", f"{other * 1e3:,.2f} ms", mine / other, limit)


def window(folder: Path) -> list[Row]:
    """Lines near the end of a large log, by their number, against tail."""
    log = folder / "large.log"
    line = "2026-11-30 12:00:00 INFO request %09d served in 12 ms by worker 3 of the pool\n"
    lines = (LOG_MEGABYTES << 20) // len(line % 0)
    with log.open("w") as file:
        for start in range(0, lines, 10_000):
            file.write("".join([line % number for number in range(start, min(start + 10_000, lines))]))
    read, first = read_tool(folder), lines - 2 * SHOWN_LINES
    command = f"tail -n +{first} {log.name} | head -n {SHOWN_LINES}"

    def ours() -> str:
        return read(path=log.name, offset=first, limit=SHOWN_LINES).text

    def tail() -> str:
        return subprocess.run(command, shell=True, cwd=folder, stdout=subprocess.PIPE, text=True).stdout

    before = peak_megabytes()
    assert ours().startswith(tail().rstrip("\n"))
    growth = peak_megabytes() - before
    row = ratio(f"window near the end of {LOG_MEGABYTES} MB / tail -n +N", ours, tail, 2.0)
    log.unlink()
    return [row, Row("the same, memory at the peak", f"{growth:.1f} MB", "0 MB", growth, 100, " MB")]


def picture(folder: Path) -> list[Row]:
    """A photograph made small, against a bare decode at a fraction and an encode."""
    grain = Image.effect_noise((4000, 3000), 40).resize((4000, 3000))
    buffer = io.BytesIO()
    Image.merge("RGB", [grain, grain.transpose(Image.Transpose.FLIP_LEFT_RIGHT), grain]).save(
        buffer, "JPEG", quality=85
    )
    data = buffer.getvalue()

    def bare() -> bytes:
        with Image.open(io.BytesIO(data)) as image:
            image.draft("RGB", (2000, 1500))
            made = io.BytesIO()
            image.save(made, "JPEG", quality=QUALITY)
        return made.getvalue()

    def ours() -> bytes:
        return resize_image(data, "image/jpeg", max_width=2000, max_bytes=1 << 30).data

    assert Image.open(io.BytesIO(ours())).size == (2000, 1500)
    return [ratio("JPEG 4000x3000 to 2000 px / bare decode, encode", ours, bare, 1.3)]


def command(folder: Path) -> list[Row]:
    """A command that does nothing, against subprocess.run."""
    bash = bash_tool(folder)
    program = shutil.which("bash") or "bash"

    def bare() -> None:
        # In a new session like ours: a scheduler may treat a new session differently.
        subprocess.run(
            [program, "-c", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            start_new_session=True,
        )

    return [ratio("bash, a command / subprocess.run", lambda: bash(command="true"), bare, 2.0, rounds=101)]


def difference(folder: Path) -> list[Row]:
    """The diff of two texts that differ in every tenth line."""
    old = [f"    value_{number} = compute({number}, scale={number % 7})\n" for number in range(DIFF_LINES)]
    new = [line.replace("compute", "measure") if n % 10 == 0 else line for n, line in enumerate(old)]
    mine, _ = medians(lambda: generate_diff("".join(old), "".join(new)), lambda: None, 3)
    return [Row(f"diff of {DIFF_LINES:,} lines", f"{mine * 1e3:,.0f} ms", "", mine, 1.0, " s")]


def change(folder: Path) -> list[Row]:
    """One line of a file edited, against the minimum: read it, write a new file, replace it.

    Neither waits for the disk.
    """
    file, replacement = folder / "large.py", folder / "large.py.new"
    line = "value_{0} = compute({0}, scale={1})\n"
    text = "".join([line.format(number, number % 7) for number in range(300_000)])[: EDITED_MEGABYTES << 20]
    lines = [f"the_last_value = compute(the_other_values, scale={scale})\n" for scale in range(2)]
    file.write_text(text + lines[0])
    edit = edit_tool(folder)

    def ours() -> None:
        assert not edit(path=file.name, oldText=lines[0], newText=lines[1]).is_error
        lines.reverse()

    def bare() -> None:
        data = file.read_bytes()
        replacement.write_bytes(data)
        replacement.replace(file)

    return [ratio(f"edit of a line in {EDITED_MEGABYTES} MB / read, write, replace", ours, bare, 3.0)]


def peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def main() -> int:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="toolbox-bench-") as folder:
        # The window comes first: a peak of memory only grows.
        for part in (window, picture, command, difference, change):
            print(part.__name__, file=sys.stderr, flush=True)
            rows += part(Path(folder))
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
