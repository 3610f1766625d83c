//! What a run shows while it goes on.

mod progress;
pub(crate) mod text;

use fermata_io::sys::epoll::Epoll;

use crate::error::Error;
use crate::totals::{Point, Totals};

/// Everything that wants to see each interval.
pub(crate) struct Outputs {
    progress: Option<progress::Progress>,
}

impl Outputs {
    pub fn new(quiet: bool) -> Self {
        Self {
            progress: (!quiet).then(progress::Progress::new),
        }
    }

    /// Watches what can be asked from outside.
    pub fn watch(&mut self, _epoll: &mut Epoll) -> Result<(), Error> {
        Ok(())
    }

    /// An interval has ended.
    pub fn show(&mut self, totals: &Totals, point: &Point, phase: &str) {
        if let Some(progress) = &mut self.progress {
            progress.show(totals, point, phase);
        }
    }

    pub fn handle_event(&mut self, _epoll: &mut Epoll, _token: u64) {}

    /// The run is over; what follows is the result.
    pub fn end(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.end();
        }
    }
}
