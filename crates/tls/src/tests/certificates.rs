//! Certificate files: errors and their messages, names, reloading.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair};

use super::{folder, options, unix_s};
use crate::certificate;
use crate::server::{Certificates, Options};

fn made(name: &str, change: impl FnOnce(&mut CertificateParams)) -> (PathBuf, PathBuf) {
    let folder = folder().join("made");
    fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let mut params = CertificateParams::new(vec![format!("{name}.test")]).expect("a name");
    change(&mut params);
    let key = KeyPair::generate().expect("random numbers");
    let certificate = params.self_signed(&key).expect("it can be signed");
    let paths = (
        folder.join(format!("{name}.pem")),
        folder.join(format!("{name}-key.pem")),
    );
    fs::write(&paths.0, certificate.pem()).expect("writable");
    fs::write(&paths.1, key.serialize_pem()).expect("writable");
    fs::set_permissions(&paths.1, fs::Permissions::from_mode(0o600)).expect("ours");
    paths
}

fn error_of(pair: (&Path, &Path)) -> String {
    let options = Options {
        pairs: vec![(pair.0.to_owned(), pair.1.to_owned())],
        ..options()
    };
    let certificates = Certificates::new(options).expect("random numbers");
    certificates
        .load(unix_s())
        .expect_err("it is bad")
        .to_string()
}

#[test]
fn errors_name_the_setting_the_cause_and_the_fix() {
    let (good, key) = made("good", |_| {});
    let (other, _) = made("other", |_| {});
    let missing = folder().join("missing.pem");
    let text = folder().join("text.pem");
    fs::write(&text, "not a certificate").expect("writable");
    let cut = folder().join("cut.pem");
    let half = fs::read_to_string(&good).expect("it was written");
    fs::write(&cut, &half[..half.len() / 2]).expect("writable");
    let locked = folder().join("locked.pem");
    fs::write(
        &locked,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .expect("writable");
    let locked_before = folder().join("locked-before.pem");
    fs::write(
        &locked_before,
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n\
        -----END RSA PRIVATE KEY-----\n",
    )
    .expect("writable");
    for (pair, words) in [
        ((&missing, &key), ["tls_certificate: ", "no such file"]),
        ((&good, &missing), ["tls_key: ", "no such file"]),
        ((&folder(), &key), ["tls_certificate: ", "no file NAME.crt"]),
        (
            (&text, &key),
            ["tls_certificate: ", "-----BEGIN CERTIFICATE-----"],
        ),
        ((&cut, &key), ["tls_certificate: ", "is damaged"]),
        ((&key, &good), ["tls_certificate: ", "swapped"]),
        ((&good, &text), ["tls_key: ", "-----BEGIN PRIVATE KEY-----"]),
        ((&good, &locked), ["tls_key: ", "password"]),
        ((&good, &locked_before), ["tls_key: ", "password"]),
        ((&other, &key), ["tls_key: ", "their public keys differ"]),
    ] {
        let error = error_of((pair.0, pair.1));
        for word in words {
            assert!(error.contains(word), "{error:?} without {word:?}");
        }
    }
}

#[test]
fn warns_of_expiring_certificates_and_readable_keys() {
    let year = |year| rcgen::date_time_ymd(year, 1, 1);
    let (expired, expired_key) = made("expired", |params| {
        (params.not_before, params.not_after) = (year(2001), year(2002));
    });
    let (early, early_key) = made("early", |params| {
        (params.not_before, params.not_after) = (year(2190), year(2191));
    });
    let (good, key) = made("open", |_| {});
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("ours");
    for (pair, word) in [
        ((&expired, &expired_key), "EXPIRED on 2002-01-01"),
        ((&early, &early_key), "not valid before 2190-01-01"),
        ((&good, &key), "chmod o-r"),
    ] {
        let pair = certificate::read_pair(pair.0, pair.1, unix_s()).expect("it works");
        assert!(
            pair.warnings.iter().any(|line| line.contains(word)),
            "{:?}",
            pair.warnings
        );
    }
    let fine = certificate::read_pair(&expired, &expired_key, 999_000_000).expect("it works");
    assert!(fine.warnings.is_empty(), "{:?}", fine.warnings);
}

#[test]
fn the_development_certificate_is_made_once_and_again_when_it_ends() {
    let folder = folder().join("development");
    let now = unix_s();
    let first = crate::development::provide(&folder, now).expect("writable");
    let second = crate::development::provide(&folder, now + 300 * 24 * 3_600).expect("readable");
    let third = crate::development::provide(&folder, now + 390 * 24 * 3_600).expect("writable");
    assert_eq!(
        (first.is_new, second.is_new, third.is_new),
        (true, false, true)
    );
    let mode = fs::metadata(&first.key)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let names = fs::read_dir(&folder).expect("readable").count();
    assert_eq!(names, 3, "nothing half-made is left");
}

#[test]
fn skips_a_certificate_without_its_key() {
    let folder = folder().join("pairs");
    fs::create_dir_all(&folder).expect("the temporary folder is writable");
    let (certificate, key) = made("pair", |_| {});
    let copy = |name: &OsStr, ending: &str, from: &Path| {
        let mut name = name.to_owned();
        name.push(ending);
        fs::copy(from, folder.join(name)).expect("writable");
    };
    // A file name that is not UTF-8 is valid too.
    let names = [OsStr::new("a"), OsStr::from_bytes(b"\xff")];
    let load = || {
        let options = Options {
            pairs: vec![(folder.clone(), folder.clone())],
            ..options()
        };
        let certificates = Certificates::new(options).expect("random numbers");
        certificates.load(unix_s()).map(|loaded| loaded.warnings)
    };
    for name in names {
        copy(name, ".crt", &certificate);
    }
    let error = load().expect_err("no key").to_string();
    assert!(error.contains("no certificate has its key"), "{error}");
    copy(names[1], ".key", &key);
    let warnings = load().expect("one is whole");
    assert!(
        warnings.len() == 1 && warnings[0].contains("/a.crt: its key "),
        "{warnings:?}"
    );
    copy(names[0], ".key", &key);
    assert_eq!(load().expect("both are"), [""; 0]);
}
