"""Runs clients against the mock server, in turns, each in its own process, and collects their costs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
ROUNDS = 3


@contextmanager
def mock_server() -> Iterator[str]:
    """The port of a mock server that lives as long as the block."""
    command = [sys.executable, str(HERE / "mock_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def ours(*clients: str) -> dict[str, list[str]]:
    """The commands of those clients of measure.py."""
    return {client: [sys.executable, str(HERE / "measure.py"), client] for client in clients}


class Costs:
    """What clients cost, by client, scenario and measure ("cpu", "wall", "growth_mb"); one value per run."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def add(self, client: str, scenario: str, measured: Mapping[str, float]) -> None:
        for measure, value in measured.items():
            self._values[client, scenario, measure].append(value)

    def values(self, client: str, scenario: str, measure: str = "cpu") -> list[float]:
        return self._values[client, scenario, measure]

    def middle(self, client: str, scenario: str, measure: str = "cpu") -> float:
        """The median over all runs."""
        return median(self._values[client, scenario, measure])

    def run(self, clients: Mapping[str, Sequence[str]], port: str, scenarios: Sequence[str]) -> None:
        """One round: every scenario by each client in turn, so that a busy moment hits all."""
        for scenario in scenarios:
            for client, command in clients.items():
                call = [*command, port, scenario]
                ended = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True)
                for line in ended.stdout.splitlines():
                    self.add(client, scenario, json.loads(line))

    def check_same_work(
        self, clients: Sequence[str], scenarios: Sequence[str], counts: Sequence[str] = ("deltas", "calls")
    ) -> None:
        """All clients saw every delta and ran every call, or there is nothing to compare."""
        for scenario in scenarios:
            for count in counts:
                done = {value for client in clients for value in self.values(client, scenario, count)}
                if len(done) > 1:
                    sys.exit(f"{scenario}: the clients differ in {count}: {sorted(done)}")
