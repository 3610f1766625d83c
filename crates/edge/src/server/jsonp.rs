//! JSON-P: a page's script element asks, so any request has to be said in a query, and any response to be a script.

use crate::client::clients::Clients;
use crate::client::request::ClientRequest;
use crate::client::script::read;
use crate::client::source::Source;
use crate::server::policy::EdgePolicy;
use fermata_engine::RequestId;

impl Clients {
    /// Has the request that a script element means be the one that goes on. `Err`: what to refuse it with.
    pub(super) fn read_jsonp(
        &mut self,
        policy: &EdgePolicy,
        handle: RequestId,
        source: &Source,
        request: &ClientRequest,
    ) -> Result<Option<ClientRequest>, &'static str> {
        let Some(rule) = source.rule() else {
            return Ok(None);
        };
        if !(rule.auto_cross_origin || policy.is_cross_origin) || request.method != b"GET" {
            return Ok(None);
        }
        let Some((request, script)) = read(request, &rule.jsonp)? else {
            return Ok(None);
        };
        self.scripts.insert(handle, script);
        Ok(Some(request))
    }

    /// Whether the answer to a request has to be a script.
    pub(super) fn is_script(&self, handle: RequestId) -> bool {
        self.scripts.contains_key(&handle)
    }
}
