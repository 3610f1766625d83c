//! Event stream parser with the features that a load generator needs.

/// One event, or a field block without data that only sets the id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    pub id: Option<&'a [u8]>,
    pub name: Option<&'a [u8]>,
    /// Bytes from the start of the first `data` field to the end of the last `data` field.
    pub data: &'a [u8],
}

/// Passes each complete event in `buf` to `each` and returns the number of bytes consumed.
///
/// Lines end with LF or CRLF. The standard also allows a single CR, but no known server sends it.
pub(crate) fn parse<'a>(buf: &'a [u8], mut each: impl FnMut(Event<'a>)) -> usize {
    let mut used = 0;
    let mut start = 0;
    let mut event = Event::default();
    let mut data: Option<(usize, usize)> = None;
    while let Some(len) = memchr::memchr(b'\n', &buf[start..]) {
        let line = &buf[start..start + len];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let next = start + len + 1;
        if line.is_empty() {
            event.data = data.take().map_or(&[], |(from, to)| &buf[from..to]);
            if event != Event::default() {
                each(event);
            }
            event = Event::default();
            used = next;
        } else if let Some(value) = value(line, b"data") {
            let from = start + line.len() - value.len();
            let first = data.map_or(from, |(first, _)| first);
            data = Some((first, from + value.len()));
        } else if let Some(value) = value(line, b"id") {
            event.id = Some(value);
        } else if let Some(value) = value(line, b"event") {
            event.name = Some(value);
        }
        start = next;
    }
    used
}

/// Returns the value of a line if its field is `name`.
fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    let value = match rest.first() {
        None => rest,
        Some(b':') => &rest[1..],
        Some(_) => return None,
    };
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b": comment\n\nid: 1\n\nretry: 5\r\nid:2\r\nevent: gap\r\ndata: {}\r\n\r\n\
        data\n\ndata:a\nid: 3\ndata: b\n\ndatum: x\n\ndata: not yet";

    #[test]
    fn events_end_with_an_empty_line() {
        let mut events = Vec::new();
        let used = parse(STREAM, |event| events.push(event));
        assert_eq!(&STREAM[used..], b"data: not yet");
        let event = |id: &'static str, name: &'static str, data: &'static str| Event {
            id: (!id.is_empty()).then_some(id.as_bytes()),
            name: (!name.is_empty()).then_some(name.as_bytes()),
            data: data.as_bytes(),
        };
        assert_eq!(
            events,
            [
                event("1", "", ""),
                event("2", "gap", "{}"),
                event("3", "", "a\nid: 3\ndata: b")
            ]
        );
    }

    #[test]
    fn any_split_gives_the_same() {
        let collect = |split: usize| {
            let (mut rest, mut events) = (Vec::new(), Vec::new());
            for piece in STREAM.chunks(split) {
                rest.extend_from_slice(piece);
                let used = parse(&rest, |event| events.push(format!("{event:?}")));
                rest.drain(..used);
            }
            events
        };
        for split in 1..STREAM.len() {
            assert_eq!(collect(split), collect(STREAM.len()), "pieces of {split}");
        }
    }
}
