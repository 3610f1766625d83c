//! The control socket: publishing from other processes and reading statistics, over HTTP on a Unix
//! socket.
//!
//! `POST /publish` with `{"channel": "room.1", "name": "…", "data": "…"}` returns `{"id": "…"}`;
//! `curl --unix-socket PATH -d … http://fermata/publish` works like `Publisher`. `GET /stats`
//! returns the counters of all workers as JSON, `GET /metrics` as Prometheus text. `POST /clock`
//! with `{"advance_ms": 100}` advances the clock if `test_clock` is on. The permissions of the
//! socket file (0600) control access.

use fermata_io::{Driver, clock};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin::stats::{self, Reporter, Snapshot};
use crate::channels::Channels;
use crate::channels::clients::Clients;
use crate::channels::cluster::Ack;
use crate::channels::publish::{Message, PublishFailure};
use crate::net::Net;
use crate::net::index::ExchangeIndex;

const JSON: &[u8] = b"application/json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publish {
    channel: String,
    #[serde(default)]
    name: Option<String>,
    data: String,
}

/// Maximum advance of the clock per request, in milliseconds. A repeating timer fires at most once
/// per request, so a longer advance would skip more of its runs.
const ADVANCE_MS_MAX: u64 = 60_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    advance_ms: u64,
}

impl Reporter {
    /// Answers the current request of the control socket.
    pub(crate) fn answer_control<D: Driver>(
        &mut self,
        channels: &mut Channels,
        to: &mut Clients<'_, D>,
        index: ExchangeIndex,
    ) {
        let view = to.http.request.view(&to.net.input.bytes);
        let (status, content_type, body) = match (view.method(), view.path()) {
            (b"POST", b"/publish") => {
                let publish = serde_json::from_slice(view.body());
                let (status, json) = match publish {
                    Ok(publish) => control_publish(channels, to, publish),
                    Err(error) => (
                        400,
                        refusal(&format!("the body is not a publish request: {error}")),
                    ),
                };
                (status, JSON, json.to_string())
            }
            (b"POST", b"/clock") if to.net.settings.test_clock == "on" => {
                let (status, json) = set_clock_forward(view.body());
                (status, JSON, json.to_string())
            }
            (b"GET", b"/stats") => {
                let now_ms = to.net.driver.now_ms();
                self.watch(now_ms, &channels.wakers);
                self.report(channels, to, now_ms);
                (200, JSON, self.json_snapshot(channels, to.net))
            }
            (b"GET", b"/metrics") => {
                self.report(channels, to, to.net.driver.now_ms());
                let is_edge = to.http.passes_on;
                let text = self.snapshot(channels, to.net).to_prometheus(is_edge);
                (200, stats::PROMETHEUS, text)
            }
            (_, b"/publish") => (
                405,
                JSON,
                refusal("publishing is POST /publish").to_string(),
            ),
            (_, b"/stats" | b"/metrics") => {
                (405, JSON, refusal("figures are read by GET").to_string())
            }
            (_, b"/clock") => {
                let known = "the clock is set forward by POST /clock, where test_clock is on";
                (405, JSON, refusal(known).to_string())
            }
            _ => {
                let known = "the control socket knows POST /publish, GET /stats and GET /metrics";
                (404, JSON, refusal(known).to_string())
            }
        };
        to.http.answer(
            to.net,
            index,
            status,
            Some(content_type),
            std::iter::empty(),
            body.as_bytes(),
        );
    }

    pub(crate) fn snapshot<D: Driver>(&self, channels: &Channels, net: &Net<D>) -> Snapshot {
        let (now_ms, unix_ms) = (net.driver.now_ms(), net.driver.unix_ms());
        Snapshot {
            cluster: channels.cluster_figures(),
            cluster_trouble: channels.log_trouble(),
            tables: self
                .tables
                .as_ref()
                .map_or_else(Vec::new, |tables| tables()),
            ..Snapshot::take(&self.shared, &channels.ring, now_ms, unix_ms)
        }
    }

    pub(crate) fn json_snapshot<D: Driver>(&self, channels: &Channels, net: &Net<D>) -> String {
        serde_json::to_string(&self.snapshot(channels, net))
            .expect("maps with text keys are always JSON")
    }
}

fn control_publish<D: Driver>(
    channels: &mut Channels,
    to: &mut Clients<'_, D>,
    publish: Publish,
) -> (u16, Value) {
    let message = Message {
        name: publish.name.as_deref().map(str::as_bytes),
        data: publish.data.as_bytes(),
    };
    match channels.publish_counted(to, publish.channel.as_bytes(), message, None, Ack::Cluster) {
        Ok(id) => (200, json!({ "id": id.as_str() })),
        Err(failure @ PublishFailure::Misuse(_)) => (400, refusal(&failure.to_string())),
        Err(failure @ PublishFailure::Backpressure(_)) => (503, refusal(&failure.to_string())),
    }
}

/// Advances the clock; timers due by then fire in the next turn of the loop.
fn set_clock_forward(body: &[u8]) -> (u16, Value) {
    match serde_json::from_slice(body) {
        Ok(Advance { advance_ms }) if advance_ms <= ADVANCE_MS_MAX => {
            clock::advance_ms(advance_ms);
            (200, json!({ "now_ms": clock::unix_ms() }))
        }
        Ok(Advance { advance_ms }) => {
            let error = format!(
                "advance_ms is {advance_ms}, and at most {ADVANCE_MS_MAX} in one request: send several"
            );
            (400, refusal(&error))
        }
        Err(error) => {
            let error =
                format!("the body does not say how far to go ({{\"advance_ms\": 100}}): {error}");
            (400, refusal(&error))
        }
    }
}

fn refusal(error: &str) -> Value {
    json!({ "error": error })
}
