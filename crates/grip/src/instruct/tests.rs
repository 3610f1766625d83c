//! Tests that written instructions are read back unchanged, as headers and as JSON, and that no input exceeds a limit.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{encoding, params};

/// Generates text that is valid in both notations, for names and ids. It includes quotes and separators.
fn text() -> impl Strategy<Value = String> {
    "[ -~]{1,12}"
}

#[derive(Clone, Debug)]
struct Written {
    is_stream: bool,
    channels: Vec<(String, Option<String>, Vec<String>)>,
    timeout_s: u32,
    keep_alive: Option<(Vec<u8>, u32)>,
    meta: Vec<(String, String)>,
    status: u16,
}

fn written() -> impl Strategy<Value = Written> {
    // In a header, a name ends at the first semicolon.
    let name = "[a-zA-Z0-9_./-]{1,12}";
    let filters = prop::collection::vec("[a-z-]{1,8}", 0..=FILTERS_MAX);
    let channel = (name, prop::option::of(text()), filters);
    let keep_alive = (prop::collection::vec(any::<u8>(), 1..20), 0..400u32);
    (
        any::<bool>(),
        prop::collection::vec(channel, 0..6),
        0..100u32,
        prop::option::of(keep_alive),
        prop::collection::vec(("[a-z]{1,5}", text()), 0..3),
        200..600u16,
    )
        .prop_map(
            |(is_stream, channels, timeout_s, keep_alive, meta, status)| Written {
                is_stream,
                channels,
                timeout_s,
                keep_alive,
                meta,
                status,
            },
        )
}

fn quoted(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(format!("; {name}=").as_bytes());
    params::quote(out, value.as_bytes()).expect("printable");
}

fn by_headers(it: &Written) -> Instruct {
    let mode = if it.is_stream { "stream" } else { "response" };
    let mut headers = vec![
        ("Grip-Hold", mode.as_bytes().to_vec()),
        ("grip-timeout", it.timeout_s.to_string().into_bytes()),
        ("Grip-Status", it.status.to_string().into_bytes()),
    ];
    for (name, prev_id, filters) in &it.channels {
        let mut value = name.clone().into_bytes();
        if let Some(prev_id) = prev_id {
            quoted(&mut value, "prev-id", prev_id);
        }
        for filter in filters {
            quoted(&mut value, "filter", filter);
        }
        headers.push(("Grip-Channel", value));
    }
    if let Some((data, timeout_s)) = &it.keep_alive {
        let data = encoding::to_base64(data);
        let value = format!("{data}; format=base64; timeout={timeout_s}; mode=interval");
        headers.push(("Grip-Keep-Alive", value.into_bytes()));
    }
    for (name, value) in &it.meta {
        let mut line = format!("{name}=").into_bytes();
        params::quote(&mut line, value.as_bytes()).expect("printable");
        headers.push(("Grip-Set-Meta", line));
    }
    let headers: Vec<(&[u8], &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.as_bytes(), &value[..]))
        .collect();
    from_headers(200, b"", &headers).expect("own headers")
}

fn by_json(it: &Written) -> Instruct {
    let channels: Vec<_> = it
        .channels
        .iter()
        .map(|(name, prev_id, filters)| {
            let mut channel = json!({"name": name, "filters": filters});
            if let Some(prev_id) = prev_id {
                channel["prev-id"] = json!(prev_id);
            }
            channel
        })
        .collect();
    let mode = if it.is_stream { "stream" } else { "response" };
    let meta: serde_json::Map<_, _> = it
        .meta
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    let mut hold =
        json!({"mode": mode, "channels": channels, "timeout": it.timeout_s, "meta": meta});
    if let Some((data, timeout_s)) = &it.keep_alive {
        let data = encoding::to_base64(data);
        hold["keep-alive"] = json!({"content-bin": data, "timeout": timeout_s, "mode": "interval"});
    }
    let body = json!({"hold": hold, "response": {"code": it.status}}).to_string();
    from_json(200, &[], body.as_bytes()).expect("own JSON")
}

proptest! {
    #[test]
    fn headers_and_json_yield_equal_instructions(it in written()) {
        let (mut headers, mut json) = (by_headers(&it), by_json(&it));
        // A JSON instruction always has a body, possibly empty, and the standard reason.
        json.answer.body = None;
        headers.answer.reason.clear();
        json.answer.reason.clear();
        prop_assert_eq!(&headers, &json);
        prop_assert_eq!(headers.timeout_s, it.timeout_s.max(RESPONSE_TIMEOUT_MIN_S));
        for (name, prev_id, filters) in &it.channels {
            let found = headers.channels.iter().find(|other| other.name == name.as_bytes());
            let last = it.channels.iter().rfind(|other| other.0 == *name).expect("itself");
            if (prev_id, filters) == (&last.1, &last.2) {
                let found = found.expect("subscribed");
                prop_assert_eq!(found.prev_id.as_deref(), prev_id.as_ref().map(|it| it.as_bytes()));
                prop_assert_eq!(found.filters.len(), filters.len());
            }
        }
    }

    /// Any header value is parsed or refused, and no GRIP header reaches the client.
    #[test]
    fn never_panics_on_any_header_value(
        name in prop::sample::select(&["Grip-Hold", "Grip-Channel", "Grip-Timeout", "Grip-Keep-Alive", "Grip-Set-Meta", "Grip-Status", "Grip-Link", "Grip-Expose-Headers", "Grip-Last", "Grip-Session-Detect", "Grip-New"][..]),
        value in prop_oneof![prop::collection::vec(any::<u8>(), 0..40), "[a-z<>;=,\"\\\\ 0-9/-]{0,40}".prop_map(String::into_bytes)],
    ) {
        let headers = [(name.as_bytes(), &value[..]), (b"X-Own", b"1")];
        if let Ok(instruct) = from_headers(200, b"", &headers) {
            prop_assert!(instruct.answer.headers.iter().all(|(name, _)| name == b"X-Own"));
            prop_assert!(instruct.channels.iter().all(|it| it.filters.len() <= FILTERS_MAX));
            prop_assert!(instruct.answer.status <= STATUS_MAX);
            let uris = instruct.next.iter().map(|it| &it.uri).chain(&instruct.gone);
            for uri in uris {
                prop_assert!(uri.iter().all(|byte| *byte > b' '));
            }
        }
    }

    /// Any JSON is parsed or refused.
    #[test]
    fn never_panics_on_any_json(body in "[\\[\\]{}:,\"a-z0-9 -]{0,60}", field in prop::sample::select(&["hold", "response", "mode", "channels", "headers"][..])) {
        for body in [body.clone(), format!("{{\"{field}\":{body}}}"), format!("{{\"hold\":{{\"channels\":[],\"{field}\":{body}}}}}")] {
            if let Ok(instruct) = from_json(200, &[], body.as_bytes()) {
                prop_assert!(instruct.timeout_s >= RESPONSE_TIMEOUT_MIN_S && instruct.answer.body.is_some());
            }
        }
    }
}
