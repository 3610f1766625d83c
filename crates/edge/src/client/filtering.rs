//! Items that wait for servers of filters, and what those have said of them.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use fermata_engine::Left;
use fermata_grip::filter::Subscriber;
use fermata_grip::instruct::Meta;
use fermata_grip::item::{Body as ItemBody, Item, MessageAction, ResponseAction, StreamAction};

use crate::client::delivery::WAITING_BYTES_MAX;
use crate::client::poll::patched;
use crate::client::session::Kind;
use crate::client::session::Session;
use crate::client::session::Subscription;
use crate::settings::Settings;
use crate::upstream::reply::is_compressed;
use crate::upstream::response::Head;

/// Items of one client that wait, as many as Pushpin keeps.
pub(crate) const WAITING_MAX: usize = 100;

/// Turns of clients that have left before they are thrown out.
pub(crate) const STALE_MAX: usize = 1_024;

/// The header by which a server keeps an item back, and its value.
pub(crate) const ACTION: &[u8] = b"action";
pub(crate) const DROP: &[u8] = b"drop";

/// Items that wait for servers of filters.
pub(crate) struct Filtering {
    pub(crate) timeout_ms: u64,
    pub(crate) requests_max: usize,
    /// A client has had such a filter: only then is more to be looked at.
    pub(crate) is_used: bool,
    pub(crate) queues: HashMap<u64, Box<Queue>>,
    /// The client that each request under way is for.
    pub(crate) asked: HashMap<u64, u64>,
    /// Clients that may ask when another request is over, the next one first.
    pub(crate) turns: VecDeque<u64>,
    pub(crate) is_giving_turns: bool,
    pub(crate) last: u64,
}

/// Items of one client in their order; the first is being filtered.
pub(crate) struct Queue {
    pub(crate) client: Left,
    /// Of the hold that they are for.
    pub(crate) serial: u64,
    pub(crate) items: VecDeque<(Rc<[u8]>, Rc<Item>)>,
    pub(crate) bytes: usize,
    pub(crate) front: Front,
    /// Something did not fit.
    pub(crate) has_lost: bool,
    /// Its long poll is over with the first: no other is waited for.
    pub(crate) is_last: bool,
    pub(crate) is_running: bool,
}

/// How far the first item is.
#[derive(Default)]
pub(crate) struct Front {
    /// The filter that is next, and what those before have made of the content; `None`: they have not begun.
    pub(crate) stage: Option<(usize, Option<Vec<u8>>)>,
    /// The request that is under way.
    pub(crate) asked: Option<u64>,
    /// The server gets the content.
    pub(crate) modifies: bool,
    pub(crate) waits_for_turn: bool,
    pub(crate) answer: Option<Result<Answer, Unfiltered>>,
}

/// What a server has said of an item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is kept back.
    Drop,
    /// It is delivered as it is.
    Pass,
    /// It is delivered with this content.
    Replace(Vec<u8>),
}

/// Whether the next item may be looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Goes,
    Waits,
}

impl Filtering {
    pub fn new(settings: &Settings) -> Self {
        Self {
            timeout_ms: settings.filter_timeout_ms,
            requests_max: settings.filter_requests_max,
            is_used: false,
            queues: HashMap::new(),
            asked: HashMap::new(),
            turns: VecDeque::new(),
            is_giving_turns: false,
            last: 0,
        }
    }

    /// A client is subscribed so.
    pub fn watch(&mut self, subscription: &Subscription) {
        self.is_used |= subscription.filters.asks();
    }

    /// Whether the body of this request's answer means nothing.
    pub fn ignores_body(&self, number: u64) -> bool {
        let queue = self.asked.get(&number).and_then(|it| self.queues.get(it));
        queue.is_some_and(|it| !it.front.modifies)
    }

    pub(crate) fn add_turn(&mut self, handle: u64) {
        self.turns.push_back(handle);
        if self.turns.len() > self.queues.len() + STALE_MAX {
            let queues = &self.queues;
            let waits = |it: &u64| queues.get(it).is_some_and(|it| it.front.waits_for_turn);
            self.turns.retain(waits);
        }
    }
}

impl Queue {
    pub(crate) fn push(&mut self, channel: &[u8], item: &Rc<Item>) -> bool {
        let bytes = item.bytes();
        let is_full = self.items.len() >= WAITING_MAX || self.bytes + bytes > WAITING_BYTES_MAX;
        if !self.items.is_empty() && is_full {
            return false;
        }
        self.bytes += bytes;
        self.items.push_back((Rc::from(channel), Rc::clone(item)));
        true
    }

    /// Removes the first.
    pub(crate) fn pop(&mut self) {
        if let Some((_, item)) = self.items.pop_front() {
            self.bytes -= item.bytes();
        }
        self.front = Front::default();
    }
}

/// A client as it is when it has an item: ids are built of that.
pub(crate) struct Having<'a> {
    pub(crate) session: &'a Session,
    pub(crate) channel: &'a [u8],
    pub(crate) prev_id: Option<&'a [u8]>,
}

impl Subscriber for Having<'_> {
    fn meta(&self) -> &Meta {
        self.session.meta()
    }

    fn is_subscribed(&self, channel: &[u8]) -> bool {
        self.session.is_subscribed(channel)
    }

    fn last_id(&self, channel: &[u8]) -> Option<&[u8]> {
        let mut subscriptions = self.session.subscriptions.iter();
        let found = subscriptions.find(|it| it.own.as_deref() == Some(channel))?;
        match found.channel == self.channel {
            true => self.prev_id,
            false => found.prev_id.as_deref(),
        }
    }
}

/// What an item is to one client.
pub(crate) struct Format<'a> {
    pub(crate) content_filters: Option<&'a [Vec<u8>]>,
    /// `None`: it does something else than say something.
    pub(crate) content: Option<Vec<u8>>,
}

