//! Publishers' commands to which several workers contribute.

use std::collections::{HashMap, HashSet};

use fermata_engine::{RequestId, WireId};
use fermata_grip::command::{Condition, Request};
use fermata_grip::packet::Notation;
use fermata_grip::tnetstring;
use fermata_grip::value::{Value, map};

/// Prefixes of a notice with a query, and of the notice with its reply.
pub(crate) const ASKED: &[u8] = b"command ";

/// Maximum number of commands that wait for other workers; a further command fails immediately.
pub(crate) const WAITING_MAX: usize = 1_000;

/// A query about connections.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Query {
    /// Returns the connections among these ids that exist.
    Check(Vec<Vec<u8>>),
    /// Send a request to the origin of this connection, if it uses WebSocket-over-HTTP.
    Refresh(Vec<u8>),
}

/// A command that waits for replies of other workers.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) wire: WireId,
    pub(crate) envelope: Vec<Vec<u8>>,
    pub(crate) request: Request,
    pub(crate) query: Query,
    /// Ids found so far.
    pub(crate) found: HashSet<Vec<u8>>,
    /// Number of workers that have not replied.
    pub(crate) missing: usize,
    pub(crate) due_ms: u64,
}

/// Commands in progress, and the connection ids of WebSocket-over-HTTP.
#[derive(Debug)]
pub(crate) struct Commands {
    pub(crate) waiting: HashMap<u64, Waiting>,
    /// Number of the last command. The numbers differ from the numbers of the replaced process, whose queries may still receive
    /// replies.
    pub(crate) last: u64,
    /// WebSockets over HTTP by `Connection-Id`.
    pub(crate) sockets: HashMap<Vec<u8>, RequestId>,
    /// Connection id by request. After the origin has closed a socket, its id is stored only here.
    pub(crate) names: HashMap<RequestId, Vec<u8>>,
}

impl Commands {
    pub fn new() -> Self {
        Self {
            waiting: HashMap::new(),
            last: fermata_io::random::u64() >> 2,
            sockets: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// Registers an open WebSocket.
    pub fn name_socket(&mut self, handle: RequestId, id: Vec<u8>) {
        self.sockets.insert(id.clone(), handle);
        self.names.insert(handle, id);
    }

    /// Removes a WebSocket.
    pub fn forget_socket(&mut self, handle: RequestId) {
        if let Some(id) = self.names.remove(&handle) {
            self.sockets.remove(&id);
        }
    }
}

impl Query {
    pub(crate) fn ids(&self) -> &[Vec<u8>] {
        match self {
            Query::Check(ids) => ids,
            Query::Refresh(id) => std::slice::from_ref(id),
        }
    }

    pub(crate) fn method(&self) -> &'static str {
        match self {
            Query::Check(_) => "conncheck",
            Query::Refresh(_) => "refresh",
        }
    }

    pub(crate) fn notice(&self, number: u64) -> Vec<u8> {
        let number = number.to_string();
        let asked = [
            ("number", number.as_str().into()),
            ("method", self.method().into()),
            ("ids", list(self.ids())),
        ];
        written(ASKED, &map(asked))
    }

    pub(crate) fn read(notice: &Value) -> Option<Self> {
        let mut ids = ids(notice)?;
        match notice.get("method")?.bytes()? {
            b"conncheck" => Some(Query::Check(ids)),
            b"refresh" => ids.pop().map(Query::Refresh),
            _ => None,
        }
    }

    pub(crate) fn outcome(&self, found: &HashSet<Vec<u8>>) -> Result<Value, Condition> {
        match self {
            Query::Check(ids) => {
                let there: Vec<Vec<u8>> = ids
                    .iter()
                    .filter(|id| found.contains(*id))
                    .cloned()
                    .collect();
                Ok(list(&there))
            }
            Query::Refresh(id) if found.contains(id) => Ok(Value::Null),
            Query::Refresh(_) => Err(Condition::ItemNotFound),
        }
    }
}

pub(crate) fn list(ids: &[Vec<u8>]) -> Value {
    Value::List(ids.iter().cloned().map(Value::Bytes).collect())
}

pub(crate) fn ids(notice: &Value) -> Option<Vec<Vec<u8>>> {
    let Value::List(ids) = notice.get("ids")? else {
        return None;
    };
    let ids = ids.iter().map(|id| id.bytes().map(<[u8]>::to_vec));
    ids.collect()
}

pub(crate) fn written(prefix: &[u8], value: &Value) -> Vec<u8> {
    let mut out = prefix.to_vec();
    tnetstring::encode(&mut out, value);
    out
}

pub(crate) fn read(prefix: &[u8], notice: &[u8]) -> Option<Value> {
    let (value, notation) = fermata_grip::packet::decode(notice.strip_prefix(prefix)?).ok()?;
    (notation == Notation::Tnetstring).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_reach_other_workers_as_they_are() {
        for query in [
            Query::Check(vec![b"a".to_vec(), b"\xff".to_vec()]),
            Query::Check(Vec::new()),
            Query::Refresh(b"a".to_vec()),
        ] {
            let notice = read(ASKED, &query.notice(7)).expect("a notice");
            assert_eq!(notice.get("number").and_then(Value::integer), Some(7));
            assert_eq!(Query::read(&notice), Some(query));
        }
        assert_eq!(read(ASKED, b"recover"), None);
    }

    #[test]
    fn answers_to_the_process_before_are_no_answers_to_this_one() {
        let (before, now) = (Commands::new().last, Commands::new().last);
        assert!(before.abs_diff(now) > WAITING_MAX as u64);
        let notice = Query::Refresh(b"a".to_vec()).notice(u64::MAX >> 2);
        let notice = read(ASKED, &notice).expect("a notice");
        let number = notice.get("number").and_then(Value::integer);
        assert_eq!(number, Some((u64::MAX >> 2) as i64));
    }

    #[test]
    fn only_what_was_found_is_there() {
        let found = HashSet::from([b"a".to_vec()]);
        let check = Query::Check(vec![b"b".to_vec(), b"a".to_vec()]);
        assert_eq!(check.outcome(&found), Ok(list(&[b"a".to_vec()])));
        let refresh = |id: &str| Query::Refresh(id.into()).outcome(&found);
        assert_eq!(refresh("a"), Ok(Value::Null));
        assert_eq!(refresh("b"), Err(Condition::ItemNotFound));
    }
}
