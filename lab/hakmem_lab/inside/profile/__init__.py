"""Heap profiles: read from a process or from what the library wrote, given names, written for other tools."""
