//! The HTTP API for the backends of Pusher applications: publishing events, and queries about channels, users and connections.

use fermata_engine::{Message, PublishFailure, RequestId};
use fermata_pusher::App;
use fermata_pusher::api::{self, ApiError, Call, ChannelState, Event, Question, Wants};
use fermata_pusher::channel::{Access, ChannelName};
use fermata_pusher::socket_id;
use serde_json::{Value, json};
use std::collections::VecDeque;

use crate::gateway::Gateway;
use crate::names::{self, ring_name};
use crate::posts::{Publication, Reply};
use crate::sockets::{publish_error, to_engine};

const JSON: &[u8] = b"application/json";

impl Gateway<'_> {
    pub(crate) fn on_request(&mut self) {
        let view = self.worker.request();
        let handle = view.handle();
        let method = String::from_utf8_lossy(view.method()).into_owned();
        let target = String::from_utf8_lossy(view.target()).into_owned();
        let is_head = method == "HEAD";
        let settings = std::rc::Rc::clone(&self.hub.settings);
        let below = target.strip_prefix(settings.own.path.as_str());
        let (status, body) = match below {
            Some("/up") if method == "GET" || is_head => (200, r#"{"health":"OK"}"#.to_owned()),
            Some(below) => {
                let body = view.body().to_vec();
                let question = Question {
                    method: &method,
                    target: below,
                    body: &body,
                    unix_s: self.worker.net.unix_s(),
                };
                match api::read(&settings.apps, &question) {
                    None => (404, error("There is no such path.")),
                    Some(Err(refused)) => (refused.status, error(&refused.message)),
                    Some(Ok((app, Call::Publish { events, is_batch }))) if self.is_in_cluster() => {
                        self.post_events(handle, app, events, is_batch);
                        return;
                    }
                    Some(Ok((app, call))) => match self.carry_out(app, call) {
                        Ok(answer) => (200, answer),
                        Err(refused) => (refused.status, error(&refused.message)),
                    },
                }
            }
            None => (404, error("There is no such path.")),
        };
        self.answer_question(handle, status, &body);
    }

    fn answer_question(&mut self, handle: RequestId, status: u16, body: &str) {
        let headers: &[(&[u8], &[u8])] = match status {
            503 => &[(b"Retry-After", b"1")],
            _ => &[],
        };
        // If the client has left, no response is needed.
        let _ = self.worker.respond(
            handle,
            status,
            Some(JSON),
            headers.iter().copied(),
            body.as_bytes(),
        );
    }

    fn carry_out(&mut self, app: &App, call: Call) -> Result<String, ApiError> {
        match call {
            Call::Publish { events, is_batch } => self.publish(app, &events, is_batch),
            Call::Channels { prefix, wants } => {
                let own = names::prefix(app);
                let channels = self.hub.worker_counts.channels(&ring_name(app, &prefix));
                let channels: Vec<(String, ChannelState)> = channels
                    .into_iter()
                    .map(|(ring, subscriptions)| {
                        let channel = ring.strip_prefix(&own).unwrap_or_default().to_owned();
                        let state = self.state(&ring, &channel, subscriptions, wants);
                        (channel, state)
                    })
                    .collect();
                Ok(api::channels_answer(&channels, wants))
            }
            Call::Channel { channel, wants } => {
                let ring = ring_name(app, &channel);
                let subscriptions = self.hub.worker_counts.subscriptions(&ring);
                let state = self.state(&ring, &channel, subscriptions, wants);
                Ok(api::channel_answer(&state, wants))
            }
            Call::Users { channel } => {
                let ring = ring_name(app, &channel);
                let members = self.members(&ring, usize::MAX);
                let users: Vec<String> = members.into_iter().map(|(user, _)| user).collect();
                Ok(api::users_answer(&users))
            }
            Call::Connections => {
                Ok(json!({"connections": self.hub.worker_counts.connections(&app.id)}).to_string())
            }
            Call::Terminate { user } => {
                if self.terminate_everywhere(&app.id, &user) {
                    Ok("{}".to_owned())
                } else {
                    Err(busy())
                }
            }
        }
    }

    /// Publishes events in a cluster. The response follows after the log's acknowledgement.
    fn post_events(&mut self, handle: RequestId, app: &App, events: Vec<Event>, is_batch: bool) {
        let settings = std::rc::Rc::clone(&self.hub.settings);
        let at = settings.apps.iter().position(|it| it.id == app.id);
        let mut left = VecDeque::new();
        for event in &events {
            let except = event.except.as_deref().and_then(socket_id::SocketId::parse);
            let except = except.map(to_engine).unwrap_or_default();
            for channel in &event.channels {
                let channel = ring_name(app, channel);
                let shared = self.update_of(&channel, Some(&event.name), &event.data);
                left.push_back(Publication {
                    channel,
                    name: Some(event.name.clone()),
                    data: event.data.clone(),
                    except: except.clone(),
                    is_essential: true,
                });
                left.extend(shared);
            }
        }
        let reply = Reply::Events {
            request: handle,
            app: at.unwrap_or_default(),
            events,
            is_batch,
        };
        self.post(reply, left);
    }

    /// Responds to the publisher of events.
    pub(crate) fn answer_events(
        &mut self,
        handle: RequestId,
        app: usize,
        events: &[Event],
        is_batch: bool,
        failure: Option<PublishFailure>,
    ) {
        let settings = std::rc::Rc::clone(&self.hub.settings);
        let (status, body) = match failure {
            None => {
                let app = &settings.apps[app];
                let answers = events.iter().map(|event| self.describe(app, event));
                let answers = answers.collect();
                (200, events_answer(events, answers, is_batch))
            }
            Some(PublishFailure::Misuse(cause)) => (400, error(&cause.to_string())),
            Some(PublishFailure::Backpressure(cause)) => (503, error(&cause.to_string())),
        };
        self.answer_question(handle, status, &body);
    }

    fn publish(&mut self, app: &App, events: &[Event], is_batch: bool) -> Result<String, ApiError> {
        let mut answers = Vec::new();
        for event in events {
            let except = event
                .except
                .as_deref()
                .and_then(socket_id::SocketId::parse)
                .map(to_engine);
            for channel in &event.channels {
                let message = Message {
                    name: Some(event.name.as_bytes()),
                    data: event.data.as_bytes(),
                };
                let ring = ring_name(app, channel);
                // An empty id excludes no socket.
                let except = except.as_deref().unwrap_or_default().as_bytes();
                self.worker
                    .publish_except_id(ring.as_bytes(), message, except)
                    .map_err(|error| match &error {
                        PublishFailure::Misuse(_) => ApiError::new(400, publish_error(&error)),
                        PublishFailure::Backpressure(_) => busy(),
                    })?;
                self.publish_to_mercure(&ring, Some(&event.name), &event.data);
            }
            answers.push(self.describe(app, event));
        }
        Ok(events_answer(events, answers, is_batch))
    }

    /// Returns the requested states of an event's channels.
    fn describe(&mut self, app: &App, event: &Event) -> Vec<(String, ChannelState)> {
        if !event.wants.any() {
            return Vec::new();
        }
        let channels = event.channels.iter().map(|channel| {
            let ring = ring_name(app, channel);
            let subscriptions = self.hub.worker_counts.subscriptions(&ring);
            let state = self.state(&ring, channel, subscriptions, event.wants);
            (channel.clone(), state)
        });
        channels.collect()
    }

    fn state(
        &mut self,
        ring: &str,
        channel: &str,
        subscriptions: u64,
        wants: Wants,
    ) -> ChannelState {
        let name = ChannelName::new(channel);
        let is_presence = name.clone().map(ChannelName::access) == Ok(Access::Presence);
        let users = (wants.user_count && is_presence).then(|| {
            self.worker
                .channels
                .member_count(ring.as_bytes())
                .unwrap_or_default() as u64
        });
        let cache = if wants.cache && name.is_ok_and(ChannelName::is_cache) {
            self.cached(ring).map(|(_, data, _)| data)
        } else {
            None
        };
        ChannelState {
            subscriptions,
            users,
            cache,
        }
    }
}

/// Returns the response body for published events.
fn events_answer(
    events: &[Event],
    mut answers: Vec<Vec<(String, ChannelState)>>,
    is_batch: bool,
) -> String {
    if !events.iter().any(|event| event.wants.any()) {
        return "{}".to_owned();
    }
    if !is_batch {
        let channels = answers.pop().unwrap_or_default();
        let wants = events.first().map(|event| event.wants).unwrap_or_default();
        return api::channels_answer(&channels, wants);
    }
    // The batch has one object per event, in order. Each event of a batch has exactly one channel.
    let batch: Vec<Value> = answers
        .into_iter()
        .zip(events)
        .map(|(channels, event)| match channels.last() {
            Some((_, state)) => Value::Object(api::attributes(state, event.wants)),
            None => json!({}),
        })
        .collect();
    json!({"batch": batch}).to_string()
}

fn busy() -> ApiError {
    ApiError::new(503, "The server is busy; ask again.")
}

fn error(message: &str) -> String {
    json!({"error": message}).to_string()
}
