//! How origins are spoken to in TLS: whose certificates are believed, and which is shown to them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fermata_tls::{ClientConfig, ClientNames, ClientOptions, LoadError, client_config};

use crate::routes::{Routes, Target};
use crate::settings::Settings;

/// What the files are called where routes name them.
const NAMES: ClientNames = ClientNames {
    authorities: "ca",
    certificate: "client_cert",
    key: "client_key",
};

/// The setting that holds for targets without `ca`.
const SETTING: &str = "origin_authorities";

/// Which targets are spoken to in one way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Manner {
    is_insecure: bool,
    authorities: Option<PathBuf>,
    certificate: Option<(PathBuf, PathBuf)>,
    offers_http2: bool,
}

/// The configurations in use. Connections of one may resume another's session.
#[derive(Debug, Default)]
pub(crate) struct Authority {
    authorities: Option<PathBuf>,
    configs: HashMap<Manner, Arc<ClientConfig>>,
}

impl Authority {
    /// `directory` is where the setting's file is looked for.
    pub fn new(settings: &Settings, directory: &Path) -> Self {
        let path = &settings.origin_authorities;
        Self {
            authorities: (!path.is_empty()).then(|| directory.join(path)),
            configs: HashMap::new(),
        }
    }

    /// The files are read anew for connections to come.
    pub fn forget(&mut self) {
        self.configs.clear();
    }

    /// How a target is spoken to, in HTTP/2 if `offers_http2` and it agrees. `Err`: a file that cannot be used, by its name in
    /// the route or the settings.
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

    /// A sentence for each target whose files cannot be used; nothing goes there until they can.
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
