"""Checks of a program's file and of the libraries that it needs, without starting it. The libraries are searched for
as the dynamic linker does.
"""

import functools
import os
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab.doctor import NOTE, NOTHING, OK, PART, PROBLEM, UNKNOWN, Check, binary, count, listed
from hakmem_lab.doctor.binary import Binary
from hakmem_lab.system import allocators
from hakmem_lab.system.scripts import Damaged

DEFAULT_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
LDCONFIG = "/sbin/ldconfig"
_CACHED = re.compile(r"^\s+(\S+) \(.*\) => (/.+)$", re.M)
MOST = 2000


@functools.cache
def _cache() -> dict[str, list[str]]:
    """Name -> files, as the linker's cache lists them; empty on systems that have none."""
    try:
        done = subprocess.run([LDCONFIG, "-p"], capture_output=True, text=True, errors="replace", check=False)
    except OSError:
        return {}
    found: dict[str, list[str]] = {}
    for name, path in _CACHED.findall(done.stdout):
        found.setdefault(name, []).append(path)
    return found


def _named(user: Binary) -> tuple[str, ...]:
    """The folders that a file names for its libraries."""
    origin = str(user.path.resolve().parent)
    return tuple(folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for folder in user.search)


def _candidates(name: str, user: Binary, program: Binary, env: Mapping[str, str]) -> Iterator[Path]:
    """The paths at which a library that `user` needs may be, in the linker's order."""
    if "/" in name:
        yield Path(name)
        return
    given = [folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in (*_named(user), *_named(program), *given):
        yield Path(folder) / name
    yield from map(Path, _cache().get(name, []))
    for folder in DEFAULT_FOLDERS:
        yield Path(folder) / name


def closure(program: Binary, env: Mapping[str, str]) -> tuple[list[Binary], list[str]]:
    """(libraries, names of missing ones): all that the program needs, directly or through other libraries.

    Files of another architecture are skipped, as by the dynamic linker.
    """
    found: dict[str, Binary] = {}
    missing: list[str] = []
    left = [(name, program) for name in program.needed]
    while left and len(found) < MOST:
        name, user = left.pop(0)
        if name in found or name in missing:
            continue
        library = next(filter(None, (_read(path, program) for path in _candidates(name, user, program, env))), None)
        if library is None:
            missing.append(name)
        else:
            found[name] = library
            left += [(each, library) for each in library.needed]
    return list(found.values()), missing


def _read(path: Path, program: Binary) -> Binary | None:
    library = binary.readable(path) if os.path.isfile(path) else None
    return library if library and library.architecture == program.architecture else None


LINK = "link libhakmem.a into it: cc ... $(pkg-config --libs --static hakmem)"
CAPABILITY = "security.capability"
SYSTEM_LIBRARIES = ("libc.so", "libc-", "ld-linux", "libdl", "libpthread")
KEPT_DEEPBIND = "HAKMEM_KEEP_DEEPBIND"
# The bytes that glibc reserves for libraries with static thread-local variables that are loaded later.
DEFAULT_SURPLUS, SURPLUS = 512, "glibc.rtld.optional_static_tls"


@dataclass(frozen=True)
class Program:
    """path: the program that was named, or that runs; file: None if it is no readable ELF file; `why` says why not."""

    path: Path
    file: Binary | None
    needed: Sequence[Binary] = ()
    missing: Sequence[str] = ()
    why: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, env: Mapping[str, str], mapped: Sequence[Path] | None = None) -> "Program":
        """mapped: the files of a live process, instead of what its program needs."""
        try:
            file = binary.read(path)
        except Damaged as error:
            return cls(path, None, why=str(error), env=env)
        except OSError as error:
            return cls(path, None, why=f"it cannot be read: {error.strerror}", env=env)
        if mapped is None:
            return cls(path, file, *closure(file, env), env=env)
        return cls(path, file, [read for each in mapped if (read := binary.readable(each))], env=env)


def checks(program: Program, allocator: Binary) -> list[Check]:
    """All checks of a program. allocator: the library that is to serve it."""
    file = program.file
    if file is None:
        return [Check("program", PROBLEM, f"{program.path}: {program.why}", served=NOTHING)]
    if file.is_library():
        return [_library(program.path), built_in(file)]
    found = [describe(program, file), privileges(program.path), architecture(file, allocator)]
    found += [c_library(file, allocator), linking(file), sanitizer(program, file), own_malloc(file), built_in(file)]
    found += [other_allocators(program, allocator), *inside_libraries(program), language(program, file)]
    return [*found, deep_binding(program, file, allocator), tls(program, file, allocator)]


