//! TLS: certificates from the settings, reloading, and counters.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use fermata_config::{LogLevel, Settings};
use fermata_io::clock;
use fermata_tls::server::ClientAuthority;
use fermata_tls::{Certificates, Handle, LoadError, Options, PairNames, development};

use crate::log::Logger;

/// TLS state shared by the driver and the worker of one process, and the source for reloading.
#[derive(Clone)]
pub struct ServerTls {
    /// Configuration of new connections, and counters.
    pub handle: Rc<Handle>,
    certificates: Certificates,
}

/// Why a server with an https address did not start.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate file cannot be read, or its content is invalid.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The development certificate cannot be stored.
    #[error("tls_development: cannot store a certificate for localhost in {}: {source}; \
        make the folder writable, or set HOME", folder.display())]
    Development {
        /// Directory of the certificate.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is no directory for the certificate.
    #[error("tls_development: cannot find a folder for the certificate; set HOME or XDG_DATA_HOME")]
    NoHome,
}

impl ServerTls {
    /// Loads the certificates if `settings` has an https address.
    pub(crate) fn open(
        settings: &Settings,
        names: PairNames,
        logger: &Logger,
    ) -> Result<Option<Self>, TlsError> {
        if !settings.has_https() {
            return Ok(None);
        }
        let pairs = if settings.tls_certificate.is_empty() {
            vec![development_pair(logger)?]
        } else {
            let certificates = settings.tls_certificate.iter().cloned();
            certificates.zip(settings.tls_key.iter().cloned()).collect()
        };
        let certificates = Certificates::new(Options {
            pairs,
            clients: settings.tls_client_ca.clone().map(|path| ClientAuthority {
                path,
                is_optional: settings.tls_client_required == "off",
            }),
            is_tls13_only: settings.tls_version_min == "1.3",
            ticket_period_s: u32::try_from(settings.tls_ticket_period_ms / 1000)
                .unwrap_or(u32::MAX),
            has_http2: settings.http2 == "on",
            names,
        })?;
        let tls = ServerTls {
            handle: Handle::new(None),
            certificates,
        };
        tls.read(logger)?;
        Ok(Some(tls))
    }

    /// Returns the state for a forked worker, with its own counters.
    pub(crate) fn for_worker(&self) -> ServerTls {
        ServerTls {
            handle: self.handle.fork(),
            certificates: self.certificates.clone(),
        }
    }

    /// Reloads all files, for new connections. On an error the old certificates stay in use.
    /// Returns true on success.
    pub(crate) fn reload(&self, logger: &Logger) -> bool {
        let unix_ms = clock::unix_ms();
        match self.read(logger) {
            Ok(()) => {
                logger.write(LogLevel::Info, unix_ms, "certificates read again");
                true
            }
            Err(error) => {
                let message = format!("certificates stay as they were: {error}");
                logger.write(LogLevel::Error, unix_ms, &message);
                false
            }
        }
    }

    /// See `Certificates::forget`.
    pub(crate) fn forget(&self) {
        self.certificates.forget(clock::unix_ms() / 1000);
    }

    fn read(&self, logger: &Logger) -> Result<(), LoadError> {
        let unix_ms = clock::unix_ms();
        let loaded = self.certificates.load(unix_ms / 1000)?;
        for warning in &loaded.warnings {
            logger.write(LogLevel::Warning, unix_ms, warning);
        }
        self.handle.set_config(Arc::clone(&loaded.config));
        Ok(())
    }
}

fn development_pair(logger: &Logger) -> Result<(PathBuf, PathBuf), TlsError> {
    let folder = development::folder().ok_or(TlsError::NoHome)?;
    let unix_ms = clock::unix_ms();
    let files = development::provide(&folder, unix_ms / 1000)
        .map_err(|source| TlsError::Development { folder, source })?;
    let message = format!(
        "{} development certificate for localhost; browsers and tools accept it when they trust {}",
        if files.is_new { "made a" } else { "using the" },
        files.authority.display()
    );
    logger.write(LogLevel::Warning, unix_ms, &message);
    Ok((files.certificate, files.key))
}
