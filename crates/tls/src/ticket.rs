//! Session tickets: a returning client skips the expensive half of the handshake.
//!
//! The server stores nothing; the ticket is its encrypted state. All workers are forked from one process and derive the
//! same keys from its secret and the clock. Every worker therefore accepts the tickets of the others without
//! communication.
//!
//! Each period's secret is a hash of the previous one, which is then dropped. An attacker who breaks into the server
//! therefore cannot open the tickets of earlier periods.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;

/// Maximum number of periods to advance after a clock change. A larger change means that the clock was wrong.
const PERIODS_MAX: u64 = 100_000;

/// Maximum size of an accepted ticket in bytes. Real tickets are far smaller, even with client certificates.
const TICKET_BYTES_MAX: usize = 64 * 1024;

/// Encrypts and decrypts tickets.
pub struct Tickets {
    period_s: u32,
    context: Vec<u8>,
    secret: Secret,
    keys: Mutex<Keys>,
}

/// Secret from which the keys of all periods from now on are derived. Clones share it, so that none keeps what another
/// one has dropped.
#[derive(Clone)]
pub struct Secret(Arc<Mutex<Chain>>);

/// The secret of the previous period, whose tickets are still accepted.
#[derive(Clone)]
struct Chain {
    bytes: [u8; 32],
    period: u64,
}

struct Keys {
    period: u64,
    current: LessSafeKey,
    /// Key of the previous period.
    previous: LessSafeKey,
}

impl Secret {
    /// Creates a random secret.
    ///
    /// # Errors
    /// The kernel returns no random numbers.
    pub fn new(period_s: u32) -> Result<Secret, rustls::Error> {
        let mut bytes = [0; 32];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
        let period = period_at(unix_s(), period_s).saturating_sub(1);
        Ok(Secret::of(Chain { bytes, period }))
    }

    /// Drops secrets that are no longer needed at this time.
    pub fn forget(&self, unix_s: u64, period_s: u32) {
        self.advance(period_at(unix_s, period_s));
    }

    fn of(chain: Chain) -> Secret {
        Secret(Arc::new(Mutex::new(chain)))
    }

    /// Advances the chain to the period before `period`, unless it is already past it, and returns a copy.
    fn advance(&self, period: u64) -> Chain {
        let mut chain = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = period.saturating_sub(1).saturating_sub(chain.period);
        for _ in 0..behind.min(PERIODS_MAX) {
            chain.advance();
        }
        chain.clone()
    }

    fn keys(&self, period: u64, context: &[u8]) -> Keys {
        let mut chain = self.advance(period);
        let previous = chain.key(context);
        chain.advance();
        Keys {
            period: chain.period,
            current: chain.key(context),
            previous,
        }
    }
}

impl Chain {
    fn derive(&self, label: &[u8], context: &[u8]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.bytes);
        let mut message = hmac::Context::with_key(&key);
        message.update(label);
        message.update(context);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(message.sign().as_ref());
        bytes
    }

    fn advance(&mut self) {
        self.bytes = self.derive(b"next", b"");
        self.period += 1;
    }

    fn key(&self, context: &[u8]) -> LessSafeKey {
        let bytes = self.derive(b"key", context);
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes)
            .expect("the algorithm takes keys of 32 bytes");
        LessSafeKey::new(key)
    }
}

impl Tickets {
    /// Creates tickets whose keys change every `period_s` seconds. Tickets with another `context` are rejected. A ticket
    /// replaces the verification of a client certificate, so the context must identify the authorities.
    pub fn new(secret: &Secret, period_s: u32, context: &[u8]) -> Tickets {
        Tickets {
            period_s,
            context: context.to_owned(),
            secret: secret.clone(),
            keys: Mutex::new(secret.keys(0, context)),
        }
    }

