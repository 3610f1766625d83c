//! The transport of a connection.

use fermata_io::Fd;

/// Index of an HTTP/2 stream in its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamPlace(pub u32);

/// A socket or an HTTP/2 stream, in one number: descriptors are never negative, so streams use
/// negative numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line(Fd);

/// The decoded form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    Socket(Fd),
    Stream(StreamPlace),
}

impl Line {
    #[inline]
    pub fn of_socket(fd: Fd) -> Line {
        debug_assert!(fd >= 0, "descriptors are not negative");
        Line(fd)
    }

    /// Creates the line of a stream; a worker has fewer streams than positive numbers.
    #[inline]
    pub fn of_stream(place: StreamPlace) -> Line {
        Line(!(place.0 as Fd))
    }

    #[inline]
    pub fn carries(self) -> Carries {
        match self.stream() {
            None => Carries::Socket(self.0),
            Some(place) => Carries::Stream(place),
        }
    }

    #[inline]
    pub fn socket(self) -> Option<Fd> {
        (self.0 >= 0).then_some(self.0)
    }

    #[inline]
    pub fn stream(self) -> Option<StreamPlace> {
        (self.0 < 0).then_some(StreamPlace(!self.0 as u32))
    }

    #[inline]
    pub fn is_stream(self) -> bool {
        self.0 < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_it_was_made_of() {
        for fd in [0, 3, Fd::MAX] {
            assert_eq!(Line::of_socket(fd).carries(), Carries::Socket(fd));
        }
        for place in [0, 1, i32::MAX as u32] {
            let place = StreamPlace(place);
            assert_eq!(Line::of_stream(place).carries(), Carries::Stream(place));
        }
    }
}
