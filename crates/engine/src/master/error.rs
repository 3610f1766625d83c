//! Errors of starting a server.

use std::path::PathBuf;

use fermata_config::SettingError;

use crate::admin::otlp::OtlpError;
use crate::admin::trace::SinkError;
use crate::channels::cluster::ClusterError;
use crate::channels::memory::HubError;
use crate::master::identity::IdentityError;
use crate::net::listen_error::ListenError;
use crate::net::tls::TlsError;

/// Why a server did not start. Each message has the setting, the cause and a fix.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An invalid setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// An error of the certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An error of the cluster setting or its memory.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// An error of the span collector.
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    /// An error of the access log.
    #[error(transparent)]
    AccessLog(#[from] SinkError),
    /// An error of the metrics endpoint.
    #[error("metrics_listen: cannot listen on {address}: {cause}")]
    Metrics {
        /// The configured address.
        address: String,
        /// The cause and a fix.
        cause: ListenError,
    },
    /// An error of a listener.
    #[error("listen: cannot listen on {address}: {cause}")]
    Listen {
        /// The configured address.
        address: String,
        /// The cause and a fix.
        cause: ListenError,
    },
    /// An error of the control socket.
    #[error("control: cannot listen on unix:{}: {source}; is another server using it, and may this user write there?", path.display())]
    Control {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// An error of the workers' user or group.
    #[error(transparent)]
    Account(#[from] IdentityError),
    /// An error of the ring's shared memory or file.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// An error of the kernel unrelated to a setting.
    #[error("starting the server: {what}: {source}")]
    Io {
        /// The failed operation.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}
