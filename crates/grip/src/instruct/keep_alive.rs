//! `Grip-Keep-Alive`: data that keeps an idle stream open.

use super::{InstructError, TIMEOUT_DEFAULT_S, shown};
use crate::encoding;
use crate::params::{self, Element};

/// Minimum interval in seconds.
const TIMEOUT_MIN_S: u32 = 1;
const HEADER: &str = "Grip-Keep-Alive";

/// Condition under which the data is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepAliveMode {
    /// Sends the data after this time without other data.
    #[default]
    Idle,
    /// Sends the data periodically, independent of other data.
    Interval,
}

impl KeepAliveMode {
    /// Returns the mode with this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"idle" => Some(Self::Idle),
            b"interval" => Some(Self::Interval),
            _ => None,
        }
    }
}

/// Data that keeps an idle stream open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// The data, never empty.
    pub data: Vec<u8>,
    /// Interval in seconds. It is at least one second.
    pub timeout_s: u32,
    /// Start of the interval.
    pub mode: KeepAliveMode,
}

impl KeepAlive {
    /// Creates a keep-alive. Raises `timeout_s` to the minimum interval.
    pub fn new(data: Vec<u8>, timeout_s: u32, mode: KeepAliveMode) -> Self {
        Self {
            data,
            timeout_s: timeout_s.max(TIMEOUT_MIN_S),
            mode,
        }
    }

    /// Parses `DATA; format=F; timeout=N; mode=M`. This header is not a list, so a comma is part of the data.
    pub(super) fn from_header(value: &[u8]) -> Result<Self, InstructError> {
        let wrong = |value: &[u8], fix| InstructError::Header {
            header: HEADER,
            value: shown(value),
            fix,
        };
        let Some(element) = params::element(value) else {
            return Err(wrong(
                value,
                "give DATA; format=cstring; timeout=55; mode=idle",
            ));
        };
        let data = decode(&element).map_err(|fix| wrong(value, fix))?;
        if data.is_empty() {
            return Err(wrong(
                value,
                "it has no data; data with blanks or a semicolon needs format=cstring or base64",
            ));
        }
        let timeout_s = match element.param("timeout") {
            Some(text) => params::seconds(text)
                .ok_or_else(|| wrong(text, "timeout is in whole seconds, not negative"))?,
            None => TIMEOUT_DEFAULT_S,
        };
        let mode = match element.param("mode") {
            Some(name) => KeepAliveMode::from_name(name)
                .ok_or_else(|| wrong(name, "mode is idle or interval"))?,
            None => KeepAliveMode::Idle,
        };
        Ok(Self::new(data, timeout_s, mode))
    }
}

fn decode(element: &Element) -> Result<Vec<u8>, &'static str> {
    match element.param("format").unwrap_or(b"raw") {
        b"raw" => Ok(element.first.clone()),
        b"cstring" => encoding::c_string(&element.first)
            .ok_or(r"a cstring knows the escapes \\ \r \n and \xHH"),
        b"base64" => encoding::base64(&element.first).ok_or("the data is not base64"),
        _ => Err("format is raw, cstring or base64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_data_in_three_formats() {
        for (value, data, timeout_s, mode) in [
            (
                r":\n\n; format=cstring; timeout=55",
                &b":\n\n"[..],
                55,
                KeepAliveMode::Idle,
            ),
            ("ping", b"ping", 55, KeepAliveMode::Idle),
            (" a, b ; timeout=0", b"a, b", 1, KeepAliveMode::Idle),
            (
                "Cg==; format=base64; mode=interval; timeout=20",
                b"\n",
                20,
                KeepAliveMode::Interval,
            ),
            (r"\x00\\; FORMAT=cstring", b"\0\\", 55, KeepAliveMode::Idle),
        ] {
            let expected = KeepAlive {
                data: data.to_vec(),
                timeout_s,
                mode,
            };
            assert_eq!(
                KeepAlive::from_header(value.as_bytes()),
                Ok(expected),
                "{value}"
            );
        }
    }

    #[test]
    fn reports_every_kind_of_error() {
        for (value, part) in [
            ("", "no data"),
            ("; format=raw", "no data"),
            ("a; format=hex", "raw, cstring or base64"),
            (r"\t; format=cstring", "escapes"),
            ("?; format=base64", "not base64"),
            ("a; timeout=x", "\"x\": timeout"),
            ("a; timeout=-1", "timeout"),
            ("a; mode=often", "idle or interval"),
            ("a; mode=\"idle", "DATA"),
        ] {
            let error = KeepAlive::from_header(value.as_bytes()).expect_err(value);
            assert!(error.to_string().contains(part), "{value}: {error}");
        }
    }
}
