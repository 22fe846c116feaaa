"""The instructions, loads and stores that malloc and free, new and delete execute when the thread's cache serves: their numbers are
those of a table, without calls, locks or atomics, and with one access to thread-local storage at most (x86-64).

usage: fast_path.py LIBRARY [--exact] [--print]
       fast_path.py --selftest

--exact: the library is of the compiler that the table is exact for; else only the limits hold.

Counted is the path from the entry to the return. An endbr64 is no instruction of ours. A load is a read of a memory
operand, a store a write of one; an instruction that adds to memory is both, push is a store and pop a load. A
prefetch, lea, nop, and the return address are none.
"""

import re
import subprocess
import sys
from typing import NamedTuple


class Cost(NamedTuple):
    instructions: int
    loads: int
    stores: int


# Function: what gcc 12 makes of it, to the instruction; the most that any gcc may make of it.
COSTS = {
    "malloc": (Cost(22, 8, 3), Cost(25, 8, 4)),
    "free": (Cost(32, 10, 4), Cost(32, 10, 4)),
    "_Znwm": (Cost(22, 8, 3), Cost(25, 8, 4)),
    "_ZdlPvm": (Cost(32, 10, 4), Cost(33, 10, 4)),
}
# A shorter path is not the one in question, but what free(NULL) or a refusal takes.
MIN_INSTRUCTIONS = 8
MAX_TLS_ACCESSES = 1

JUMP = re.compile(r"^(?:(?:notrack|bnd|cs|ds)\s+)*(j\w+)(?:,p[nt])?\s+([0-9a-f]+)\b")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(.*?)\s*$")
PREFIXES = re.compile(r"^(?:(?:lock|rep[n]?[ze]?|notrack|bnd|data16|[c-g]s)\s+)+")
OPERAND_COMMA = re.compile(r",(?![^(]*\))")
MEMORY = re.compile(r"^\*?(%[c-gs]s:|-?(0x)?[0-9a-f]+$|[^$]*\()")
# What only names an address; what reads its last operand; what writes it without reading. All others do both.
NO_ACCESS = re.compile(r"(j\w+|call\w?|lea\w?|nop\w?|prefetch\w*|endbr64|ret\w?)")
READS_LAST = re.compile(r"(cmp|test|bt|mul|imul|div|idiv|push|jmp|call)[bwlq]?|v?u?comis[sd]")
WRITES_LAST = re.compile(r"v?mov\w*|set\w+|pop\w?|v?p?extr\w+")
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


def accesses(text):
    """(loads, stores) of one instruction in AT&T's syntax."""
    mnemonic, _, rest = PREFIXES.sub("", text).partition(" ")
    operands = OPERAND_COMMA.split(rest.strip()) if rest.strip() else []
    indirect = rest.strip().startswith("*")
    if NO_ACCESS.fullmatch(mnemonic) and not indirect:
        return 0, 0
    in_memory = [MEMORY.match(operand) is not None for operand in operands]
    loads = sum(in_memory[:-1]) + (mnemonic.startswith("pop") or mnemonic == "leave")
    stores = int(mnemonic.startswith("push"))
    if in_memory and in_memory[-1]:
        loads += WRITES_LAST.fullmatch(mnemonic) is None
        stores += READS_LAST.fullmatch(mnemonic) is None
    return loads, stores


def cost_of(path):
    texts = [text for _, text in path if text != "endbr64"]
    counts = [accesses(text) for text in texts]
    return Cost(len(texts), sum(loads for loads, _ in counts), sum(stores for _, stores in counts))


def problems(name, path, exact):
    """What does not hold of this function's path, as texts."""
    pinned, most = COSTS[name]
    found = []
    for what, count, wanted, limit in zip(Cost._fields, cost_of(path), pinned, most):
        if count > limit:
            found.append(f"{count} {what}, at most {limit} are allowed")
        elif exact and count != wanted:
            found.append(f"{count} {what} instead of {wanted}: if a measurement bears it out, change COSTS")
    for address, text in path:
        found.extend(f"{what} at {address:x}: {text}" for pattern, what in FORBIDDEN if pattern.search(text))
    thread_local = sum("%fs:" in text for _, text in path)
    if thread_local > MAX_TLS_ACCESSES:
        found.append(f"{thread_local} accesses to thread-local storage, at most {MAX_TLS_ACCESSES} are allowed")
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


def examine(library, exact, show):
    failed = False
    for name in COSTS:
        path = fast_path(function_code(library, name))
        found = problems(name, path, exact)
        if len(path) < MIN_INSTRUCTIONS:
            found.append(f"{len(path)} instructions are too few for the path that serves a block")
        print(f"{name}: {', '.join(f'{n} {what}' for what, n in cost_of(path)._asdict().items())} on the fast path")
        if found or show:
            print("".join(f"  {address:x}: {text}\n" for address, text in path), end="")
        for problem in found:
            print(f"{name}: {problem}")
        failed = failed or bool(found)
    return 1 if failed else 0


