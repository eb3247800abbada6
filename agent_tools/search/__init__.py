"""Walking folders and finding lines in files."""
