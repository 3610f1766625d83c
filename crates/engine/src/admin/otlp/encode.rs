//! OTLP as JSON: attributes, and what stands around the spans of a post.

use std::io::Write as _;

use fermata_config::Settings;
use fermata_io::process;
use fermata_proto::number::decimal;

use crate::admin::json::escape_json;

/// Where an endpoint takes traces whose URL has no path.
const TRACES_PATH: &str = "/v1/traces";

/// Appends attributes to a list of them, which may be empty.
pub(crate) struct Attributes<'a>(pub &'a mut Vec<u8>);

impl Attributes<'_> {
    /// Bytes that are not UTF-8 are replaced; what is longer than a line of the access log has is cut.
    pub fn text(&mut self, key: &str, value: &[u8]) {
        self.begin(key, "stringValue");
        escape_json(self.0, value);
        self.0.extend_from_slice(b"\"}}");
    }

    pub fn number(&mut self, key: &str, value: u64) {
        // 64 bits are more than a number of JSON has for sure, so OTLP writes them as text.
        self.begin(key, "intValue");
        decimal(self.0, value);
        self.0.extend_from_slice(b"\"}}");
    }

    fn begin(&mut self, key: &str, kind: &str) {
        if self.0.last() == Some(&b'}') {
            self.0.push(b',');
        }
        // Writing to a `Vec` cannot fail.
        let _ = write!(self.0, "{{\"key\":\"{key}\",\"value\":{{\"{kind}\":\"");
    }
}

/// The URL for traces.
pub(super) fn traces_url(endpoint: &str) -> String {
    let authority_at = endpoint.find("://").map_or(0, |at| at + 3);
    match endpoint[authority_at..].trim_end_matches('/') {
        authority if authority.contains(['/', '?']) => endpoint.to_owned(),
        authority => format!("{}{authority}{TRACES_PATH}", &endpoint[..authority_at]),
    }
}

/// What stands before the spans of a post, and after them.
pub(super) fn envelope(settings: &Settings) -> (Vec<u8>, &'static [u8]) {
    let mut list = Vec::new();
    let mut attributes = Attributes(&mut list);
    let resource = settings.otlp_resource.as_deref().unwrap_or_default();
    // The setting for the name wins, unless it has its default.
    let names_service = |(name, _): &(String, String)| name == "service.name";
    let is_default = settings.otlp_service_name == Settings::default().otlp_service_name;
    let given: Vec<_> = pairs(resource).collect();
    if !(is_default && given.iter().any(names_service)) {
        attributes.text("service.name", settings.otlp_service_name.as_bytes());
    }
    let is_last = |at: usize| !given[at + 1..].iter().any(|it| it.0 == given[at].0);
    for (at, (name, value)) in given.iter().enumerate() {
        // A name stands once; of several values the last counts.
        if !is_last(at) || !is_default && name == "service.name" {
            continue;
        }
        let mut key = Vec::new();
        escape_json(&mut key, name.as_bytes());
        attributes.text(&String::from_utf8_lossy(&key), value.as_bytes());
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_given = |key: &str| given.iter().any(|it| it.0 == key);
    for (key, value) in [
        ("telemetry.sdk.name", "fermata"),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ("host.name", host.trim()),
    ] {
        // What the setting says is what is to be seen.
        if !is_given(key) {
            attributes.text(key, value.as_bytes());
        }
    }
    if !is_given("process.pid") {
        // The exporter's parent: that of all workers.
        let pid = u64::from(process::parent_pid().unsigned_abs());
        attributes.number("process.pid", pid);
    }
    let mut before = b"{\"resourceSpans\":[{\"resource\":{\"attributes\":[".to_vec();
    before.extend_from_slice(&list);
    let _ = write!(
        before,
        "]}},\"scopeSpans\":[{{\"scope\":{{\"name\":\"fermata\",\"version\":\"{}\"}},\"spans\":[",
        env!("CARGO_PKG_VERSION")
    );
    (before, b"]}]}]}")
}

/// Reads `name=value,name=value`, values percent-decoded.
pub(super) fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = text.split(',').filter_map(|part| part.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), percent_decoded(value.trim())))
}

/// What is no code of a byte stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_without_a_path_gets_that_of_traces() {
        for (endpoint, url) in [
            ("http://a:4318", "http://a:4318/v1/traces"),
            ("http://a:4318/", "http://a:4318/v1/traces"),
            ("https://a/otlp/v1/traces", "https://a/otlp/v1/traces"),
            ("https://a?x=1", "https://a?x=1"),
        ] {
            assert_eq!(traces_url(endpoint), url);
        }
    }

    #[test]
    fn pairs_are_percent_decoded() {
        let read: Vec<_> = pairs(" a = b%2Cc ,d=%zz%4,,e").collect();
        let text = |text: &str| text.to_owned();
        assert_eq!(read, [(text("a"), text("b,c")), (text("d"), text("%zz%4"))]);
    }

    #[test]
    fn what_is_said_of_the_service_has_each_name_once_and_the_setting_wins() {
        let settings = Settings {
            otlp_resource: Some("a=1,host.name=h,process.pid=7,a=2".to_owned()),
            ..Settings::default()
        };
        let (mut json, after) = envelope(&settings);
        json.extend_from_slice(after);
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let list = &json["resourceSpans"][0]["resource"]["attributes"];
        let list = list.as_array().expect("a list");
        for (name, value) in [("a", "2"), ("host.name", "h"), ("process.pid", "7")] {
            let found: Vec<_> = list.iter().filter(|it| it["key"] == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0]["value"]["stringValue"], value, "{name}");
        }
    }

    #[test]
    fn what_stands_around_the_spans_is_json_and_names_the_service() {
        let service = |settings: &Settings| {
            let (mut json, after) = envelope(settings);
            json.extend_from_slice(after);
            let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
            let resource = &json["resourceSpans"][0]["resource"]["attributes"];
            let resource = resource.as_array().expect("a list").clone();
            let named = resource.iter().filter(|it| it["key"] == "service.name");
            let named: Vec<_> = named
                .map(|it| it["value"]["stringValue"].to_string())
                .collect();
            (named, resource.len())
        };
        let mut settings = Settings::default();
        assert_eq!(service(&settings), (vec!["\"fermata\"".to_owned()], 6));
        settings.otlp_resource = Some("service.name=shop,a\\\"b=1".to_owned());
        assert_eq!(service(&settings), (vec!["\"shop\"".to_owned()], 7));
        settings.otlp_service_name = "chat".to_owned();
        assert_eq!(service(&settings), (vec!["\"chat\"".to_owned()], 7));
    }
}
