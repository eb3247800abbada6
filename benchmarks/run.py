"""Measures the promises of benchmarks/README.md and prints a table; exits 1 when one is missed.

Three rounds, the clients taking turns in each so that a busy moment hits both; medians over all rounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
ROUNDS = 3
CLIENTS = ("floor", "ours")

# client -> scenario -> measure ("cpu", "wall", "growth_mb") -> one value per run
Costs = dict[str, dict[str, dict[str, list[float]]]]


@dataclass(frozen=True)
class Row:
    """One promise: what was measured, what it is held against, and the most it may be."""

    what: str
    measured: str
    against: str
    value: float
    limit: float
    unit: str = "x"

    @property
    def kept(self) -> bool:
        return self.value <= self.limit


@contextmanager
def mock_server() -> Iterator[str]:
    command = [sys.executable, str(HERE / "mock_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def run_clients(costs: Costs, port: str) -> None:
    for client in CLIENTS:
        command = [sys.executable, str(HERE / "measure.py"), client, port]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for line in ended.stdout.splitlines():
            cost = json.loads(line)
            name = cost.pop("name")
            for measure, value in cost.items():
                costs[client][name][measure].append(value)


def import_seconds(statement: str) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return float(ended.stdout)


def run_imports(costs: Costs) -> None:
    for _ in range(3):
        for client, statement in (("openai", "import openai"), ("ours", "from agent import Agent")):
            costs[client]["import"]["wall"].append(import_seconds(statement))


def rows(costs: Costs) -> list[Row]:
    def middle(client: str, name: str, measure: str = "cpu") -> float:
        return median(costs[client][name][measure])

    def against_floor(what: str, name: str, limit: float, unit: int, label: str, measure: str = "cpu") -> Row:
        """A cost beside the floor's; `unit` of them are in one run, shown in microseconds each."""
        mine, floor = (middle(client, name, measure) / unit * 1e6 for client in ("ours", "floor"))
        return Row(what, f"{mine:,.1f} us{label}", f"{floor:,.1f} us{label}", mine / floor, limit)

    def growth(what: str, small: str, large: str, factor: int, limit: float) -> Row:
        """How our own cost grows from one size to `factor` times that size."""
        a, b = middle("ours", small) * 1e3, middle("ours", large) * 1e3
        value = b / a / factor if factor > 2 else b / a
        return Row(what, f"{b:,.1f} ms", f"{a:,.1f} ms", value, limit)

    memory = middle("ours", "agents", "growth_mb"), middle("floor", "agents", "growth_mb")
    imports = middle("ours", "import", "wall") * 1e3, middle("openai", "import", "wall") * 1e3
    return [
        against_floor("CPU per delta, burst", "text-2000", 1.5, 2000, "/delta"),
        against_floor("CPU per delta, one packet each", "text-2000@1", 1.5, 2000, "/delta"),
        against_floor("CPU per turn, 50 turns", "tools-50", 2.0, 50, "/turn"),
        growth("CPU per turn, 200 turns to 50", "tools-50", "tools-200", 4, 2.0),
        against_floor("CPU of 100 kB of arguments", "bigargs-100k", 1.5, 1, ""),
        against_floor("CPU of 400 kB of arguments", "bigargs-400k", 1.5, 1, ""),
        growth("arguments doubled, 100 to 200 kB", "bigargs-100k", "bigargs-200k", 2, 2.2),
        growth("arguments doubled, 200 to 400 kB", "bigargs-200k", "bigargs-400k", 2, 2.2),
        against_floor("100 agents of 10 turns, wall time", "agents", 1.5, 1, "", "wall"),
        Row(
            "100 agents, more memory at the peak",
            *(f"{mb:.1f} MB" for mb in memory),
            memory[0] - memory[1],
            25,
            " MB",
        ),
        Row(
            "from agent import Agent / import openai",
            *(f"{ms:.0f} ms" for ms in imports),
            imports[0] / imports[1],
            0.25,
        ),
    ]


def table(found: list[Row]) -> str:
    lines = [f"{'':42} {'ours':>18} {'against':>18} {'value':>10} {'at most':>10}"]
    for row in found:
        value, limit = (f"{number:.2f}{row.unit}" for number in (row.value, row.limit))
        missed = "" if row.kept else "  MISSED"
        lines.append(f"{row.what:42} {row.measured:>18} {row.against:>18} {value:>10} {limit:>10}{missed}")
    return "\n".join(lines)


def main() -> int:
    costs: Costs = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    with mock_server() as port:
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
            run_clients(costs, port)
            run_imports(costs)
    found = rows(costs)
    print(table(found))
    missed = [row.what for row in found if not row.kept]
    print(f"{len(found) - len(missed)} promises kept, {len(missed)} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
