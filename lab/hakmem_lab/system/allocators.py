"""How an allocator, or a language's own heap, is recognised in a file. Tables only; imports nothing."""

from dataclasses import dataclass

# What a program must not keep to itself.
OWN = ("malloc", "calloc", "realloc")
MALLOC = (*OWN, "free")


@dataclass(frozen=True)
class Signs:
    """functions: names of its own interface, as it exports them or as a program that it is linked into has them.
    texts: messages of its own, which a program without symbols still holds. files: beginnings of its library's name.
    without: how a program is made without it."""

    functions: tuple[str, ...]
    texts: tuple[bytes, ...]
    files: tuple[str, ...]
    without: str | None = None


ALLOCATORS = {
    "hakmem": Signs(("hak_malloc", "hak_stats_json"), (b"HAKMEM_HELP=1 lists the options",), ("libhakmem",)),
    "jemalloc": Signs(
        ("mallocx", "mallctl", "je_malloc", "je_mallctl", "_rjem_malloc", "_rjem_mallctl", "unprefixed_jemalloc"),
        (b"<jemalloc>: ",),
        ("libjemalloc",),
        "build it without jemalloc (Redis: MALLOC=libc; ClickHouse: -DENABLE_JEMALLOC=0; Rust: no tikv-jemallocator)",
    ),
    "tcmalloc": Signs(
        ("tc_malloc", "TCMallocInternalMalloc", "MallocExtension_ReleaseFreeMemory"),
        (b"tcmalloc: large alloc", b"tcmalloc: allocation failed"),
        ("libtcmalloc", "libgoogle-tcmalloc"),
        "build it without tcmalloc (MongoDB: --allocator=system)",
    ),
    "mimalloc": Signs(
        ("mi_malloc", "mi_heap_malloc"),
        (b"mimalloc: error: ",),
        ("libmimalloc",),
        "build it without mimalloc (Rust: no global_allocator of the crate mimalloc)",
    ),
    "snmalloc": Signs(
        ("sn_rust_alloc", "sn_malloc"),
        (b"Failed to initialise snmalloc",),
        ("libsnmalloc",),
        "build it without snmalloc",
    ),
    "scudo": Signs(("__scudo_print_stats",), (b"Scudo ERROR: ",), ("libscudo", "libclang_rt.scudo")),
    "rpmalloc": Signs(("rpmalloc", "rpaligned_alloc"), (), ("librpmalloc",), "build it without rpmalloc"),
    "hardened_malloc": Signs(("malloc_object_size_fast",), (), ("libhardened_malloc",)),
}


@dataclass(frozen=True)
class Language:
    """What keeps a heap of its own. beside: the clause; remedy: what sends more of it to malloc, or shows it.
    functions: exported or imported; sections: of the file; libraries: beginnings of names; variable: what does so
    already."""

    beside: str
    remedy: str
    functions: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    variable: tuple[str, tuple[str, ...]] | None = None


LANGUAGES = {
    "Python": Language(
        "Python keeps objects up to 512 bytes in arenas of its own",
        "PYTHONMALLOC=malloc",
        functions=("Py_BytesMain", "Py_RunMain"),
        libraries=("libpython3",),
        variable=("PYTHONMALLOC", ("malloc", "malloc_debug")),
    ),
    "Java": Language(
        "Java maps heap, metaspace and code itself; malloc has its native memory",
        "see both: java -XX:NativeMemoryTracking=summary, then jcmd PID VM.native_memory",
        functions=("JLI_Launch", "JNI_CreateJavaVM"),
        libraries=("libjli.so", "libjvm.so"),
    ),
    "Go": Language(
        "Go maps its heap itself; only C code that it calls asks malloc",
        "bound that heap by GOMEMLIMIT=512MiB",
        sections=(".go.buildinfo", ".note.go.buildid", ".gopclntab"),
    ),
    "JavaScript": Language(
        "JavaScript's objects are in a heap that the engine maps itself; malloc has buffers and native code",
        "bound that heap by NODE_OPTIONS=--max-old-space-size=512",
        functions=("napi_create_function", "JS_NewRuntime"),
        libraries=("libnode.so", "libv8.so", "libmozjs"),
    ),
    "PHP": Language(
        "PHP cuts its blocks from chunks of 2 MiB that it maps itself",
        "USE_ZEND_ALLOC=0",
        functions=("_emalloc", "zend_mm_alloc"),
        libraries=("libphp",),
        variable=("USE_ZEND_ALLOC", ("0",)),
    ),
    "Erlang": Language(
        "Erlang has allocators of its own, which map carriers",
        'ERL_FLAGS="+Mea min"',
        functions=("enif_alloc",),
        variable=("ERL_FLAGS", ("+Mea min",)),
    ),
    ".NET": Language(
        ".NET maps its heap itself; malloc has native memory",
        "bound that heap by DOTNET_GCHeapHardLimit=0x20000000",
        libraries=("libcoreclr.so", "libclrgc.so"),
    ),
}


@dataclass(frozen=True)
class Sanitizer:
    """A runtime with a malloc of its own, which ends the program where another malloc comes before it. Those of
    -fsanitize=undefined and of a shared -fsanitize=leak run on any malloc."""

    option: str
    function: str


SANITIZERS = {
    "AddressSanitizer": Sanitizer("-fsanitize=address", "__asan_init"),
    "ThreadSanitizer": Sanitizer("-fsanitize=thread", "__tsan_init"),
    "HWAddressSanitizer": Sanitizer("-fsanitize=hwaddress", "__hwasan_init"),
    "MemorySanitizer": Sanitizer("-fsanitize=memory", "__msan_init"),
}
SANITIZED = {each.function: (name, each.option) for name, each in SANITIZERS.items()}

# Functions whose presence says something, in one pass over the symbol tables.
LOADERS = ("dlopen", "dlmopen")
# Blocks that these return may be handed to free, whoever serves that.
BESIDE_MALLOC = ("je_malloc", "tc_malloc", "mi_malloc", "rpmalloc")
_SIGNS = [*(signs.functions for signs in ALLOCATORS.values()), *(each.functions for each in LANGUAGES.values())]
NAMES = tuple(
    dict.fromkeys((*MALLOC, *LOADERS, *BESIDE_MALLOC, *SANITIZED, *(name for names in _SIGNS for name in names)))
)
