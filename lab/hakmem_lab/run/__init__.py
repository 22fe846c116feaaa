"""Measuring: one run of one arm, blocks of runs, how a run stops and goes on."""
