"""hak record PID: a server under load continues without errors on every allocator; impossible requests are refused."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hakmem_lab.errors import LabError

FOLDER = Path(__file__).parent
TIMES, LONG_TIMES = 3, 100
ARMS = ("glibc", "hakmem", "mimalloc", "mimalloc3", "jemalloc", "jemalloc5", "tcmalloc", "snmalloc")
PYTHON = """
import json, os, signal, threading, zlib
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
def work():
    while not over.is_set():
        data = {str(i): list(range(i)) for i in range(60)}
        assert json.loads(zlib.decompress(zlib.compress(json.dumps(data).encode()))) == data
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
print("going", flush=True)
[thread.join() for thread in threads]
print("answered, 0 errors")
"""
NODE = """
const zlib = require('zlib'), http = require('http');
let errors = 0, over = false;
process.on('SIGTERM', () => { over = true; });
const server = http.createServer((asked, answer) => zlib.gzip('x'.repeat(20000), (_, packed) => answer.end(packed)));
server.listen(0, () => {
  const next = () => {
    if (over) { console.log('answered,', errors, 'errors'); process.exit(errors ? 1 : 0); }
    http.get({port: server.address().port}, answer => {
      const parts = [];
      answer.on('data', part => parts.push(part));
      answer.on('end', () => { if (zlib.gunzipSync(Buffer.concat(parts)).length != 20000) errors++; next(); });
    }).on('error', () => { errors++; next(); });
  };
  for (let i = 0; i < 4; i++) next();
  console.log('going');
});
"""
LONG_NODE = pytest.param("node", "-e", NODE, marks=pytest.mark.long)


@pytest.fixture(scope="session")
def program(common, compile_once) -> Path:
    return compile_once(common("plain") / "serving", ["g++", "-w", "-O1", "-pthread", FOLDER / "serving.cc", "-ldl"])


@contextlib.contextmanager
def running(*words: object, **keywords) -> Iterator[subprocess.Popen]:
    """Starts a program and waits until it prints "going"; kills it at the end."""
    with subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, text=True, **keywords) as process:
        try:
            assert process.stdout.readline() == "going\n"
            yield process
        finally:
            process.kill()


def record(pid: int, path: Path, times: int) -> None:
    """Records the process `times` times, and checks each recording."""
    from hakmem_lab.trace import attach

    for i in range(times):
        tries = (attach.process(pid, path, seconds, (0, 4096, 1)[i % 3]) for seconds in (0.1, 1, 10))  # stacks, too
        found = next(each for each in tries if each.operations > 100)  # beside others it may hardly run at first
        assert found.complete, found.headline()
        assert found.end["lost_frees"] <= found.operations / 1000
        assert found.end["frees"] > found.end["unknown_frees"]


def ends_well(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=600)
    assert (said, process.returncode) == ("answered, 0 errors\n", 0)


def preloaded(name: str) -> dict[str, str]:
    """The environment for a program on this allocator; skips the test if the allocator is not installed."""
    from hakmem_lab.plan.arms import parse_arm

    try:
        arm = parse_arm(name, where="test")
    except LabError as error:
        pytest.skip(str(error))
    path = arm.library.path
    return os.environ | ({"LD_PRELOAD": str(path)} if path else {})


@pytest.mark.parametrize("arm", [arm if arm == "hakmem" else pytest.param(arm, marks=pytest.mark.long) for arm in ARMS])
def test_a_server_is_recorded_under_load(program, path, arm):
    with running(program, env=preloaded(arm)) as server:
        record(server.pid, path, TIMES)
        ends_well(server)


@pytest.mark.long
@pytest.mark.parametrize("arm", ARMS)
def test_a_server_is_recorded_again_and_again(program, path, arm):
    with running(program, env=preloaded(arm)) as server:
        record(server.pid, path, LONG_TIMES)
        ends_well(server)


@pytest.mark.parametrize(("interpreter", "flag", "text"), [("python3", "-c", PYTHON), LONG_NODE])
def test_an_interpreter_is_recorded_while_it_works(path, interpreter, flag, text):
    found = f"/usr/bin/{interpreter}" if os.path.exists(f"/usr/bin/{interpreter}") else shutil.which(interpreter)
    if found is None:
        pytest.skip(f"{interpreter} is not installed")
    with running(found, flag, text) as server:
        record(server.pid, path, TIMES)
        ends_well(server)


RUST = """
use std::{alloc::{GlobalAlloc, Layout}, collections::BTreeMap, sync::atomic::{AtomicBool, AtomicUsize, Ordering::*}};
extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn mmap(at: usize, bytes: usize, may: i32, how: i32, file: i32, from: i64) -> usize;
}
static OVER: AtomicBool = AtomicBool::new(false);
extern "C" fn end(_: i32) { OVER.store(true, Relaxed) }

