//! Selects the certificate for a client by the requested name (SNI) and the client's signature schemes.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use crate::ocsp::Served;

/// Certificates by name. The first certificate is for clients that request no name or an unknown name.
#[derive(Debug)]
pub struct Names {
    all: Vec<Served>,
    exact: HashMap<String, Vec<usize>>,
    /// Keyed by `example.org` for `*.example.org`.
    wildcard: HashMap<String, Vec<usize>>,
}

impl Names {
    /// Reads the names from the certificates. If several certificates have the same name, the earlier one is used.
    pub fn new(all: Vec<Served>) -> Names {
        let mut names = Names {
            all: Vec::new(),
            exact: HashMap::new(),
            wildcard: HashMap::new(),
        };
        for (at, served) in all.iter().enumerate() {
            for name in dns_names(served.plain()) {
                let (map, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut names.wildcard, parent),
                    None => (&mut names.exact, name.as_str()),
                };
                map.entry(name.to_owned()).or_default().push(at);
            }
        }
        names.all = all;
        names
    }

    /// Returns the candidates for `name`, best first.
    fn candidates(&self, name: Option<&str>) -> Vec<&Served> {
        let found = name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            self.exact.get(&name).or_else(|| {
                // A wildcard matches one label (RFC 6125, section 6.4.3).
                let (_, parent) = name.split_once('.')?;
                self.wildcard.get(parent)
            })
        });
        match found {
            Some(places) => places.iter().map(|&at| &self.all[at]).collect(),
            None => self.all.iter().take(1).collect(),
        }
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let candidates = self.candidates(hello.server_name());
        let schemes = hello.signature_schemes();
        let can_verify = |served: &Served| served.plain().key.choose_scheme(schemes).is_some();
        let best = candidates.iter().find(|served| can_verify(served));
        best.or(candidates.first())
            .map(|served| Arc::clone(served.now()))
    }
}

fn dns_names(certified: &CertifiedKey) -> Vec<String> {
    let Some(Ok(certificate)) = certified.cert.first().map(EndEntityCert::try_from) else {
        return Vec::new();
    };
    certificate
        .valid_dns_names()
        .map(str::to_ascii_lowercase)
        .collect()
}
