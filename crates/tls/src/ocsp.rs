//! OCSP stapling (RFC 6960): sends a response of the certificate authority with the certificate, so that clients need
//! not query the authority.
//!
//! The tool that renews the certificate must also renew the response, with `openssl ocsp -respout` or the authority's tool. The
//! server itself needs no access to the authority. Clients check the signature, so it is not checked here. A response that clients
//! would reject (for another certificate, or too old) is worse than none and is not sent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::sign::CertifiedKey;
use x509_cert::certificate::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::GeneralizedTime;

use crate::certificate;

/// 1.3.6.1.5.5.7.48.1.1, the only type of response.
const BASIC: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01\x01";

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const TIME: u8 = 0x18;
/// `[0]`
const FIRST: u8 = 0xa0;
/// `certStatus` of a good certificate.
const GOOD: u8 = 0x80;

/// A certificate for handshakes.
#[derive(Debug)]
pub struct Served {
    plain: Arc<CertifiedKey>,
    /// The certificate with its OCSP response, and the time until which this response may be sent.
    stapled: Option<(Arc<CertifiedKey>, u64)>,
}

impl Served {
    /// Adds the response in the file `CERTIFICATE.ocsp`, if there is one. If the response is not sent, also returns the reason, for
    /// the log.
    #[must_use]
    pub fn new(
        certificate: &Path,
        plain: Arc<CertifiedKey>,
        unix_s: u64,
    ) -> (Served, Option<String>) {
        let path = path_of(certificate);
        if !path.exists() {
            let stapled = None;
            return (Served { plain, stapled }, None);
        }
        let stapled = certificate::read(&path)
            .map_err(|error| error.to_string())
            .and_then(|answer| {
                let until_s = until_s(&answer, &plain, unix_s)
                    .map_err(|cause| format!("{} {cause}", path.display()))?;
                let mut with = CertifiedKey::clone(&plain);
                with.ocsp = Some(answer);
                Ok((Arc::new(with), until_s))
            });
        match stapled {
            Ok(stapled) => {
                let stapled = Some(stapled);
                (Served { plain, stapled }, None)
            }
            Err(cause) => {
                let stapled = None;
                let why = format!("no OCSP response is sent: {cause}");
                (Served { plain, stapled }, Some(why))
            }
        }
    }

    /// Returns certificate and key without the response.
    #[must_use]
    pub fn plain(&self) -> &Arc<CertifiedKey> {
        &self.plain
    }

    /// Returns the certificate to send now. It includes the response while the response is valid.
    #[must_use]
    pub fn now(&self) -> &Arc<CertifiedKey> {
        let Some((stapled, until_s)) = &self.stapled else {
            return &self.plain;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        if now.is_ok_and(|now| now.as_secs() < *until_s) {
            stapled
        } else {
            &self.plain
        }
    }
}

/// Returns the path of the response for a certificate.
fn path_of(certificate: &Path) -> PathBuf {
    let mut path = certificate.as_os_str().to_owned();
    path.push(".ocsp");
    PathBuf::from(path)
}

/// Returns the time until which a response may be sent, or the reason why it may not.
fn until_s(answer: &[u8], certified: &CertifiedKey, unix_s: u64) -> Result<u64, &'static str> {
    let certificate = certified.cert.first().map(|it| Certificate::from_der(it));
    let Some(Ok(certificate)) = certificate else {
        return Err("belongs to a certificate that cannot be read");
    };
    let serial = certificate.tbs_certificate.serial_number;
    let single = read(answer).ok_or("is not a successful OCSP response in DER")?;
    if single.serial != serial.as_bytes() {
        return Err("is for another certificate; request a new one from the authority");
    }
    if single.status != GOOD {
        return Err("says that the certificate is revoked or unknown; get a new one");
    }
    match single.until_s {
        Some(until_s) if until_s <= unix_s => {
            Err("is too old; request a new one from the authority and send SIGHUP")
        }
        until_s => Ok(until_s.unwrap_or(u64::MAX)),
    }
}

/// Status of one certificate in a response.
struct Single<'a> {
    serial: &'a [u8],
    status: u8,
    /// Time of the next update.
    until_s: Option<u64>,
}

/// Parses the first certificate status of a response. Returns `None` if the response is not successful.
fn read(answer: &[u8]) -> Option<Single<'_>> {
    let mut response = Der(Der(answer).expect(SEQUENCE)?);
    if response.expect(ENUMERATED)? != [0] {
        return None;
    }
    let mut bytes = Der(Der(response.expect(FIRST)?).expect(SEQUENCE)?);
    if bytes.expect(OID)? != BASIC {
        return None;
    }
    let mut basic = Der(Der(bytes.expect(OCTETS)?).expect(SEQUENCE)?);
    let mut data = Der(basic.expect(SEQUENCE)?);
    let (mut tag, _) = data.next()?;
    if tag == FIRST {
        // The version; the responder's name or key follows.
        tag = data.next()?.0;
    }
    if !matches!(tag, 0xa1 | 0xa2) {
        return None;
    }
    data.expect(TIME)?;
    let mut single = Der(Der(data.expect(SEQUENCE)?).expect(SEQUENCE)?);
    let mut id = Der(single.expect(SEQUENCE)?);
    id.expect(SEQUENCE)?;
    id.expect(OCTETS)?;
    id.expect(OCTETS)?;
    let serial = id.expect(INTEGER)?;
    let (status, _) = single.next()?;
    single.expect(TIME)?;
    let until_s = match single.next() {
        Some((FIRST, content)) => {
            let time = GeneralizedTime::from_der(content).ok()?;
            Some(time.to_unix_duration().as_secs())
        }
        _ => None,
    };
    Some(Single {
        serial,
        status,
        until_s,
    })
}

/// A sequence of DER elements.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, length], mut rest) = self.0.split_first_chunk()?;
        let mut len = usize::from(length);
        if length >= 0x80 {
            let count = usize::from(length & 0x7f);
            // No file has a length of four bytes.
            if count > 3 {
                return None;
            }
            let (bytes, behind) = rest.split_at_checked(count)?;
            len = bytes.iter().fold(0, |len, &it| len << 8 | usize::from(it));
            rest = behind;
        }
        let (content, behind) = rest.split_at_checked(len)?;
        self.0 = behind;
        Some((tag, content))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (is, content) = self.next()?;
        (is == tag).then_some(content)
    }
}
