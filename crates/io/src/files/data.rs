//! What is to be written: lent while the one who lends it waits, owned from then on.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of an operation.
#[derive(Clone)]
pub(super) enum Bytes {
    Lent(*const u8, usize),
    Owned(Arc<Vec<u8>>),
}

// SAFETY: what is lent does not leave the thread that has lent it: `Files` has every operation own its bytes before it is
// given away (`Data::own`). Owned bytes are counted atomically and never change.
unsafe impl Send for Bytes {}

impl Bytes {
    /// # Safety
    /// What was lent is still there.
    pub unsafe fn slice(&self) -> &[u8] {
        match self {
            // SAFETY: as the caller has promised.
            Bytes::Lent(first, len) => unsafe { std::slice::from_raw_parts(*first, *len) },
            Bytes::Owned(bytes) => bytes,
        }
    }

    pub fn as_ptr(&self) -> *const u8 {
        match self {
            Bytes::Lent(first, _) => *first,
            Bytes::Owned(bytes) => bytes.as_ptr(),
        }
    }
}

/// Bytes to be written.
///
/// They are not copied as long as the work can be done in the loop, by whoever asks for it. Before anything of it is
/// given to the kernel or to a thread, or is put off, they are.
#[derive(Clone)]
pub struct Data(Rc<RefCell<Bytes>>);

impl Data {
    /// # Safety
    /// The bytes stay as they are until the call that the job is given to, `Files::start` or `Job::run_now`, has returned.
    pub unsafe fn lend(bytes: &[u8]) -> Data {
        Data(Rc::new(RefCell::new(Bytes::Lent(
            bytes.as_ptr(),
            bytes.len(),
        ))))
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match &*self.0.borrow() {
            Bytes::Lent(_, len) => *len,
            Bytes::Owned(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.0.borrow().clone()
    }

    /// Copies what is lent, once.
    pub(super) fn own(&self) {
        let mut bytes = self.0.borrow_mut();
        if let Bytes::Lent(..) = *bytes {
            // SAFETY: this is called before `Files::start` returns, until which the bytes are lent.
            let copy = unsafe { bytes.slice() }.to_vec();
            *bytes = Bytes::Owned(Arc::new(copy));
        }
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Data {
        Data(Rc::new(RefCell::new(Bytes::Owned(Arc::new(bytes)))))
    }
}
