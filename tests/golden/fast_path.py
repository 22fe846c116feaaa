"""The instructions that malloc and free execute when the thread's cache serves: a bounded number, without
calls, locks or atomics, and with one access to thread-local storage at most (x86-64).

usage: fast_path.py LIBRARY [--print]
       fast_path.py --selftest
"""

import re
import subprocess
import sys

# The most instructions from entry to return. Room over what gcc 12 makes of it, not a goal.
LIMITS = {"malloc": 26, "free": 32}
# A shorter path is not the one in question, but what free(NULL) or a refusal takes.
MIN_INSTRUCTIONS = 8
MAX_TLS_ACCESSES = 1

JUMP = re.compile(r"^(?:(?:notrack|bnd|cs|ds)\s+)*(j\w+)(?:,p[nt])?\s+([0-9a-f]+)\b")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(.*?)\s*$")
FORBIDDEN = (
    (re.compile(r"\bcall"), "a call"),
    (re.compile(r"\block\b"), "a lock prefix"),
    (re.compile(r"^(xacquire |xrelease )?xchg\w*\s.*\("), "an exchange with memory"),
    (re.compile(r"^(syscall|sysenter|int)\b"), "a system call"),
    (re.compile(r"^[lms]fence\b"), "a fence"),
    (re.compile(r"^(rep|repz|repnz) (?!ret)"), "a string instruction"),
    (re.compile(r"^i?div"), "a division"),
)


class Golden(Exception):
    """A statement about the listing that does not hold."""


def parse(listing):
    """The listing of objdump as an ordered list of (address, text)."""
    found = (INSTRUCTION.match(line) for line in listing.splitlines())
    return [(int(match[1], 16), match[2].split("#")[0].strip()) for match in found if match]


def successors(code):
    """address -> addresses that may follow, the fall-through first; an empty list where control leaves."""
    inside = {address for address, _ in code}
    after = {}
    for position, (address, text) in enumerate(code):
        following = [code[position + 1][0]] if position + 1 < len(code) else []
        jump = JUMP.match(text)
        if jump:
            target = [int(jump[2], 16)]
            following = target if jump[1].startswith("jmp") else following + target
        elif re.match(r"(notrack )?jmp|ud2|hlt", text) or is_return(text):
            following = []
        after[address] = [place for place in following if place in inside]
    return after


def is_return(text):
    return re.match(r"(rep[z]? |bnd )?ret", text) is not None


def reaching_return(code, after):
    """The addresses from which a return is reached without passing a call."""
    text_of = dict(code)
    reaching = {address for address, text in code if is_return(text)}
    changed = True
    while changed:
        changed = False
        for address, text in code:
            if address in reaching or text.startswith("call"):
                continue
            if any(place in reaching for place in after[address]):
                reaching.add(address)
                changed = True
    return reaching, text_of


def fast_path(code):
    """The path from entry to a return that falls through wherever that leads to a return without a call."""
    after = successors(code)
    reaching, text_of = reaching_return(code, after)
    address = code[0][0]
    path = []
    while True:
        if address not in reaching:
            raise Golden("no path from the entry returns without a call")
        if len(path) > len(code):
            raise Golden("the path from the entry has a loop")
        path.append((address, text_of[address]))
        if is_return(text_of[address]):
            return path
        address = next(place for place in after[address] if place in reaching)


def problems(name, path):
    """What does not hold of this function's path, as texts."""
    found = []
    if len(path) > LIMITS[name]:
        found.append(f"{len(path)} instructions, at most {LIMITS[name]} are allowed")
    for address, text in path:
        found.extend(f"{what} at {address:x}: {text}" for pattern, what in FORBIDDEN if pattern.search(text))
    accesses = sum("%fs:" in text for _, text in path)
    if accesses > MAX_TLS_ACCESSES:
        found.append(f"{accesses} accesses to thread-local storage, at most {MAX_TLS_ACCESSES} are allowed")
    return found


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def function_code(library, name):
    symbols = [line.split() for line in output_of("nm", "-D", "-S", "--defined-only", library).splitlines()]
    places = [(int(row[0], 16), int(row[1], 16)) for row in symbols if len(row) == 4 and row[3].split("@")[0] == name]
    if len(places) != 1:
        raise Golden(f"the library does not export one function {name} with a size")
    start, size = places[0]
    code = parse(
        output_of(
            "objdump", "-d", "--no-show-raw-insn", f"--start-address={start}", f"--stop-address={start + size}", library
        )
    )
    if not code or code[0][0] != start:
        raise Golden(f"objdump shows no code of {name}")
    return code


def examine(library, show):
    failed = False
    for name, limit in LIMITS.items():
        path = fast_path(function_code(library, name))
        found = problems(name, path)
        if len(path) < MIN_INSTRUCTIONS:
            found.append(f"{len(path)} instructions are too few for the path that serves a block")
        print(f"{name}: {len(path)} instructions on the fast path (limit {limit})")
        if found or show:
            print("".join(f"  {address:x}: {text}\n" for address, text in path), end="")
        for problem in found:
            print(f"{name}: {problem}")
        failed = failed or bool(found)
    return 1 if failed else 0


def selftest():
    """Listings with known answers: an examiner that finds nothing must not pass."""

    def listing(*texts):
        return [(position, text) for position, text in enumerate(texts)]

    good = listing("cmp $1,%rdi", "ja 6 <slow>", "mov %fs:0x0,%rax", "je 5 <x>", "ret", "call 99 <slow>", "jmp 99 <slow>")
    assert [text for _, text in fast_path(good)] == ["cmp $1,%rdi", "ja 6 <slow>", "mov %fs:0x0,%rax", "je 5 <x>", "ret"]
    assert problems("malloc", fast_path(good)) == []
    taken = listing("test %rdi,%rdi", "jne 4 <malloc+4>", "call 99 <slow>", "ret", "xor %eax,%eax", "ret")
    assert [address for address, _ in fast_path(taken)] == [0, 1, 4, 5]
    for bad, count in (
        (listing("lock xadd %rax,(%rdi)", "ret"), 1),
        (listing("xchg %rax,(%rdi)", "ret"), 1),
        (listing("xchg %ax,%ax", "ret"), 0),
        (listing("mov %fs:0x0,%rax", "mov %fs:0x8,%rbx", "ret"), 1),
        (listing(*["nop"] * LIMITS["malloc"], "ret"), 1),
    ):
        assert len(problems("malloc", fast_path(bad))) == count, bad
    for none in (listing("call 99 <slow>", "ret"), listing("jmp 99 <slow>"), listing("jmp *0x10(%rip)")):
        try:
            fast_path(none)
        except Golden:
            continue
        raise AssertionError(none)
    assert parse("  10:\tmov    %rax,%rbx  # text\n\n 0 <malloc>:\n") == [(0x10, "mov    %rax,%rbx")]
    print("selftest: passed")
    return 0


def main(arguments):
    if arguments == ["--selftest"]:
        return selftest()
    if not arguments or arguments[1:] not in ([], ["--print"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        return examine(arguments[0], len(arguments) == 2)
    except (Golden, subprocess.CalledProcessError, OSError) as error:
        print(f"fast_path.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
