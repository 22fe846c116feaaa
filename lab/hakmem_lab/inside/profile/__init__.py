"""Heap profiles: `take`n of a process or a command, `places` with names, written in the `forms` of other tools."""
