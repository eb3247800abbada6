"""Measures the promises of benchmarks/README.md and prints a table; exits 1 when one is missed.

Three rounds; in each the clients take turns at every scenario, so that a busy moment hits both.
Medians over all.
"""

from __future__ import annotations

import subprocess
import sys

from clients import ROUNDS, Costs, mock_server, ours
from promises import Row, duration, report

IMPORTS = 5  # per round
CLIENTS = ("baseline", "ours")
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


def import_seconds(statement: str) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return float(ended.stdout)


def run_imports(costs: Costs) -> None:
    for _ in range(IMPORTS):
        for client, statement in (("openai", "import openai"), ("ours", "from agent import Agent")):
            costs.add(client, "import", {"wall": import_seconds(statement)})


def rows(costs: Costs) -> list[Row]:
    def against_floor(what: str, name: str, limit: float, parts: int = 1, measure: str = "cpu") -> Row:
        """A cost beside the baseline's; `parts` of what the row is about are in one run."""
        mine, baseline = (costs.middle(client, name, measure) / parts for client in ("ours", "baseline"))
        return Row(what, duration(mine), duration(baseline), mine / baseline, limit)

    def growth(what: str, small: str, large: str, parts: tuple[int, int], limit: float) -> Row:
        """How our own cost grows from a small run to a large one, each divided into its parts."""
        less, more = costs.middle("ours", small) / parts[0], costs.middle("ours", large) / parts[1]
        return Row(what, duration(more), duration(less), more / less, limit)

    memory = [costs.middle(client, "agents", "growth_mb") for client in ("ours", "baseline")]
    imports = [costs.middle(client, "import", "wall") for client in ("ours", "openai")]
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


def main() -> int:
    costs = Costs()
    with mock_server() as port:
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
            costs.run(ours(*CLIENTS), port, SCENARIOS)
            run_imports(costs)
    costs.check_same_work(CLIENTS, SCENARIOS)
    return report(rows(costs))


if __name__ == "__main__":
    sys.exit(main())
