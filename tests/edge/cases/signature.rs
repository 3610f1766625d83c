//! `Grip-Sig`, with which backends authenticate the edge.

use std::time::{SystemTime, UNIX_EPOCH};

use fermata_grip::sig::{Key, verify};

use super::cases;
use crate::bench::Bench;
use crate::origin::text;
use crate::subject::SIG_KEY;

cases!(requests_are_signed, a_route_has_its_own_key);

fn check(bench: &Bench, key: &str, issuer: &str) {
    let token = bench.requests()[0].header("grip-sig").expect("a token");
    let now_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let claims = verify(
        &Key::secret(key.as_bytes()),
        token.as_bytes(),
        now_s,
        Some(issuer),
    );
    let claims = claims.unwrap_or_else(|error| panic!("{error}: {token}"));
    let left_s = claims.expires_s.expect("an end") - now_s;
    assert!((3_000..=3_600).contains(&left_s), "{left_s}");
}

fn requests_are_signed(bench: &Bench) {
    bench.origin(|_| text("x"));
    bench.get("plain.test", "/x");
    check(bench, SIG_KEY, "pushpin");
}

fn a_route_has_its_own_key(bench: &Bench) {
    bench.origin(|_| text("x"));
    bench.get("sig.test", "/x");
    check(bench, "other", "issuer");
}
