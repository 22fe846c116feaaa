"""The stored runs: one file a run, its blocks, all runs as tables, and earlier runs of the same question."""
