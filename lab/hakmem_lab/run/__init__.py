"""Measures: one run of one arm, blocks of runs, how a run stops and continues."""
