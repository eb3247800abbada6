"""`python -m agent` is the command `agent`."""

import sys

from agent.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
