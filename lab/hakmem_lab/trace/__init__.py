"""Programs recorded once and replayed: what they ask of an allocator, and what another one would make of it."""
