"""Both ways of reading a pipe: by polling and through a thread."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator

import pytest
from support.running import becomes_true

from agent_tools.process.pipes import READ_SIZE, Pipe, PolledPipe, ThreadedPipe, open_pipe


@pytest.fixture(params=[PolledPipe, ThreadedPipe])
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[Pipe, io.FileIO]]:
    """A pipe and its write end; both are closed in the end."""
    reading, writing = os.pipe()
    pipe, end = request.param(io.FileIO(reading, "rb")), io.FileIO(writing, "wb")
    yield pipe, end
    end.close()
    pipe.close()


def test_what_is_written_is_read(opened: tuple[Pipe, io.FileIO]) -> None:
    pipe, end = opened
    end.write(b"one")
    assert pipe.read(5) == b"one"
    end.write(b"two")
    assert pipe.read(5) == b"two"


@pytest.mark.parametrize("seconds", [-1, 0, 0.05])
def test_nothing_within_the_time_is_none(opened: tuple[Pipe, io.FileIO], seconds: float) -> None:
    before = time.monotonic()
    assert opened[0].read(seconds) is None
    assert time.monotonic() - before < 2


def test_the_end_is_an_empty_piece_after_all_that_was_written(opened: tuple[Pipe, io.FileIO]) -> None:
    pipe, end = opened
    end.write(b"last")
    end.close()
    assert pipe.read(5) == b"last"
    assert pipe.read(5) == b""


def test_a_pipe_is_read_in_pieces_of_bounded_size(opened: tuple[Pipe, io.FileIO]) -> None:
    pipe, end = opened
    end.write(b"x" * 60_000)
    received = b""
    while piece := pipe.read(0.2):
        assert len(piece) <= READ_SIZE
        received += piece
    assert received == b"x" * 60_000


def test_a_closed_pipe_does_not_wait_for_its_writer(opened: tuple[Pipe, io.FileIO]) -> None:
    pipe, end = opened
    pipe.close()

    def write_fails() -> bool:
        try:
            end.write(b"x")
        except BrokenPipeError:
            return True
        return False

    assert becomes_true(write_fails)


def test_this_system_polls_where_it_can() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    pipe = open_pipe(io.FileIO(reading, "rb"))
    assert isinstance(pipe, PolledPipe)
    pipe.close()
