"""`python -m agent.local_model [FOLDER]`: fetches the parts of the local model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agent.errors import ConfigurationError
from agent.local_model.parts import default_folder, fetch


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m agent.local_model",
        description="Fetch a small model and an engine for it, 125 MB, and try them without a key.",
    )
    parser.add_argument("folder", nargs="?", type=Path, default=default_folder(), help="default: %(default)s")
    try:
        parts = fetch(parser.parse_args(arguments).folder.absolute())
    except (ConfigurationError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"the local model is ready in {parts.folder}; try it:")
    print('  agent --model local/smollm2 --tools none "What is the capital of France?"')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
