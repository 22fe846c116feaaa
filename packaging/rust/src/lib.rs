//! The hakmem memory allocator for Rust programs on 64-bit Linux, built from its C sources.
//!
//! ```
//! #[global_allocator]
//! static GLOBAL: hakmem::Hakmem = hakmem::Hakmem;
//!
//! fn main() {
//!     let words: Vec<String> = (0..100).map(|i| i.to_string()).collect();
//!     assert_eq!(words.len(), 100);
//! }
//! ```
//!
//! | feature | what it adds |
//! |---|---|
//! | none | what Rust allocates is served; C and C++ code in the program keeps the C library's malloc |
//! | `static` | the whole of `libhakmem.a`: `malloc`, its kin, and C++'s `new` and `delete` are hakmem's as well |
//! | `stats` | the function `stats_json`: the statistics, as one JSON object |
//! | `profile` | the module `profile`: which stacks allocated what is in use |
//! | `allocator-api2` | `&Region` is an allocator of that crate, for its collections and those of hashbrown and others |
//!
//! Options are read from the environment at the start: `HAKMEM_HELP=1` prints them.
//!
//! A block is given back with its size and alignment ([`GlobalAlloc::dealloc`] has them), by the functions of C23
//! that take these. Misuse (a pointer that is no live block, a block freed twice) prints one line on standard error
//! and aborts.
//!
//! A library for `dlopen` (`cdylib`) that contains this crate needs a few hundred bytes of static thread-local
//! storage: glibc keeps as much for libraries that are loaded late, musl refuses to load them.

#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod region;
#[cfg(feature = "allocator-api2")]
mod region_allocator;
pub use region::{Builder, Limit, Raw, Region, Scope, Usage};

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_int, c_void};

extern "C" {
    fn hak_version() -> c_int;
    fn hak_malloc(bytes: usize) -> *mut c_void;
    fn hak_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn hak_realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    fn hak_aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void;
    fn hak_free_sized(block: *mut c_void, bytes: usize);
    fn hak_free_aligned_sized(block: *mut c_void, alignment: usize, bytes: usize);
    fn hak_malloc_usable_size(block: *const c_void) -> usize;
    fn hak_trim(keep_bytes: usize) -> bool;
    fn hak_thread_flush();
}

/// What every block is aligned to, whatever its size.
const ALIGNED_ANYWAY: usize = 16;

/// The allocator, for `#[global_allocator]`. It has no state of its own: all values are the same heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hakmem;

// Sound: the functions are thread-safe, never unwind, and fail by returning null.
unsafe impl GlobalAlloc for Hakmem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED_ANYWAY {
            hak_malloc(layout.size()).cast()
        } else {
            hak_aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() <= ALIGNED_ANYWAY {
            hak_free_sized(block.cast(), layout.size());
        } else {
            hak_free_aligned_sized(block.cast(), layout.align(), layout.size());
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED_ANYWAY {
            return hak_calloc(1, layout.size()).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGNED_ANYWAY {
            return hak_realloc(block.cast(), size).cast();
        }
        let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            moved.copy_from_nonoverlapping(block, layout.size().min(size));
            self.dealloc(block, layout);
        }
        moved
    }
}

impl Hakmem {
    /// The version of the library: `10000 * major + 100 * minor + patch`.
    pub fn version() -> u32 {
        unsafe { hak_version() }.unsigned_abs()
    }

    /// Bytes that may be used at `block`: at least what was asked for.
    ///
    /// # Safety
    /// `block` is a live block of this allocator.
    pub unsafe fn usable_size(block: *const u8) -> usize {
        hak_malloc_usable_size(block.cast())
    }

    /// Gives free pages back to the system but for about `keep_bytes`; true where at least one was given back.
    pub fn trim(keep_bytes: usize) -> bool {
        unsafe { hak_trim(keep_bytes) }
    }

    /// Gives what this thread's cache holds to all threads, as before a thread sleeps for long.
    pub fn flush_thread() {
        unsafe { hak_thread_flush() }
    }
}

/// The statistics as one JSON object (`hakmem(3)` has every key).
#[cfg(feature = "stats")]
pub fn stats_json() -> alloc::string::String {
    use core::ffi::c_char;
    extern "C" {
        fn hak_stats_json(buffer: *mut c_char, capacity: usize) -> usize;
    }
    let mut text = alloc::vec::Vec::<u8>::new();
    loop {
        let length = unsafe { hak_stats_json(text.as_mut_ptr().cast(), text.capacity()) };
        if length < text.capacity() {
            unsafe { text.set_len(length) };
            return alloc::string::String::from_utf8_lossy(&text).into_owned();
        }
        text.reserve(2 * length + 1); // the counts go on while this allocates
    }
}

/// The heap profile: which stacks allocated what is in use, told from a sample of the blocks.
#[cfg(feature = "profile")]
pub mod profile {
    use core::ffi::{c_char, c_int, CStr};

    extern "C" {
        fn hak_profile_start(mean_bytes: usize) -> c_int;
        fn hak_profile_stop();
        fn hak_profile_write(file: *const c_char) -> c_int;
    }

    /// The number of an error, as C's `errno` has it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Error(pub i32);

    impl core::fmt::Display for Error {
        fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            write!(to, "error {} of the system", self.0)
        }
    }

    fn result(error: c_int) -> Result<(), Error> {
        if error == 0 {
            Ok(())
        } else {
            Err(Error(error))
        }
    }

    /// Begins to look at a block about every `mean_bytes` bytes (1: at every block; 0: as usual, 512 KiB), or changes
    /// how often.
    pub fn start(mean_bytes: usize) -> Result<(), Error> {
        result(unsafe { hak_profile_start(mean_bytes) })
    }

    /// Ends it; the blocks that were looked at stay in the profile until they are freed.
    pub fn stop() {
        unsafe { hak_profile_stop() }
    }

    /// Writes what is known so far, for pprof: as gzip, unless the name ends with `.pb`.
    pub fn write(file: &CStr) -> Result<(), Error> {
        result(unsafe { hak_profile_write(file.as_ptr()) })
    }
}
