//! A request that may have to wait.

use fermata_engine::RequestId;
use fermata_mercure::request::Request;

/// A request, copied out of the worker.
pub(super) struct OwnedRequest {
    pub handle: RequestId,
    pub method: String,
    pub target: String,
    pub authorization: Vec<String>,
    pub cookies: Vec<String>,
    pub fields: [Option<String>; 5],
    pub body: Vec<u8>,
    pub unix_s: u64,
}

impl OwnedRequest {
    pub fn as_request(&self) -> Request<'_> {
        let [origin, referer, last_event_id, if_none_match, content_type] =
            self.fields.each_ref().map(Option::as_deref);
        Request {
            method: &self.method,
            target: &self.target,
            authorization: self.authorization.iter().map(String::as_str).collect(),
            cookies: self.cookies.iter().map(String::as_str).collect(),
            origin,
            referer,
            last_event_id,
            if_none_match,
            content_type,
            body: &self.body,
            unix_s: self.unix_s,
        }
    }
}
