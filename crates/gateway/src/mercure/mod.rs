//! Mercure hub: requests, subscriptions and publishing.
//!
//! All updates share one channel, so they have one order and one position to resume from. The engine holds the subscribers;
//! `listeners.rs` selects the recipients of an update, once per worker and group of subscribers with equal topics and rights.
//! Subscriptions are represented by the presence of that channel, so they also end when a worker is killed.

mod caddyfile;
mod keys;
mod listeners;
pub(crate) mod mercure_hub;
mod owned;
pub mod settings;
mod shared;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use fermata_engine::{HoldError, Message, PublishFailure, RequestId, Since, ViewHold, ViewPast};
use fermata_mercure::request::{self, Outcome, Subscribe};
use fermata_mercure::resource::{EVENT, METADATA_PATH};
use fermata_mercure::subscription::{self, Filter, Info, Subscriber};
use fermata_mercure::update::{EARLIEST, Update};
use fermata_pusher::frame::is_of_protocol;

use crate::gateway::Gateway;
use crate::names::UPDATES;
use crate::posts::{Headers, Publication, Reply};
use keys::Keys;
use listeners::{Listeners, Listening};
use mercure_hub::MercureHub;
use owned::OwnedRequest;
use shared::Shared;

/// The channel of all updates.
const CHANNEL: &[u8] = UPDATES.as_bytes();

const JSON: &[u8] = subscription::DRAFT_CONTENT_TYPE.as_bytes();
const TEXT: &[u8] = b"text/plain; charset=utf-8";

/// Maximum number of updates searched for an id that this worker has not read yet.
const UNREAD_MAX: usize = 1024;

