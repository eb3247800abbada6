"""Paths, bytes and text of files: reading in windows, writing atomically, staying below a root."""
