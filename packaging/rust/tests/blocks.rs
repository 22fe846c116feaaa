//! Blocks of every size and alignment, from the allocator itself and from what stands on it.

use hakmem::Hakmem;
use std::alloc::{GlobalAlloc, Layout};
use std::thread;

#[global_allocator]
static GLOBAL: Hakmem = Hakmem;

#[test]
fn the_version_is_the_packages() {
    let mut parts = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse::<u32>().unwrap());
    let version = (0..3).fold(0, |sum, _| sum * 100 + parts.next().unwrap());
    assert_eq!(Hakmem::version(), version);
}

#[test]
fn every_alignment_is_kept_through_realloc() {
    for shift in 0..=21 {
        for bytes in [1, 15, 16, 100, 4096, 70_000, 3 << 20] {
            let layout = Layout::from_size_align(bytes, 1 << shift).unwrap();
            unsafe {
                let block = GLOBAL.alloc(layout);
                assert!(!block.is_null() && block as usize % layout.align() == 0);
                assert!(Hakmem::usable_size(block) >= bytes);
                block.write_bytes(0x5a, bytes);
                let longer = GLOBAL.realloc(block, layout, 2 * bytes);
                assert!(longer as usize % layout.align() == 0);
                assert!(std::slice::from_raw_parts(longer, bytes).iter().all(|&byte| byte == 0x5a));
                GLOBAL.dealloc(longer, Layout::from_size_align(2 * bytes, 1 << shift).unwrap());
            }
        }
    }
}

#[test]
fn zeroed_blocks_are_zero_where_others_lay() {
    for (bytes, alignment) in [(64, 8), (5000, 16), (300_000, 64), (2 << 20, 4096)] {
        let layout = Layout::from_size_align(bytes, alignment).unwrap();
        for _ in 0..20 {
            unsafe {
                let block = GLOBAL.alloc_zeroed(layout);
                assert!(std::slice::from_raw_parts(block, bytes).iter().all(|&byte| byte == 0));
                block.write_bytes(0xff, bytes);
                GLOBAL.dealloc(block, layout);
            }
        }
    }
}

#[test]
fn too_much_is_null() {
    let layout = Layout::from_size_align(isize::MAX as usize & !4095, 4096).unwrap();
    assert!(unsafe { GLOBAL.alloc(layout) }.is_null());
    assert!(unsafe { GLOBAL.alloc_zeroed(layout) }.is_null());
    assert!(Vec::<u8>::new().try_reserve(isize::MAX as usize).is_err());
}

#[test]
fn what_one_thread_makes_others_drop() {
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<String>>();
    let makers: Vec<_> = (0..4)
        .map(|maker| {
            let sender = sender.clone();
            thread::spawn(move || {
                for i in 0..500 {
                    sender.send((0..i % 40).map(|k| format!("{maker} {i} {k}")).collect()).unwrap();
                }
                Hakmem::flush_thread();
            })
        })
        .collect();
    drop(sender);
    assert_eq!(receiver.iter().map(|words| words.len()).sum::<usize>(), 4 * (0..500).map(|i| i % 40).sum::<usize>());
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    Hakmem::trim(0);
}

/// With the feature, C code in the program and the C library itself come to the program's own `malloc`.
#[cfg(target_env = "gnu")]
#[test]
fn the_c_librarys_malloc_is_replaced_by_the_feature_alone() {
    extern "C" {
        fn dlsym(handle: *mut std::ffi::c_void, name: *const std::ffi::c_char) -> *mut std::ffi::c_void;
    }
    let address = unsafe { dlsym(std::ptr::null_mut(), c"malloc".as_ptr()) } as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| {
        let ends: Vec<_> = line.split([' ', '-']).take(2).map(|n| usize::from_str_radix(n, 16).unwrap()).collect();
        (ends[0]..ends[1]).contains(&address)
    });
    let program = std::env::current_exe().unwrap();
    assert_eq!(line.unwrap().ends_with(program.to_str().unwrap()), cfg!(feature = "static"));
}
