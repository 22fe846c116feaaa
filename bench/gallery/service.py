"""A service as one writes it with FastAPI: a text comes in, its words are counted, a summary goes out."""

from collections import Counter

from fastapi import FastAPI, Request
from pydantic import BaseModel

app = FastAPI()


class Summary(BaseModel):
    words: int
    pieces: list[str]
    frequent: dict[str, int]


def summary(text: str) -> Summary:
    words = text.split()
    pieces = [" ".join(words[start : start + 500]).title() for start in range(0, len(words), 500)]
    return Summary(words=len(words), pieces=pieces, frequent=dict(Counter(words).most_common(20)))


@app.post("/summary")
async def answer(request: Request) -> Summary:
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(summary, (await request.body()).decode())
