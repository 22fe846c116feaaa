"""Reads another process, or a core file, from outside: the contents of its heap, the owner of every resident page."""