# (loads, stores) of instructions that a compiler might use here.
KNOWN_ACCESSES = {
    (0, 0): ("mov %rax,%rdi", "lea 0x8(%rcx,%rax,1),%rax", "prefetcht0 (%rdx)", "nopw 0x0(%rax,%rax,1)",
             "imul %esi,%edx", "jne 3c45 <malloc.cold+0x5>", "ret", "endbr64", "shr $0x4,%rax", "mov $0x10,%eax", "xchg %ax,%ax",
             "shr %rax", "bt $0x3,%rax", "call 1230 <f>", "data16 cs nopw 0x0(%rax,%rax,1)"),
    (1, 0): ("mov 0x6d94(%rip),%rax", "mov %fs:(%rax),%rcx", "mov %fs:0x28,%rax", "movzbl (%rdx,%rax,1),%eax",
             "cmp (%rcx),%rdi", "cmpq $0x0,(%rcx)", "test %rax,0x8(%rdi)", "xor (%rcx),%rdx", "cmove 0x8(%rax),%rdx",
             "imul 0xc(%rax),%edx", "imul $0x3,0xc(%rax),%edx", "mulq (%rax)", "pop %rbx", "jmp *0x10(%rip)",
             "movdqu (%rsi),%xmm0", "bt %rax,(%rdx)", "mov 0x1234,%eax", "leave"),
    (0, 1): ("mov %rdx,(%rax)", "movq $0x0,0x8(%rax)", "mov %rdx,0x8(%rdi,%rcx,8)", "sete (%rax)", "push %rbx",
             "movups %xmm0,(%rdi)", "pextrq $0x1,%xmm0,0x8(%rdi)", "mov %eax,%fs:0x10"),
    (1, 1): ("addl $0x1,0x8(%rax)", "subl $0x1,0x8(%rax)", "incq (%rax)", "xor %rax,(%rdi)", "xchg %rax,(%rdi)",
             "lock cmpxchg %rdx,(%rdi)", "bts %rax,(%rdx)", "push 0x8(%rax)", "pop (%rax)", "notq (%rdi)",
             "movsq %ds:(%rsi),%es:(%rdi)", "shlq (%rax)", "adc $0x0,(%rdx,%rax,8)"),
}


def selftest_costs(listing):
    for known, texts in KNOWN_ACCESSES.items():
        for text in texts:
            assert accesses(text) == known, (text, accesses(text), known)
    pinned = COSTS["free"][0]
    both, loads = pinned.stores, pinned.loads - pinned.stores
    rest = ["nop"] * (pinned.instructions - both - loads - 1)
    as_pinned = ["endbr64", *["incq (%rax)"] * both, *["cmp (%rax),%rcx"] * loads, *rest, "ret"]
    assert cost_of(fast_path(listing(*as_pinned))) == pinned
    assert problems("free", fast_path(listing(*as_pinned)), True) == []
    for fewer, count in (("nop", 1), ("incq (%rax)", 3), ("cmp (%rax),%rcx", 2)):
        shorter = [*as_pinned]
        shorter.remove(fewer)
        assert len(problems("free", fast_path(listing(*shorter)), True)) == count, fewer
        assert problems("free", fast_path(listing(*shorter)), False) == [], fewer


def selftest():
    """Listings with known answers: an examiner that finds nothing must not pass."""

    def listing(*texts):
        return [(position, text) for position, text in enumerate(texts)]

    good = listing("cmp $1,%rdi", "ja 6 <slow>", "mov %fs:0x0,%rax", "je 5 <x>", "ret", "call 99 <slow>", "jmp 99 <slow>")
    assert [text for _, text in fast_path(good)] == ["cmp $1,%rdi", "ja 6 <slow>", "mov %fs:0x0,%rax", "je 5 <x>", "ret"]
    assert problems("malloc", fast_path(good), False) == []
    taken = listing("test %rdi,%rdi", "jne 4 <malloc+4>", "call 99 <slow>", "ret", "xor %eax,%eax", "ret")
    assert [address for address, _ in fast_path(taken)] == [0, 1, 4, 5]
    for bad, count in (
        (listing("lock xadd %rax,(%rdi)", "ret"), 1),
        (listing("xchg %rax,(%rdi)", "ret"), 1),
        (listing("xchg %ax,%ax", "ret"), 0),
        (listing("mov %fs:0x0,%rax", "mov %fs:0x8,%rbx", "ret"), 1),
        (listing(*["nop"] * COSTS["malloc"][1].instructions, "ret"), 1),
        (listing("endbr64", *["nop"] * (COSTS["malloc"][1].instructions - 1), "ret"), 0),
        (listing(*["cmp (%rcx),%rdi"] * (COSTS["malloc"][1].loads + 1), "ret"), 1),
        (listing(*["mov %rdi,(%rcx)"] * (COSTS["malloc"][1].stores + 1), "ret"), 1),
    ):
        assert len(problems("malloc", fast_path(bad), False)) == count, bad
    selftest_costs(listing)
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
    if not arguments or not set(arguments[1:]) <= {"--exact", "--print"}:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        return examine(arguments[0], "--exact" in arguments, "--print" in arguments)
    except (Golden, subprocess.CalledProcessError, OSError) as error:
        print(f"fast_path.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