def _library(path: Path) -> Check:
    found = f"{path} is a library: which allocator serves it is decided by the program that loads it"
    return Check("program", PROBLEM, found, "hak doctor -- PROGRAM, or hak doctor PID", served=NOTHING)


def describe(program: Program, file: Binary) -> Check:
    parts = [f"{file.machine}, {file.bits} bit", "dynamically linked" if file.interpreter else "statically linked"]
    if file.interpreter:
        parts.append(count(len(program.needed), "library").replace("librarys", "libraries"))
    if "rustc version" in file.comment:
        parts.append("with Rust, which asks malloc unless a program chooses otherwise")
    said = f"{program.path}: {', '.join(parts)}"
    if program.missing:
        return Check("program", PROBLEM, f"{said}; not found: {listed(program.missing)}", "install what is missing")
    return Check("program", OK, said)


def privileges(path: Path) -> Check:
    """The dynamic linker preloads nothing into a program that starts with more rights than its caller has."""
    name = "privileges"
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return Check(name, UNKNOWN, f"its rights cannot be read: {error.strerror}")
    if mode & (stat.S_ISUID | stat.S_ISGID):
        found = "it is setuid or setgid, and the dynamic linker preloads nothing into such programs"
        return Check(name, PROBLEM, found, LINK, served=NOTHING)
    try:
        capable = CAPABILITY in os.listxattr(path)
    except OSError:
        capable = False
    if capable:
        served = NOTHING if os.geteuid() != 0 else None
        found = "its file gives capabilities, and for all users but root the dynamic linker preloads nothing into it"
        return Check(name, PROBLEM if served else NOTE, found, LINK, served=served)
    return Check(name, OK, "neither setuid nor setgid, no capabilities")


def architecture(file: Binary, allocator: Binary) -> Check:
    name = "architecture"
    if file.architecture == allocator.architecture:
        return Check(name, OK, f"{file.machine}, as the library")
    found = (
        f"it is for {file.machine}, {file.bits} bit, {file.byte_order}-endian; {allocator.path.name} is for "
        f"{allocator.machine}, {allocator.bits} bit, {allocator.byte_order}-endian"
    )
    return Check(name, PROBLEM, found, f"build the library for {file.machine}, or run that build of it", served=NOTHING)


def for_musl(allocator: Binary) -> str:
    """The remedy for a program on musl: a build for musl, beside the library or below it, or how to make one."""
    folder = allocator.path.resolve().parent
    for path in (folder.parent / "musl" / "libhakmem.so", folder / "musl" / "libhakmem.so"):
        if path.is_file():
            return f"preload {path}, as `hakmem COMMAND` does"
    return "build the library for musl (make musl), and start it by `hakmem COMMAND`, which finds that"


def c_library(file: Binary, allocator: Binary) -> Check:
    name = "C library"
    if file.musl() and allocator.musl():
        return Check(name, OK, f"musl, as the library: {file.interpreter}")
    if file.musl():
        found = "it is linked to musl, and the library to glibc: it cannot be loaded there"
        return Check(name, PROBLEM, found, for_musl(allocator), served=NOTHING)
    if file.interpreter is None:
        return Check(name, OK, "none is loaded")
    if "ld-linux" in file.interpreter or "ld64.so" in file.interpreter or "ld.so" in file.interpreter:
        return Check(name, OK, f"glibc: {file.interpreter}")
    return Check(name, NOTE, f"unknown: {file.interpreter}", "run the program's build for glibc")


def linking(file: Binary) -> Check:
    name = "linking"
    if file.interpreter is not None:
        return Check(name, OK, "dynamic: a library can be preloaded")
    if has_hakmem(file):
        return Check(name, OK, "static, with hakmem linked into it")
    if any(file.sections & set(allocators.LANGUAGES["Go"].sections)):
        found = "it is statically linked, and Go maps its heap itself"
        return Check(name, PROBLEM, found, allocators.LANGUAGES["Go"].remedy, served=NOTHING)
    return Check(name, PROBLEM, "it is statically linked, and brings its own malloc", LINK, served=NOTHING)