impl Gateway<'_> {
    /// Creates the Mercure hub, before the first client connects.
    pub(crate) fn open_mercure(&mut self) {
        let Some(settings) = self.hub.settings.mercure.clone() else {
            return;
        };
        let mut listeners = Listeners::new(
            settings.templates_max,
            settings.templates_per_address_max,
            settings.hub.clone(),
        );
        let past = self.worker.history(CHANNEL, None, listeners::GIVEN_MAX);
        for update in past.unwrap_or_default() {
            listeners.note(&update.id, update.name.as_deref().unwrap_or_default());
        }
        let listeners = Rc::new(RefCell::new(listeners));
        let select = Box::new(Listening(Rc::clone(&listeners)));
        self.worker.channels.select_from(CHANNEL, select);
        let sources: Vec<_> = settings.key_sources.iter().flatten().cloned().collect();
        let keys = if sources.is_empty() {
            None
        } else {
            let refresh = Duration::from_secs(settings.jwks_refresh_s);
            let logger = self.worker.net.logger();
            match Keys::begin(&sources, refresh, &logger) {
                Ok(keys) => Some(keys),
                Err(error) => {
                    let line = format!("cannot refresh the keys of Mercure: {error}");
                    self.worker.net.log(fermata_config::LogLevel::Error, &line);
                    None
                }
            }
        };
        self.hub.mercure = Some(MercureHub {
            keys,
            shared: Shared::of(&settings, &self.hub.settings.apps),
            settings: Rc::new(settings),
            listeners,
        });
    }

    /// Handles a request. Returns false if the request is not for Mercure.
    pub(crate) fn on_mercure_request(&mut self) -> bool {
        let Some(mercure_hub) = &self.hub.mercure else {
            return false;
        };
        let settings = Rc::clone(&mercure_hub.settings);
        let view = self.worker.request();
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let target = text(view.target()).unwrap_or_default();
        if target == "/healthz" {
            let handle = view.handle();
            self.answer(handle, 200, None, &[], b"");
            return true;
        }
        let is_metadata = settings.hub.draft.is_some() && target.starts_with(METADATA_PATH);
        if !target.starts_with(fermata_mercure::PATH) && !is_metadata {
            return false;
        }
        let all = |name: &[u8]| -> Vec<String> {
            (0..)
                .map_while(|nth| view.header(name, nth))
                .map(|value| text(value).unwrap_or_default())
                .collect()
        };
        let one = |name: &[u8]| view.header(name, 0).and_then(text);
        // An id that is not UTF-8 was not assigned by the hub. Do not treat it as a missing id.
        let last_event_id = view.header(b"last-event-id", 0);
        let last_event_id = last_event_id.map(|id| String::from_utf8_lossy(id).into_owned());
        let owned = OwnedRequest {
            handle: view.handle(),
            method: text(view.method()).unwrap_or_default(),
            authorization: all(b"authorization"),
            cookies: all(b"cookie"),
            fields: [
                one(b"origin"),
                one(b"referer"),
                last_event_id,
                one(b"if-none-match"),
                one(b"content-type"),
            ],
            body: view.body().to_vec(),
            unix_s: self.worker.net.unix_s(),
            target,
        };
        self.serve_mercure(owned, true)
    }

    /// Serves requests that have waited for keys.
    pub(crate) fn go_on_with_keys(&mut self) {
        let now_ms = self.worker.net.now_ms();
        let keys = self.hub.mercure.as_mut().and_then(|it| it.keys.as_mut());
        for request in keys.map_or_else(Vec::new, |it| it.take_ready(now_ms)) {
            self.serve_mercure(request, false);
        }
    }

    /// Drops the request of a client that has left while the request waited for keys. Returns false if the request did not wait.
    pub(crate) fn forget_kept(&mut self, handle: RequestId) -> bool {
        let keys = self.hub.mercure.as_mut().and_then(|it| it.keys.as_mut());
        let is_forgotten = keys.is_some_and(|it| it.forget(handle));
        if is_forgotten {
            self.worker.drop_request(handle);
        }
        is_forgotten
    }

    /// Serves a request. If `may_wait`, the request may wait for keys. Returns false if the request is not for Mercure.
    fn serve_mercure(&mut self, owned: OwnedRequest, may_wait: bool) -> bool {
        let now_ms = self.worker.net.now_ms();
        let Some(mercure_hub) = &mut self.hub.mercure else {
            return false;
        };
        let settings = Rc::clone(&mercure_hub.settings);
        let request = owned.as_request();
        let headers: Headers = request::headers(&settings.hub, &request)
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let handle = owned.handle;
        let outcome = fermata_mercure::read(&settings.hub, &request);
        if may_wait
            && let Some(keys) = &mut mercure_hub.keys
            && keys.are_coming(now_ms)
            && self.worker.defer(handle).is_ok()
        {
            keys.keep(owned, now_ms);
            return true;
        }
        match outcome {
            Outcome::Subscribe(subscribe) => self.hold_subscriber(handle, subscribe, headers),
            Outcome::Publish(update) => self.take_update(handle, &update, headers),
            Outcome::Subscriptions(filter) => self.list(&owned, &filter, headers),
            Outcome::Preflight => self.answer(handle, 204, None, &headers, b""),
            Outcome::Refused(status, text) => self.refuse_request(handle, status, text, headers),
            Outcome::Challenged(status, error, text) => {
                let mut headers = headers;
                if let Some(draft) = &settings.hub.draft {
                    let challenge = draft.challenge(error);
                    headers.push((b"WWW-Authenticate".into(), challenge.into()));
                }
                self.answer(
                    handle,
                    status,
                    Some(TEXT),
                    &headers,
                    format!("{text}\n").as_bytes(),
                );
            }
            Outcome::Metadata(document) => {
                self.answer(handle, 200, Some(JSON), &headers, document.as_bytes());
            }
            Outcome::Elsewhere => return false,
        }
        true
    }

    fn hold_subscriber(&mut self, handle: RequestId, subscribe: Subscribe, mut headers: Headers) {
        let Some(mercure_hub) = &self.hub.mercure else {
            return;
        };
        let (settings, listeners) = (
            Rc::clone(&mercure_hub.settings),
            Rc::clone(&mercure_hub.listeners),
        );
        let info = Info {
            topics: subscribe.topics,
            payload: subscribe.payload,
            payloads: subscribe.payloads,
            is_draft: settings.hub.draft.is_some(),
        };
        let member = if settings.hub.has_subscriptions {
            match info.to_json() {
                Some(json) => Some((subscriber_id(), json)),
                None => {
                    let text =
                        "topics and payload are too long for a hub that announces subscriptions";
                    self.refuse_request(handle, 400, text, headers);
                    return;
                }
            }
        } else {
            None
        };
        // A refused subscriber must not create a view.
        let client = self.worker.client_network(handle);
        let view = {
            let audience = &mut listeners.borrow_mut().audience;
            audience.view_for(client, &info.topics, &subscribe.private)
        };
        let view = match view {
            Ok(view) => view,
            Err(error) => {
                use fermata_mercure::audience::AudienceError::{AddressFull, Full, Selector};
                let status = match error {
                    Selector(_) => 400,
                    AddressFull => 429,
                    Full => 503,
                };
                self.refuse_request(handle, status, &error.to_string(), headers);
                return;
            }
        };
        let place = match subscribe.last_event_id.as_deref() {
            None => Place::Now,
            Some("") => Place::Unknown,
            Some(EARLIEST) => Place::Earliest,
            Some(id) => Place::After(self.place_of(id)),
        };
        let hold = ViewHold {
            channel: CHANNEL,
            view: Rc::clone(&view),
            since: match &place {
                Place::Now | Place::Unknown => Since::Now,
                Place::Earliest => Since::Earliest,
                Place::After(place) => Since::After(place.as_bytes()),
            },
            member: member
                .as_ref()
                .map(|(id, info)| (id.as_bytes(), info.as_bytes())),
            tells_position: settings.tells_position,
            keep_alive_ms: settings.heartbeat_ms,
            ends_unix_ms: self.end_of(subscribe.expires_s, settings.stream_ms_max),
        };
        let last_event_id = subscribe.last_event_id.unwrap_or_default();
        headers.push((b"Cache-Control".into(), b"no-store".into()));
        headers.push((b"X-Accel-Buffering".into(), b"no".into()));
        let refused_headers = headers.clone();
        let outcome = self.worker.hold_view(handle, &hold, |past| {
            let answer = match (&place, past) {
                (Place::Now, _) => return headers,
                (_, ViewPast::Whole) => last_event_id,
                _ => EARLIEST.to_owned(),
            };
            headers.push((settings.hub.answer_id_name().into(), answer.into()));
            headers
        });
        drop(hold);
        listeners.borrow_mut().audience.give_back(view);
        match outcome {
            // If the client has left, no response is needed.
            Ok(()) | Err(HoldError::Gone) => {}
            Err(HoldError::Misuse(cause)) => {
                self.refuse_request(handle, 400, &cause.to_string(), refused_headers)
            }
            Err(HoldError::Backpressure(cause)) => {
                self.refuse_request(handle, 503, &cause.to_string(), refused_headers);
            }
        }
    }

    /// Returns the time at which the server ends a subscriber's response, in milliseconds since 1970.
    fn end_of(&self, expires_s: Option<u64>, stream_ms_max: u64) -> Option<u64> {
        let limit = (stream_ms_max > 0).then(|| self.worker.net.unix_ms() + stream_ms_max);
        let expires = expires_s.map(|s| s.saturating_mul(1000));
        [limit, expires].into_iter().flatten().min()
    }

    /// Returns the engine's id for an id sent by a client.
    fn place_of(&mut self, id: &str) -> String {
        let Some(mercure_hub) = &self.hub.mercure else {
            return id.to_owned();
        };
        let (known, newest) = {
            let listeners = mercure_hub.listeners.borrow();
            (listeners.place_of(id), listeners.newest_place())
        };
        if let Some(place) = known {
            return place;
        }
        // Another worker may have just published the update.
        let since = newest.as_ref().map(String::as_bytes);
        let unread = self.worker.history(CHANNEL, since, UNREAD_MAX);
        let is_it = |past: &&fermata_engine::Past| {
            let name = past.name.as_deref().unwrap_or_default();
            listeners::given_id(name).is_some_and(|given| given == id)
        };
        let unread = unread.unwrap_or_default();
        match unread.iter().find(is_it) {
            Some(past) => past.id.clone(),
            // In version 1.0, ids that the hub assigns start with "#".
            None => id.strip_prefix('#').unwrap_or(id).to_owned(),
        }
    }

    fn take_update(&mut self, handle: RequestId, update: &Update, headers: Headers) {
        if self.is_in_cluster() {
            let mut left = VecDeque::from([publication(update)]);
            left.extend(self.events_of(update));
            let given = update.id.clone();
            let reply = Reply::Update {
                request: handle,
                given,
                headers,
            };
            self.post(reply, left);
            return;
        }
        let published = self.publish_everywhere(update);
        self.answer_update(handle, published, headers);
    }

    /// Responds to the publisher of an update with the update's id.
    pub(crate) fn answer_update(
        &mut self,
        handle: RequestId,
        published: Result<String, PublishFailure>,
        headers: Headers,
    ) {
        match published {
            Ok(id) => self.answer(handle, 200, Some(TEXT), &headers, id.as_bytes()),
            Err(PublishFailure::Misuse(cause)) => {
                self.refuse_request(handle, 413, &cause.to_string(), headers)
            }
            Err(PublishFailure::Backpressure(cause)) => {
                let text = if self.is_in_cluster() {
                    cause.to_string()
                } else {
                    "The server is busy; publish again.".to_owned()
                };
                self.refuse_request(handle, 503, &text, headers);
            }
        }
    }

    /// Publishes an update, also to the channels that share its topics. Returns the update's id.
    pub(crate) fn publish_everywhere(&mut self, update: &Update) -> Result<String, PublishFailure> {
        let len = update.to_name().len() + update.data.len();
        // In a cluster, publish to the channels first. The log stores records in order, so the acknowledgement of the update covers
        // the channel events, too. Check the size before, because an update that is too large must not reach the channels either.
        let is_first = self.is_in_cluster() && len <= self.worker.settings().event_bytes_max;
        if is_first {
            self.publish_to_channels(update);
        }
        let id = self.publish_update(update)?;
        if !is_first {
            self.publish_to_channels(update);
        }
        Ok(id)
    }

    /// Publishes an update and returns its id.
    fn publish_update(&mut self, update: &Update) -> Result<String, PublishFailure> {
        let name = update.to_name();
        let message = Message {
            name: Some(name.as_bytes()),
            data: update.data.as_bytes(),
        };
        let id = self.worker.publish(CHANNEL, message)?;
        Ok(match &update.id {
            Some(given) => given.clone(),
            None => match &self.hub.mercure {
                Some(mercure_hub) => mercure_hub.settings.hub.id_of(id.as_str()),
                None => id.as_str().to_owned(),
            },
        })
    }

    /// Returns the events for shared channels that have the names of an update's topics.
    fn events_of(&self, update: &Update) -> Vec<Publication> {
        let Some(shared) = self.hub.mercure.as_ref().and_then(|it| it.shared.as_ref()) else {
            return Vec::new();
        };
        // Pusher clients treat events with such names as protocol events, which only the server may send.
        let kind = update.kind.as_deref().unwrap_or_default();
        if is_of_protocol(kind) {
            return Vec::new();
        }
        let channels = { update.topics.iter() }
            .filter_map(|topic| shared.channel_of(topic, update.is_private));
        let events = channels.map(|channel| Publication {
            channel,
            name: update.kind.clone(),
            data: update.data.clone(),
            except: String::new(),
            is_essential: false,
        });
        events.collect()
    }

    /// Publishes an update to the shared channels that have the names of its topics.
    fn publish_to_channels(&mut self, update: &Update) {
        let events = self.events_of(update);
        if self.is_in_cluster() {
            if !events.is_empty() {
                self.post(Reply::Nothing, events.into());
            }
            return;
        }
        for event in events {
            let message = Message {
                name: event.name.as_deref().map(str::as_bytes),
                data: event.data.as_bytes(),
            };
            if let Err(error) = self.worker.publish(event.channel.as_bytes(), message) {
                let line = format!("cannot publish an update to the channel of its topic: {error}");
                self.worker
                    .net
                    .log(fermata_config::LogLevel::Warning, &line);
            }
        }
    }

    /// Returns the update for the shared topic that has the name of a channel, for an event of the channel.
    pub(crate) fn update_of(
        &self,
        channel: &str,
        name: Option<&str>,
        data: &str,
    ) -> Option<Publication> {
        let shared = self.hub.mercure.as_ref()?.shared.as_ref()?;
        let (topic, is_private) = shared.topic_of(channel)?;
        let update = publication(&Update {
            topics: vec![topic.to_owned()],
            is_private,
            kind: name.map(str::to_owned),
            data: data.to_owned(),
            ..Update::default()
        });
        Some(Publication {
            is_essential: false,
            ..update
        })
    }

    /// Forwards an event of a channel to subscribers of the shared topic that has the channel's name.
    pub(crate) fn publish_to_mercure(&mut self, channel: &str, name: Option<&str>, data: &str) {
        let Some(event) = self.update_of(channel, name, data) else {
            return;
        };
        if self.is_in_cluster() {
            self.post(Reply::Nothing, VecDeque::from([event]));
            return;
        }
        let message = Message {
            name: event.name.as_deref().map(str::as_bytes),
            data: event.data.as_bytes(),
        };
        if let Err(error) = self.worker.publish(CHANNEL, message) {
            let line = format!("cannot publish an event to subscribers of Mercure: {error}");
            self.worker
                .net
                .log(fermata_config::LogLevel::Warning, &line);
        }
    }

    fn list(&mut self, request: &OwnedRequest, filter: &Filter, mut headers: Headers) {
        let Some(mercure_hub) = &self.hub.mercure else {
            return;
        };
        let subscribers_max = mercure_hub.settings.subscribers_max;
        let is_draft = mercure_hub.settings.hub.draft.is_some();
        let last_id = mercure_hub.listeners.borrow().newest_id();
        let path = request.target.split('?').next().unwrap_or_default();
        let members = match self.worker.channels.members(CHANNEL, subscribers_max) {
            Ok(members) => members,
            Err(error) => {
                self.refuse_request(request.handle, 503, &error.to_string(), headers);
                return;
            }
        };
        let subscribers: Vec<Subscriber> = members
            .into_iter()
            .filter_map(|member| {
                Some(Subscriber {
                    id: String::from_utf8(member.user).ok()?,
                    info: serde_json::from_slice(&member.info).ok()?,
                })
            })
            .collect();
        let Some(body) = subscription::answer(filter, path, &last_id, &subscribers, is_draft)
        else {
            self.refuse_request(request.handle, 404, "Not Found", headers);
            return;
        };
        // Publisher-chosen ids may contain characters that are invalid in an entity tag.
        let is_plain = last_id
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'"');
        if is_plain && is_draft {
            let link = format!(
                "<{}>; rel=\"mercure\"; last-event-id=\"{last_id}\"; type=\"{}\"; content-type=\"{}\"",
                fermata_mercure::PATH,
                EVENT,
                subscription::DRAFT_CONTENT_TYPE
            );
            headers.retain(|(name, _)| name != b"Link");
            headers.push((b"Link".into(), link.into()));
            headers.push((b"Cache-Control".into(), b"must-revalidate".into()));
        }
        if is_plain {
            let tag = format!("\"{last_id}\"");
            let is_known = request.as_request().if_none_match == Some(tag.as_str());
            headers.push((b"ETag".into(), tag.into()));
            if is_known {
                self.answer(request.handle, 304, None, &headers, b"");
                return;
            }
        }
        let kind = if is_draft {
            JSON
        } else {
            subscription::CONTENT_TYPE.as_bytes()
        };
        self.answer(request.handle, 200, Some(kind), &headers, body.as_bytes());
    }

    fn refuse_request(&mut self, handle: RequestId, status: u16, text: &str, mut headers: Headers) {
        match status {
            401 => headers.push((b"WWW-Authenticate".into(), b"Bearer".into())),
            405 => headers.push((b"Allow".into(), b"GET, HEAD, POST, OPTIONS".into())),
            503 => headers.push((b"Retry-After".into(), b"1".into())),
            _ => {}
        }
        let body = format!("{text}\n");
        self.answer(handle, status, Some(TEXT), &headers, body.as_bytes());
    }

    fn answer(
        &mut self,
        handle: RequestId,
        status: u16,
        kind: Option<&[u8]>,
        headers: &[(Vec<u8>, Vec<u8>)],
        body: &[u8],
    ) {
        let headers = headers.iter().map(|(name, value)| (&name[..], &value[..]));
        // If the client has left, no response is needed.
        let _ = self.worker.respond(handle, status, kind, headers, body);
    }
}

/// Converts an update to an event of the channel of all updates.
fn publication(update: &Update) -> Publication {
    Publication {
        channel: UPDATES.to_owned(),
        name: Some(update.to_name()),
        data: update.data.clone(),
        except: String::new(),
        is_essential: true,
    }
}

/// Position from which a subscriber receives updates.
enum Place {
    Now,
    Unknown,
    Earliest,
    After(String),
}

/// Returns a random UUID as an IRI.
fn subscriber_id() -> String {
    let (high, low) = (fermata_io::random::u64(), fermata_io::random::u64());
    format!(
        "urn:uuid:{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48) & 0x3fff,
        low & 0xffff_ffff_ffff
    )
}
