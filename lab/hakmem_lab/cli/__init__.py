"""The command `hak`. Parsing and rendering only."""
