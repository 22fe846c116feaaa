"""`hak suite`: workloads, bars, milestones."""
