//! `&Region` as the allocator of a collection, which then borrows the region.

use crate::Region;
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::Layout;
use core::ptr::NonNull;

fn checked(block: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    NonNull::new(block).map(|block| NonNull::slice_from_raw_parts(block, size)).ok_or(AllocError)
}

fn empty(layout: Layout) -> NonNull<[u8]> {
    let address = core::ptr::null_mut::<u8>().wrapping_add(layout.align());
    NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(address) }, 0)
}

// Sound: a block stays until it is freed or the region ends, which nothing that borrows or owns the region outlives.
unsafe impl Allocator for Region<'_> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty(layout));
        }
        checked(self.alloc(layout), layout.size())
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty(layout));
        }
        checked(self.alloc_zeroed(layout), layout.size())
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            self.dealloc(block.as_ptr(), layout);
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        resize(self, block, old, new)
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        resize(self, block, old, new)
    }
}

unsafe fn resize(
    region: &Region,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    if old.align() == new.align() && old.size() > 0 && new.size() > 0 {
        return checked(region.realloc(block.as_ptr(), old, new.size()), new.size());
    }
    let fresh = region.allocate(new)?;
    fresh.as_ptr().cast::<u8>().copy_from_nonoverlapping(block.as_ptr(), old.size().min(new.size()));
    region.deallocate(block, old);
    Ok(fresh)
}
