"""Measures other frameworks beside ours, in one run against the same mock server; prints a Markdown table.

The frameworks take turns at every scenario, each in its own process and environment (`make peers`
makes them: .venv-peers for Python, .node-peers for pi, which is left out where there is no npm). Medians over
three rounds. Nothing is promised: the table is for the README. A peer that can't run is left out with a word.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version

from clients import HERE, ROUNDS, Costs, mock_server, ours
from promises import duration

ROOT = HERE.parent
PYTHON = ROOT / ".venv-peers/bin/python"
NODE = ROOT / ".node-peers"
PI = "@earendil-works/pi-agent-core"
SCENARIOS = ("text-2000", "text-500@1", "tools-50", "bigargs-200k", "agents")
IMPORTS = 3  # per round

# Each imports all that the first request needs, and prints the seconds.
PYTHON_IMPORT = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
NODE_IMPORT = (
    "const t = performance.now(); await import('@earendil-works/pi-agent-core');"
    "await import('@earendil-works/pi-ai/api/openai-completions');"
    "console.log((performance.now() - t) / 1000)"
)
IMPORT_STATEMENTS = {
    "baseline": "import httpx, json",
    "ours": "from agent import Agent; import agent.providers.openai_completions",
    "openai-agents": "from agents import Agent, Runner, OpenAIChatCompletionsModel",
    "pydantic-ai": "from pydantic_ai import Agent; from pydantic_ai.models.openai import OpenAIChatModel",
}

COLUMNS: dict[str, Callable[[Costs, str], float]] = {
    "delta, burst": lambda costs, client: costs.middle(client, "text-2000") / 2000,
    "delta, a packet each": lambda costs, client: costs.middle(client, "text-500@1") / 500,
    "turn": lambda costs, client: costs.middle(client, "tools-50") / 50,
    "200 kB of arguments": lambda costs, client: costs.middle(client, "bigargs-200k"),
    "100 agents, 10 turns each (wall)": lambda costs, client: costs.middle(client, "agents", "wall"),
    "import for a first request (wall)": lambda costs, client: costs.middle(client, "import", "wall"),
}


def candidates() -> dict[str, list[str]]:
    """The command of each client, whether or not it can run."""
    node = [str(NODE / "node_modules/.bin/node"), str(NODE / "pi.mjs")]
    if NODE.exists():  # packages are looked for from where the file is
        shutil.copy(HERE / "peer_clients/pi.mjs", NODE)
    python = [str(PYTHON), str(HERE / "peer_clients/python_peers.py")]
    peers = {name: [*python, name] for name in ("openai-agents", "pydantic-ai")}
    return {**ours("baseline", "ours"), "pi": node, **peers}


def able(commands: Mapping[str, Sequence[str]], port: str) -> dict[str, Sequence[str]]:
    """The clients that can run a conversation; errors of the others go to standard error."""
    found = {}
    for client, command in commands.items():
        try:
            subprocess.run([*command, port, "tools-2"], capture_output=True, check=True, timeout=60)
            found[client] = command
        except (OSError, subprocess.SubprocessError) as error:
            output = getattr(error, "stderr", None) or b""
            print(f"left out {client}: {error}\n{output.decode()[-500:]}", file=sys.stderr)
    return found


def import_seconds(client: str) -> float:
    if client == "pi":
        call = [str(NODE / "node_modules/.bin/node"), "--input-type=module", "-e", NODE_IMPORT]
    else:
        python = str(PYTHON) if client in ("openai-agents", "pydantic-ai") else sys.executable
        call = [python, "-c", PYTHON_IMPORT.format(IMPORT_STATEMENTS[client])]
    ended = subprocess.run(
        call, stdout=subprocess.PIPE, text=True, check=True, cwd=NODE if client == "pi" else ROOT
    )
    return float(ended.stdout)


def named(client: str) -> str:
    """The client with its version, as the table shows it."""
    if client == "baseline":
        return f"a bare loop on httpx {version('httpx')}"
    if client == "ours":
        return f"**steady-agent** {version('steady-agent')}"
    if client == "pi":
        package = json.loads((NODE / "node_modules" / PI / "package.json").read_text())
        return f"pi (TypeScript) {package['version']}"
    package = {"pydantic-ai": "pydantic-ai-slim"}.get(client, client)
    code = f"from importlib.metadata import version; print(version({package!r}))"
    ended = subprocess.run([str(PYTHON), "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return f"{client} {ended.stdout.strip()}"


def table(costs: Costs, clients: Sequence[str]) -> str:
    lines = [f"| | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * len(COLUMNS)]
    for client in clients:
        cells = [duration(measure(costs, client)) for measure in COLUMNS.values()]
        lines.append(f"| {named(client)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def runtimes(clients: Sequence[str]) -> str:
    found = [f"Python {sys.version.split()[0]}"]
    if "pi" in clients:
        node = [str(NODE / "node_modules/.bin/node"), "--version"]
        found.append(
            "Node.js " + subprocess.run(node, stdout=subprocess.PIPE, text=True).stdout.strip(" v\n")
        )
    return ", ".join(found)


def main() -> int:
    costs = Costs()
    with mock_server() as port:
        clients = able(candidates(), port)
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
            costs.run(clients, port, SCENARIOS)
            for client in list(clients) * IMPORTS:
                costs.add(client, "import", {"wall": import_seconds(client)})
    names = list(clients)
    # pi emits one delta more per call, so only the texts' are compared.
    costs.check_same_work(names, ("text-2000", "text-500@1"))
    costs.check_same_work(names, SCENARIOS, counts=("calls",))
    print(table(costs, names))
    today = time.strftime("%Y-%m-%d")
    print(f"\nMeasured on {today} with {runtimes(names)}; CPU time unless stated otherwise.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
