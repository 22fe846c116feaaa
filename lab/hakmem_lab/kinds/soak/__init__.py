"""`hak soak`: one process for the whole time."""
