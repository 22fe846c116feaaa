//! Memory apart: for one plugin, tenant, stage or request.

use alloc::boxed::Box;
use core::alloc::Layout;
use core::ffi::{c_char, c_int, c_void, CStr};
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, Ordering};

/// `hak_region_t`.
#[repr(C)]
pub struct Raw {
    _opaque: [u8; 0],
}

type OnLimit = dyn Fn(usize, Limit) -> bool + Send + Sync;

#[repr(C)]
struct Options {
    name: *const c_char,
    parent: *mut Raw,
    soft_limit: usize,
    hard_limit: usize,
    on_limit: Option<unsafe extern "C" fn(*mut Raw, usize, c_int, *mut c_void) -> bool>,
    user: *mut c_void,
    memory: *mut c_void,
    memory_bytes: usize,
}

extern "C" {
    fn hak_region_new(options: *const Options) -> *mut Raw;
    fn hak_region_limit(region: *mut Raw, soft: usize, hard: usize);
    fn hak_region_calloc(region: *mut Raw, count: usize, bytes: usize) -> *mut c_void;
    fn hak_region_realloc(region: *mut Raw, block: *mut c_void, bytes: usize) -> *mut c_void;
    fn hak_region_aligned_alloc(region: *mut Raw, alignment: usize, bytes: usize) -> *mut c_void;
    fn hak_region_enter(region: *mut Raw) -> bool;
    fn hak_region_leave(region: *mut Raw);
    fn hak_region_retire(region: *mut Raw);
    fn hak_region_reset(region: *mut Raw);
    fn hak_region_destroy(region: *mut Raw);
    fn hak_region_usage(region: *const Raw, usage: *mut Usage) -> bool;
    fn hak_region_name(region: *const Raw) -> *const c_char;
}

/// Which limit a request would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The one that only the closure notices.
    Soft,
    /// The one beyond which requests fail.
    Hard,
}

/// What a region holds, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the region alone: blocks that were not freed.
    pub live_bytes: usize,
    /// The number of these blocks.
    pub live_blocks: usize,
    /// What limits count, in pages, with all descendants.
    pub used_bytes: usize,
    /// The most that this was so far.
    pub peak_bytes: usize,
    /// The hard limit; 0: none.
    pub limit_bytes: usize,
    /// Of the region alone, since it was made.
    pub allocated_bytes: u64,
    /// Of the region alone, since it was made.
    pub freed_bytes: u64,
}

/// What a new region is to be; see [`Region::builder`].
pub struct Builder<'p> {
    name: Option<&'p CStr>,
    parent: Option<&'p Region<'p>>,
    soft_limit: usize,
    hard_limit: usize,
    on_limit: Option<Box<OnLimit>>,
}

impl<'p> Builder<'p> {
    /// For statistics; the first 47 bytes count.
    #[must_use]
    pub fn name(mut self, name: &'p CStr) -> Self {
        self.name = Some(name);
        self
    }

    /// The parent's limits count too. It lives longer: the compiler sees to that.
    #[must_use]
    pub fn parent(mut self, parent: &'p Region<'_>) -> Self {
        self.parent = Some(parent);
        self
    }

    /// In bytes; only the closure of [`Builder::on_limit`] notices it.
    #[must_use]
    pub fn soft_limit(mut self, bytes: usize) -> Self {
        self.soft_limit = bytes;
        self
    }

    /// In bytes; a request beyond it fails.
    #[must_use]
    pub fn hard_limit(mut self, bytes: usize) -> Self {
        self.hard_limit = bytes;
        self
    }

    /// The closure is called before a request of the region or a descendant passes a limit, with the bytes of the
    /// request. It may free and allocate. `true`: go on (the soft limit is passed, the hard one is looked at again,
    /// once). `false`: refuse the request. A panic in it ends the process.
    #[must_use]
    pub fn on_limit(mut self, call: impl Fn(usize, Limit) -> bool + Send + Sync + 'static) -> Self {
        self.on_limit = Some(Box::new(call));
        self
    }

