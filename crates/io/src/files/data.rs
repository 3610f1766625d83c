//! Bytes to write: borrowed while the caller waits in its call, owned afterwards.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of an operation.
#[derive(Clone)]
pub(super) enum Bytes {
    Lent(*const u8, usize),
    Owned(Arc<Vec<u8>>),
}

// SAFETY: borrowed bytes never leave the thread that lent them: `Files` makes every operation own its bytes before it
// is handed over (`Data::own`). Owned bytes are atomically reference-counted and never change.
unsafe impl Send for Bytes {}

impl Bytes {
    /// Returns the bytes.
    ///
    /// # Safety
    /// Borrowed bytes must still be valid.
    pub unsafe fn slice(&self) -> &[u8] {
        match self {
            // SAFETY: guaranteed by the caller.
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

/// Bytes to write.
///
/// They are not copied if the loop can write them during the caller's call. They are copied before an operation is passed to the
/// kernel or to a thread, or is postponed.
#[derive(Clone)]
pub struct Data(Rc<RefCell<Bytes>>);

impl Data {
    /// Borrows `bytes`.
    ///
    /// # Safety
    /// The bytes must not change until the call that receives the job, `Files::start` or `Job::run_now`, has returned.
    pub unsafe fn lend(bytes: &[u8]) -> Data {
        Data(Rc::new(RefCell::new(Bytes::Lent(
            bytes.as_ptr(),
            bytes.len(),
        ))))
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match &*self.0.borrow() {
            Bytes::Lent(_, len) => *len,
            Bytes::Owned(bytes) => bytes.len(),
        }
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.0.borrow().clone()
    }

    /// Copies borrowed bytes, once.
    pub(super) fn own(&self) {
        let mut bytes = self.0.borrow_mut();
        if let Bytes::Lent(..) = *bytes {
            // SAFETY: this runs before `Files::start` returns, while the bytes are valid.
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
