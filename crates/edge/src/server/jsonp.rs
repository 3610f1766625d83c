//! JSON-P: a script element sends the request, so the query encodes it and the response is a script.

use crate::client::clients::Clients;
use crate::client::request::ClientRequest;
use crate::client::script::read;
use crate::client::source::Source;
use crate::server::policy::EdgePolicy;
use fermata_engine::RequestId;

impl Clients {
    /// Returns the request that a JSON-P query encodes; `None` if the request is not JSON-P.
    ///
    /// # Errors
    /// The text of the response that refuses the request.
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

    /// Returns true if the response to a request has to be a script.
    pub(super) fn is_script(&self, handle: RequestId) -> bool {
        self.scripts.contains_key(&handle)
    }
}
