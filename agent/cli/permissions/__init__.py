"""What the agent may do: rules, the files that hold them, the gate, and the question at the terminal."""