    /// Makes the region. `None`: there is no memory.
    #[must_use]
    pub fn build(self) -> Option<Region<'p>> {
        // C passes one word on, and a box of a trait object has two.
        let call = self.on_limit.map_or(ptr::null_mut(), |call| Box::into_raw(Box::new(call)));
        let options = Options {
            name: self.name.map_or(ptr::null(), CStr::as_ptr),
            parent: self.parent.map_or(ptr::null_mut(), Region::as_ptr),
            soft_limit: self.soft_limit,
            hard_limit: self.hard_limit,
            on_limit: if call.is_null() { None } else { Some(ask) },
            user: call.cast(),
            memory: ptr::null_mut(),
            memory_bytes: 0,
        };
        match NonNull::new(unsafe { hak_region_new(&options) }) {
            Some(raw) => Some(Region { raw, call, parent: self.parent, entered: AtomicBool::new(false) }),
            None => {
                drop_call(call);
                None
            }
        }
    }
}

/// Ends the process by a second panic if it is dropped in a first one, which must not unwind through C.
struct NoUnwinding;

impl Drop for NoUnwinding {
    fn drop(&mut self) {
        panic!("a region's closure panicked");
    }
}

unsafe extern "C" fn ask(_region: *mut Raw, bytes: usize, limit: c_int, user: *mut c_void) -> bool {
    let guard = NoUnwinding;
    let call = &*user.cast::<Box<OnLimit>>();
    let again = call(bytes, if limit == 0 { Limit::Soft } else { Limit::Hard });
    mem::forget(guard);
    again
}

fn drop_call(call: *mut Box<OnLimit>) {
    if !call.is_null() {
        drop(unsafe { Box::from_raw(call) });
    }
}

/// A region: memory with a name, limits and exact counts.
///
/// What is allocated in it borrows it: by [`Region::alloc`], or as `Vec<T, &Region>` with the feature
/// `allocator-api2`. So nothing can be used after the region's end.
///
/// **Its end.** Dropping a region frees all of its blocks at once, whether their owners were dropped or forgotten. The
/// exception is a region in which a [`Scope`] ever was: blocks that were made inside look like any others, and the
/// compiler cannot tell how long they live. Such a region is retired. It makes no new blocks, and ends when its last
/// block is freed. [`Region::destroy`] ends it at once, if its caller knows that no block is left.
///
/// ```compile_fail
/// let mut kept = &mut 0;
/// {
///     let region = hakmem::Region::new().unwrap();
///     kept = allocator_api2::boxed::Box::leak(allocator_api2::boxed::Box::new_in(1, &region));
/// } // `region` does not live long enough
/// *kept += 1;
/// ```
pub struct Region<'p> {
    raw: NonNull<Raw>,
    call: *mut Box<OnLimit>,
    parent: Option<&'p Region<'p>>,
    /// Whether a scope was in it or in a descendant: blocks may live on of which no borrow tells.
    entered: AtomicBool,
}

// Sound: the functions of C are thread-safe, and the closure is Send and Sync.
unsafe impl Send for Region<'_> {}
unsafe impl Sync for Region<'_> {}

impl<'p> Region<'p> {
    /// A region without name and limits. `None`: there is no memory.
    #[must_use]
    pub fn new() -> Option<Self> {
        Self::builder().build()
    }

