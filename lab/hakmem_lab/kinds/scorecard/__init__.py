"""`hak scorecard`: workloads, bars, milestones."""
