"""Holds every wire format against openai-completions: what an `Agent` spends per delta and per turn.

Exits 1 when a format costs more than the promise. In each round the formats take turns at every scenario.
"""

from __future__ import annotations

import sys

from clients import ROUNDS, Costs, mock_server, ours
from promises import Row, duration, report

BASE = "openai-completions"
OTHERS = ("openai-responses", "anthropic-messages", "google-generative-ai")
LIMIT = 1.2
# What is measured, and how many of that are in one run of the script.
SCENARIOS = {
    "text-2000": ("delta, burst", 2000),
    "text-500@1": ("delta, one packet each", 500),
    "tools-50": ("turn, 50 turns", 50),
}


def rows(costs: Costs) -> list[Row]:
    found = []
    for scenario, (what, parts) in SCENARIOS.items():
        base = costs.middle(BASE, scenario) / parts
        for format in OTHERS:
            mine = costs.middle(format, scenario) / parts
            found.append(Row(f"{format}, {what}", duration(mine), duration(base), mine / base, LIMIT))
    return found


def main() -> int:
    costs = Costs()
    with mock_server() as port:
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
            costs.run(ours(BASE, *OTHERS), port, list(SCENARIOS))
    # Gemini sends the arguments of a call whole, which the other formats send in deltas.
    costs.check_same_work((BASE, *OTHERS), ("text-2000", "text-500@1"))
    costs.check_same_work((BASE, *OTHERS), ("tools-50",), counts=("calls",))
    return report(rows(costs))


if __name__ == "__main__":
    sys.exit(main())
