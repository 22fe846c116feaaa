"""What the figures say: statistics, parts of a result, guardrails, the fitness of a machine, effects in words."""
