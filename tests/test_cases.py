"""The table of known faults (tests/cases.md) is complete, and every test it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The table may grow, and may lose none of these.
KNOWN = """
    E01 E02 E03 E05 E06 E08 E09 E10 E11 E12 E13 E15 E16 E18 E19 E20 E21 E23 E24 E25 E27 W01 W03 W04 W05
    W07 W08 R01 R02 R03 R05 R06 R08 R09 R11 R12 R13 R14 R15 R16 R17 R18 I01 I02 I03 I04 I06 I07 I09 I10
    B01 B03 B04 B05 B06 B07 B08 B09 B10 B11 B13 B14 B15 B16 B17 B19 B21 B22 B23 B25 G01 G02 G04 G05 G06
    G07 G08 G09 G10 G11 G13 G15 G17 G18 G19 F01 F02 F03 F05 F06 F08 F09 J01 J02 J03 J04 J06 J07 J09 J10
    P01 P03 P04 P05 P06 P08 P09 P10 P11 P12 P13 P14 P15 P17 P18 P19 P21 P22 P23 P24 P25 Y01 Y03 Y04 Y05
    Y06 Y07 Y09 Y10 Y11 Y12 Y13 Y14 Y16 Y17 T01 T03 T04 T05 T06 L01 L03 L05 L06 L08 L09 L10 L11 L12 L13
    L14 L15 L17 L18 L19 L20 L22 S01 S03 S04 S05 S07 S08 S09 S10 S12 S13 S14 U01 U02 U03 U05 U06 U08 U09
    U10 U11 N01 N03
    Z01 Z02 Z03 Z06 Z07 Z08 Z09 Z12 Z14 Z15 Z16 Z18 Z20 Z21 Z23 Z24 Z26
    FR-1 FR-2 FR-3 FR-4 FR-5 FR-6 FR-7 FR-8 FR-9 FR-10 FR-11 FR-12 FR-13 FR-14 FR-15 FR-16 FR-17 FR-18 FR-19
    FR-20 FR-21 FR-22 FR-23 FR-24 FR-25 FR-26 FR-27 FR-28 FR-29 FR-30 FR-31
    FS-W1 FS-W2 FS-W3 FS-W4 FS-W5 FS-W6 FS-W7 FS-M1 FS-M2 FS-M3 FS-M4 FS-M5 FS-M6 FS-M7 FS-M8
    FT-S1 FT-S2 FT-S3 FT-S4 FT-S5 FT-S6 FT-S7 FT-S8 FT-S9 FT-S10 FT-M1 FT-M2 FT-M3 FT-M4 FT-M5 FT-M6 FT-M7
    FT-M8 FT-M9 FT-M10 FT-M11 FT-M12 FT-M13 FT-M14 FT-M15 FT-M16
""".split()

_ROW = re.compile(r"^\| *([A-Z]\d\d|F[RST]-[A-Z]?\d+) *\|(?:[^|]*\|)? *([^|]*?) *\|$", re.MULTILINE)
_TEST = re.compile(r"(tests/[\w/]+\.py)::(?:\w+::)?(\w+)")
ROWS = _ROW.findall((ROOT / "tests" / "cases.md").read_text(encoding="utf-8"))


def test_no_known_fault_is_forgotten() -> None:
    assert sorted(set(KNOWN) - {fault for fault, _ in ROWS}) == []


def test_no_fault_has_two_rows() -> None:
    ids = [fault for fault, _ in ROWS]
    assert sorted({fault for fault in ids if ids.count(fault) > 1}) == []


@pytest.mark.parametrize(("fault", "answer"), ROWS, ids=[fault for fault, _ in ROWS])
def test_the_row_names_a_test_that_exists_or_a_reason(fault: str, answer: str) -> None:
    named = _TEST.findall(answer)
    if not named:
        assert re.match(r"not (applicable|built yet)", answer), (
            f"{fault}: neither a test nor a reason: {answer!r}"
        )
    for path, name in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*def {name}\b", source, re.MULTILINE), f"{path} has no {name}"
