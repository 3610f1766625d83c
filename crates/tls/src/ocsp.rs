//! Answers of certificate authorities that a certificate is good (OCSP, RFC 6960), sent with it so that clients need not ask.
//!
//! The tool that renews the certificate renews the response as well, by `openssl ocsp -respout` or the authority's own: a server
//! that asked by itself would need a way to the authority. Clients check its signature, so it is not checked here; but an
//! answer that they would refuse (another certificate's, one that is too old) is worse than none, and is not sent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::sign::CertifiedKey;
use x509_cert::certificate::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::GeneralizedTime;

use crate::certificate;

/// 1.3.6.1.5.5.7.48.1.1, the only kind of answer there is.
const BASIC: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01\x01";

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const TIME: u8 = 0x18;
/// `[0]`
const FIRST: u8 = 0xa0;
/// `certStatus` of one that is good.
const GOOD: u8 = 0x80;

/// A certificate as handshakes use it.
#[derive(Debug)]
pub struct Served {
    plain: Arc<CertifiedKey>,
    /// With the answer of its authority, and how long that may be sent.
    stapled: Option<(Arc<CertifiedKey>, u64)>,
}

impl Served {
    /// With the answer in the file `CERTIFICATE.ocsp`, if there is one; when it is not sent, why, for the log.
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
                let why = format!("no OCSP answer is sent: {cause}");
                (Served { plain, stapled }, Some(why))
            }
        }
    }

    /// Its certificates and key.
    #[must_use]
    pub fn plain(&self) -> &Arc<CertifiedKey> {
        &self.plain
    }

    /// What a handshake of now sends.
    #[must_use]
    pub fn now(&self) -> &Arc<CertifiedKey> {
        let Some((stapled, until_s)) = &self.stapled else {
            return &self.plain;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        match now.is_ok_and(|now| now.as_secs() < *until_s) {
            true => stapled,
            false => &self.plain,
        }
    }
}

/// Where the answer for a certificate lies.
fn path_of(certificate: &Path) -> PathBuf {
    let mut path = certificate.as_os_str().to_owned();
    path.push(".ocsp");
    PathBuf::from(path)
}

/// How long an answer may be sent, or why it may not.
fn until_s(answer: &[u8], certified: &CertifiedKey, unix_s: u64) -> Result<u64, &'static str> {
    let certificate = certified.cert.first().map(|it| Certificate::from_der(it));
    let Some(Ok(certificate)) = certificate else {
        return Err("belongs to a certificate that cannot be read");
    };
    let serial = certificate.tbs_certificate.serial_number;
    let single = read(answer).ok_or(
        "is no answer that the certificate is known: it has to be a successful one, as DER",
    )?;
    if single.serial != serial.as_bytes() {
        return Err("is about another certificate; ask the authority again");
    }
    if single.status != GOOD {
        return Err("says that the certificate is revoked or unknown; get a new one");
    }
    match single.until_s {
        Some(until_s) if until_s <= unix_s => {
            Err("is too old; ask the authority again and send SIGHUP")
        }
        until_s => Ok(until_s.unwrap_or(u64::MAX)),
    }
}

/// What is said of one certificate.
struct Single<'a> {
    serial: &'a [u8],
    status: u8,
    /// When there will be a newer answer.
    until_s: Option<u64>,
}

/// The first certificate that an answer is about; `None` when it is not a successful one.
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
        // The version; then who answers.
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

/// Elements that follow each other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, length], mut rest) = self.0.split_first_chunk()?;
        let mut len = usize::from(length);
        if length >= 0x80 {
            let count = usize::from(length & 0x7f);
            // Files are not as long as four bytes can say.
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
