//! JSON-P: a page's script element asks, so any request has to be said in a query, and any response to be a script.

use crate::client::request::ClientRequest;
use crate::client::script::read;
use crate::client::source::Source;
use crate::server::edge::Edge;

impl Edge {
    /// Has the request that a script element means be the one that goes on. `Err`: what to refuse it with.
    pub(super) fn read_jsonp(
        &mut self,
        handle: u64,
        source: &Source,
        request: &ClientRequest,
    ) -> Result<Option<ClientRequest>, &'static str> {
        let Some(rule) = source.rule() else {
            return Ok(None);
        };
        if !(rule.auto_cross_origin || self.policy.is_cross_origin) || request.method != b"GET" {
            return Ok(None);
        }
        let Some((request, script)) = read(request, &rule.jsonp)? else {
            return Ok(None);
        };
        self.clients.scripts.insert(handle, script);
        Ok(Some(request))
    }

    /// Whether the answer to a request has to be a script.
    pub(super) fn is_script(&self, handle: u64) -> bool {
        self.clients.scripts.contains_key(&handle)
    }
}
