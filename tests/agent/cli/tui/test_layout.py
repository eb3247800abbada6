"""The parts around the input line, shown when there is something in them."""

from __future__ import annotations

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.layout.containers import ConditionalContainer, HSplit

from agent.cli.tui.frame import Frame
from agent.cli.tui.layout import build_layout


def _shown(frame: Frame) -> int:
    layout = build_layout(Buffer(), lambda: frame, lambda: 80, list)
    split = layout.container
    assert isinstance(split, HSplit)
    optional = [child for child in split.children if isinstance(child, ConditionalContainer)]
    return sum(bool(child.filter()) for child in optional if child is not split.children[-3])


def test_an_empty_frame_shows_only_the_line_and_the_footer() -> None:
    assert _shown(Frame()) == 0


def test_each_part_is_shown_when_it_is_there() -> None:
    live, status = [("", "answer")], [("", "answering")]
    assert _shown(Frame(live=live)) == 1
    assert _shown(Frame(live=live, status=status)) == 3  # with an empty line between
    assert _shown(Frame(queued=["steering: x"])) == 1
    assert _shown(Frame(question="y yes")) == 1
