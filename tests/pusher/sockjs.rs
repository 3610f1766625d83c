//! Clients without WebSockets: SockJS as pusher-js uses it, over several workers.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fermata_pusher::auth;
use fermata_testkit::{Signal, send_signal, wait_until};
use serde_json::{Value, json};

use crate::hub::{Hub, data_of, json_of};

/// Number of concurrent sessions, large enough that each of three workers has some. Most requests
/// reach a worker without the session.
const SESSIONS: usize = 9;

/// Size at which pusher-js replaces a response by a new one.
const LONG_BYTES: usize = 256 * 1024;

/// Longer than any step of the test.
const PATIENCE: Duration = Duration::from_secs(20);

const QUERY: &str = "?protocol=7&client=js&version=8.6.0";

fn path(session: usize, transport: &str) -> String {
    format!("/pusher/app/app-key/{session}/session{session}/{transport}{QUERY}")
}

/// A streamed response, chunk by chunk.
struct Stream {
    reader: BufReader<TcpStream>,
    text: String,
    /// Number of bytes of the body so far.
    bytes: usize,
}

impl Stream {
    fn open(hub: &Hub, session: usize) -> Stream {
        let mut stream = TcpStream::connect(hub.address()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let target = path(session, "xhr_streaming");
        write!(
            stream,
            "POST {target} HTTP/1.1\r\nHost: hub\r\nContent-Length: 0\r\n\r\n"
        )
        .expect("it is open");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("a status");
        assert!(line.starts_with("HTTP/1.1 200 "), "{line}");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).expect("a head");
        }
        Stream {
            reader,
            text: String::new(),
            bytes: 0,
        }
    }

    /// Returns the next frame; `None` if the response has ended or was cut off.
    fn next(&mut self) -> Option<String> {
        loop {
            if let Some((frame, rest)) = self.text.split_once('\n') {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(frame);
            }
            let mut line = String::new();
            self.reader.read_line(&mut line).ok()?;
            let len = usize::from_str_radix(line.trim_end(), 16).ok()?;
            let mut chunk = vec![0; len + 2];
            self.reader.read_exact(&mut chunk).ok()?;
            if len == 0 {
                return None;
            }
            self.bytes += len;
            self.text += std::str::from_utf8(&chunk[..len]).expect("whole frames");
        }
    }

    /// Returns the messages of the next frame that contains some.
    fn messages(&mut self) -> Vec<Value> {
        loop {
            let frame = self.next().expect("it goes on");
            if let Some(list) = messages_of(&frame) {
                return list;
            }
        }
    }
}

fn messages_of(frame: &str) -> Option<Vec<Value>> {
    let list: Vec<String> =
        serde_json::from_str(frame.strip_prefix('a')?).expect("an array of texts");
    Some(list.iter().map(|text| json_of(text)).collect())
}

fn send(hub: &Hub, session: usize, message: &Value) -> u16 {
    let body = json!([message.to_string()]).to_string();
    let target = path(session, "xhr_send");
    hub.connect().post(&target, body).status()
}

/// Requests a subscription, as this user.
fn subscribe(hub: &Hub, session: usize, socket: &str, channel: &str, user: Option<&str>) {
    let data = user.map(|user| json!({"user_id": user, "user_info": {}}).to_string());
    let auth = auth::subscription(&hub.app, socket, channel, data.as_deref());
    let data = json!({"channel": channel, "auth": auth, "channel_data": data});
    let message = json!({"event": "pusher:subscribe", "data": data});
    assert_eq!(send(hub, session, &message), 204);
}

/// A polling session. Returns its received frames one by one.
struct Polls<'a> {
    hub: &'a Hub,
    session: usize,
    come: VecDeque<Value>,
}

impl Polls<'_> {
    fn next(&mut self) -> Value {
        while self.come.is_empty() {
            let answer = self.hub.connect().post(&path(self.session, "xhr"), "");
            assert_eq!(answer.status(), 200);
            let frame = answer.text().trim_end().to_owned();
            self.come.extend(messages_of(&frame).unwrap_or_default());
        }
        self.come.pop_front().expect("it was looked at")
    }
}

