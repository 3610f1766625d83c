//! Instructions as response headers.

use super::{
    Answer, Channel, Hold, Instruct, InstructError, KeepAlive, MEDIA_TYPE, NEXT_TIMEOUT_DEFAULT_S,
    NextLink, RESPONSE_TIMEOUT_MIN_S, STATUS_MAX, SessionDetect, TIMEOUT_DEFAULT_S, shown,
};
use crate::filter::FILTERS_MAX;
use crate::params::{self, Element, list, seconds, values};

const PREFIX: &[u8] = b"grip-";

/// Returns true if a response is an instruction, which means that it has a GRIP header or the media type of an instruction.
pub fn is_instruct(headers: &[(&[u8], &[u8])]) -> bool {
    headers.iter().any(|(name, _)| is_grip(name)) || is_json(headers)
}

/// Returns true if the body is the instruction.
pub(super) fn is_json(headers: &[(&[u8], &[u8])]) -> bool {
    values(headers, "Content-Type")
        .next()
        .and_then(|value| value.split(|&byte| byte == b';').next())
        .is_some_and(|media| {
            media
                .trim_ascii()
                .eq_ignore_ascii_case(MEDIA_TYPE.as_bytes())
        })
}

/// Parses the instruction in a response's headers; the body is the client's.
///
/// # Errors
/// A header is invalid.
pub fn from_headers(
    status: u16,
    reason: &[u8],
    headers: &[(&[u8], &[u8])],
) -> Result<Instruct, InstructError> {
    let mut instruct = common(status, reason, headers)?;
    instruct.hold = match first(headers, "Grip-Hold").map(<[u8]>::trim_ascii) {
        None => Hold::Answered,
        Some(b"response") => Hold::Response,
        Some(b"stream") => Hold::Stream,
        Some(value) => return Err(wrong("Grip-Hold", value, "give response or stream")),
    };
    for element in list(headers, "Grip-Channel").filter_map(params::element) {
        instruct.subscribe(channel(element)?);
    }
    instruct.timeout_s = timeout(match first(headers, "Grip-Timeout") {
        None => None,
        Some(value) => Some(
            seconds(value)
                .ok_or_else(|| wrong("Grip-Timeout", value, "give whole seconds, not negative"))?,
        ),
    });
    if let Some(value) = values(headers, "Grip-Keep-Alive").next() {
        instruct.keep_alive = Some(KeepAlive::from_header(value)?);
    }
    instruct.answer.headers = client_headers(headers)
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    Ok(instruct)
}

/// Returns the headers of an origin's response that the client receives. GRIP headers are removed. If `Grip-Expose-Headers` is
/// present, only the headers that it lists remain.
pub fn client_headers<'a>(
    headers: &'a [(&'a [u8], &'a [u8])],
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let is_selective = values(headers, "Grip-Expose-Headers").next().is_some();
    headers.iter().copied().filter(move |(name, _)| {
        !is_grip(name)
            && (!is_selective
                || list(headers, "Grip-Expose-Headers")
                    .any(|exposed| exposed.trim_ascii().eq_ignore_ascii_case(name)))
    })
}

/// Parses the headers that apply to both forms of instructions.
pub(super) fn common(
    status: u16,
    reason: &[u8],
    headers: &[(&[u8], &[u8])],
) -> Result<Instruct, InstructError> {
    let mut instruct = Instruct {
        timeout_s: timeout(None),
        answer: Answer {
            status,
            reason: reason.to_vec(),
            ..Answer::default()
        },
        ..Instruct::default()
    };
    if let Some(value) = first(headers, "Grip-Status") {
        (instruct.answer.status, instruct.answer.reason) = client_status(value)?;
    }
    meta(&mut instruct, headers)?;
    links(&mut instruct, headers)?;
    sessions(&mut instruct, headers);
    Ok(instruct)
}

/// Returns the timeout of a long poll, in seconds.
pub(super) fn timeout(seconds: Option<u32>) -> u32 {
    seconds
        .unwrap_or(TIMEOUT_DEFAULT_S)
        .max(RESPONSE_TIMEOUT_MIN_S)
}

fn meta(instruct: &mut Instruct, headers: &[(&[u8], &[u8])]) -> Result<(), InstructError> {
    for text in list(headers, "Grip-Set-Meta") {
        // A malformed element is skipped. An empty element is an error, because it means that the backend lacked a value.
        let Some(entries) = params::params(text) else {
            continue;
        };
        let Some((name, value)) = entries.into_iter().next() else {
            return Err(InstructError::Element {
                header: "Grip-Set-Meta",
                fix: "give name=\"value\"",
            });
        };
        instruct.meta.insert(name, value);
    }
    Ok(())
}

