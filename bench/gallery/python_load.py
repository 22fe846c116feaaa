"""Loads of Python packages: python_load.py NAME [SIZE]. Each checks its own result, and marks the end of its load."""

import os
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


def polars(turns: int = 4) -> float:
    import polars as pl

    frame = pl.read_csv("build/gallery/table.csv")
    total = 0.0
    for turn in range(turns):
        part = frame.filter(pl.col("count") > turn % 4 * 5)
        total += part.group_by("word").agg(pl.col("share").mean())["share"].sum()
        total += part.sort("share").join(part.head(500), on="word")["share"].mean()
    return round(total, 6)


def duckdb(orders: int) -> int:
    """Tables and queries in the manner of TPC-H, whose own generator is an extension that no registry has."""
    import duckdb

    with duckdb.connect() as base:
        base.execute("set threads = 2")
        base.execute(f"""create table orders as select range o, range % {orders // 10} customer,
            'P' || range % 5 priority,
            range * 37 % 2000 as day from range({orders})""")
        base.execute(f"""create table item as select range % {orders} o, range % 2000 part, 1 + range % 50 quantity,
            (range * 7919 % 100000) / 100.0 price, 'F' || range % 3 flag, 'comment ' || hash(range) said
            from range({4 * orders})""")
        for _ in range(3):
            flags = base.execute("""select flag, count(*), sum(price * quantity), avg(price), max(said) from item
                group by flag""").fetchall()
            assert sum(row[1] for row in flags) == 4 * orders
            large = base.execute("""select customer, o, sum(quantity * price) s from orders join item using (o)
                where priority < 'P4' group by all order by s desc limit 100""").fetchall()
            assert len(large) == 100 and large[0][2] >= large[-1][2]
            words = base.execute(
                "select said, count(*) n from item group by said order by n desc, said limit 5"
            ).fetchall()
            assert len(words) == 5
    return len(flags)


def lance(turns: int, place: str) -> int:
    """Queries by DataFusion, in Lance. That wheel leaves malloc to the system; DataFusion's own brings mimalloc."""
    import lance as package
    from pyarrow import csv

    data = package.write_dataset(csv.read_csv("build/gallery/table.csv"), f"{place}/lance")

    def ask(query: str) -> list:
        return [row for batch in data.sql(query).build().to_batch_records() for row in batch.to_pylist()]

    for _ in range(turns):
        sums = ask("""select a.word, count(*) n, sum(a.share + b.share) s from dataset a
            join (select word, max(share) share from dataset group by word) b on a.word = b.word
            group by a.word order by s""")
        assert sum(row["n"] for row in sums) == 400_000 and len(sums) == 48
        ordered = ask("""select word, share from (select word, share,
            row_number() over (partition by word order by share) p from dataset) where p <= 1000""")
        assert len(ordered) == 48_000
    return len(sums)


def arrow(turns: int) -> int:
    """Builders, which grow their buffers by realloc."""
    import pyarrow as pa

    pool, total = pa.default_memory_pool(), 0
    assert pool.backend_name == "system"
    for turn in range(turns):
        words = pa.array((f"name {n % 977} {turn}" for n in range(120_000)), pa.string())
        lists = pa.array(([n, n + 1, n + 2] for n in range(40_000)), pa.list_(pa.int64()))
        table = pa.table({"word": words, "n": pa.array(range(120_000), pa.float64())})
        total += table.group_by("word").aggregate([("n", "sum")]).num_rows + lists.flatten()[2].as_py()
        assert len(lists.flatten()) == 120_000
    assert total == turns * 979
    return total


def dask(turns: int) -> int:
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster) as client:
        for turn in range(turns):
            parts = client.map(rows, range(turn * 8, turn * 8 + 8), pure=False)
            counts = client.map(len, client.map(joined, parts, pure=False), pure=False)
            assert sum(client.gather(counts)) == 8 * 20_000
            del parts, counts
        mark()
    return turns


def rows(seed: int) -> list:
    return [{"id": n * seed, "name": f"n{n}", "tags": [str(n), str(seed)]} for n in range(20_000)]


def joined(records: list) -> list:
    return sorted(f"{each['name']}-{'-'.join(each['tags'])}" for each in records)


def tokenizers(texts: int) -> int:
    """A tokenizer of invented words, trained here; then batches of texts, encoded on two threads."""
    import random

    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    pick = random.Random(9)
    words = ["".join(pick.choices("abcdefghijklmnoprstuvw", k=pick.randrange(2, 12))) for _ in range(6000)]
    lines = [" ".join(pick.choices(words, k=40)) for _ in range(2000)]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    made.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=4000, show_progress=False))
    total = 0
    for start in range(0, texts, 100):
        batch = [" ".join(lines[(start + n) * 7 % 1900 :][:20]) for n in range(100)]
        total += sum(len(each.ids) for each in made.encode_batch(batch))
    assert total > texts * 800
    return total


def jp2(images: int) -> int:
    """JPEG 2000, decoded by OpenJPEG in a pool of four threads, as an image server does."""
    import io
    from concurrent.futures import ThreadPoolExecutor

    from PIL import Image

    with Image.open("build/gallery/picture.ppm") as picture:
        picture.save(packed := io.BytesIO(), "JPEG2000", irreversible=True, quality_mode="rates", quality_layers=[20])

    def once(turn: int) -> int:
        with Image.open(io.BytesIO(packed.getvalue())) as image:
            image.resize((300 + turn % 7, 300)).save(out := io.BytesIO(), "JPEG")
        return out.tell()

    with ThreadPoolExecutor(4) as pool:
        sizes = list(pool.map(once, range(images)))
    assert len(sizes) == images and min(sizes) > 1000
    return len(set(sizes))


def pyperformance(turns: int) -> int:
    """Some programs of pyperformance that need no other packages, without their measuring."""
    import importlib
    from pathlib import Path

    import pyperformance as package

    folder = Path(package.__file__).parent / "data-files" / "benchmarks"
    for name in ("deltablue", "raytrace", "pyflate", "richards"):
        sys.path.insert(0, str(folder / f"bm_{name}"))
        sys.modules.pop("run_benchmark", None)
        module = importlib.import_module("run_benchmark")
        for _ in range(turns):
            if name == "deltablue":
                module.delta_blue(3000)
            elif name == "raytrace":
                module.bench_raytrace(1, 60, 60, None)
            elif name == "richards":
                assert module.Richards().run(1)
            else:
                module.bench_pyflake(1, str(folder / "bm_pyflate" / "data" / "interpreter.tar.bz2"))
        sys.path.pop(0)
    return turns


def mark() -> None:
    """The load has ended: a measurement of the memory after it begins now (hak mark). Only the first call counts."""
    if path := os.environ.pop("HAK_MARK", None):
        with open(path, "w", encoding="ascii") as file:
            file.write("\n")
        with open(path + ".done", encoding="ascii") as done:
            done.readline()


if __name__ == "__main__":
    print(sys.argv[1], globals()[sys.argv[1]](*(int(word) if word.isdigit() else word for word in sys.argv[2:])))
    mark()
