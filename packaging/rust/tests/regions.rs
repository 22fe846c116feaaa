//! Regions: limits, counts, scopes and ends.

use hakmem::{Hakmem, Limit, Region};
use std::alloc::Layout;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;

#[global_allocator]
static GLOBAL: Hakmem = Hakmem;

fn layout(bytes: usize, alignment: usize) -> Layout {
    Layout::from_size_align(bytes, alignment).unwrap()
}

#[test]
fn blocks_of_every_alignment_keep_their_bytes() {
    let region = Region::builder().name(c"aligned").build().unwrap();
    assert_eq!(region.name(), c"aligned");
    for shift in 0..=17 {
        for bytes in [1, 100, 5000, 200_000] {
            let old = layout(bytes, 1 << shift);
            unsafe {
                let block = region.alloc(old);
                assert!(!block.is_null() && block as usize % old.align() == 0);
                block.write_bytes(0x5a, bytes);
                let longer = region.realloc(block, old, 3 * bytes);
                assert!(longer as usize % old.align() == 0);
                assert!(std::slice::from_raw_parts(longer, bytes).iter().all(|&byte| byte == 0x5a));
                region.dealloc(longer, layout(3 * bytes, 1 << shift));
                let zeros = region.alloc_zeroed(old);
                assert!(std::slice::from_raw_parts(zeros, bytes).iter().all(|&byte| byte == 0));
                let empty = region.realloc(zeros, old, 0);
                assert!(!empty.is_null());
                region.dealloc(empty, layout(0, 1 << shift));
            }
        }
    }
    let usage = region.usage();
    assert!(usage.live_blocks == 0 && usage.allocated_bytes == usage.freed_bytes && usage.peak_bytes > 600_000);
}

#[test]
fn a_limit_refuses_and_the_closure_is_asked() {
    let asked = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let count = Arc::clone(&asked);
    let parent = Region::builder()
        .soft_limit(1 << 20)
        .hard_limit(4 << 20)
        .on_limit(move |bytes, limit| {
            assert_eq!(bytes, 1 << 20);
            count[usize::from(limit == Limit::Hard)].fetch_add(1, Ordering::Relaxed);
            limit == Limit::Soft
        })
        .build()
        .unwrap();
    {
        let child = Region::builder().parent(&parent).build().unwrap();
        let fit = (0..6).filter(|_| !child.alloc(layout(1 << 20, 8)).is_null()).count();
        assert_eq!(fit, 4);
        assert_eq!((child.usage().live_blocks, parent.usage().live_blocks), (4, 0));
        assert!(parent.usage().used_bytes >= 4 << 20 && parent.usage().limit_bytes == 4 << 20);
        assert!(asked[0].load(Ordering::Relaxed) > 0 && asked[1].load(Ordering::Relaxed) == 2);
        parent.limit(0, 0);
        assert!(!child.alloc(layout(1 << 20, 8)).is_null());
    }
    assert_eq!(parent.usage().used_bytes, 0); // the child's blocks went with it
    drop(parent);
    assert_eq!(Arc::strong_count(&asked), 1); // and the closure
}

#[test]
fn reset_and_drop_free_all_blocks() {
    let mut region = Region::new().unwrap();
    for bytes in 1..1000 {
        assert!(!region.alloc(layout(bytes, 8)).is_null());
    }
    assert_eq!(region.usage().live_blocks, 999);
    assert!(region.reset());
    assert_eq!(region.usage().live_blocks, 0);
    assert!(!region.alloc(layout(100, 8)).is_null());
}

#[test]
fn threads_share_a_region() {
    let region = Region::new().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for bytes in 1..500 {
                    let block = region.alloc(layout(bytes, 8));
                    if bytes % 2 == 0 {
                        unsafe { region.dealloc(block, layout(bytes, 8)) };
                    }
                }
            });
        }
    });
    assert_eq!(region.usage().live_blocks, 1000);
}

