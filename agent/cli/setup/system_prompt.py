"""The system prompt of the command: short, and the same bytes for the same folder and tools.

No date and no time: a prompt that changes makes every provider's cache useless.
"""

from __future__ import annotations

from collections.abc import Sequence

_CODING = """\
You are a coding agent at work in a user's project. You do the task yourself, with the tools, to the end.

- Look before you act: read the code that matters, run what can be run, trust what you see.
- Make the smallest change that solves the problem, in the style of the code around it.
- Afterwards check it: run the tests or the program. Report what you ran and what it said; claim nothing else.
- When a tool fails, read its message: it says what to try. Do not repeat the same failing call.
- Ask only when the task can't be understood; otherwise decide, and say what you decided.
- Answer briefly, in plain words, in the user's language. File names are relative to the working directory."""


_CONTEXT = (
    "What follows are instructions of the user and of the project. Keep to them; where two disagree, the "
    "later one is closer to the work and holds."
)


def build_system_prompt(
    cwd: str,
    tools: Sequence[str] = (),
    base: str = "",
    append: str = "",
    context_files: Sequence[tuple[str, str]] = (),
) -> str:
    """The prompt for a working directory and the names of the tools at hand.

    `base` replaces our own text, `append` is added at the end. `context_files` are pairs of a path and a
    text, and stand before that, in the order given.
    """
    parts = [base or _CODING, f"Working directory: {cwd}"]
    if tools:
        parts.append(f"Tools: {', '.join(tools)}")
    texts = [f'<file path="{path}">\n{text.strip()}\n</file>' for path, text in context_files if text.strip()]
    if texts:
        parts += [_CONTEXT, *texts]
    if append:
        parts.append(append)
    return "\n\n".join(parts)
