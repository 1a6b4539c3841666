//! Says when every watch of this process has had its first list.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::meter::METER;

static MISSING: AtomicUsize = AtomicUsize::new(0);

/// So many watches will be started; call this before the first.
pub fn expect(watches: usize) {
    MISSING.store(watches, SeqCst);
}

/// One of them has its first list.
pub fn one_more() {
    if MISSING.fetch_sub(1, SeqCst) == 1 {
        METER.mark("synced");
    }
}
