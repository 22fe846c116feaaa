"""`hak tune`: the best of several allocators and their options, confirmed on fresh runs."""
