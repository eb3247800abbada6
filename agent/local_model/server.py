"""The child process: serves the weights with the engine's HTTP server. A script, never imported.

`server.py ENGINE_FOLDER WEIGHTS TEMPLATE`, with a pipe from the parent as standard input. This process ends
when the pipe does, because the parent closed it or died. The line `listening on URL` reports that the server
listens.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(engine: str, weights: str, template: str) -> None:
    sys.path.insert(0, engine)
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.model_alias = {Path(weights).stem}
    params.chat_template = Path(template).read_text(encoding="utf-8")
    params.use_jinja = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # the system chooses a free port
    params.ui = False
    # The context is shared by the slots: two conversations of 4096 tokens each.
    params.n_ctx, params.n_parallel = 8192, 2
    # With a model this small, more threads mostly wait for each other (slower and erratic on two cores).
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    sys.stdin.buffer.read()
    # The threads of the engine do not end by themselves, and nothing needs to be cleaned up.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