#[test]
fn what_a_scope_made_outlives_the_region() {
    let asked = Arc::new(());
    let held = Arc::clone(&asked);
    let parent = Region::new().unwrap();
    let mut region = Region::builder()
        .parent(&parent)
        .on_limit(move |_, _| Arc::strong_count(&held) == 0)
        .build()
        .unwrap();
    let words: Vec<String> = {
        let _inside = region.enter().unwrap();
        (0..1000).map(|i| format!("a word of {i}")).collect()
    };
    assert!(region.usage().live_blocks > 1000);
    assert!(!region.reset()); // it could not know that the words are still used
    drop(region);
    drop(parent);
    assert_eq!(words[999], "a word of 999");
    assert_eq!(Arc::strong_count(&asked), 2);
    drop(words);

    let held = Arc::clone(&asked);
    let mut region = Region::builder().on_limit(move |_, _| Arc::strong_count(&held) == 0).build().unwrap();
    {
        let _outer = region.enter().unwrap();
        let inner = Region::new().unwrap();
        let _inner = inner.enter().unwrap();
        drop(vec![1; 100]);
        assert!(inner.usage().freed_bytes >= 400 && inner.usage().live_blocks == 0);
    }
    unsafe { region.reset_unchecked() };
    drop(region); // it is empty
    assert_eq!(Arc::strong_count(&asked), 2);
    let region = Region::new().unwrap();
    let block = {
        let _inside = region.enter().unwrap();
        Box::new(7)
    };
    std::mem::forget(block);
    unsafe { region.destroy() };
}

#[cfg(feature = "allocator-api2")]
mod collections {
    use allocator_api2::alloc::Allocator;
    use allocator_api2::boxed::Box;
    use allocator_api2::vec::Vec;
    use hakmem::Region;
    use std::alloc::Layout;

    #[test]
    fn collections_lie_in_the_region() {
        let region = Region::builder().hard_limit(2 << 20).build().unwrap();
        let mut numbers = Vec::new_in(&region);
        numbers.extend(0..100_000_u32);
        numbers.truncate(10);
        numbers.shrink_to_fit();
        let boxed = Box::new_in([1_u64; 100], &region);
        assert_eq!(region.usage().live_blocks, 2);
        assert!(region.usage().live_bytes >= 840 && numbers.iter().sum::<u32>() == 45 && boxed[99] == 1);
        assert!(numbers.try_reserve(1 << 20).is_err());
        drop((numbers, boxed));
        assert_eq!(region.usage().live_blocks, 0);
        let owned = Box::new_in(7, Region::new().unwrap()); // it owns its region
        assert_eq!(*owned, 7);
    }

    #[test]
    fn sizes_of_zero_and_changed_alignments_work() {
        let region = Region::new().unwrap();
        let zero = Layout::from_size_align(0, 64).unwrap();
        let some = Layout::from_size_align(100, 256).unwrap();
        let more = Layout::from_size_align(5000, 8).unwrap();
        unsafe {
            let block = (&region).allocate(zero).unwrap();
            assert!(block.len() == 0 && block.as_ptr().cast::<u8>() as usize % 64 == 0);
            let block = region.grow(block.cast(), zero, some).unwrap();
            assert!(block.as_ptr().cast::<u8>() as usize % 256 == 0);
            block.as_ptr().cast::<u8>().write_bytes(3, 100);
            let block = region.grow_zeroed(block.cast(), some, more).unwrap();
            assert!(block.as_ref()[99] == 3 && block.as_ref()[100..].iter().all(|&byte| byte == 0));
            let block = region.shrink(block.cast(), more, zero).unwrap();
            region.deallocate(block.cast(), zero);
            assert!(region.allocate_zeroed(more).unwrap().as_ref().iter().all(|&byte| byte == 0));
        }
        assert_eq!(region.usage().live_blocks, 1);
    }
}
