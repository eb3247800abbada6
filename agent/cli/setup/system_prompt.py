"""The system prompt of the command: short, and byte-identical for the same folder and tools.

It holds no date or time: a prompt that changes invalidates every provider's cache.
"""

from __future__ import annotations

from collections.abc import Sequence

_CODING = """\
You are a coding agent working in a user's project. Complete the task yourself, using the tools.

- Look before you act: read the relevant code, run what can be run, and rely on what you see.
- Make the smallest change that solves the problem, in the style of the surrounding code.
- Then check it: run the tests or the program. Report what you ran and its result; claim nothing else.
- When a tool fails, read its message: it says what to try. Do not repeat the same failing call.
- Ask only if the task cannot be understood; otherwise decide, and say what you decided.
- Answer briefly and plainly, in the user's language. File names are relative to the working directory."""


_CONTEXT = (
    "The following files hold instructions of the user and of the project. Follow them; where two disagree, "
    "the later one takes precedence."
)


def build_system_prompt(
    cwd: str,
    tools: Sequence[str] = (),
    base: str = "",
    append: str = "",
    context_files: Sequence[tuple[str, str]] = (),
) -> str:
    """The prompt for a working directory and the names of the available tools.

    `base` replaces the built-in text and `append` is added at the end. `context_files` are pairs of a path
    and a text; they come before `append`, in the given order.
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
