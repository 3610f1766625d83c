//! Balancing and health options of a route, which Pushpin does not have.

use super::Cause;
use super::rule::wrong;
use crate::upstream::{HashBy, Policy};

/// Maximum weight of a target.
pub(super) const WEIGHT_MAX: u32 = 1_000;

/// Maximum time of a property, a day; and maximum number of failures and checks in a row.
const SECONDS_MAX: u64 = 86_400;
const COUNT_MAX: u64 = 1_000;

/// Balancing and health options of a route. The settings have the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetOptions {
    /// Policy that chooses the target of a request.
    pub policy: Policy,
    /// Path of health checks; `None` = no checks.
    pub check: Option<String>,
    /// Seconds between two checks.
    pub check_interval_s: Option<u64>,
    /// Time-out of a check in seconds.
    pub check_timeout_s: Option<u64>,
    /// Successful checks in a row that bring a target back.
    pub check_rise: Option<u64>,
    /// Number of consecutive failed checks after which a target is taken out.
    pub check_fall: Option<u64>,
    /// Number of failed requests after which a target is taken out. 0 means never.
    pub out_after: Option<u64>,
    /// Seconds for which the target stays out.
    pub out_for_s: Option<u64>,
}

impl TargetOptions {
    /// Sets a property. Returns false if the name is unknown.
    pub(super) fn read(&mut self, name: &str, text: &str) -> Result<bool, Cause> {
        let seconds = || number(name, text, 1, SECONDS_MAX, "give seconds from 1 to 86400");
        let count = |min| number(name, text, min, COUNT_MAX, "give a number up to 1000");
        match name {
            "balance" => {
                self.policy = match text {
                    "fail_over" => Policy::FailOver,
                    "round_robin" => Policy::RoundRobin,
                    "least_requests" => Policy::LeastRequests,
                    "hash" => Policy::Hash(HashBy::Client),
                    text => Policy::Hash(hash_by(text).ok_or_else(|| {
                        wrong(
                            name,
                            text,
                            "give fail_over, round_robin, least_requests, hash or hash:client, hash:path, \
                             hash:header:NAME, hash:cookie:NAME",
                        )
                    })?),
                }
            }
            "check" if !text.starts_with('/') || !text.bytes().all(|it| it.is_ascii_graphic()) => {
                return Err(wrong(name, text, "give a path, such as /health"));
            }
            "check" => self.check = Some(text.to_owned()),
            "check_interval" => self.check_interval_s = Some(seconds()?),
            "check_timeout" => self.check_timeout_s = Some(seconds()?),
            "check_rise" => self.check_rise = Some(count(1)?),
            "check_fall" => self.check_fall = Some(count(1)?),
            "out_after" => self.out_after = Some(count(0)?),
            "out_for" => self.out_for_s = Some(seconds()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn hash_by(text: &str) -> Option<HashBy> {
    let by = text.strip_prefix("hash:")?;
    match (by, by.split_once(':')) {
        ("client", _) => Some(HashBy::Client),
        ("path", _) => Some(HashBy::Path),
        (_, Some(("header", name))) if !name.is_empty() => Some(HashBy::Header(name.to_owned())),
        (_, Some(("cookie", name))) if !name.is_empty() => Some(HashBy::Cookie(name.to_owned())),
        _ => None,
    }
}

fn number(name: &str, text: &str, min: u64, max: u64, fix: &'static str) -> Result<u64, Cause> {
    match text.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(wrong(name, text, fix)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read() {
        for (text, policy) in [
            ("fail_over", Policy::FailOver),
            ("round_robin", Policy::RoundRobin),
            ("least_requests", Policy::LeastRequests),
            ("hash", Policy::Hash(HashBy::Client)),
            ("hash:path", Policy::Hash(HashBy::Path)),
            (
                "hash:header:X-User",
                Policy::Hash(HashBy::Header("X-User".to_owned())),
            ),
            (
                "hash:cookie:id",
                Policy::Hash(HashBy::Cookie("id".to_owned())),
            ),
        ] {
            let mut target_options = TargetOptions::default();
            assert_eq!(target_options.read("balance", text), Ok(true), "{text}");
            assert_eq!(target_options.policy, policy);
        }
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        for (name, text) in [
            ("balance", "random"),
            ("balance", "hash:header:"),
            ("balance", "hash:colour"),
            ("check", "health"),
            ("check", "/a b"),
            ("check_interval", "0"),
            ("check_rise", "0"),
            ("out_after", "1001"),
            ("out_for", "x"),
        ] {
            let problem = TargetOptions::default().read(name, text);
            assert!(problem.is_err(), "{name}={text}: {problem:?}");
        }
        assert_eq!(TargetOptions::default().read("id", "x"), Ok(false));
        assert_eq!(TargetOptions::default().read("out_after", "0"), Ok(true));
    }
}
