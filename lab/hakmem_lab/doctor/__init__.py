"""Is a program served by the allocator, and if not, why not, and what to do? A command, or a process that runs.

`examine` reports; `program`, `live`, `surroundings` are groups of checks, one record (`checks`) a line; `binary` reads
what they rest on. `quiet` is `hak system`.
"""
