"""From options, files and environment to an agent that is ready to run."""