fn links(instruct: &mut Instruct, headers: &[(&[u8], &[u8])]) -> Result<(), InstructError> {
    for element in list(headers, "Grip-Link").filter_map(params::element) {
        let Some(relation) = element.param("rel") else {
            continue;
        };
        let is_next = relation.eq_ignore_ascii_case(b"next");
        if !is_next && !relation.eq_ignore_ascii_case(b"gone") {
            continue;
        }
        let uri = element
            .first
            .strip_prefix(b"<")
            .and_then(|uri| uri.strip_suffix(b">"))
            .filter(|uri| is_uri(uri))
            .ok_or_else(|| wrong("Grip-Link", &element.first, "give <URI>; rel=next"))?
            .to_vec();
        if !is_next {
            instruct.gone = Some(uri);
            continue;
        }
        let timeout_s = match element.param("timeout") {
            None => NEXT_TIMEOUT_DEFAULT_S,
            Some(text) => seconds(text).ok_or_else(|| {
                wrong(
                    "Grip-Link",
                    text,
                    "timeout is in whole seconds, not negative",
                )
            })?,
        };
        instruct.next = Some(NextLink { uri, timeout_s });
    }
    Ok(())
}

fn sessions(instruct: &mut Instruct, headers: &[(&[u8], &[u8])]) {
    instruct.session_id = first(headers, "Grip-Session-Id")
        .map(<[u8]>::trim_ascii)
        .filter(|id| !id.is_empty())
        .map(<[u8]>::to_vec);
    instruct.last_ids = crate::last::read(headers);
    for text in list(headers, "Grip-Session-Detect") {
        let element = Element {
            first: Vec::new(),
            params: params::params(text).unwrap_or_default(),
        };
        if let (Some(prefix), Some(pointer)) =
            (element.param("path-prefix"), element.param("sid-ptr"))
        {
            instruct.session_detect.push(SessionDetect {
                path_prefix: prefix.to_vec(),
                sid_pointer: pointer.to_vec(),
                json_param: element.param("json-param").map(<[u8]>::to_vec),
            });
        }
    }
}

fn channel(element: Element) -> Result<Channel, InstructError> {
    let filters: Vec<_> = element.all("filter").map(<[u8]>::to_vec).collect();
    if filters.len() > FILTERS_MAX {
        return Err(InstructError::FiltersTooMany {
            channel: shown(&element.first),
        });
    }
    Ok(Channel {
        prev_id: element.param("prev-id").map(<[u8]>::to_vec),
        name: element.first,
        filters,
    })
}

fn client_status(value: &[u8]) -> Result<(u16, Vec<u8>), InstructError> {
    let value = value.trim_ascii();
    let end = value
        .iter()
        .position(|&byte| byte == b' ')
        .unwrap_or(value.len());
    let status = std::str::from_utf8(&value[..end])
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|&status: &u16| status <= STATUS_MAX)
        .ok_or_else(|| {
            wrong(
                "Grip-Status",
                value,
                "give a status of 0 to 999, and a reason if you like",
            )
        })?;
    Ok((status, value[end..].trim_ascii().to_vec()))
}

