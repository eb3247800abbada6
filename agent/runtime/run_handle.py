"""The handle on one run."""

from __future__ import annotations

from agent.cancel import Latch
from agent.runs import RunMetadata, RunResult, is_inside


class Run:
    """A handle on one run, returned by `prompt()` and `resume()`.

    Threads: made by the caller, settled once by the worker; every method may be called from any thread. It
    does not keep the agent alive.
    """

    __slots__ = ("_agent_key", "_finished", "_metadata", "_result")

    def __init__(self, metadata: RunMetadata, agent_key: object) -> None:
        self._metadata = metadata
        self._agent_key = agent_key
        self._finished = Latch()
        self._result: RunResult | None = None

    @property
    def run_id(self) -> str:
        """The id that the run's events carry."""
        return self._metadata.run_id

    @property
    def metadata(self) -> RunMetadata:
        """The run's ids."""
        return self._metadata

    @property
    def done(self) -> bool:
        """True once the run has ended and its last subscriber has returned."""
        return self._finished.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most `timeout` seconds; True when it has ended.

        Raises RuntimeError inside a run of the same agent.
        """
        refuse_inside(self._agent_key, "Run.wait()")
        return self._finished.wait(timeout)

    def result(self, timeout: float | None = None) -> RunResult:
        """The result of the run; waits for its end.

        Raises TimeoutError; a failed run is a result with `stop="error"`.
        """
        if not self._finished.is_set() and not self.wait(timeout):
            raise TimeoutError(f"the run did not end within {timeout} seconds")
        assert self._result is not None
        return self._result

    def settle(self, result: RunResult) -> None:
        """Set the result. Called by the worker, once."""
        self._result = result
        self._finished.set()

    def __repr__(self) -> str:
        return f"<Run {self.run_id} {'done' if self.done else 'running'}>"


def refuse_inside(agent_key: object, call: str) -> None:
    """Raise RuntimeError when `call` is made inside a run of that agent, where waiting would never end."""
    if is_inside(agent_key):
        raise RuntimeError(
            f"{call} was called from a tool, hook or subscriber of a run of the same agent: "
            "it would wait for itself"
        )
