//! OTLP encoding: attributes, and the envelope of a post.
//!
//! A worker encodes its spans in the format of a post, so the exporter only adds the envelope.

use std::io::Write as _;

use fermata_config::Settings;
use fermata_io::process;
use fermata_proto::number::decimal;
use fermata_proto::percent::decode_leniently;

use super::protobuf;
use crate::admin::json::{FIELD_BYTES_MAX, escape_json};

/// Path for traces of an endpoint URL without a path.
const TRACES_PATH: &str = "/v1/traces";

/// Encoding of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    pub fn of(settings: &Settings) -> Encoding {
        match &*settings.otlp_protocol {
            "http/json" => Encoding::Json,
            _ => Encoding::Protobuf,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Protobuf => "application/x-protobuf",
        }
    }
}

/// A list of attributes.
pub(crate) struct Attributes {
    encoding: Encoding,
    /// Protobuf field number of the attributes.
    field: u32,
    bytes: Vec<u8>,
}

impl Attributes {
    /// Creates an empty list for a span, with a capacity in bytes.
    pub fn of_span(encoding: Encoding, bytes: usize) -> Attributes {
        Attributes::new(encoding, SPAN_ATTRIBUTES, bytes)
    }

    fn new(encoding: Encoding, field: u32, bytes: usize) -> Attributes {
        Attributes {
            encoding,
            field,
            bytes: Vec::with_capacity(bytes),
        }
    }

    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Adds a text attribute. Replaces bytes that are not UTF-8, and cuts at the limit of access
    /// log fields.
    pub fn text(&mut self, key: &str, value: &[u8]) {
        match self.encoding {
            Encoding::Json => {
                self.begin(key, "stringValue");
                escape_json(&mut self.bytes, value);
                self.bytes.extend_from_slice(b"\"}}");
            }
            Encoding::Protobuf => {
                let value = &value[..value.len().min(FIELD_BYTES_MAX)];
                self.append(key, |out| protobuf::text(out, any_value::STRING, value));
            }
        }
    }

    pub fn number(&mut self, key: &str, value: u64) {
        match self.encoding {
            // JSON numbers are not safe for 64 bits, so OTLP writes them as strings.
            Encoding::Json => {
                self.begin(key, "intValue");
                decimal(&mut self.bytes, value);
                self.bytes.extend_from_slice(b"\"}}");
            }
            Encoding::Protobuf => {
                self.append(key, |out| protobuf::number(out, any_value::INT, value));
            }
        }
    }

    /// Returns the encoded list: in JSON without brackets, in protobuf as fields.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn begin(&mut self, key: &str, kind: &str) {
        if !self.bytes.is_empty() {
            self.bytes.push(b',');
        }
        self.bytes.extend_from_slice(b"{\"key\":\"");
        escape_json(&mut self.bytes, key.as_bytes());
        // Writing to a `Vec` cannot fail.
        let _ = write!(self.bytes, "\",\"value\":{{\"{kind}\":\"");
    }

    fn append(&mut self, key: &str, value: impl FnOnce(&mut Vec<u8>)) {
        protobuf::message(&mut self.bytes, self.field, |out| {
            protobuf::bytes(out, key_value::KEY, key.as_bytes());
            protobuf::message(out, key_value::VALUE, value);
        });
    }
}

/// Field of `Span` for attributes.
const SPAN_ATTRIBUTES: u32 = 9;

/// Fields of `KeyValue`.
mod key_value {
    pub const KEY: u32 = 1;
    pub const VALUE: u32 = 2;
}

/// Fields of `AnyValue`.
mod any_value {
    pub const STRING: u32 = 1;
    pub const INT: u32 = 3;
}

/// Fields of `ExportTraceServiceRequest`, `ResourceSpans`, `Resource`, `ScopeSpans` and `InstrumentationScope`.
mod request {
    pub const RESOURCE_SPANS: u32 = 1;
    pub const RESOURCE: u32 = 1;
    pub const RESOURCE_ATTRIBUTES: u32 = 1;
    pub const SCOPE_SPANS: u32 = 2;
    pub const SCOPE: u32 = 1;
    pub const SCOPE_NAME: u32 = 1;
    pub const SCOPE_VERSION: u32 = 2;
    pub const SPANS: u32 = 2;
}

/// Field of a post for spans.
pub(super) const SPANS_FIELD: u32 = request::SPANS;

/// Returns the URL for traces.
pub(super) fn traces_url(endpoint: &str) -> String {
    let authority_at = endpoint.find("://").map_or(0, |at| at + 3);
    match endpoint[authority_at..].trim_end_matches('/') {
        authority if authority.contains(['/', '?']) => endpoint.to_owned(),
        authority => format!("{}{authority}{TRACES_PATH}", &endpoint[..authority_at]),
    }
}

/// The envelope of a post.
pub(super) struct Envelope {
    encoding: Encoding,
    /// Encoded resource and scope. JSON: all text before the spans. Protobuf: both messages, each with its length.
    resource: Vec<u8>,
    scope: Vec<u8>,
}