    /// Begins to describe a region.
    #[must_use]
    pub fn builder() -> Builder<'p> {
        Builder { name: None, parent: None, soft_limit: 0, hard_limit: 0, on_limit: None }
    }

    /// A new block; null at a limit, or without memory. The size may be 0.
    #[must_use]
    pub fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { hak_region_aligned_alloc(self.as_ptr(), layout.align(), layout.size()).cast() }
    }

    /// As [`Region::alloc`], and the block is zeros.
    #[must_use]
    pub fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= crate::ALIGNED_ANYWAY {
            return unsafe { hak_region_calloc(self.as_ptr(), 1, layout.size()).cast() };
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `block` is a live block of this region that was allocated with `layout`.
    pub unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        core::alloc::GlobalAlloc::dealloc(&crate::Hakmem, block, layout);
    }

    /// Resizes a block, which may move; null: there is no memory, and it is unchanged.
    ///
    /// # Safety
    /// As for [`Region::dealloc`]. `size`, rounded up to the alignment, does not exceed `isize::MAX`.
    #[must_use]
    pub unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= crate::ALIGNED_ANYWAY {
            return hak_region_realloc(self.as_ptr(), block.cast(), size.max(1)).cast(); // 0 would free the block
        }
        let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            moved.copy_from_nonoverlapping(block, layout.size().min(size));
            self.dealloc(block, layout);
        }
        moved
    }

    /// Until the guard is dropped, what this thread allocates lies in the region, if this crate serves it. Another
    /// region's scope inside it must end before it does, or the process aborts. `None`: there is no memory.
    ///
    /// At a hard limit, what cannot report a failure (`Vec::push`) ends the process, as without memory.
    #[must_use]
    pub fn enter(&self) -> Option<Scope<'_>> {
        let mut region = Some(self);
        while let Some(each) = region {
            each.entered.store(true, Ordering::Relaxed); // who drops a region has a reference to nothing but it
            region = each.parent;
        }
        let entered = unsafe { hak_region_enter(self.as_ptr()) };
        entered.then(|| Scope { region: self, not_send: PhantomData })
    }

    /// Changes the limits, in bytes; 0: none.
    pub fn limit(&self, soft_bytes: usize, hard_bytes: usize) {
        unsafe { hak_region_limit(self.as_ptr(), soft_bytes, hard_bytes) }
    }

    /// What it holds, in constant time.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        unsafe { hak_region_usage(self.as_ptr(), &mut usage) };
        usage
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &CStr {
        unsafe { CStr::from_ptr(hak_region_name(self.as_ptr())) }
    }

    /// Frees all blocks; pages stay for the next ones. `false`: nothing was done, because a scope ever was in the
    /// region (see [`Region::reset_unchecked`]).
    #[must_use]
    pub fn reset(&mut self) -> bool {
        let can = !self.entered.load(Ordering::Relaxed);
        if can {
            unsafe { self.reset_unchecked() };
        }
        can
    }

    /// As [`Region::reset`], whether or not a scope was in the region.
    ///
    /// # Safety
    /// No block that was made inside a scope of it is used or freed any more.
    pub unsafe fn reset_unchecked(&mut self) {
        hak_region_reset(self.as_ptr());
    }

    /// Ends the region and its blocks, whether or not a scope was in it. If a thread is inside, the process aborts.
    ///
    /// # Safety
    /// No block that was made inside a scope of it or of its descendants is used or freed any more.
    pub unsafe fn destroy(self) {
        let region = ManuallyDrop::new(self);
        hak_region_destroy(region.as_ptr());
        drop_call(region.call);
    }

    /// The region for the functions of C. Who enters it by these, or frees, must know what [`Region`] relies on.
    #[must_use]
    pub fn as_ptr(&self) -> *mut Raw {
        self.raw.as_ptr()
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        let entered = *self.entered.get_mut();
        unsafe { (if entered { hak_region_retire } else { hak_region_destroy })(self.as_ptr()) };
        // A retired region may go on, and ask the closure when a block that is left is resized. The closure then stays.
        if !entered || !unsafe { hak_region_usage(self.as_ptr(), &mut Usage::default()) } {
            drop_call(self.call);
        }
    }
}

impl core::fmt::Debug for Region<'_> {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.debug_struct("Region").field("name", &self.name()).field("usage", &self.usage()).finish()
    }
}

/// The scope of a thread: see [`Region::enter`]. It stays on its thread.
#[derive(Debug)]
pub struct Scope<'r> {
    region: &'r Region<'r>,
    not_send: PhantomData<*mut ()>,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        unsafe { hak_region_leave(self.region.as_ptr()) }
    }
}
