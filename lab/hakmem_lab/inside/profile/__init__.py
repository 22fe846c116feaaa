"""Heap profiles: `take` records them, `places` finds the names of functions, `forms` writes other tools' formats."""