impl Envelope {
    pub fn new(settings: &Settings) -> Envelope {
        let attributes = resource(settings);
        let list = attributes.as_bytes();
        let version = env!("CARGO_PKG_VERSION");
        let (mut resource, mut scope) = (Vec::new(), Vec::new());
        match attributes.encoding() {
            Encoding::Json => {
                resource.extend_from_slice(b"{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
                resource.extend_from_slice(list);
                // Writing to a `Vec` cannot fail.
                let _ = write!(
                    scope,
                    "]}},\"scopeSpans\":[{{\"scope\":{{\"name\":\"fermata\",\"version\":\"{version}\"}},\"spans\":["
                );
            }
            Encoding::Protobuf => {
                protobuf::bytes(&mut resource, request::RESOURCE, list);
                protobuf::message(&mut scope, request::SCOPE, |out| {
                    protobuf::bytes(out, request::SCOPE_NAME, b"fermata");
                    protobuf::bytes(out, request::SCOPE_VERSION, version.as_bytes());
                });
            }
        }
        Envelope {
            encoding: attributes.encoding(),
            resource,
            scope,
        }
    }

    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns a post with these pieces, each of which has at least one span.
    pub fn around(&self, pieces: &[&[u8]]) -> Vec<u8> {
        let spans_len: usize = pieces.iter().map(|piece| piece.len() + 1).sum();
        let mut body = Vec::with_capacity(self.resource.len() + self.scope.len() + spans_len + 32);
        match self.encoding {
            Encoding::Json => {
                body.extend_from_slice(&self.resource);
                body.extend_from_slice(&self.scope);
                body.extend_from_slice(&pieces.join(&b','));
                body.extend_from_slice(b"]}]}]}");
            }
            Encoding::Protobuf => {
                protobuf::message(&mut body, request::RESOURCE_SPANS, |out| {
                    out.extend_from_slice(&self.resource);
                    protobuf::message(out, request::SCOPE_SPANS, |out| {
                        out.extend_from_slice(&self.scope);
                        pieces.iter().for_each(|piece| out.extend_from_slice(piece));
                    });
                });
            }
        }
        body
    }
}

/// Returns the attributes of the service.
fn resource(settings: &Settings) -> Attributes {
    let mut attributes = Attributes::new(Encoding::of(settings), request::RESOURCE_ATTRIBUTES, 512);
    let resource = settings.otlp_resource.as_deref().unwrap_or_default();
    // `otlp_service_name` takes precedence, unless it has its default.
    let names_service = |(name, _): &(String, String)| name == "service.name";
    let is_default = settings.otlp_service_name == Settings::default().otlp_service_name;
    let given: Vec<_> = pairs(resource).collect();
    if !(is_default && given.iter().any(names_service)) {
        attributes.text("service.name", settings.otlp_service_name.as_bytes());
    }
    let is_last = |at: usize| !given[at + 1..].iter().any(|it| it.0 == given[at].0);
    for (at, (name, value)) in given.iter().enumerate() {
        // Write each name once, with its last value.
        if !is_last(at) || !is_default && name == "service.name" {
            continue;
        }
        attributes.text(name, value.as_bytes());
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_given = |key: &str| given.iter().any(|it| it.0 == key);
    for (key, value) in [
        ("telemetry.sdk.name", "fermata"),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ("host.name", host.trim()),
    ] {
        // The setting overrides detected values.
        if !is_given(key) {
            attributes.text(key, value.as_bytes());
        }
    }
    if !is_given("process.pid") {
        // The exporter's parent is the master, the parent of all workers.
        let pid = u64::from(process::parent_pid().unsigned_abs());
        attributes.number("process.pid", pid);
    }
    attributes
}

/// Parses `name=value,name=value` with percent-encoded values; invalid escapes stay unchanged.
pub(super) fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = text.split(',').filter_map(|part| part.split_once('='));
    pairs.map(|(name, value)| {
        let value = decode_leniently(value.trim().as_bytes());
        let value = String::from_utf8_lossy(&value).into_owned();
        (name.trim().to_owned(), value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_the_traces_path_to_an_endpoint_without_path() {
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
    fn percent_decodes_pairs() {
        let read: Vec<_> = pairs(" a = b%2Cc ,d=%zz%4,,e").collect();
        let text = |text: &str| text.to_owned();
        assert_eq!(read, [(text("a"), text("b,c")), (text("d"), text("%zz%4"))]);
    }

    #[test]
    fn writes_each_resource_attribute_once_preferring_the_setting() {
        let settings = Settings {
            otlp_protocol: "http/json".to_owned(),
            otlp_resource: Some("a=1,host.name=h,process.pid=7,a=2".to_owned()),
            ..Settings::default()
        };
        let json = Envelope::new(&settings).around(&[b"{}"]);
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
    fn wraps_json_spans_with_the_service_name() {
        let service = |settings: &Settings| {
            let json = Envelope::new(settings).around(&[b"{}"]);
            let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
            let resource = &json["resourceSpans"][0]["resource"]["attributes"];
            let resource = resource.as_array().expect("a list").clone();
            let named = resource.iter().filter(|it| it["key"] == "service.name");
            let named: Vec<_> = named
                .map(|it| it["value"]["stringValue"].to_string())
                .collect();
            (named, resource.len())
        };
        let mut settings = Settings {
            otlp_protocol: "http/json".to_owned(),
            ..Settings::default()
        };
        assert_eq!(service(&settings), (vec!["\"fermata\"".to_owned()], 6));
        settings.otlp_resource = Some("service.name=shop,a\\\"b=1".to_owned());
        assert_eq!(service(&settings), (vec!["\"shop\"".to_owned()], 7));
        settings.otlp_service_name = "chat".to_owned();
        assert_eq!(service(&settings), (vec!["\"chat\"".to_owned()], 7));
    }
}
