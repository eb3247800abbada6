"""How a run looks: in a terminal, as plain lines, as JSON lines."""
