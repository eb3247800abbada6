"""What was measured, what it is held against and what is promised: the table every benchmark ends with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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


def duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:,.1f} us"
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def report(rows: Sequence[Row]) -> int:
    """Print the rows; the exit status: 1 when a promise is missed."""
    width = max(len(row.what) for row in rows) + 2
    print(f"{'':{width}} {'ours':>12} {'against':>12} {'value':>10} {'at most':>10}")
    for row in rows:
        value, limit = (f"{number:.2f}{row.unit}" for number in (row.value, row.limit))
        missed = "" if row.kept else "  MISSED"
        print(f"{row.what:{width}} {row.measured:>12} {row.against:>12} {value:>10} {limit:>10}{missed}")
    missed_rows = sum(not row.kept for row in rows)
    print(f"{len(rows) - missed_rows} promises kept, {missed_rows} missed")
    return 1 if missed_rows else 0
