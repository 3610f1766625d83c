//! Fingerprint that separates two applications whose servers share a log by mistake.
//!
//! It is a list of short signatures made with the application's secrets. Servers of one application have at least one
//! signature in common.

use fermata_pusher::auth;

use crate::settings::Settings;

/// Digits shown of a signature: too few to find the secret, enough to exclude an accidental match.
const DIGITS: usize = 8;
/// Maximum number of signatures in each record.
const SIGNATURES_MAX: usize = 4;
const TEXT: &[u8] = b"fermata cluster";

/// Returns the application's signatures, separated by commas; `None` if the application has no secrets.
pub(crate) fn of(settings: &Settings) -> Option<String> {
    let mercure = settings.mercure.iter().flat_map(|it| &it.fingerprinted);
    let signed = settings.apps.iter().chain(mercure).map(|app| {
        let mut signature = auth::sign(app, TEXT);
        signature.truncate(DIGITS);
        signature
    });
    let mut signatures: Vec<String> = signed.collect();
    // After sorting, the result does not depend on the order in the settings, and an additional secret changes few entries.
    signatures.sort();
    signatures.dedup();
    signatures.truncate(SIGNATURES_MAX);
    (!signatures.is_empty()).then(|| signatures.join(","))
}

#[cfg(test)]
mod tests {
    use fermata_pusher::App;

    use super::*;

    #[test]
    fn servers_of_one_application_share_a_fingerprint() {
        let settings = |secrets: &[&str]| Settings {
            apps: secrets
                .iter()
                .map(|secret| App::new("1", "key", secret).expect("an application"))
                .collect(),
            ..Settings::default()
        };
        assert_eq!(of(&settings(&[])), None);
        let (one, other) = (
            of(&settings(&["secret-one"])),
            of(&settings(&["secret-two"])),
        );
        assert_ne!(one, other);
        let both = of(&settings(&["secret-two", "secret-one"])).expect("it has secrets");
        assert!(both.contains(&one.expect("it has a secret")), "{both}");
        assert!(!both.contains("secret"));
    }
}