    fn encrypt_at(&self, plain: &[u8], unix_s: u64) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = plain.to_owned();
        self.with_keys(unix_s, |keys| {
            let nonce = Nonce::assume_unique_for_key(nonce);
            let aad = Aad::empty();
            keys.current
                .seal_in_place_append_tag(nonce, aad, &mut sealed)
                .ok()
        })?;
        Some([&nonce[..], &sealed].concat())
    }

    fn decrypt_at(&self, ticket: &[u8], unix_s: u64) -> Option<Vec<u8>> {
        if ticket.len() > TICKET_BYTES_MAX {
            return None;
        }
        let (nonce, sealed) = ticket.split_first_chunk::<NONCE_LEN>()?;
        self.with_keys(unix_s, |keys| {
            [&keys.current, &keys.previous].into_iter().find_map(|key| {
                let mut bytes = sealed.to_owned();
                let nonce = Nonce::assume_unique_for_key(*nonce);
                let plain = key.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?;
                Some(plain.to_owned())
            })
        })
    }

    /// Updates the keys and uses them.
    fn with_keys<T>(&self, unix_s: u64, use_keys: impl FnOnce(&Keys) -> Option<T>) -> Option<T> {
        let mut keys = self.keys.lock().ok()?;
        let period = period_at(unix_s, self.period_s);
        // Never go back: setting the clock back must not restore old keys.
        if period > keys.period {
            *keys = self.secret.keys(period, &self.context);
        }
        use_keys(&keys)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Secret").finish_non_exhaustive()
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.period_s
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.encrypt_at(plain, unix_s())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(ticket, unix_s())
    }
}

fn period_at(unix_s: u64, period_s: u32) -> u64 {
    unix_s / u64::from(period_s.max(1))
}

/// Returns the wall clock, which is the same for all workers. Its precision suffices: tickets are valid for hours.
fn unix_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_S: u32 = 100;

    fn secret(unix_s: u64) -> Secret {
        Secret::of(Chain {
            bytes: [7; 32],
            period: period_at(unix_s, PERIOD_S).saturating_sub(1),
        })
    }

    #[test]
    fn two_workers_open_each_others_tickets_for_a_period() {
        let one = Tickets::new(&secret(1_000), PERIOD_S, b"");
        let two = Tickets::new(&secret(1_000), PERIOD_S, b"");
        let ticket = one.encrypt_at(b"state", 1_099).expect("sealed");
        assert_eq!(
            two.decrypt_at(&ticket, 1_000).as_deref(),
            Some(&b"state"[..])
        );
        assert_eq!(
            two.decrypt_at(&ticket, 1_199).as_deref(),
            Some(&b"state"[..])
        );
        assert_eq!(two.decrypt_at(&ticket, 1_200), None);
        // Setting the clock back does not restore the keys.
        assert_eq!(two.decrypt_at(&ticket, 1_000), None);
    }

    #[test]
    fn a_worker_that_missed_many_periods_derives_the_same_keys() {
        let awake = Tickets::new(&secret(0), PERIOD_S, b"");
        for unix_s in (0..10_000).step_by(50) {
            awake.decrypt_at(b"", unix_s);
        }
        let asleep = Tickets::new(&secret(0), PERIOD_S, b"");
        let ticket = awake.encrypt_at(b"state", 10_000).expect("sealed");
        assert!(asleep.decrypt_at(&ticket, 10_000).is_some());
    }

    #[test]
    fn clones_of_a_secret_drop_old_periods_together() {
        let shared = secret(1_000);
        let before = Tickets::new(&shared, PERIOD_S, b"");
        shared.forget(1_550, PERIOD_S);
        let after = Tickets::new(&shared, PERIOD_S, b"");
        let ticket = after.encrypt_at(b"state", 1_550).expect("sealed");
        assert!(before.decrypt_at(&ticket, 1_650).is_some());
        let other = Tickets::new(&secret(1_000), PERIOD_S, b"");
        assert!(other.decrypt_at(&ticket, 1_650).is_some());
    }

    #[test]
    fn rejects_changed_truncated_and_foreign_tickets() {
        let tickets = Tickets::new(&secret(1_000), PERIOD_S, b"one");
        let ticket = tickets.encrypt_at(b"state", 1_000).expect("sealed");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(tickets.decrypt_at(&changed, 1_000), None);
            assert_eq!(tickets.decrypt_at(&ticket[..at], 1_000), None);
        }
        let other = Tickets::new(&secret(1_000), PERIOD_S, b"two");
        assert_eq!(other.decrypt_at(&ticket, 1_000), None);
    }
}
