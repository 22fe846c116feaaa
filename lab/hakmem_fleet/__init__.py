"""`hak fleet`: many hosts. The laboratory finds this package by its entry point, and imports nothing of it by name."""
