"""A made-up result with all keys that the store guarantees, and a text with characters of every markup."""

NASTY = 'a|b `c` <b>d</b> "e" \\ %0A *f* @g [h](i)'


def row(verdict=None, **keys):
    return {"name": "t against c", "metric": "wall", "control": "c", "treatment": "t", "estimate": 0.0211,
            "ci_low": 0.0144, "ci_high": None, "level": 0.95, "verdict": verdict} | keys  # fmt: skip


def made(verdict="GO", **keys):
    """A result with all keys that the store guarantees."""
    arm = {"name": "c", "n": 12, "median": 0.1, "wall_s": 0.1, "cpu_s": None, "rss_peak_kib": 2048.0,
           "rss_mean_kib": 1024.0, "minor_faults": 100.0, "major_faults": 0.0}  # fmt: skip
    return {
        "kind": "ab", "id": "20260101-000000-ab-0000", "question": "", "verdict": verdict,
        "final": True, "metric": {"name": "wall", "unit": "s", "higher_is_better": False}, "margin": 0.01,
        "alpha": 0.05, "blocks": 12, "arms": [arm, arm | {"name": "t"}],
        "comparisons": [row(verdict)], "guardrails": [], "failures": [], "warnings": [],
    } | keys  # fmt: skip
