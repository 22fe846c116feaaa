"""What is kept: one file a run, the blocks in it, all runs as tables, earlier runs of the same question."""
