//! ZeroMQ: items over PULL and SUB, commands over REP, stats over PUB.

use std::collections::BTreeMap;

use fermata_grip::command::request;
use fermata_grip::packet::decode;
use fermata_grip::value::{Value as Packed, map};
use fermata_grip::zmtp::{Event, Socket};
use serde_json::{Value, json};

use super::cases;
use crate::bench::Bench;
use crate::origin::ok;
use crate::socket::{accept, open};
use crate::subject::Kind;
use crate::zmq::Zmq;

cases!(
    pull_takes_each_notation,
    sub_takes_items_of_its_channels,
    rep_answers_commands,
    rep_publishes,
    stats_tell_of_subscriptions_and_messages,
    stats_report_connections,
    stats_report_what_a_route_has_had,
    backends_answer_by_zeromq,
);

fn net(bytes: &str) -> String {
    format!("{}:{bytes},", bytes.len())
}

/// Encodes a stream item as a tnetstring.
fn item(channel: Option<&str>, content: &str) -> String {
    let wrap = |inner: String| format!("{}:{inner}}}", inner.len());
    let stream = wrap(net("content") + &net(content));
    let formats = wrap(net("http-stream") + &stream);
    let channel = channel.map_or(String::new(), |channel| net("channel") + &net(channel));
    wrap(channel + &net("formats") + &formats)
}

/// Builds a header of a request or response.
fn header(name: &str, value: &str) -> Packed {
    Packed::List(vec![name.into(), value.into()])
}

fn backends_answer_by_zeromq(bench: &Bench) {
    let mut backend = Zmq::unix(&bench.subject().zhttp(), Socket::Rep);
    let channel = bench.channel("c");
    let serving = std::thread::spawn(move || {
        backend.answer(2, |request| {
            let text = |name| {
                request
                    .get(name)
                    .and_then(Packed::bytes)
                    .unwrap_or_default()
            };
            if text("method") == b"GET" {
                let headers = vec![
                    header("Grip-Hold", "stream"),
                    header("Grip-Channel", &channel),
                ];
                return map([
                    ("code", Packed::Integer(200)),
                    ("reason", "OK".into()),
                    ("headers", Packed::List(headers)),
                    ("body", "opened\n".into()),
                ]);
            }
            let seen = [text("method"), b" ", text("uri"), b" ", text("body")].concat();
            map([
                ("code", Packed::Integer(201)),
                ("reason", "Made".into()),
                ("headers", Packed::List(vec![header("X-Own", "1")])),
                ("body", Packed::Bytes(seen)),
            ])
        });
    });
    let mut client = bench.client("zhttp.test");
    let answer = client.request("POST", "/a?b", &[], b"hello");
    assert_eq!((answer.status, answer.head.reason.as_str()), (201, "Made"));
    assert_eq!(answer.header("x-own").as_deref(), Some("1"));
    assert_eq!(answer.text(), "POST http://zhttp.test/a?b hello");

    client.send("GET", "/hold", &[], b"");
    client.read_head();
    client.read_until("opened\n");
    bench.probe(&mut client, "c");
    bench.publish_stream("c", "one");
    assert_eq!(client.read_until("one"), "one");
    serving.join().expect("it has answered");
}

fn pull_takes_each_notation(bench: &Bench) {
    let (mut client, channel) = (bench.opened_stream(), bench.channel("c"));
    let mut push = Zmq::tcp(bench.subject().pull, Socket::Push);
    let json = json!({"channel": channel, "http-stream": {"content": "json,"}});
    push.send(&[item(Some(&channel), "bare,").as_bytes()]);
    push.send(&[format!("T{}", item(Some(&channel), "letter,")).as_bytes()]);
    // Either message crashes Debian's Pushpin and disconnects all its clients.
    if bench.kind() == Kind::Fermata {
        push.send(&[b"garbage"]);
        push.send(&[b"T1:x"]);
    }
    push.send(&[format!("J{json}").as_bytes()]);
    push.send(&[item(Some(&channel), "\0end").as_bytes()]);
    assert_eq!(client.read_until("end"), "bare,letter,json,\0end");
}

