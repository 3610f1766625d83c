//! Credentials and certificates for the servers of the cluster log.
//!
//! Files are read again for each connection. A renewed certificate or changed password needs no
//! restart, and a faulty file is retried.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fermata_cluster::{Credentials, CredentialsError, Login};
use fermata_config::Settings;
use fermata_tls::certificate::{self, FileError};
use fermata_tls::{ClientConfig, ClientNames, ClientOptions, LoadError, client_config};

/// Name of the setting with the addresses, for messages.
pub(super) const SERVERS: &str = "cluster";

/// A file that cannot be used, with the setting that names it.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccessError {
    #[error("{0}: {1}")]
    File(&'static str, FileError),
    #[error("{0}: {path} is not UTF-8", path = .1.display())]
    Encoding(&'static str, PathBuf),
    #[error("cluster_password_file: {path} is empty; write the password into it", path = .0.display())]
    NoPassword(PathBuf),
    #[error("cluster_credentials: {path} {1}", path = .0.display())]
    Credentials(PathBuf, CredentialsError),
    /// The message of the error names the setting.
    #[error(transparent)]
    Tls(#[from] LoadError),
}

/// Credentials and certificates; see the module.
pub(super) struct Access {
    user: String,
    password: Option<String>,
    password_file: Option<PathBuf>,
    credentials: Option<PathBuf>,
    pub options: ClientOptions,
}

impl Access {
    pub fn new(settings: &Settings) -> Access {
        let own = (&settings.cluster_certificate, &settings.cluster_key);
        let certificate = match own {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            _ => None,
        };
        Access {
            user: settings.cluster_user.clone(),
            password: settings.cluster_password.clone(),
            password_file: settings.cluster_password_file.clone(),
            credentials: settings.cluster_credentials.clone(),
            options: ClientOptions {
                authorities: settings.cluster_ca.clone(),
                certificate,
                offers_nothing: true,
                names: ClientNames {
                    authorities: "cluster_ca",
                    certificate: "cluster_certificate",
                    key: "cluster_key",
                },
                ..ClientOptions::default()
            },
        }
    }

    /// Returns the credentials for servers whose addresses contain no credentials.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn login(&self) -> Result<Login, AccessError> {
        let password = match &self.password_file {
            None => self.password.clone().unwrap_or_default(),
            Some(path) => {
                let text = read("cluster_password_file", path)?;
                let text = text.trim_end_matches(['\r', '\n']);
                if text.is_empty() {
                    return Err(AccessError::NoPassword(path.clone()));
                }
                text.to_owned()
            }
        };
        let credentials = match &self.credentials {
            None => None,
            Some(path) => {
                let text = read("cluster_credentials", path)?;
                let credentials = Credentials::read(&text);
                Some(credentials.map_err(|error| AccessError::Credentials(path.clone(), error))?)
            }
        };
        Ok(Login {
            user: self.user.clone(),
            password,
            credentials,
        })
    }

    /// Returns the TLS configuration: trusted authorities and the client certificate.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn tls(&self) -> Result<Arc<ClientConfig>, AccessError> {
        Ok(client_config(&self.options)?)
    }
}

fn read(setting: &'static str, path: &Path) -> Result<String, AccessError> {
    let text = certificate::read(path).map_err(|error| AccessError::File(setting, error))?;
    String::from_utf8(text).map_err(|_| AccessError::Encoding(setting, path.to_owned()))
}
