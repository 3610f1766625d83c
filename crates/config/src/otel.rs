//! Environment variables that configure the export of spans in programs of any language (OpenTelemetry, Environment Variable
//! Specification).

use std::collections::HashMap;

/// Prefix of the variables.
pub(crate) const PREFIX: &str = "OTEL_";

/// Path for traces, relative to an endpoint for all signals.
const TRACES_PATH: &str = "v1/traces";

/// Supported protocols.
const PROTOCOLS: [&str; 2] = ["http/protobuf", "http/json"];

/// Variables that are set, by name. As the specification requires, an empty value counts as unset.
#[derive(Debug, Default)]
pub(crate) struct Otel(HashMap<String, String>);

/// Setting, variable and value.
type Given = (&'static str, &'static str, String);

impl Otel {
    pub fn insert(&mut self, name: String, value: String) {
        let value = value.trim();
        if !value.is_empty() {
            self.0.insert(name, value.to_owned());
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the settings that the variables imply, and a warning about probable mistakes.
    pub fn settings(&self) -> (Vec<Given>, Option<String>) {
        let mut given = Vec::new();
        let is_off = self
            .get("OTEL_SDK_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if is_off {
            return (given, None);
        }
        // The variable for traces precedes the variable for all signals.
        for (setting, variables) in [
            (
                "otlp_headers",
                &[
                    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
                    "OTEL_EXPORTER_OTLP_HEADERS",
                ][..],
            ),
            (
                "otlp_timeout_ms",
                &[
                    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
                    "OTEL_EXPORTER_OTLP_TIMEOUT",
                ],
            ),
            ("otlp_service_name", &["OTEL_SERVICE_NAME"]),
            ("otlp_resource", &["OTEL_RESOURCE_ATTRIBUTES"]),
            ("otlp_sampler", &["OTEL_TRACES_SAMPLER"]),
            ("otlp_sampling_ratio", &["OTEL_TRACES_SAMPLER_ARG"]),
        ] {
            let first = variables
                .iter()
                .find_map(|variable| Some((*variable, self.get(variable)?)));
            if let Some((variable, value)) = first {
                given.push((setting, variable, value.to_owned()));
            }
        }
        if let Some((variable, protocol)) = self.protocol()
            && PROTOCOLS.contains(&protocol)
        {
            given.push(("otlp_protocol", variable, protocol.to_owned()));
        }
        let Some((variable, endpoint)) = self.endpoint() else {
            return (given, None);
        };
        if let Some(cause) = self.obstacle() {
            let notice = format!(
                "environment variable {variable} is ignored: {cause}; give otlp_endpoint the collector's port for http, which is 4318 \
                 as a rule, to get this server's spans"
            );
            return (given, Some(notice));
        }
        if self
            .get("OTEL_TRACES_EXPORTER")
            .is_none_or(|it| it.contains("otlp"))
        {
            given.push(("otlp_endpoint", variable, endpoint));
        }
        (given, None)
    }

    fn endpoint(&self) -> Option<(&'static str, String)> {
        let variable = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        if let Some(url) = self.get(variable) {
            return Some((variable, url.to_owned()));
        }
        let variable = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let url = self.get(variable)?.trim_end_matches('/');
        Some((variable, format!("{url}/{TRACES_PATH}")))
    }

    fn protocol(&self) -> Option<(&'static str, &str)> {
        let variables = [
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ];
        variables
            .iter()
            .find_map(|variable| Some((*variable, self.get(variable)?)))
    }

    /// Returns the reason why spans cannot be sent to the endpoint.
    fn obstacle(&self) -> Option<String> {
        let (variable, protocol) = self.protocol()?;
        (!PROTOCOLS.contains(&protocol)).then(|| {
            let known = PROTOCOLS.join(" and ");
            format!("{variable} is {protocol}, and this server supports only {known}")
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Builder, Settings, Source};

    fn read(pairs: &[(&str, &str)], own: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let mut builder = Builder::new();
        for (name, value) in own {
            builder.set(name, value, Source::Ini).expect("valid");
        }
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        builder.environment(pairs).expect("none of these is fatal");
        let warnings = builder.take_warnings();
        (builder.build().expect("valid"), warnings)
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");

    #[test]
    fn the_variables_of_all_languages_are_read() {
        let (settings, warnings) = read(
            &[
                ENDPOINT,
                ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%2Cb"),
                ("OTEL_SERVICE_NAME", "the shop"),
                ("OTEL_RESOURCE_ATTRIBUTES", "a=1,b=2"),
                ("OTEL_TRACES_SAMPLER", "traceidratio"),
                ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ],
            &[],
        );
        assert_eq!(warnings, [""; 0]);
        let endpoint = settings.otlp_endpoint.as_deref();
        assert_eq!(endpoint, Some("http://127.0.0.1:4318/v1/traces"));
        assert_eq!(settings.otlp_headers.as_deref(), Some("api-key=a%2Cb"));
        assert_eq!(settings.otlp_service_name, "the shop");
        assert_eq!(settings.otlp_resource.as_deref(), Some("a=1,b=2"));
        assert_eq!(settings.otlp_sampler, "traceidratio");
        assert_eq!(settings.otlp_sampling_ratio, "0.25");
        assert_eq!(settings.otlp_timeout_ms, 500);
        assert_eq!(settings.otlp_protocol, "http/json");
    }

    #[test]
    fn own_settings_win_and_the_special_variable_over_the_general() {
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://[::1]:1/x");
        let (settings, _) = read(&[ENDPOINT, traces], &[]);
        assert_eq!(settings.otlp_endpoint.as_deref(), Some("http://[::1]:1/x"));
        let (settings, _) = read(&[ENDPOINT, traces], &[("otlp_endpoint", "http://c")]);
        assert_eq!(settings.otlp_endpoint.as_deref(), Some("http://c"));
    }

    #[test]
    fn spans_are_sent_nowhere_where_the_environment_says_so() {
        for (variable, value, notices) in [
            ("OTEL_SDK_DISABLED", "true", 0),
            ("OTEL_TRACES_EXPORTER", "none", 0),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", 1),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/xml", 1),
        ] {
            let (settings, warnings) = read(&[ENDPOINT, (variable, value)], &[]);
            assert_eq!(settings.otlp_endpoint, None, "{variable}");
            assert_eq!(warnings.len(), notices, "{warnings:?}");
        }
    }

    #[test]
    fn a_variable_that_cannot_be_used_ends_nothing_and_is_told_of() {
        let (settings, warnings) = read(
            &[
                ENDPOINT,
                ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "a secret"),
            ],
            &[],
        );
        assert_eq!(settings.otlp_sampler, "parentbased_traceidratio");
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings.iter().all(|it| !it.contains("a secret")));
    }
}
