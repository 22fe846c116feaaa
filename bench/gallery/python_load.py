"""Loads of Python packages: python_load.py pydantic|numpy|pandas|polars."""

import sys


def pydantic() -> int:
    from pydantic import BaseModel

    class Place(BaseModel):
        x: int
        y: int

    class Record(BaseModel):
        id: int
        name: str
        tags: list[str]
        place: Place

    total = 0
    for turn in range(4):
        raw = [
            {"id": n, "name": f"n{n}", "tags": [str(n), str(turn)], "place": {"x": n, "y": turn}} for n in range(12_000)
        ]
        kept = [Record.model_validate(each) for each in raw]
        total += sum(len(each.model_dump_json()) for each in kept)
    return total


def numpy() -> float:
    import numpy as np

    made, total = np.random.default_rng(1), 0.0
    for size in (100, 1000, 10_000, 100_000) * 50:
        a = made.random(size)
        b = np.sqrt(a * 2 + 1)[::-1].copy()
        total += float((a @ b) / size)
    return round(total, 6)


def pandas() -> float:
    import pandas as pd

    frame = pd.read_csv("build/gallery/table.csv")
    total = 0.0
    for turn in range(2):
        part = frame[frame["count"] > turn * 10]
        total += float(part.groupby("word")["share"].mean().sum())
        total += float(part.sort_values("share").merge(part.head(500), on="word")["share_x"].mean())
    return round(total, 6)


def polars() -> float:
    import polars as pl

    frame = pl.read_csv("build/gallery/table.csv")
    total = 0.0
    for turn in range(4):
        part = frame.filter(pl.col("count") > turn * 5)
        total += part.group_by("word").agg(pl.col("share").mean())["share"].sum()
        total += part.sort("share").join(part.head(500), on="word")["share"].mean()
    return round(total, 6)


print(sys.argv[1], globals()[sys.argv[1]]())
