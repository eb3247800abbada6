"""Kills the commands of this process when it dies without doing so itself (SIGKILL, a crash).

A `/bin/sh` reads the session ids of the running commands from a pipe whose other end only this process holds.
The pipe ends with this process, however it ends; then the shell kills these sessions and exits. It is no
child of this process (which may wait for any child) and has its own session, so that no signal of a terminal
reaches it. PR_SET_PDEATHSIG does not do: it reaches the shell of a command and not what that started, and it
fires when the thread ends that started the command.

A command is unwatched for the fraction of a millisecond between its start and the line that names it.

With /proc every process of the sessions is killed, in three passes, as new ones may be forked meanwhile;
without it (macOS) the process groups alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading

# Reads lines `+ ID` and `- ID`. A process name may hold line feeds, so the lines of a stat file are joined;
# the session is the fourth field after the name.
_SCRIPT = r"""
trap '' HUP INT QUIT TERM PIPE
exec 3<&0
{
    sessions=' '
    while read -r change id; do
        case $change in
            +) sessions="$sessions$id " ;;
            -) case $sessions in *" $id "*) sessions="${sessions%% $id *} ${sessions#* $id }" ;; esac ;;
        esac
    done
    pass=0
    while [ "$sessions" != ' ' ] && [ $pass -lt 3 ]; do
        for id in $sessions; do kill -9 "-$id"; done
        for stat in /proc/[0-9]*/stat; do
            text=
            while read -r line; do text="$text$line "; done < "$stat" || continue
            pid=${stat#/proc/}
            set -- ${text##*) }
            case $sessions in *" ${4:-none} "*) kill -9 "${pid%/stat}" ;; esac
        done
        pass=$((pass + 1))
    done
} <&3 3<&- >/dev/null 2>/dev/null &
echo $!
"""


class Watchdog:
    """Sends the ids of the running sessions to the watching shell of this process.

    Threads: any. `_lock` guards the shell and the set of sessions; it is reentrant, because a signal handler
    that ends a command may interrupt its holder.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sessions: set[int] = set()
        self._pipe = -1
        self._shell = 0  # process id

    def start(self) -> None:
        """Start the shell, unless it runs: before the first command, so that none lives unwatched."""
        with self._lock:
            if self._pipe < 0:
                self._restart()

    def add(self, session: int) -> None:
        """Kill this session if the process dies."""
        with self._lock:
            self._sessions.add(session)
            self._send("+", session)

    def remove(self, session: int) -> None:
        """Forget a session; called before its leader is reaped, after which the id may be reused."""
        with self._lock:
            self._sessions.discard(session)
            self._send("-", session)

    def forget(self) -> None:
        """Let go of the shell of the parent, in a forked child."""
        self._lock = threading.RLock()
        self._sessions = set()
        self._close()

    def _send(self, change: str, session: int) -> None:
        if self._pipe >= 0:
            try:
                os.write(self._pipe, f"{change} {session}\n".encode())
            except BlockingIOError:  # the pipe is full: the shell was stopped, and still has it open
                # Killed, because it would take the end of this pipe for the end of the process.
                with contextlib.suppress(OSError):
                    os.kill(self._shell, signal.SIGKILL)
                self._restart()
            except OSError:  # the shell was killed
                self._restart()

    def _restart(self) -> None:
        self._close()
        with contextlib.suppress(OSError):
            self._pipe, self._shell = _start_shell()
            for session in self._sessions:
                os.write(self._pipe, f"+ {session}\n".encode())

    def _close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def _start_shell() -> tuple[int, int]:
    """Start the watching shell; returns the write end of its pipe and its process id."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        started = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=reading,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
        # It exits at once: the part that reads runs in the background.
        output, _ = started.communicate()
        shell = int(output)
    except BaseException as error:
        os.close(writing)
        if isinstance(error, ValueError):
            raise OSError("/bin/sh started no watching shell") from None
        raise
    finally:
        os.close(reading)
    return writing, shell
