//! Automatic CORS: lets pages of other origins read every response of a route, unless the response has CORS fields.

use crate::client::source::Source;
use crate::server::policy::EdgePolicy;

const METHODS: &[u8] = b"OPTIONS, HEAD, GET, POST, PUT, DELETE";
const AGE: &[u8] = b"3600";

/// Fields that pages may read without permission (CORS-safelisted).
const SIMPLE: [&str; 6] = [
    "cache-control",
    "content-language",
    "content-type",
    "expires",
    "last-modified",
    "pragma",
];

type Headers = Vec<(Vec<u8>, Vec<u8>)>;

impl EdgePolicy {
    /// Adds missing CORS fields if the route or the settings enable them.
    pub(super) fn add_cross_origin(&self, source: &Source, headers: &mut Headers) {
        let is_wanted = source.rule().is_some_and(|rule| rule.auto_cross_origin);
        if is_wanted || self.is_cross_origin {
            let asked = |name: &str| source.request.header(name);
            add(&asked, headers);
        }
    }
}

fn add<'a>(asked: &dyn Fn(&str) -> Option<&'a [u8]>, headers: &mut Headers) {
    let exposed: Vec<Vec<u8>> = headers
        .iter()
        .map(|(name, _)| name)
        .filter(|name| {
            let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
            !SIMPLE.contains(&&*lower)
                && !lower.starts_with("grip-")
                && !lower.starts_with("access-control-")
        })
        .cloned()
        .collect();
    let mut set = |name: &str, value: &[u8]| {
        let is_there = headers
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
        if !is_there && !value.is_empty() {
            headers.push((name.as_bytes().to_vec(), value.to_vec()));
        }
    };
    let methods = asked("access-control-request-method").unwrap_or(METHODS);
    set("Access-Control-Allow-Methods", methods);
    let wanted = asked("access-control-request-headers").unwrap_or_default();
    set("Access-Control-Allow-Headers", wanted);
    set("Access-Control-Expose-Headers", &exposed.join(&b", "[..]));
    set("Access-Control-Allow-Credentials", b"true");
    set(
        "Access-Control-Allow-Origin",
        asked("origin").unwrap_or(b"*"),
    );
    set("Access-Control-Max-Age", AGE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_origin_says_stays() {
        let mut headers = vec![
            (b"X-Own".to_vec(), b"1".to_vec()),
            (b"access-control-max-age".to_vec(), b"7".to_vec()),
        ];
        add(
            &|name| (name == "origin").then_some(&b"http://page"[..]),
            &mut headers,
        );
        let value = |name: &str| {
            let found = headers.iter().find(|(other, _)| other == name.as_bytes());
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(
            value("Access-Control-Allow-Origin").as_deref(),
            Some("http://page")
        );
        assert_eq!(
            value("Access-Control-Expose-Headers").as_deref(),
            Some("X-Own")
        );
        assert_eq!(value("Access-Control-Allow-Headers"), None);
        assert_eq!(value("Access-Control-Max-Age"), None);
    }
}
