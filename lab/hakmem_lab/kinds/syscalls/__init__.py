"""`hak syscalls`: system calls per operation."""