impl<'a> Format<'a> {
    /// `None`: there is nothing in it for this client.
    pub(crate) fn new(session: &Session, client: Left, item: &'a Item) -> Option<Self> {
        let (content_filters, content) = match client {
            Left::Request(_) => {
                let format = item.http_response.as_ref()?;
                let content = match (&format.action, &session.kind) {
                    (ResponseAction::Send(response), Kind::Poll(poll)) => match &response.body {
                        ItemBody::Bytes(body) => Some(body.clone()),
                        ItemBody::Patch(patch) => patched(&poll.body, patch),
                    },
                    (ResponseAction::Close | ResponseAction::Refresh, _) => return None,
                    _ => None,
                };
                (&format.content_filters, content)
            }
            Left::Held(_) => {
                let format = item.http_stream.as_ref()?;
                let content = match &format.action {
                    StreamAction::Send(content) => Some(content.clone()),
                    StreamAction::Refresh => return None,
                    StreamAction::Hint | StreamAction::Close => None,
                };
                (&format.content_filters, content)
            }
            Left::Socket(_) => {
                let format = item.ws_message.as_ref()?;
                let content = match &format.action {
                    MessageAction::Send { content, .. } => Some(content.clone()),
                    MessageAction::Hint => return None,
                    MessageAction::Close { .. } | MessageAction::Refresh => None,
                };
                (&format.content_filters, content)
            }
        };
        Some(Self {
            content_filters: content_filters.as_deref(),
            content,
        })
    }
}

/// Why it is unknown what becomes of an item, which is dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfiltered {
    /// The server says something else than what becomes of it.
    #[error("the server of a filter answers {0}; give 200 or 204")]
    Status(u16),
    /// Clients would get compressed bytes among plain ones.
    #[error("the server of a filter answers with compressed content; leave out Content-Encoding")]
    Compressed,
    /// The server could not be asked, or has not answered.
    #[error("{0}")]
    Unanswered(String),
}

/// What a server says of an item: 200 or 204, and perhaps other content.
pub(crate) fn read_answer(head: &Head, body: &[u8], modifies: bool) -> Result<Answer, Unfiltered> {
    if !matches!(head.status, 200 | 204) {
        return Err(Unfiltered::Status(head.status));
    }
    let drops = head.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case(ACTION) && value.trim_ascii().eq_ignore_ascii_case(DROP)
    });
    match (drops, modifies, head.status) {
        (true, ..) => Ok(Answer::Drop),
        (false, true, 200) if is_compressed(&head.headers) => Err(Unfiltered::Compressed),
        (false, true, 200) => Ok(Answer::Replace(body.to_vec())),
        _ => Ok(Answer::Pass),
    }
}

/// Meta as an object of JSON, in ASCII: it is a header.
pub(crate) fn json(meta: &Meta) -> Vec<u8> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let entries = meta
        .iter()
        .map(|(name, value)| (text(name), serde_json::Value::String(text(value))));
    let object = serde_json::Value::Object(entries.collect());
    let mut out = String::new();
    for it in object.to_string().chars() {
        match it {
            ' '..='~' => out.push(it),
            _ => {
                for unit in it.encode_utf16(&mut [0; 2]) {
                    out += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, headers: &[(&str, &str)]) -> Head {
        let headers = headers.iter();
        Head {
            status,
            headers: headers.map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            ..Head::default()
        }
    }

    #[test]
    fn an_answer_passes_replaces_or_drops() {
        let replaced = Answer::Replace(b"new".to_vec());
        for (status, headers, modifies, expected) in [
            (200, &[][..], true, Some(replaced)),
            (200, &[], false, Some(Answer::Pass)),
            (204, &[], true, Some(Answer::Pass)),
            (200, &[("Action", "drop")], true, Some(Answer::Drop)),
            (204, &[("action", " Drop ")], false, Some(Answer::Drop)),
            (200, &[("Action", "keep")], false, Some(Answer::Pass)),
            (404, &[("Action", "drop")], false, None),
            (201, &[], true, None),
            (200, &[("Content-Encoding", "gzip")], true, None),
        ] {
            let found = read_answer(&head(status, headers), b"new", modifies);
            assert_eq!(found.ok(), expected, "{status} {headers:?}");
        }
    }

    #[test]
    fn meta_is_a_header_whatever_is_in_it() {
        let entry = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let meta: Meta = [entry("user", "Ü\r\n\"\u{7f}😀"), entry("a", "1")]
            .into_iter()
            .collect();
        let text = String::from_utf8(json(&meta)).expect("ASCII");
        assert!(
            text.is_ascii() && !text.contains(['\r', '\n', '\u{7f}']),
            "{text}"
        );
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["user"], "Ü\r\n\"\u{7f}😀");
        assert_eq!(json(&Meta::new()), b"{}");
    }

    #[test]
    fn a_queue_is_bounded_by_count_and_bytes() {
        let mut queue = Queue {
            client: Left::Held(1),
            serial: 1,
            items: VecDeque::new(),
            bytes: 0,
            front: Front::default(),
            has_lost: false,
            is_last: false,
            is_running: false,
        };
        let item = Rc::new(Item::default());
        let fits = (0..2 * WAITING_MAX).filter(|_| queue.push(b"c", &item));
        assert_eq!(fits.count(), WAITING_MAX);
        while !queue.items.is_empty() {
            queue.pop();
        }
        assert_eq!(queue.bytes, 0);
        let large = Rc::new(Item {
            id: Some(vec![0; WAITING_BYTES_MAX]),
            ..Item::default()
        });
        // One that is larger than all of it is asked about alone.
        assert!(queue.push(b"c", &large) && !queue.push(b"c", &item));
    }
}