def sanitizer(program: Program, file: Binary) -> Check:
    """A sanitizer's runtime together with a preloaded allocator crashes the program, mostly without a message."""
    name = "sanitizer"
    for each in (file, *program.needed):
        functions = each.functions
        for function, (runtime, option) in allocators.SANITIZED.items():
            if function in functions.imported or each.defines(function):
                which = "it" if each is file else f"{each.path.name}, which it needs,"
                found = f"{which} is built with {runtime}, whose malloc must be the only one"
                remedy = f"build it without {option}, or run it without a preloaded allocator"
                return Check(name, PROBLEM, found, remedy, served=NOTHING)
    return Check(name, OK, "none that brings a malloc")


def own_malloc(file: Binary) -> Check:
    """A malloc in the program's own file. A library's malloc is no obstacle: a preloaded library comes before it."""
    name = "own malloc"
    if file.interpreter is None or has_hakmem(file):
        return Check(name, OK, "none beside what is linked into it")
    brought = next(iter(_brought(file)), None)
    whose = f" ({brought})" if brought else ""
    without = allocators.ALLOCATORS[brought].without if brought else None
    remedy = without or "build it without, or link libhakmem.a in its place"
    for names, why in (
        (file.functions.kept, "which the dynamic linker cannot replace"),
        (file.functions.exported, "which comes before every library's"),
    ):
        if own := [word for word in allocators.OWN if word in names]:
            return Check(name, PROBLEM, f"it has a {own[0]} of its own{whose}, {why}", remedy, served=NOTHING)
    if ".symtab" not in file.sections:
        return Check(name, OK, "none exported; its symbols are stripped, a hidden one would not be seen")
    return Check(name, OK, "none, neither exported nor hidden")


def _brought(file: Binary) -> dict[str, str]:
    """Allocator that is linked into the file -> the sign by which it was recognised."""
    found = {}
    for allocator, signs in allocators.ALLOCATORS.items():
        defined = [name for name in signs.functions if file.defines(name)]
        if defined:
            found[allocator] = f"function {defined[0]}"
        elif allocator in file.texts:
            found[allocator] = "its messages"
    return found


def has_hakmem(file: Binary) -> bool:
    """Whether libhakmem.a is linked into it."""
    return "hakmem" in _brought(file)


def built_in(file: Binary) -> Check:
    name = "built-in allocator"
    found = _brought(file)
    if "hakmem" in found:
        return Check(name, OK, "hakmem is linked into it")
    if not found:
        return Check(name, OK, "no sign of jemalloc, tcmalloc, mimalloc and the like in it")
    allocator, sign = next(iter(found.items()))
    remedy = allocators.ALLOCATORS[allocator].without or f"build it without {allocator}"
    said = f"{allocator} is linked into it ({sign}), and its callers do not call malloc"
    return Check(name, PROBLEM, said, remedy, served=PART)


def library_name(library: Binary | None) -> str | None:
    """Which allocator a library is, if it is one."""
    if library is not None:
        for allocator, signs in allocators.ALLOCATORS.items():
            if library.path.name.startswith(signs.files) or library.functions.exported.intersection(signs.functions):
                return allocator
    return None


def other_allocators(program: Program, allocator: Binary) -> Check:
    """Libraries with a malloc: a preloaded library comes before theirs, unless their own calls are bound to it."""
    name, linked = "other allocators", []
    preloaded = program.env.get("LD_PRELOAD", "").replace(":", " ").split()
    not_these = {allocator.path.name, allocator.path.resolve().name, *(os.path.basename(word) for word in preloaded)}
    for library in program.needed:
        if library.path.name.startswith(SYSTEM_LIBRARIES) or library.path.name in not_these:
            continue
        own = [word for word in allocators.OWN if library.defines(word)]
        which = library_name(library)
        hidden = own and (library.symbolic or own[0] in library.functions.kept)
        if hidden and which is None:
            found = f"{library.path.name} has a {own[0]} of its own, to which its calls are bound"
            return Check(name, PROBLEM, found, f"build {library.path.name} without -Bsymbolic", served=PART)
        if own and which != "hakmem":
            linked.append((library, which or "an allocator"))
    if not linked:
        return Check(name, OK, "no library that it needs brings one")
    library, which = linked[0]
    asked = sorted(program.file.functions.imported.intersection(allocators.BESIDE_MALLOC)) if program.file else []
    if asked:
        found = f"it asks {which} ({library.path.name}) by {asked[0]}, beside malloc: blocks of two heaps meet in free"
        return Check(name, PROBLEM, found, allocators.ALLOCATORS[which].without, served=PART)
    found = f"{library.path.name} is linked; what is preloaded comes before it"
    return Check(name, NOTE, f"{found}, and its own statistics stay empty", None)


