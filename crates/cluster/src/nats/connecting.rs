//! The connection: what the server says of itself, and what it is told of us.

use super::{Nats, Step, updated};
use crate::exchange::Event;
use crate::jetstream::{Info, api};
use crate::wire;
use serde_json::json;

impl Nats {
    pub(super) fn on_error(&mut self, text: &str, now_ms: u64) -> Result<(), String> {
        if text.contains(&updated(&self.stream)) {
            let notice = "this user of NATS may not learn that the stream was changed: after the log has lost messages, ids of \
                          this server and of others may differ until it connects again";
            self.events.push_back(Event::Notice(notice.to_owned()));
            return Ok(());
        }
        if text.contains("DIRECT.GET") {
            // The other way is slower.
            self.end_batches(now_ms);
            return Ok(());
        }
        if text.contains("STREAM.MSG.GET") {
            self.forbid_past();
            return Ok(());
        }
        if text.to_ascii_lowercase().contains("auth") {
            let hint = self.login.hint(&self.options.servers[self.server]);
            return Err(format!("the server refuses us: {text}; {hint}"));
        }
        self.is_epoch_fixed |= self.step() == Some(Step::NewEpoch);
        Err(format!("the server says {text}"))
    }

    pub(super) fn on_info(&mut self, json: &[u8], now_ms: u64) -> Result<(), String> {
        let info: Info = serde_json::from_slice(json).map_err(|error| format!("INFO: {error}"))?;
        let is_tls = self.options.servers[self.server].is_tls;
        if info.tls_required && !is_tls {
            return Err("the server wants TLS; write tls:// in cluster".to_owned());
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
        let server = &self.options.servers[self.server];
        if self.login.of(server).credentials.is_some() && info.nonce.is_empty() {
            return Err(
                "the server knows no users by their keys; set them up there, or leave cluster_credentials out"
                    .to_owned(),
            );
        }
        self.has_batched_gets = info.has_batched_gets();
        self.nonce = info.nonce;
        self.payload_max = info.max_payload;
        if is_tls {
            self.events.push_back(Event::Secure);
            self.go_to(Step::Secure, now_ms);
        } else {
            self.introduce(now_ms);
        }
        Ok(())
    }

    /// Says who this is, and asks for the stream.
    pub(super) fn introduce(&mut self, now_ms: u64) {
        let login = self.login.of(&self.options.servers[self.server]);
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
            // Of any 32 bytes a key can be made.
            let (public, signature) = credentials.key.sign(&self.nonce).unwrap_or_default();
            match credentials.jwt.is_empty() {
                true => options["nkey"] = public.into(),
                false => options["jwt"] = credentials.jwt.as_str().into(),
            }
            options["sig"] = signature.into();
        } else if !login.user.is_empty() {
            options["user"] = login.user.into();
            options["pass"] = login.password.into();
        } else if !login.password.is_empty() {
            options["auth_token"] = login.password.into();
        }
        let connect = format!(
            "CONNECT {options}\r\nSUB {}.r.> 1\r\nSUB {} 3\r\n",
            self.options.inbox,
            updated(&self.stream)
        );
        self.output.extend_from_slice(connect.as_bytes());
        self.go_to(Step::Stream, now_ms);
        self.ask_for_stream();
    }

    pub(super) fn ask_for_stream(&mut self) {
        self.ask(&api("STREAM.INFO", &self.stream), "s", b"");
    }

    /// Asks where the log ends by a message without content: a leader that has just been elected may describe the log before it
    /// has everything, and acknowledges nothing until then.
    pub(super) fn ask_for_end(&mut self) {
        let reply = format!("{}.r.e.{}", self.options.inbox, self.question);
        self.probe(&reply);
    }

    pub(super) fn ask(&mut self, subject: &str, what: &str, body: &[u8]) {
        let reply = format!("{}.r.{what}.{}", self.options.inbox, self.question);
        wire::publish(
            &mut self.output,
            subject.as_bytes(),
            Some(reply.as_bytes()),
            [],
            body,
        );
    }
}
