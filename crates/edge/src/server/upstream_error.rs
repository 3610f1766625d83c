//! Handles requests that no target has accepted. Errors of the request itself are reported to the client and do not count against
//! the targets.

use crate::client::source::Owner;
use crate::server::turn::Turn;
use crate::upstream::error::{UpstreamError, capitalized};
use crate::upstream::exchange::{Step, Stop, UpstreamExchange};

impl Turn<'_> {
    /// Ends an exchange after all targets failed.
    pub(super) fn fail_upstream(&mut self, exchange: &mut UpstreamExchange) -> Step {
        let refusal = exchange.failures.last().and_then(|last| match last {
            UpstreamError::Request(status @ (308 | 400..500), reason) => {
                Some((*status, reason.clone()))
            }
            _ => None,
        });
        let is_all = exchange
            .failures
            .iter()
            .all(|it| matches!(it, UpstreamError::Request(..)));
        if let (Some((status, reason)), true, Owner::Client(handle)) =
            (refusal, is_all, exchange.owner)
        {
            // The client causes this error, so it is not logged: clients could fill the log.
            if status == 308 {
                self.clients
                    .send_to_folder(self.worker, handle, &exchange.source.request);
                return Err(Stop::Over);
            }
            self.clients.answer_text(
                self.worker,
                handle,
                status,
                &format!("{}.", capitalized(&reason)),
            );
            return Err(Stop::Over);
        }
        let reasons: Vec<&str> = exchange
            .failures
            .iter()
            .map(UpstreamError::reason)
            .collect();
        let reason = match reasons[..] {
            [] => "no target of the route is for such a request".to_owned(),
            _ => reasons.join("; "),
        };
        Err(Stop::failed(502, reason))
    }
}
