"""`hak replay`: what another allocator would make of a recorded program."""
