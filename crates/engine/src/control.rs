//! The control socket: publishing from other processes, over HTTP on a Unix socket.
//!
//! `POST /publish` with `{"channel": "room.1", "name": "…", "data": "…"}` answers
//! `{"id": "…"}`; `curl --unix-socket PATH -d … http://fermata/publish` works as well as
//! `Publisher`. Who may connect is decided by the permissions of the socket file (0600).

use fermata_io::Driver;
use serde::Deserialize;

use crate::hub::{Message, PublishFailure};
use crate::worker::Worker;

const JSON: &[u8] = b"application/json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publish {
    channel: String,
    #[serde(default)]
    name: Option<String>,
    data: String,
}

impl<D: Driver> Worker<D> {
    /// Answers the current request, which came in over the control socket.
    pub(crate) fn answer_control(&mut self, index: u32) {
        let view = self.request.view(&self.input);
        let outcome = match (view.method(), view.path()) {
            (b"POST", b"/publish") => serde_json::from_slice::<Publish>(view.body())
                .map_err(|error| (400, format!("the body is not a publish request: {error}"))),
            (_, b"/publish") => Err((405, "publishing is POST /publish".to_owned())),
            _ => Err((404, "the control socket knows POST /publish".to_owned())),
        };
        let outcome = outcome.and_then(|publish| {
            let Publish {
                channel,
                name,
                data,
            } = publish;
            let name = name.as_deref().map(str::as_bytes);
            let message = Message {
                name,
                data: data.as_bytes(),
            };
            self.publish(channel.as_bytes(), message)
                .map_err(|failure| {
                    let status = match failure {
                        PublishFailure::Misuse(_) => 400,
                        PublishFailure::Backpressure(_) => 503,
                    };
                    (status, failure.to_string())
                })
        });
        let (status, body) = match outcome {
            Ok(id) => (200, serde_json::json!({ "id": id.as_str() })),
            Err((status, error)) => (status, serde_json::json!({ "error": error })),
        };
        self.answer(
            index,
            status,
            Some(JSON),
            std::iter::empty(),
            body.to_string().as_bytes(),
        );
    }
}