/// Powers of two in lists under one lock; memory by mmap, and never malloc.
struct Own { held: AtomicBool, next: AtomicUsize, last: AtomicUsize, free: [AtomicUsize; 48] }
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, wanted: Layout) -> *mut u8 {
        let bytes = wanted.size().max(wanted.align()).max(16).next_power_of_two();
        let list = &self.free[bytes.trailing_zeros() as usize];
        while self.held.swap(true, Acquire) { std::hint::spin_loop() }
        let mut block = list.load(Relaxed);
        if block != 0 { list.store(*(block as *const usize), Relaxed); } else {
            block = (self.next.load(Relaxed) + bytes - 1) & !(bytes - 1);
            if block + bytes > self.last.load(Relaxed) {
                let base = mmap(0, bytes + (64 << 20), 3, 0x22, -1, 0);
                self.last.store(base + bytes + (64 << 20), Relaxed);
                block = (base + bytes - 1) & !(bytes - 1);
            }
            self.next.store(block + bytes, Relaxed);
        }
        self.held.store(false, Release);
        block as *mut u8
    }
    unsafe fn dealloc(&self, block: *mut u8, wanted: Layout) {
        let bytes = wanted.size().max(wanted.align()).max(16).next_power_of_two();
        let list = &self.free[bytes.trailing_zeros() as usize];
        while self.held.swap(true, Acquire) { std::hint::spin_loop() }
        *(block as *mut usize) = list.load(Relaxed);
        list.store(block as usize, Relaxed);
        self.held.store(false, Release);
    }
}
GLOBAL
fn work(seed: usize) -> usize {
    let (mut wrong, mut i) = (0, seed);
    while !OVER.load(Relaxed) {
        let words: Vec<String> = (0..50).map(|n| format!("{}-{}", n, i)).collect();
        let found: BTreeMap<&str, usize> = words.iter().map(|w| (w.as_str(), w.len())).collect();
        wrong += words.iter().filter(|w| found[w.as_str()] != w.len()).count();
        i += 1;
    }
    wrong
}
fn main() {
    unsafe { signal(15, end); }
    let threads: Vec<_> = (0..3).map(|n| std::thread::spawn(move || work(n))).collect();
    println!("going");
    let wrong: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
    println!("answered, {} errors", wrong);
}
"""
EMPTY = "Own { held: AtomicBool::new(false), next: AtomicUsize::new(0), last: AtomicUsize::new(0), free: [NONE; 48] }"
GLOBALS = {
    "malloc": "",
    "own": f"const NONE: AtomicUsize = AtomicUsize::new(0);\n#[global_allocator] static GLOBAL: Own = {EMPTY};",
}


@pytest.mark.skipif(shutil.which("rustc") is None, reason="needs Rust")
@pytest.mark.parametrize("kind", GLOBALS)
def test_a_rust_program_goes_on_whatever_serves_it(path, tmp_path, kind):
    """A program on malloc is recorded; one with an allocator of its own makes no calls that could be recorded."""
    from hakmem_lab.trace import attach

    source = RUST.replace("GLOBAL\n", GLOBALS[kind] + "\n", 1)
    words = ["rustc", "-A", "warnings", "-O", "--edition", "2021", "-o", tmp_path / kind, "-"]
    subprocess.run(words, input=source, text=True, check=True)
    with running(tmp_path / kind) as server:
        if kind == "malloc":
            record(server.pid, path, TIMES)
        else:
            assert attach.process(server.pid, path, 0.1).operations < 100
        ends_well(server)


def ask(port: int, line: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(line)
        return connection.recv(1000)


@pytest.fixture
def redis(tmp_path, until) -> Iterator[tuple[subprocess.Popen, int]]:
    """(process, port) of Debian's Redis, which is linked to jemalloc."""
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        pytest.skip("redis is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["redis-server", "--port", str(port), "--save", "", "--dir", tmp_path]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        try:
            until(lambda: answers(port))
            yield server, port
        finally:
            server.kill()


def answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        return ask(port, b"PING\r\n") == b"+PONG\r\n"
    return False


def test_a_server_that_is_linked_to_its_allocator_is_recorded_under_load(redis, path):
    server, port = redis
    words = ["redis-benchmark", "-p", str(port), "-n", "100000000", "-q", "-t", "set,lpush", "-d", "200", "-r", "999"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as clients:
        try:
            time.sleep(0.3)
            record(server.pid, path, TIMES)
            assert clients.poll() is None
        finally:
            clients.terminate()
        assert clients.stderr.read() == ""
    assert answers(port)


def test_one_that_sleeps_is_recorded_and_sleeps_on(path):
    from hakmem_lab.trace import attach

    words = ["/usr/bin/python3", "-c", "import time; print('going', flush=True); time.sleep(600)"]
    with running(*words) as sleeper:
        for _ in range(2):
            assert attach.process(sleeper.pid, path, 0.1).complete
        with pytest.raises(subprocess.TimeoutExpired):
            sleeper.wait(0.3)


def test_one_that_the_dynamic_linker_was_told_to_start_is_recorded(program, path):
    from hakmem_lab.system.scripts import Elf

    with Elf(program) as elf:
        linker = elf.interpreter()
    with running(linker, program) as server:
        record(server.pid, path, 1)
        ends_well(server)


PLUGIN = """#include <stdlib.h>
void *make(unsigned n) { return realloc(malloc(n), 2 * n); }
void drop(void *block) { free(block); }
"""
HOST = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int over;
static void end(int number) { over = 1; }
int main(int count, char **words) {
  void *plugin = dlopen(words[1], RTLD_LAZY | RTLD_DEEPBIND);
  void *(*make)(unsigned) = dlsym(plugin, "make");
  void (*drop)(void *) = dlsym(plugin, "drop");
  signal(SIGTERM, end);
  puts("going"), fflush(stdout);
  for (unsigned i = atoi(words[2]); !over; i++) {
    void *own = malloc(100 + i % 500), *its = i > 1000 ? make(30 + i % 900) : 0;
    usleep(20);
    drop(its), free(own);
  }
  puts("answered, 0 errors");
}
"""


@pytest.mark.parametrize("begun", [0, 1001], ids=["not yet bound", "bound"])
@pytest.mark.parametrize("arm", ["jemalloc", "tcmalloc"])
def test_a_plugin_that_is_bound_to_another_allocator_keeps_it(path, tmp_path, arm, begun):
    for name, source, flags in (("plugin.so", PLUGIN, ("-shared", "-fPIC")), ("host", HOST, ("-ldl",))):
        words = ["cc", "-w", "-fno-builtin", "-Wl,-z,lazy", "-o", tmp_path / name, "-x", "c", "-", *flags]
        subprocess.run(words, input=source, text=True, check=True)
    with running(tmp_path / "host", tmp_path / "plugin.so", begun, env=preloaded(arm)) as host:
        record(host.pid, path, TIMES)
        ends_well(host)


def test_a_block_is_recorded_once_and_freed_once(plain, path):
    from hakmem_lab.trace import attach
    from hakmem_lab.trace.contents import counts

    with subprocess.Popen([plain("recorded.c"), "endless"], stdout=subprocess.PIPE, text=True) as program:
        try:
            program.stdout.readline()
            assert attach.process(program.pid, path, 0.3).complete
            (process,) = counts(path)["processes"]
            kinds = process["kinds"]
            assert abs(kinds["malloc"] - kinds["free"] - process["unknown_frees"]) <= 8192
        finally:
            program.kill()


SOURCES = {
    "static": ("-static", 'int main(void) { puts("going"); fflush(stdout); pause(); }', "statically linked"),
    "own": (
        "-rdynamic",
        "void *malloc(size_t n) { static char b[1 << 20]; static size_t u; return b + (u += n + 15 & -16) - n; }\n"
        "void *calloc(size_t n, size_t m) { return malloc(n * m); } void free(void *b) {}\n"
        "void *realloc(void *b, size_t n) { return malloc(n); }\n"
        'int main(void) { write(1, "going\\n", 6); pause(); }',
        "of its own",
    ),
    "inlined": (
        "-O0",
        "__attribute__((noinline)) void *mi_malloc(size_t n) { return sbrk(n); }\n"
        'int main(void) { mi_malloc(9); puts("going"); fflush(stdout); pause(); }',
        "mimalloc is linked into it",
    ),
    "seccomp": (
        "-O0",
        "#include <sys/prctl.h>\n#include <linux/filter.h>\n#include <linux/seccomp.h>\n"
        "int main(void) { struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};\n"
        "struct sock_fprog program = {1, all}; prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);\n"
        'prctl(PR_SET_SECCOMP, 2, &program); puts("going"); fflush(stdout); pause(); }',
        "seccomp",
    ),
    "little": (
        "-O0",
        "#include <sys/resource.h>\n"
        "int main(void) { struct rlimit few = {100 << 20, 100 << 20}; setrlimit(RLIMIT_AS, &few);\n"
        'puts("going"); fflush(stdout); pause(); }',
        "ulimit -v",
    ),
}
HEAD = "#define _GNU_SOURCE\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"


@pytest.mark.parametrize("kind", SOURCES)
def test_what_cannot_be_recorded_is_refused_and_goes_on(here, path, tmp_path, kind):
    flag, source, why = SOURCES[kind]
    words = ["cc", "-w", "-fno-builtin", flag, "-o", tmp_path / kind, "-x", "c", "-"]
    subprocess.run(words, input=HEAD + source, text=True, check=True)
    with running(tmp_path / kind) as program:
        before = Path(f"/proc/{program.pid}/maps").read_text()
        answer = here("record", "-o", path, str(program.pid))
        assert answer.status == 2
        assert why in answer.message()
        assert not path.exists()
        assert Path(f"/proc/{program.pid}/maps").read_text() == before
        assert program.poll() is None


def test_one_that_is_stopped_or_is_none_is_refused(here, path, until):
    sleeps = (
        "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); print('going', flush=True)"
    )
    with running("/usr/bin/python3", "-c", sleeps) as server:
        server.send_signal(signal.SIGSTOP)
        until(lambda: "\nState:\tT" in Path(f"/proc/{server.pid}/status").read_text())
        assert f"kill -CONT {server.pid}" in here("record", "-o", path, str(server.pid)).message()
        server.send_signal(signal.SIGCONT)
        tid = next(int(each) for each in os.listdir(f"/proc/{server.pid}/task") if int(each) != server.pid)
        assert f"its process is {server.pid}" in here("record", "-o", path, str(tid)).message()
    assert "is not there" in here("record", "-o", path, "4194999").message()


def test_one_with_files_of_its_own_is_refused(here, path, tmp_path):
    mount = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs none /tmp && echo going && read -r _"]
    if subprocess.run([*mount[:4], "mount -t tmpfs none /tmp"], capture_output=True, check=False).returncode:
        pytest.skip("this user can mount nothing")
    with running(*mount, stdin=subprocess.PIPE) as other:
        answer = here("record", "-o", path, str(other.pid))
        assert answer.status == 2
        assert "files of its own" in answer.message()
        assert other.poll() is None
