//! TLS configurations for origins: trusted authorities and client certificates.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fermata_tls::{ClientConfig, ClientNames, ClientOptions, LoadError, client_config};

use crate::routes::{Routes, Target};
use crate::settings::Settings;

/// Names of the files in routes, for errors.
const NAMES: ClientNames = ClientNames {
    authorities: "ca",
    certificate: "client_cert",
    key: "client_key",
};

/// Name of the setting for targets without `ca`, for errors.
const SETTING: &str = "origin_authorities";

/// Key of a TLS configuration. Targets with equal keys share one configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Manner {
    is_insecure: bool,
    authorities: Option<PathBuf>,
    certificate: Option<(PathBuf, PathBuf)>,
    offers_http2: bool,
}

/// Cached configurations. Connections with the same configuration may resume each other's sessions.
#[derive(Debug, Default)]
pub(crate) struct Authority {
    authorities: Option<PathBuf>,
    configs: HashMap<Manner, Arc<ClientConfig>>,
}

impl Authority {
    /// Resolves the setting's file relative to `directory`.
    pub fn new(settings: &Settings, directory: &Path) -> Self {
        let path = &settings.origin_authorities;
        Self {
            authorities: (!path.is_empty()).then(|| directory.join(path)),
            configs: HashMap::new(),
        }
    }

    /// Empties the cache, so that new connections read the files again.
    pub fn forget(&mut self) {
        self.configs.clear();
    }

    /// Returns the configuration for a target. `offers_http2` offers `h2` by ALPN.
    ///
    /// # Errors
    /// A file cannot be used. The error contains the name that the file has in the route or in the settings.
    pub fn config(
        &mut self,
        target: &Target,
        offers_http2: bool,
    ) -> Result<Arc<ClientConfig>, LoadError> {
        let certificate = target.client_cert.as_ref().map(|certificate| {
            let key = target.client_key.as_ref().unwrap_or(certificate);
            (PathBuf::from(certificate), PathBuf::from(key))
        });
        let own = target.ca.as_ref().map(PathBuf::from);
        let is_own = own.is_some();
        let manner = Manner {
            is_insecure: target.insecure,
            authorities: own.or_else(|| self.authorities.clone()),
            certificate,
            offers_http2,
        };
        if let Some(config) = self.configs.get(&manner) {
            return Ok(Arc::clone(config));
        }
        let mut names = NAMES;
        if !is_own {
            names.authorities = SETTING;
        }
        let options = ClientOptions {
            authorities: manner.authorities.clone(),
            certificate: manner.certificate.clone(),
            is_insecure: manner.is_insecure,
            never_resumes: false,
            offers_http2,
            offers_nothing: false,
            names,
        };
        let config = client_config(&options)?;
        self.configs.insert(manner, Arc::clone(&config));
        Ok(config)
    }

    /// Returns an error message for each target whose files cannot be used. No request is sent to these targets.
    pub fn problems(&mut self, routes: &Routes) -> Vec<String> {
        let mut problems = Vec::new();
        for rule in routes.rules() {
            for target in rule.targets.iter().filter(|target| target.is_tls) {
                if let Err(problem) = self.config(target, target.http2) {
                    let (line, name) = (rule.line, &target.name);
                    problems.push(format!(
                        "routes, line {line}: {problem}; nothing is sent to {name} until it is mended"
                    ));
                }
            }
        }
        problems
    }
}
