//! Why a target is not asked, by whose fault: what only one request is to blame for must not put a target out for all.

use crate::client::source::Owner;
use crate::server::edge::Edge;
use crate::upstream::talk::{Step, Talk};
use crate::upstream::unopened::{Unopened, capitalized};

impl Edge {
    /// No target is left.
    pub(super) fn fail_unopened(&mut self, talk: &mut Talk) -> Step {
        let refusal = talk.failures.last().and_then(|last| match last {
            Unopened::Request(status @ (308 | 400..500), reason) => Some((*status, reason.clone())),
            _ => None,
        });
        let is_all = talk
            .failures
            .iter()
            .all(|it| matches!(it, Unopened::Request(..)));
        if let (Some((status, reason)), true, Owner::Client(handle)) = (refusal, is_all, talk.owner)
        {
            // The client's doing, of which the log need not be full.
            if status == 308 {
                self.clients
                    .send_to_folder(&mut self.worker, handle, &talk.source.request);
                return Step::Over;
            }
            self.clients.answer_text(
                &mut self.worker,
                handle,
                status,
                &format!("{}.", capitalized(&reason)),
            );
            return Step::Over;
        }
        let reasons: Vec<&str> = talk.failures.iter().map(Unopened::reason).collect();
        let reason = match reasons[..] {
            [] => "no target of the route is for such a request".to_owned(),
            _ => reasons.join("; "),
        };
        self.fail(talk, 502, &reason)
    }
}
