//! Entries of the stream.

use crate::exchange::{Content, Place, Received, read_except};
use crate::resp::Value;

/// An entry of the stream. Its fields are `t` (`stored`), `c` (channel), `n` (name), `d` (data), `x` (`except`), `k` (content)
/// and `a` (application). Missing fields are `None`.
pub(super) struct Entry<'a> {
    pub seq: u64,
    pub stored: Option<u64>,
    pub channel: Option<&'a [u8]>,
    pub name: Option<&'a [u8]>,
    pub data: Option<&'a [u8]>,
    pub except: Option<(u64, u64)>,
    pub content: Option<Content>,
    pub application: Option<&'a [u8]>,
}

impl<'a> Entry<'a> {
    pub fn read(entry: &Value<'a>) -> Option<Entry<'a>> {
        let [id, fields] = entry.as_array()? else {
            return None;
        };
        let id = std::str::from_utf8(id.as_text()?).ok()?;
        let mut read = Entry {
            seq: id.split('-').next()?.parse::<u64>().ok()?,
            stored: None,
            channel: None,
            name: None,
            data: None,
            except: None,
            content: Some(Content::Event),
            application: None,
        };
        for pair in fields.as_array()?.chunks_exact(2) {
            let text = pair[1].as_text();
            match pair[0].as_text() {
                Some(b"t") => {
                    read.stored =
                        text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
                }
                Some(b"c") => read.channel = text,
                Some(b"n") => read.name = text,
                Some(b"d") => read.data = text,
                Some(b"x") => read.except = text.and_then(read_except),
                Some(b"a") => read.application = text,
                Some(b"k") => read.content = Content::read(text),
                _ => {}
            }
        }
        Some(read)
    }

    pub fn received(&self, place: Place) -> Received {
        Received {
            place,
            content: self.content.unwrap_or_default(),
            channel: self.channel.unwrap_or_default().to_vec(),
            name: self.name.map(<[u8]>::to_vec),
            data: self.data.unwrap_or_default().to_vec(),
            except: self.except,
            unix_ms: self.stored.unwrap_or(0),
        }
    }
}
