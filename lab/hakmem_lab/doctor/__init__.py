"""Is a program served by the allocator, and if not, why not, and what to do? A command, or a process that runs.

`command` and `process` examine and report; `program`, `live`, `limits`, `system` are groups of checks, one record
(`checks`) a line; `binary`, `libraries`, `bindings`, `files` read what they rest on.
"""
