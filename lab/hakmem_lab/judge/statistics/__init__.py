"""Statistics of the laboratory: pure functions over numbers.

Duty: from per-block log-ratios to estimates, intervals and verdicts. No input or output, no clock, no global random
state: randomness comes in as a NumPy Generator. May import NumPy, SciPy and ruptures, and nothing of the
parent package. Import the modules, not this package: each loads only the libraries it needs.

All values are in the log domain, and positive means "treatment better". `paired.as_ratio` converts to a ratio minus
one for display.
"""