fn sub_takes_items_of_its_channels(bench: &Bench) {
    let channel = bench.channel("c");
    let mut publisher = Zmq::tcp(bench.subject().sub, Socket::Xpub);
    let mut client = bench.opened_stream();
    let first = publisher.next_subscription();
    bench.differs(
        first,
        Event::Subscribed(channel.clone().into()),
        Event::Subscribed(Vec::new()),
    );
    publisher.send(&[channel.as_bytes(), item(None, "one,").as_bytes()]);
    // The topic takes precedence over the item's channel.
    publisher.send(&[channel.as_bytes(), item(Some("other"), "two,").as_bytes()]);
    let longer = format!("{channel}-longer");
    publisher.send(&[
        longer.as_bytes(),
        item(None, "of another channel,").as_bytes(),
    ]);
    publisher.send(&[channel.as_bytes(), item(None, "end").as_bytes()]);
    assert_eq!(client.read_until("end"), "one,two,end");
}

/// Sends a command to the REP socket and returns its reply.
#[track_caller]
pub fn command(bench: &Bench, method: &str, args: Value) -> Value {
    if method == "recover" {
        bench.assert_alone();
    }
    let mut socket = Zmq::tcp(bench.subject().rep, Socket::Req);
    let payload = request("7", method, args.into());
    socket.send(&[b"", &payload]);
    let reply = socket.receive();
    assert_eq!(reply.len(), 2, "{reply:?}");
    let (reply, _) =
        decode(&reply[1]).unwrap_or_else(|error| panic!("{error} in {}", reply[1].escape_ascii()));
    let mut reply = reply.to_json();
    assert_eq!(reply["id"], "7");
    if let Some(fields) = reply.as_object_mut() {
        fields.remove("id");
    }
    reply
}

fn rep_answers_commands(bench: &Bench) {
    let refused = |condition: &str| json!({"success": false, "condition": condition});
    let said = |method: &str, args: Value| {
        let mut reply = command(bench, method, args);
        // The reply may contain a text next to the error condition.
        if let Some(reply) = reply
            .as_object_mut()
            .filter(|reply| reply["success"] == false)
        {
            reply.remove("value");
        }
        reply
    };
    for (method, args, expected) in [
        (
            "conncheck",
            json!({"ids": ["none"]}),
            json!({"success": true, "value": []}),
        ),
        ("conncheck", json!({}), refused("bad-request")),
        ("refresh", json!({"cid": "none"}), refused("item-not-found")),
        ("refresh", json!({}), refused("bad-request")),
        ("publish", json!({"items": [{}]}), refused("bad-request")),
        ("none", json!({}), refused("method-not-found")),
    ] {
        assert_eq!(said(method, args.clone()), expected, "{method} {args}");
    }
    let uris = command(bench, "get-zmq-uris", json!({}));
    assert_eq!(
        uris["value"]["publish-pull"],
        format!("tcp://127.0.0.1:{}", bench.subject().pull)
    );
    assert_eq!(
        uris["value"]["publish-sub"],
        format!("tcp://127.0.0.1:{}", bench.subject().sub)
    );
    let recovered = command(bench, "recover", json!({}));
    assert_eq!(recovered["success"], true);
}

fn rep_publishes(bench: &Bench) {
    let mut client = bench.opened_stream();
    let item = json!({"channel": bench.channel("c"), "http-stream": {"content": "one"}});
    let reply = command(bench, "publish", json!({"items": [item]}));
    assert_eq!(reply["success"], true);
    assert_eq!(client.read_until("one"), "one");
}

/// Returns the next packet of a type that `wanted` accepts.
fn packet(stats: &mut Zmq, kind: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let parts = stats.receive();
        let text = String::from_utf8(parts.concat()).expect("UTF-8");
        let Some((found, fields)) = text.split_once(" J") else {
            panic!("{text}");
        };
        let fields: Value = serde_json::from_str(fields).expect("JSON");
        if found == kind && wanted(&fields) {
            return fields;
        }
    }
}

fn stats_tell_of_subscriptions_and_messages(bench: &Bench) {
    let mut stats = Zmq::unix(&bench.subject().stats(), Socket::Sub);
    stats.subscribe(b"");
    let channel = bench.channel("c");
    let of_channel = |fields: &Value| fields["channel"] == channel.as_str();
    let mut client = bench.opened_stream();
    let subscribed = packet(&mut stats, "sub", of_channel);
    assert_eq!(subscribed["mode"], "stream");
    assert!(
        subscribed["ttl"].as_u64().is_some_and(|ttl| ttl > 0),
        "{subscribed}"
    );
    let item = json!({"channel": channel, "id": "1", "http-stream": {"content": "one"}});
    bench.publish(json!([item]));
    client.read_until("one");
    let message = packet(&mut stats, "message", |fields| {
        fields["item-id"] == "1" && of_channel(fields)
    });
    assert_eq!(message["count"], 1);
    assert_eq!(message["transport"], "http-stream");
}

