"""hak heap metrics, a process's heap for monitoring: valid OpenMetrics, with the same figures as hak heap explain."""

import socket
import struct
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from hakmem_lab.cli import heap
from hakmem_lab.errors import LabError
from hakmem_lab.inside.memory import Gone


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(found, name, **labels):
    (sample,) = [each for each in found[name].samples if labels.items() <= each.labels.items()]
    return sample.value


def test_the_figures_are_those_of_explain(start, made, explain, here):
    program = start(made("known.c"))
    program.do("a")
    program.do("f")
    answer = here("metrics", program.pid)
    assert answer.status == 0
    found, reading = families(answer.out), explain(program.pid)
    rows = {row["owner"]: row["kib"] * 1024 for row in reading["rows"]}
    assert {each.labels["owner"]: each.value for each in found["hakmem_owner_resident_bytes"].samples} == rows
    assert value(found, "hakmem_rss_bytes") == program.rss_kib() * 1024 == sum(rows.values())
    outside = sum(rows[owner] for owner in ("stacks", "code", "files", "other anonymous memory"))
    assert value(found, "hakmem_resident_bytes") == sum(rows.values()) - outside
    blocks = sum(row["live_blocks"] for row in reading["classes"])
    counts = [each for each in found["hakmem_block_size_bytes"].samples if each.name.endswith("_gcount")]
    assert {each.labels["state"]: each.value for each in counts}["live"] == blocks
    mapped = value(found, "hakmem_mapped_bytes")
    assert mapped == sum(value(found, f"hakmem_{name}_bytes") for name in ("active", "dirty", "retained"))


def test_the_program_itself_says_the_same(start, made, here, hakmem):
    """The text of hak_stats_openmetrics, which a program calls itself, parses alike and has the same names."""
    import ctypes
    import subprocess
    import sys

    code = (
        "import ctypes\n"
        f"call = ctypes.CDLL({str(hakmem)!r}).hak_stats_openmetrics\n"
        "call.restype, call.argtypes = ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]\n"
        "text = ctypes.create_string_buffer(call(None, 0) + 4096)\n"
        "call(text, len(text))\n"
        "print(text.value.decode(), end='')\n"
    )
    assert ctypes.sizeof(ctypes.c_size_t) == 8
    done = subprocess.run(
        [sys.executable, "-c", code], env={"LD_PRELOAD": str(hakmem)}, capture_output=True, check=True
    )
    inside = families(done.stdout.decode())
    outside = families(here("metrics", start(made("known.c")).pid).out)
    words = {f"hakmem_{name}_bytes" for name in ("allocated", "active", "resident", "retained", "metadata", "mapped")}
    assert words <= set(inside)
    assert words <= set(outside)
    assert value(inside, "hakmem_active_bytes") >= value(inside, "hakmem_allocated_bytes") > 0

    def edges(found):
        return [each.labels["le"] for each in found["hakmem_block_size_bytes"].samples if "le" in each.labels]

    assert edges(inside) == edges(outside)


def test_a_scraper_is_answered_until_the_process_ends(start, made, begin):
    program = start(made("known.c"))
    server = begin("metrics", program.pid, "--listen", "127.0.0.1:0")
    address = server.stdout.readline().strip()
    for _ in range(2):
        with urllib.request.urlopen(address, timeout=600) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            assert value(families(answer.read().decode()), "hakmem_rss_bytes") == program.rss_kib() * 1024
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address.replace("/metrics", "/other"), timeout=600)
    program.process.kill()
    program.process.wait()
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(address, timeout=600)
    assert server.wait(600) == 2
    assert server.stderr.read().startswith(f"hak: process {program.pid} ")


def test_a_scraper_that_says_nothing_keeps_no_other_waiting(start, made, begin):
    program = start(made("known.c"))
    server = begin("metrics", program.pid, "--listen", "127.0.0.1:0")
    address = server.stdout.readline().strip()
    place = urllib.parse.urlsplit(address)
    with socket.create_connection((place.hostname, place.port)):  # and it stays
        with urllib.request.urlopen(address, timeout=600) as answer:
            assert answer.status == 200
        rude = socket.create_connection((place.hostname, place.port))
        rude.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        rude.close()  # without the answer
    with urllib.request.urlopen(address, timeout=600) as answer:
        assert answer.status == 200
    server.terminate()
    assert server.communicate()[1].splitlines() == ["hak: interrupted"]


def test_a_reading_that_fails_is_not_the_end(monkeypatch):
    """If the heap changes fast, a single reading may fail."""
    answers = iter([LabError("the heap contradicts itself"), "fine\n", Gone(2**22 + 1)])
    told = []

    def read():
        answer = next(answers)
        if isinstance(answer, str):
            return answer
        raise answer

    def ask():
        while not told:
            time.sleep(0.01)
        for _ in range(3):
            try:
                with urllib.request.urlopen(told[0], timeout=600) as answer:
                    told.append(answer.status)
            except urllib.error.HTTPError as error:
                told.append(error.code)

    monkeypatch.setattr("builtins.print", lambda text, **_: told.append(text))
    scraper = threading.Thread(target=ask)
    scraper.start()
    with pytest.raises(Gone, match="is not there"):
        heap._serve(("127.0.0.1", 0), read, "text/plain")
    scraper.join()
    assert told[1:] == [503, 200, 503]


@pytest.mark.parametrize("address", ["x", "1.2.3.4", "70000", ":", "256.1.1.1:80"])
def test_an_address_that_is_none(start, made, here, address):
    answer = here("metrics", start(made("known.c")).pid, "--listen", address)
    assert answer.status == 2
    assert "--listen" in answer.message()