#[test]
fn sessions_live_whichever_worker_is_asked() {
    let hub = Hub::start(&[]);
    let mut streams = Vec::new();
    for session in 0..SESSIONS {
        let mut stream = Stream::open(&hub, session);
        assert_eq!(stream.next().as_deref(), Some("o"));
        let established = stream.messages().remove(0);
        assert_eq!(established["event"], "pusher:connection_established");
        let socket = data_of(&established)["socket_id"]
            .as_str()
            .expect("an id")
            .to_owned();
        subscribe(
            &hub,
            session,
            &socket,
            "presence-room",
            Some(&format!("user{session}")),
        );
        let mut succeeded = stream.messages().remove(0);
        // Members who join during the subscription are announced, too.
        while succeeded["event"] != "pusher_internal:subscription_succeeded" {
            succeeded = stream.messages().remove(0);
        }
        assert_eq!(data_of(&succeeded)["presence"]["count"], session + 1);
        streams.push(stream);
    }
    let mut polling = Polls {
        hub: &hub,
        session: SESSIONS,
        come: VecDeque::new(),
    };
    let opened = hub.connect().post(&path(SESSIONS, "xhr"), "");
    assert_eq!(opened.text(), "o\n");
    assert_eq!(opened.header("access-control-allow-origin"), Some("*"));
    let established = polling.next();
    let socket = data_of(&established)["socket_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    subscribe(&hub, SESSIONS, &socket, "presence-room", Some("polls"));
    let succeeded = polling.next();
    assert_eq!(data_of(&succeeded)["presence"]["count"], SESSIONS + 1);
    let wave = json!({"event": "client-wave", "channel": "presence-room", "data": {"at": 1}});
    assert_eq!(send(&hub, SESSIONS, &wave), 204);
    let hear = |streams: &mut [Stream], event: &str| {
        for stream in streams {
            let mut heard = Vec::new();
            while heard.is_empty() {
                let news = stream.messages().into_iter().map(|it| it["event"].clone());
                heard.extend(news.filter(|it| it == "client-wave" || it == "item"));
            }
            assert_eq!(heard, [event]);
        }
    };
    // The worker that received the message forwards it to the worker with the session, and a third
    // worker may publish before it arrives.
    hear(&mut streams, "client-wave");
    hub.publish("presence-room", "item", "{\"at\":2}");
    hear(&mut streams, "item");
    assert_eq!(polling.next()["event"], "item", "the wave was its own");
    // A closed page leaves its channels: its stream is cut off, and the page opens no new one.
    drop(streams);
    for _ in 0..SESSIONS {
        assert_eq!(polling.next()["event"], "pusher_internal:member_removed");
    }
}

#[test]
fn nothing_is_lost_where_a_page_begins_another_response() {
    let hub = Hub::start(&[]);
    for session in 0..3 {
        let mut stream = Stream::open(&hub, session);
        assert_eq!(stream.next().as_deref(), Some("o"));
        let established = stream.messages().remove(0);
        let socket = data_of(&established)["socket_id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let channel = format!("news{session}");
        subscribe(&hub, session, &socket, &channel, None);
        stream.messages();
        let count = 100;
        for at in 0..count {
            let data = json!({"at": at, "text": "x".repeat(8_000)}).to_string();
            hub.publish(&channel, "item", &data);
        }
        let mut heard = Vec::new();
        let mut begun = 1;
        while heard.len() < count {
            let news = stream.messages().into_iter();
            heard.extend(news.map(|it| data_of(&it)["at"].as_u64().expect("a number") as usize));
            // pusher-js aborts a response above this size after it has read all of it.
            if stream.bytes > LONG_BYTES && stream.text.is_empty() {
                stream = Stream::open(&hub, session);
                begun += 1;
            }
        }
        assert_eq!(heard, (0..count).collect::<Vec<_>>());
        assert!(begun > 2, "{begun}");
    }
}

#[test]
fn sessions_end_with_their_worker_and_begin_anew() {
    let hub = Hub::start(&[]);
    let mut streams: Vec<Stream> = (0..SESSIONS)
        .map(|session| Stream::open(&hub, session))
        .collect();
    for stream in &mut streams {
        assert_eq!(stream.next().as_deref(), Some("o"));
        stream.messages();
    }
    let killed = hub.workers()[0];
    assert!(send_signal(killed, Signal::Kill));
    wait_until("the worker is replaced", || {
        let workers = hub.workers();
        (workers.len() == 3 && !workers.contains(&killed)).then_some(())
    });
    let ping = json!({"event": "pusher:ping", "data": {}});
    let mut ended = 0;
    for (session, mut stream) in streams.into_iter().enumerate() {
        match send(&hub, session, &ping) {
            // The killed worker may have relayed the response.
            204 => match stream.next() {
                Some(frame) => assert_eq!(
                    messages_of(&frame).expect("a pong")[0]["event"],
                    "pusher:pong"
                ),
                None => assert_eq!(Stream::open(&hub, session).next().as_deref(), Some("h")),
            },
            status => {
                assert_eq!(status, 404);
                assert_eq!(stream.next(), None);
                let mut stream = Stream::open(&hub, session);
                assert_eq!(stream.next().as_deref(), Some("o"));
                assert_eq!(
                    stream.messages()[0]["event"],
                    "pusher:connection_established"
                );
                ended += 1;
            }
        }
    }
    assert!((1..SESSIONS).contains(&ended), "{ended}");
}

#[test]
fn what_is_wrong_is_said_in_frames() {
    let hub = Hub::start(&[]);
    let unknown = "/pusher/app/nobody/1/a/xhr?protocol=7";
    assert_eq!(hub.connect().post(unknown, "").text(), "o\n");
    let error = hub.connect().post(unknown, "");
    let error = messages_of(error.text().trim_end())
        .expect("messages")
        .remove(0);
    assert_eq!(error["data"]["code"], 4001);
    for _ in 0..2 {
        let end = hub.connect().post(unknown, "");
        assert!(end.text().starts_with("c[4001,"), "{}", end.text());
    }
    assert_eq!(send(&hub, 1, &json!({})), 404);
    assert_eq!(hub.connect().post(&path(1, "xhr"), "").text(), "o\n");
    for body in ["", "{}", "[1]", "[\"a\""] {
        assert_eq!(
            hub.connect().post(&path(1, "xhr_send"), body).status(),
            400,
            "{body}"
        );
    }
}

#[test]
fn sessions_have_a_bound_and_an_end() {
    let lines = "sockjs_sessions_max = 1\nsockjs_linger_s = 1\nsockjs_heartbeat_s = 1";
    let hub = Hub::configured(lines);
    let answers: Vec<u16> = (0..SESSIONS)
        .map(|session| hub.connect().post(&path(session, "xhr"), "").status())
        .collect();
    let opened = answers.iter().filter(|it| **it == 200).count();
    assert!((1..=3).contains(&opened), "{answers:?}");
    assert!(
        answers.iter().all(|it| matches!(it, 200 | 503)),
        "{answers:?}"
    );
    // Sessions that no page polls end.
    wait_until("there is room", || {
        let answer = hub.connect().post(&path(SESSIONS, "xhr"), "");
        (answer.status() == 200).then_some(())
    });
    let mut beats = 0;
    while beats < 2 {
        let answer = hub.connect().post(&path(SESSIONS, "xhr"), "");
        beats += usize::from(answer.text() == "h\n");
    }
}