fn is_grip(name: &[u8]) -> bool {
    name.get(..PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Returns true if all bytes are valid in a request line.
fn is_uri(uri: &[u8]) -> bool {
    !uri.is_empty() && uri.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

fn first<'a>(headers: &'a [(&'a [u8], &'a [u8])], name: &'a str) -> Option<&'a [u8]> {
    values(headers, name).next()
}

fn wrong(header: &'static str, value: &[u8], fix: &'static str) -> InstructError {
    InstructError::Header {
        header,
        value: shown(value),
        fix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruct::KeepAliveMode;

    fn read(headers: &[(&str, &str)]) -> Result<Instruct, InstructError> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        from_headers(200, b"OK", &headers)
    }

    fn channel(name: &str, prev_id: Option<&str>, filters: &[&str]) -> Channel {
        Channel {
            name: name.into(),
            prev_id: prev_id.map(Into::into),
            filters: filters.iter().map(|&name| name.into()).collect(),
        }
    }

    #[test]
    fn parses_fuzz_seed_001_as_a_stream() {
        let instruct = read(&[
            ("Content-Type", "text/event-stream"),
            ("Grip-Hold", "stream"),
            ("Grip-Channel", "group-7"),
            ("Grip-Keep-Alive", r":\n\n; format=cstring; timeout=55"),
        ])
        .expect("the recipe");
        assert_eq!(instruct.hold, Hold::Stream);
        assert_eq!(instruct.channels, [channel("group-7", None, &[])]);
        assert_eq!(
            instruct.keep_alive,
            Some(KeepAlive::new(b":\n\n".to_vec(), 55, KeepAliveMode::Idle))
        );
        assert_eq!(
            instruct.answer.headers,
            [(b"Content-Type".to_vec(), b"text/event-stream".to_vec())]
        );
    }

    #[test]
    fn detects_instructions() {
        for (headers, expected) in [
            (&[][..], false),
            (&[(&b"gRIP-hold"[..], &b"stream"[..])], true),
            (&[(b"Grip-", b"")], true),
            (&[(b"Grip", b"")], false),
            (&[(b"X-Grip-Hold", b"stream")], false),
            (
                &[(b"content-type", b"Application/Grip-Instruct; charset=utf-8")],
                true,
            ),
            (
                &[(b"Content-Type", b"application/grip-instructions")],
                false,
            ),
        ] {
            assert_eq!(is_instruct(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn parses_channels_as_a_list() {
        let instruct = read(&[
            ("Grip-Hold", "response"),
            (
                "Grip-Channel",
                "a; prev-id=1; filter=skip-self; filter=unknown, b",
            ),
            ("grip-channel", "c; prev-id=\"x,y\", a;prev-id=2"),
            ("Grip-Channel", ""),
            ("Grip-Channel", "broken; prev-id=\"1"),
        ])
        .expect("valid headers");
        assert_eq!(
            instruct.channels,
            [
                channel("a", Some("2"), &[]),
                channel("b", None, &[]),
                channel("c", Some("x,y"), &[])
            ]
        );
        let empty = read(&[("Grip-Channel", "a,,b")]).expect("an empty element");
        assert_eq!(empty.channels[1], channel("", None, &[]));
    }

    #[test]
    fn timeout_has_a_default_and_a_minimum() {
        for (value, expected) in [
            (None, 55),
            (Some("0"), 5),
            (Some("5"), 5),
            (Some(" 300 "), 300),
        ] {
            let headers: Vec<_> = value
                .map(|value| ("Grip-Timeout", value))
                .into_iter()
                .collect();
            assert_eq!(read(&headers).expect("a time-out").timeout_s, expected);
        }
    }

    #[test]
    fn parses_links_sessions_meta_and_status() {
        let instruct = read(&[
            (
                "Grip-Link",
                "</next?a=1>; rel=next; timeout=0, <http://a/gone>; rel=gone, <x>, <y>; rel=other",
            ),
            ("Grip-Set-Meta", "user=\"al\\\"ice\", Room=7"),
            ("Grip-Status", "404 Not Here"),
            ("Grip-Session-Id", "s1"),
            ("Grip-Last", "a; last-id=5"),
            (
                "Grip-Session-Detect",
                "path-prefix=/x/; sid-ptr=/sid; json-param=p",
            ),
        ])
        .expect("valid headers");
        assert_eq!(
            instruct.next,
            Some(NextLink {
                uri: b"/next?a=1".to_vec(),
                timeout_s: 0
            })
        );
        assert_eq!(instruct.gone.as_deref(), Some(&b"http://a/gone"[..]));
        let meta: Vec<_> = instruct.meta.into_iter().collect();
        assert_eq!(
            meta,
            [
                (b"Room".to_vec(), b"7".to_vec()),
                (b"user".to_vec(), b"al\"ice".to_vec())
            ]
        );
        assert_eq!(
            (instruct.answer.status, &instruct.answer.reason[..]),
            (404, &b"Not Here"[..])
        );
        assert_eq!(instruct.session_id.as_deref(), Some(&b"s1"[..]));
        assert_eq!(instruct.last_ids, [(b"a".to_vec(), b"5".to_vec())]);
        assert_eq!(
            instruct.session_detect[0].json_param.as_deref(),
            Some(&b"p"[..])
        );
        let default = read(&[("Grip-Link", "</n>; rel=next")])
            .expect("a link")
            .next;
        assert_eq!(default.expect("next").timeout_s, 120);
    }

    #[test]
    fn only_exposed_headers_reach_the_client() {
        let headers = [
            ("A", "1"),
            ("B", "2"),
            ("C", "3"),
            ("Grip-Expose-Headers", "a, C"),
            ("Grip-Hold", "stream"),
        ];
        let instruct = read(&headers).expect("valid headers");
        let names: Vec<_> = instruct
            .answer
            .headers
            .iter()
            .map(|(name, _)| &name[..])
            .collect();
        assert_eq!(names, [b"A", b"C"]);
    }

    #[test]
    fn error_has_the_invalid_header() {
        for (name, value, part) in [
            (
                "Grip-Hold",
                "steam",
                "Grip-Hold is \"steam\": give response or stream",
            ),
            ("Grip-Timeout", "-1", "Grip-Timeout"),
            ("Grip-Timeout", "1.5", "Grip-Timeout"),
            ("Grip-Timeout", "2147483648", "Grip-Timeout"),
            ("Grip-Status", "1000", "0 to 999"),
            ("Grip-Status", "OK", "0 to 999"),
            ("Grip-Link", "/x; rel=next", "<URI>"),
            ("Grip-Link", "<>; rel=next", "<URI>"),
            ("Grip-Link", "<a b>; rel=gone", "<URI>"),
            ("Grip-Link", "<a>; rel=next; timeout=soon", "timeout"),
            ("Grip-Set-Meta", "a=1,,b=2", "Grip-Set-Meta"),
            ("Grip-Keep-Alive", "", "Grip-Keep-Alive"),
            (
                "Grip-Channel",
                "a;filter=1;filter=2;filter=3;filter=4;filter=5;filter=6",
                "more than 5",
            ),
        ] {
            let error = read(&[(name, value)]).expect_err(value).to_string();
            assert!(error.contains(part), "{name}: {value}: {error}");
        }
    }
}