fn stats_report_connections(bench: &Bench) {
    let mut stats = Zmq::unix(&bench.subject().stats(), Socket::Sub);
    stats.subscribe(b"");
    let client = bench.opened_stream();
    // Packets also report connections of other cases, which may be closed by now.
    packet(&mut stats, "conn", |fields| {
        let is_one = fields["type"] == "http" && fields["id"].is_string() && fields["ttl"].is_u64();
        let ids = json!([fields["id"]]);
        is_one && command(bench, "conncheck", json!({"ids": ids}))["value"] == ids
    });
    let report = packet(&mut stats, "report", |fields| {
        fields["connections"].as_u64() > Some(0)
    });
    let flows = ["client", "server"].into_iter().flat_map(|side| {
        ["header-bytes", "content-bytes", "messages"]
            .into_iter()
            .flat_map(move |what| ["received", "sent"].map(|way| format!("{side}-{what}-{way}")))
    });
    let counts = [
        "connections",
        "minutes",
        "received",
        "sent",
        "http-response-sent",
        "duration",
    ];
    for field in counts.map(str::to_owned).into_iter().chain(flows) {
        assert!(report[&field].is_u64(), "{field} in {report}");
    }
    drop(client);
}

fn stats_report_what_a_route_has_had(bench: &Bench) {
    const BODY: &[u8] = &[b'b'; 1_000];
    bench.origin(|request| match request.header("upgrade") {
        Some(_) => accept(request, "", |mut socket| {
            while let Some(frame) = socket.next() {
                socket.send(frame.first, frame.payload);
            }
        }),
        None => ok(&[("X-Own", "value")], "a".repeat(2_000)),
    });
    let mut stats = Zmq::unix(&bench.subject().stats(), Socket::Sub);
    stats.subscribe(b"report");
    packet(&mut stats, "report", |_| true);
    let path = bench.path("");
    let mut client = bench.client("report.test");
    let answer = client.request("POST", &path, &[("X-Asked", "words")], BODY);
    assert_eq!(answer.body.len(), 2_000);
    // Count only names and values, without separators.
    let bytes = |words: &[&str]| words.iter().map(|it| it.len() as u64).sum::<u64>();
    let host = bytes(&["Host", "report.test"]);
    let asked = bytes(&["POST", &path, "Content-Length", "1000", "X-Asked", "words"]) + host;
    let answered = bytes(&[
        "200",
        "Whatever",
        "X-Own",
        "value",
        "Content-Length",
        "2000",
    ]);
    let mut sums = BTreeMap::new();
    let mut expect = |wanted: &[(&str, u64)]| {
        let mut missing = wanted.to_vec();
        while !missing.is_empty() {
            let report = packet(&mut stats, "report", |fields| fields["route"] == "report");
            for (name, value) in report.as_object().expect("fields") {
                *sums.entry(name.clone()).or_insert(0) += value.as_u64().unwrap_or_default();
            }
            missing.retain(|(name, value)| sums.get(*name) < Some(value));
        }
        for (name, value) in wanted {
            assert_eq!(sums[*name], *value, "{name} of {sums:?}");
        }
        sums.clone()
    };
    let sums = expect(&[
        ("client-content-bytes-received", 1_000),
        ("client-content-bytes-sent", 2_000),
        ("client-header-bytes-received", asked),
        ("client-header-bytes-sent", answered),
        ("server-content-bytes-received", 2_000),
        ("server-content-bytes-sent", 1_000),
        ("server-header-bytes-received", answered),
    ]);
    // The sum includes a signature and other headers.
    assert!(sums["server-header-bytes-sent"] > asked, "{sums:?}");
    assert_eq!(sums["client-messages-sent"], 0, "{sums:?}");
    let mut socket = open(bench.client("report.test"), &path);
    for text in ["one", "two"] {
        socket.text(text);
        let echoed = socket.next().expect("an echo");
        assert_eq!(echoed.payload, text.as_bytes());
    }
    expect(&[
        ("client-content-bytes-received", 1_006),
        ("client-content-bytes-sent", 2_006),
        ("client-messages-received", 2),
        ("client-messages-sent", 2),
        ("server-content-bytes-received", 2_006),
        ("server-content-bytes-sent", 1_006),
        ("server-messages-received", 2),
        ("server-messages-sent", 2),
    ]);
}
