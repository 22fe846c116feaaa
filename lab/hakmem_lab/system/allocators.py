"""How an allocator, or a language's own heap, is recognised in a file. Tables only; imports nothing."""

from dataclasses import dataclass

# Functions that a program must not define privately, since the dynamic linker could not replace them.
OWN = ("malloc", "calloc", "realloc")
MALLOC = (*OWN, "free")


@dataclass(frozen=True)
class Signs:
    """functions: names of the allocator's own interface, exported by its library or present in a program that it is
    linked into. texts: its messages, which even a program without symbols holds. files: prefixes of its library's name.
    without: how to build a program without it."""

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
    """A language runtime with a heap of its own. beside: clause that describes the heap. remedy: setting that moves
    more of the heap to malloc, bounds it or shows it. functions: exported or imported names. sections: of the ELF file.
    libraries: prefixes of names. variable: environment variable, and its values that already send the heap to
    malloc."""

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
    """A sanitizer runtime with its own malloc; it aborts if another malloc comes first. The runtimes of
    -fsanitize=undefined and of a shared -fsanitize=leak run on any malloc, so they are not listed."""

    option: str
    function: str


SANITIZERS = {
    "AddressSanitizer": Sanitizer("-fsanitize=address", "__asan_init"),
    "ThreadSanitizer": Sanitizer("-fsanitize=thread", "__tsan_init"),
    "HWAddressSanitizer": Sanitizer("-fsanitize=hwaddress", "__hwasan_init"),
    "MemorySanitizer": Sanitizer("-fsanitize=memory", "__msan_init"),
}
SANITIZED = {each.function: (name, each.option) for name, each in SANITIZERS.items()}

# NAMES adds these to the functions above; one pass over the symbol tables looks up all of them.
LOADERS = ("dlopen", "dlmopen")
# Programs may pass blocks from these functions to free, even where another allocator serves it.
BESIDE_MALLOC = (
    *("mi_malloc", "mi_calloc", "mi_new", "mi_realloc", "tc_malloc", "tc_calloc", "tc_new"),
    *("je_malloc", "rpmalloc"),
)
_SIGNS = [*(signs.functions for signs in ALLOCATORS.values()), *(each.functions for each in LANGUAGES.values())]
NAMES = tuple(
    dict.fromkeys((*MALLOC, *LOADERS, *BESIDE_MALLOC, *SANITIZED, *(name for names in _SIGNS for name in names)))
)
