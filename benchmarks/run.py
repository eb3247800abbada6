"""Measures the promises of benchmarks/README.md and prints a table; exits 1 when one is missed.

Three rounds; in each the clients take turns at every scenario, so that a busy moment hits both.
Medians over all.
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
IMPORTS = 5  # per round
CLIENTS = ("floor", "ours")
SCENARIOS = (
    "text-2000",
    "text-500@1",
    "tools-50",
    "tools-200",
    "bigargs-100k",
    "bigargs-200k",
    "bigargs-400k",
    "agents",
)

# client -> scenario -> measure ("cpu", "wall", "growth_mb", "deltas", "calls") -> one value per run
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
    for scenario in SCENARIOS:
        for client in CLIENTS:
            command = [sys.executable, str(HERE / "measure.py"), client, port, scenario]
            ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            for line in ended.stdout.splitlines():
                for measure, value in json.loads(line).items():
                    costs[client][scenario][measure].append(value)


def check_same_work(costs: Costs) -> None:
    """Both clients saw every delta and ran every call, or there is nothing to compare."""
    for name, floor in costs["floor"].items():
        for counted in ("deltas", "calls"):
            done = {*floor[counted], *costs["ours"][name][counted]}
            if len(done) > 1:
                sys.exit(f"{name}: the clients differ in {counted}: {sorted(done)}")


def import_seconds(statement: str) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return float(ended.stdout)


def run_imports(costs: Costs) -> None:
    for _ in range(IMPORTS):
        for client, statement in (("openai", "import openai"), ("ours", "from agent import Agent")):
            costs[client]["import"]["wall"].append(import_seconds(statement))


def duration(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:,.1f} ms"


def rows(costs: Costs) -> list[Row]:
    def middle(client: str, name: str, measure: str = "cpu") -> float:
        return median(costs[client][name][measure])

    def against_floor(what: str, name: str, limit: float, parts: int = 1, measure: str = "cpu") -> Row:
        """A cost beside the floor's; `parts` of what the row is about are in one run."""
        mine, floor = (middle(client, name, measure) / parts for client in ("ours", "floor"))
        return Row(what, duration(mine), duration(floor), mine / floor, limit)

    def growth(what: str, small: str, large: str, parts: tuple[int, int], limit: float) -> Row:
        """How our own cost grows from a small run to a large one, each divided into its parts."""
        less, more = middle("ours", small) / parts[0], middle("ours", large) / parts[1]
        return Row(what, duration(more), duration(less), more / less, limit)

    memory = middle("ours", "agents", "growth_mb"), middle("floor", "agents", "growth_mb")
    imports = middle("ours", "import", "wall"), middle("openai", "import", "wall")
    return [
        against_floor("CPU per delta, burst", "text-2000", 1.5, 2000),
        against_floor("CPU per delta, one packet each", "text-500@1", 1.5, 500),
        against_floor("CPU per turn, 50 turns", "tools-50", 2.0, 50),
        growth("CPU per turn, 200 turns to 50", "tools-50", "tools-200", (50, 200), 2.0),
        against_floor("CPU of 100 kB of arguments", "bigargs-100k", 1.5),
        against_floor("CPU of 400 kB of arguments", "bigargs-400k", 1.5),
        growth("arguments doubled, 100 to 200 kB", "bigargs-100k", "bigargs-200k", (1, 1), 2.2),
        growth("arguments doubled, 200 to 400 kB", "bigargs-200k", "bigargs-400k", (1, 1), 2.2),
        against_floor("100 agents of 10 turns, wall time", "agents", 1.5, measure="wall"),
        Row(
            "100 agents, more memory at the peak",
            *(f"{mb:.1f} MB" for mb in memory),
            memory[0] - memory[1],
            25,
            " MB",
        ),
        Row(
            "from agent import Agent / import openai",
            *map(duration, imports),
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
    check_same_work(costs)
    found = rows(costs)
    print(table(found))
    missed = [row.what for row in found if not row.kept]
    print(f"{len(found) - len(missed)} promises kept, {len(missed)} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