def embedded(libraries: Sequence[Binary]) -> dict[str, str]:
    """Library -> the allocator inside it, which it calls by names of its own: no other allocator can serve it. A
    library that defines malloc is no such library."""
    found: dict[str, str] = {}
    for each in libraries:
        own = each.path.name.startswith(SYSTEM_LIBRARIES) or any(each.defines(name) for name in allocators.MALLOC)
        if not own and (inside := _brought(each)):
            found[each.path.name] = next(iter(inside))
    return found


def inside_libraries(program: Program) -> list[Check]:
    found = [f"{name} in {library}" for library, name in embedded(program.needed).items()]
    if not found:
        return []
    said = f"{listed(found)}: it serves that library, whatever is preloaded"
    return [
        Check("inside libraries", NOTE, said, "hak heap explain PID shows the memory that is not hakmem's", beside=True)
    ]


def language(program: Program, file: Binary) -> Check:
    name = "language"
    libraries_ = [library.path.name for library in program.needed]
    for language_, signs in allocators.LANGUAGES.items():
        seen = file.functions.exported | file.functions.imported
        here = bool(seen.intersection(signs.functions) or file.sections.intersection(signs.sections))
        here |= any(each.startswith(signs.libraries) for each in file.needed if signs.libraries)
        indirect = next((each for each in libraries_ if signs.libraries and each.startswith(signs.libraries)), None)
        if not (here or indirect):
            continue
        variable, values = signs.variable or ("", ())
        if variable and program.env.get(variable) in values:
            return Check(name, OK, f"{language_} asks malloc for everything ({variable}={program.env[variable]})")
        condition = "" if here else f"one of its libraries needs {indirect}; should it run that: "
        return Check(name, NOTE, condition + signs.beside, signs.remedy, beside=True)
    return Check(name, OK, "no sign of a language with a heap of its own")


def deep_binding(program: Program, file: Binary, allocator: Binary) -> Check:
    """A file shows whether it calls dlopen, but not with which flags."""
    name = "RTLD_DEEPBIND"
    users = [
        each.path.name
        for each in (file, *program.needed)
        if each.functions.imported.intersection(allocators.LOADERS) and not each.path.name.startswith(SYSTEM_LIBRARIES)
    ]
    if not users:
        return Check(name, OK, "nothing here loads plugins")
    who = f"{listed(users)} may load plugins"
    if not has_hakmem(allocator):
        return Check(name, NOTE, f"{who}; with {name}, plugins call libc's malloc", f"load plugins without {name}")
    if program.env.get(KEPT_DEEPBIND) == "1":
        found = f"{who}, and {KEPT_DEEPBIND}=1 leaves plugins loaded with {name} to libc's malloc"
        return Check(name, PROBLEM, found, f"unset {KEPT_DEEPBIND}")
    return Check(name, OK, f"{who}; hakmem drops {name}, so plugins are served too")


def tls(program: Program, file: Binary, allocator: Binary) -> Check:
    name = "TLS space"
    needs = f"{allocator.path.name} needs {allocator.tls_bytes} bytes"
    surplus = _surplus(program.env.get("GLIBC_TUNABLES", ""))
    late = sum(each.tls_bytes for each in program.needed if each.static_tls)
    if surplus is not None and surplus < allocator.tls_bytes:
        found = f"{needs}; {SURPLUS}={surplus} leaves too little for plugins that are loaded with it"
        return Check(name, NOTE, found, f"GLIBC_TUNABLES={SURPLUS}={DEFAULT_SURPLUS}")
    has = f", the program and its libraries {file.tls_bytes + late:,}" if file.interpreter else ""
    return Check(name, OK, f"{needs}{has}; preloaded it gets them at the start")


def _surplus(tunables: str) -> int | None:
    settings = (setting.partition("=") for setting in tunables.split(":"))
    return next((int(value) for key, _, value in settings if key == SURPLUS and value.isdecimal()), None)
