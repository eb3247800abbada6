"""Running commands: sessions and their end, output, environment, sandbox."""
