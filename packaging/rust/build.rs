//! Compiles the C sources with the flags of the C project's own build (`scripts/cmake/library.cmake`). A package has them in `c/`
//! (`scripts/crate` puts them there); in the C project's repository they are two folders up.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// What defines the standard names; with the feature `static` alone. The compiler must not make calls of
/// themselves of their bodies.
const STANDARD_NAMES: [&str; 7] =
    ["override.c", "operators.c", "tokens.c", "mallctl.c", "mallocx.c", "protection.c", "mallinfo.c"];
/// Of the preloadable library alone.
const PRELOADED: [&str; 3] = ["deepbind.c", "symbols.c", "atfork.c"];

fn entries(folder: &Path) -> Vec<PathBuf> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder's entry").path())
        .collect();
    found.sort();
    found
}

/// The sources of the library: `src/command` is a program of its own.
fn sources(root: &Path) -> Vec<PathBuf> {
    entries(&root.join("src"))
        .iter()
        .filter(|path| path.is_dir() && !path.ends_with("command"))
        .flat_map(|folder| entries(folder))
        .filter(|path| path.extension().is_some_and(|end| end == "c"))
        .collect()
}

fn is_one_of(path: &Path, names: &[&str]) -> bool {
    names.iter().any(|name| path.ends_with(name))
}

fn compiler(root: &Path, machine: &str) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .includes(["include", "src"].map(|folder| root.join(folder)))
        .define("_GNU_SOURCE", None)
        .define("NDEBUG", None)
        .define("HAKMEM_EMBEDDED", "1")
        .opt_level(3)
        .pic(true)
        .warnings(false)
        .flag("-std=c17")
        .flag("-fvisibility=hidden")
        .flag("-ftls-model=initial-exec")
        .flag("-fexceptions")
        .flag("-fasynchronous-unwind-tables")
        .flag("-fno-omit-frame-pointer")
        .flag_if_supported("-momit-leaf-frame-pointer")
        .flag_if_supported("-fno-semantic-interposition");
    for name in ["malloc", "calloc", "realloc", "free"] {
        build.flag(format!("-fno-builtin-{name}"));
    }
    if machine == "x86_64" {
        build.flag_if_supported("-fcf-protection=full");
    }
    build
}

fn main() {
    let of_target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if of_target("OS") != "linux" || of_target("POINTER_WIDTH") != "64" {
        eprintln!("hakmem needs Linux on a 64-bit machine, not {}", env::var("TARGET").unwrap_or_default());
        process::exit(1);
    }
    let everything = env::var_os("CARGO_FEATURE_STATIC").is_some();
    let machine = of_target("ARCH");
    let root = Path::new(if Path::new("c").is_dir() { "c" } else { "../.." });
    let (standard, core): (Vec<_>, Vec<_>) = sources(root)
        .into_iter()
        .filter(|path| !is_one_of(path, &PRELOADED))
        .partition(|path| is_one_of(path, &STANDARD_NAMES));
    let objects = everything.then(|| {
        compiler(root, &machine).flag("-fno-builtin").files(&standard).compile_intermediates()
    });
    let mut library = compiler(root, &machine);
    library.files(&core).objects(objects.iter().flatten());
    // Nobody asks for the standard names by one of ours, so the linker takes all there is.
    library.link_lib_modifier("+whole-archive").compile("hakmem");
    if machine == "riscv64" {
        println!("cargo:rustc-link-lib=atomic");
    }
}
