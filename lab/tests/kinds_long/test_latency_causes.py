"""The causes of the slowest requests, from the `slow` lines that a program prints."""

import pytest

from hakmem_lab.kinds.latency import result as causes

FAULTED, WAITED, LOST = "4 0 0", "3 1 0", "9 2 1"


class Arm:
    """An arm with 10,000 requests; those above 900 µs are beyond p99."""

    def interval(self, name: str) -> tuple[float, float, float]:
        return {"p99": 900.0, "p99.9": 5000.0, "p99.99": 9000.0}[name], 0.0, 0.0

    def beyond(self, name: str) -> float:
        return {"p99": 100.0, "p99.9": 10.0, "p99.99": 1.0}[name]


def printed(*kinds: tuple[int, int, str], pages: str = "") -> dict:
    """The `slow` lines of one run, read back; kinds: (number of lines, response in µs, counts)."""
    lines = [f"slow {us * 1000} {counts}" for count, us, counts in kinds for _ in range(count)]
    return causes.read_slow("\n".join([*lines, pages, "response 1 1"]))


def test_every_request_has_one_cause_and_percentiles_their_own_shares():
    run = printed((50, 1000, FAULTED), (30, 1000, "0 0 0"), (10, 1000, WAITED), (10, 6000, LOST), (40, 800, FAULTED))
    first, second = causes.cause_rows({"a": Arm()}, {"a": [run]})
    assert (first["percentile"], first["requests"]) == ("p99", 100)
    assert first["causes"] == {"page faults": 0.5, "lock waits": 0.1, "other programs": 0.1, "own work": 0.3}
    assert (second["percentile"], second["text"]) == ("p99.9", "100 % other programs")


@pytest.mark.parametrize(
    ("pages", "text"),
    [("pages 1000 100", "100 % page faults after a purge"), ("pages 1000 900", "100 % page faults on new memory"),
     ("", "100 % page faults"), ("pages 1000 -50", "100 % page faults after a purge")],
)  # fmt: skip
def test_where_faulted_pages_came_from(pages, text):
    assert causes.cause_rows({"a": Arm()}, {"a": [printed((100, 1000, FAULTED), pages=pages)]})[0]["text"] == text


def test_a_percentile_of_which_not_all_is_known_is_left_out():
    """p99 has causes for only 79 of its 100 requests, and the highest percentile has too few requests in all."""
    assert causes.cause_rows({"a": Arm()}, {"a": [printed((79, 1000, FAULTED))]}) == []
    assert causes.read_slow("response 1 1") == {}


def test_it_stands_in_the_result_and_below_it(here, tmp_path):
    path = tmp_path / "serve.sh"
    slow = "\n".join(f"slow {50000 + i} 5 0 0" for i in range(150))
    path.write_text(f"#!/bin/sh\necho 'response 1000 9850\nresponse 50000 150\n{slow}\npages 500 10'\n")
    path.chmod(0o755)
    spec = tmp_path / "l.toml"
    spec.write_text(f'kind = "latency"\ncommand = "{path}"\nallocators = ["glibc", "default"]\nmax-blocks = 6\n')
    assert here("latency", spec, "--quiet", "--json", "-").result()["latency"]["causes"][0]["requests"] == 1800
    assert "100 % page faults after a purge" in here("show").out
    page = tmp_path / "page.html"
    here("report", "last", "-o", page)
    assert "What the slowest requests did" in page.read_text()
