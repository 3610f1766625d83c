//! Pusher and Mercure clients of the application's server: configuration before the start, then signing and
//! publishing.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use fermata_engine::{Message, PublishFailure};
use fermata_gateway::Update;
use fermata_pusher::channel::{Access, ChannelName};
use fermata_pusher::socket_id::SocketId;
use fermata_pusher::{App, auth};

use crate::abi::{
    FM_BACKPRESSURE, FM_CONFIGURATION, FM_PROTOCOL, FmError, FmStr, NOTHING, array, ask, guard,
    misuse, put,
};
use crate::server::FmServer;
use crate::worker::FmWorker;

/// Size of a signature buffer, in bytes: a key, a colon and 64 hexadecimal digits.
pub const FM_AUTH_BYTES: usize = 160;

/// A Pusher signature.
#[repr(C)]
pub struct FmAuth {
    /// Bytes used of `text`.
    pub len: u32,
    /// `KEY:SIGNATURE`.
    pub text: [c_char; FM_AUTH_BYTES],
}

/// Input of a Pusher signature.
#[repr(C)]
pub struct FmAuthOf {
    /// Key of the Pusher application.
    pub key: FmStr,
    /// Secret of the application.
    pub secret: FmStr,
    /// Socket id of the connection.
    pub socket_id: FmStr,
    /// Channel to subscribe to; `ptr` NULL for a user sign-in.
    pub channel: FmStr,
    /// JSON of the user. `ptr` is NULL for none.
    pub data: FmStr,
}

/// A Mercure update.
#[repr(C)]
pub struct FmUpdate {
    /// Topics.
    pub topics: *const FmStr,
    /// Number of `topics`.
    pub topics_len: usize,
    /// Event data.
    pub data: FmStr,
    /// Event id. If `ptr` is NULL, the server assigns an id.
    pub id: FmStr,
    /// Event type. `ptr` is NULL for none.
    pub kind: FmStr,
    /// Reconnection time of subscribers in milliseconds. -1: none is sent.
    pub retry_ms: i64,
    /// True if only subscribers whose token covers a topic receive the update.
    pub is_private: bool,
}

impl FmUpdate {
    fn topics(&self) -> &[FmStr] {
        // SAFETY: C sets both fields: an array and its length.
        unsafe { array(self.topics, self.topics_len) }
    }
}

/// Serves an application of the Pusher protocol. `app` is a JSON object with the keys of an `[[app]]` table of
/// `fermata hub`; `path` is the prefix of `/app` and `/apps`. FM_CONFIGURATION.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_pusher(
    server: Option<&mut FmServer>,
    app: FmStr,
    path: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server, error, |server| {
        let doors = server.doors.get_or_insert_default();
        doors
            .add_pusher(&app.text(), &path.text())
            .map_err(|error| (FM_CONFIGURATION, format!("Fermata\\Pusher: {error}")))
    })
}

/// Serves Mercure. `mercure` is a JSON object with the keys of the `[mercure]` table of `fermata hub`.
/// FM_CONFIGURATION.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_mercure(
    server: Option<&mut FmServer>,
    mercure: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server, error, |server| {
        let doors = server.doors.get_or_insert_default();
        doors
            .set_mercure(&mercure.text())
            .map_err(|error| (FM_CONFIGURATION, format!("Fermata\\Mercure: {error}")))
    })
}

/// Signs a subscription or a user sign-in. FM_PROTOCOL if the client sent an invalid socket id or channel;
/// FM_CONFIGURATION if the key or secret is invalid.
#[unsafe(no_mangle)]
pub extern "C" fn fm_pusher_sign(
    of: Option<&FmAuthOf>,
    out: Option<&mut MaybeUninit<FmAuth>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(of, error, |of| {
        let app = App::new("0", &of.key.text(), &of.secret.text())
            .map_err(|error| (FM_CONFIGURATION, error.to_string()))?;
        let bad = |what: &str| (FM_PROTOCOL, what.to_owned());
        let socket_id = of.socket_id.text();
        // A socket id with other characters could make the signed text valid for a different channel.
        if SocketId::parse(&socket_id).is_none() {
            return Err(bad("socket_id is none of a connection"));
        }
        let data = of.data.option().map(|_| of.data.text());
        let signed = match of.channel.option() {
            None => auth::user(&app, &socket_id, data.as_deref().unwrap_or_default()),
            Some(_) => {
                let channel = of.channel.text();
                ChannelName::new(&channel).map_err(|error| bad(&error.to_string()))?;
                auth::subscription(&app, &socket_id, &channel, data.as_deref())
            }
        };
        put(out, auth_of(&signed));
        Ok(())
    })
}

/// Returns true for presence channels, whose subscriptions name a user.
#[unsafe(no_mangle)]
pub extern "C" fn fm_pusher_has_members(channel: FmStr) -> bool {
    ask(NOTHING, false, |()| {
        ChannelName::new(&channel.text()).map(ChannelName::access) == Ok(Access::Presence)
    })
}

/// Returns true if `fm_server_mercure` was called.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_has_mercure(worker: Option<&FmWorker>) -> bool {
    ask(worker, false, |worker| {
        worker.hub.as_ref().is_some_and(|hub| hub.has_mercure())
    })
}

/// Publishes an update to Mercure subscribers. `id` stays valid until the next call with this worker. FM_MISUSE,
/// FM_BACKPRESSURE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_mercure_publish(
    worker: Option<&mut FmWorker>,
    update: Option<&FmUpdate>,
    id: Option<&mut MaybeUninit<FmStr>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker.zip(update), error, |(worker, given)| {
        let text = |bytes: &FmStr| match std::str::from_utf8(bytes.bytes()) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(misuse("topics, data, id and type have to be UTF-8")),
        };
        let some = |it: &FmStr| it.option().map(|_| text(it)).transpose();
        let update = Update {
            topics: given.topics().iter().map(text).collect::<Result<_, _>>()?,
            is_private: given.is_private,
            id: some(&given.id)?.filter(|id| !id.is_empty()),
            kind: some(&given.kind)?.filter(|kind| !kind.is_empty()),
            retry_ms: u64::try_from(given.retry_ms).ok().filter(|ms| *ms > 0),
            data: text(&given.data)?,
        };
        update.check().map_err(misuse)?;
        let hub = worker.hub.as_mut();
        let published = hub.and_then(|hub| hub.publish(&mut worker.worker, &update));
        let published =
            published.ok_or(misuse("Mercure is not spoken; call $server->mercure()"))?;
        let published = published.map_err(|failure| match failure {
            PublishFailure::Misuse(cause) => misuse(cause),
            PublishFailure::Backpressure(cause) => (FM_BACKPRESSURE, cause.to_string()),
        })?;
        worker.text.clear();
        worker.text.extend_from_slice(published.as_bytes());
        put(id, FmStr::lend(&worker.text));
        Ok(())
    })
}

impl FmWorker {
    /// Forwards a message that the application published to the clients of Pusher and Mercure.
    pub(crate) fn tell_doors(&mut self, channel: &[u8], message: &Message<'_>) {
        if let Some(hub) = &mut self.hub {
            hub.on_published(&mut self.worker, channel, message);
        }
    }
}

fn auth_of(text: &str) -> FmAuth {
    let mut auth = FmAuth {
        len: 0,
        text: [0; FM_AUTH_BYTES],
    };
    for (place, byte) in auth.text.iter_mut().zip(text.bytes()) {
        *place = byte as c_char;
        auth.len += 1;
    }
    auth
}
