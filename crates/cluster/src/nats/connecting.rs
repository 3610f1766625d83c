//! The handshake: the server's INFO, this node's CONNECT, and the server's errors.

use super::session::Step;
use super::{Nats, Question, ServerInfo, deleted, updated};
use crate::exchange::Event;
use crate::jetstream::{Info, api};
use crate::wire;
use serde_json::json;

impl Nats {
    /// Handles `-ERR`. A missing permission for an optional feature only turns that feature off. Any other error closes the
    /// connection.
    pub(super) fn on_error(&mut self, text: &str, now_ms: u64) -> Result<(), String> {
        if text.contains(&updated(&self.stream)) {
            let notice = "this user of NATS may not learn that the stream was changed: after the log has lost messages, ids of \
                          this server and of others may differ until it connects again";
            self.events.push_back(Event::Notice(notice.to_owned()));
            return Ok(());
        }
        if text.contains(&deleted(&self.stream)) {
            let notice = "this user of NATS may not learn that the stream was deleted ($JS.EVENT.ADVISORY.STREAM.DELETED): when it \
                          is made anew, ids of its events may be those of other events for some seconds";
            self.events.push_back(Event::Notice(notice.to_owned()));
            return Ok(());
        }
        if text.contains("DIRECT.GET") {
            // This user may not request batches of older messages. Request them one by one.
            let (past, mut desk) = self.past();
            past.end_batches(&mut desk, now_ms);
            return Ok(());
        }
        if text.contains("STREAM.MSG.GET") {
            let (past, mut desk) = self.past();
            past.forbid(&mut desk);
            return Ok(());
        }
        if text.to_ascii_lowercase().contains("auth") {
            let hint = self.login.hint(self.server());
            return Err(format!("the server refused the connection: {text}; {hint}"));
        }
        // A server that refuses to update the stream does so on every connection. Continue without a new epoch then.
        self.log.is_epoch_fixed |= matches!(self.link.step(), Some(Step::NewEpoch));
        Err(format!("the server reported {text}"))
    }

    /// Handles the first INFO: checks that the server fits the setting `cluster`, then requests the TLS handshake or sends
    /// CONNECT.
    pub(super) fn on_info(&mut self, json: &[u8], now_ms: u64) -> Result<(), String> {
        let info: Info = serde_json::from_slice(json).map_err(|error| format!("INFO: {error}"))?;
        let is_tls = self.server().is_tls;
        if info.tls_required && !is_tls {
            return Err("the server requires TLS; write tls:// in cluster".to_owned());
        }
        if is_tls && !info.tls_required && !info.tls_available {
            return Err(
                "the server has no TLS at this port; set it up there, or write nats:// in cluster"
                    .to_owned(),
            );
        }
        if !info.headers || !info.jetstream {
            let version = info.version;
            return Err(format!(
                "the server (NATS {version}) has no JetStream; start it with -js"
            ));
        }
        let server = self.server();
        if self.login.of(server).credentials.is_some() && info.nonce.is_empty() {
            return Err(
                "the server does not authenticate users by keys; configure that there, or leave cluster_credentials out"
                    .to_owned(),
            );
        }
        let is_alone = self.options.servers.len() > 1 && info.cluster.is_empty();
        if is_alone && !std::mem::replace(&mut self.is_standalone_reported, true) {
            let server = self.server();
            let notice = format!(
                "cluster has {} addresses, but {server} is in no NATS cluster: each such server is a separate log, \
                 whose clients do not get what is published to another; name one of them, or make them a cluster",
                self.options.servers.len()
            );
            self.events.push_back(Event::Notice(notice));
        }
        self.server_info = ServerInfo {
            has_batched_gets: info.has_batched_gets(),
            nonce: info.nonce,
            payload_max: info.max_payload,
        };
        if is_tls {
            self.events.push_back(Event::Secure);
            self.go_to(Step::Secure, now_ms);
        } else {
            self.introduce(now_ms);
        }
        Ok(())
    }

    /// Handles a later INFO, which reports that the server stops or that its cluster has changed.
    pub(super) fn on_news(&mut self, json: &[u8]) -> Result<(), String> {
        let info: Info = serde_json::from_slice(json).map_err(|error| format!("INFO: {error}"))?;
        // If there is no other address, the connection stays open until the server closes it.
        if info.ldm && self.options.servers.len() > 1 {
            Err("the server is about to stop (lame-duck mode)".to_owned())
        } else {
            Ok(())
        }
    }

    /// Sends CONNECT with the credentials, and requests the stream.
    pub(super) fn introduce(&mut self, now_ms: u64) {
        let login = self.login.of(self.server());
        let mut options = json!({
            "verbose": false,
            "pedantic": false,
            "lang": "rust",
            "name": "fermata",
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": 1,
            "headers": true,
            "no_responders": true,
        });
        if let Some(credentials) = &login.credentials {
            // `sign` returns `None` only for an invalid seed, and any 32 bytes are a valid one.
            let (public, signature) = credentials
                .key
                .sign(&self.server_info.nonce)
                .unwrap_or_default();
            if credentials.jwt.is_empty() {
                options["nkey"] = public.into()
            } else {
                options["jwt"] = credentials.jwt.as_str().into()
            }
            options["sig"] = signature.into();
        } else if !login.user.is_empty() {
            options["user"] = login.user.into();
            options["pass"] = login.password.into();
        } else if !login.password.is_empty() {
            options["auth_token"] = login.password.into();
        }
        // Subscription 1 receives the responses. Subscriptions 3 and 4 report that the stream was updated or deleted.
        let connect = format!(
            "CONNECT {options}\r\nSUB {}.r.> 1\r\nSUB {} 3\r\nSUB {} 4\r\n",
            self.options.inbox,
            updated(&self.stream),
            deleted(&self.stream)
        );
        self.output.extend_from_slice(connect.as_bytes());
        self.go_to(Step::Stream, now_ms);
        self.ask_for_stream();
    }

    pub(super) fn ask_for_stream(&mut self) {
        self.ask("STREAM.INFO", Question::Stream, b"");
    }

    /// Sends a request of the JetStream API about the stream. The response arrives at the reply subject of `question`.
    pub(super) fn ask(&mut self, verb: &str, question: Question, body: &[u8]) {
        let reply = self.reply_to(question);
        let subject = api(verb, &self.stream);
        let reply = Some(reply.as_bytes());
        wire::publish(&mut self.output, subject.as_bytes(), reply, [], body);
    }

    /// Returns the reply subject of a request. Its number changes with each step, so late responses are ignored.
    pub(super) fn reply_to(&self, question: Question) -> String {
        let (inbox, token) = (&self.options.inbox, question.token());
        format!("{inbox}.r.{token}.{}", self.question)
    }
}
