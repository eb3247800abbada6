"""`python -m agent.local_model [FOLDER]`: fetches the parts of the local model."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.errors import ConfigurationError
from agent.local_model.parts import default_folder, fetch


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else default_folder()
    try:
        parts = fetch(folder.absolute())
    except (ConfigurationError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"the local model is ready in {parts.folder}: try `agent --model local/smollm2`")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
