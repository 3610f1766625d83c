//! Why a server does not start.

use std::path::PathBuf;

use fermata_config::SettingError;

use crate::admin::otlp::OtlpError;
use crate::admin::trace::SinkError;
use crate::channels::cluster::ClusterError;
use crate::channels::memory::HubError;
use crate::master::identity::IdentityError;
use crate::net::listen_error::ListenError;
use crate::net::tls::TlsError;

/// Why a server did not start. Each sentence names the setting, the cause and the fix.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting has a bad value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The log that machines share.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The collector of spans.
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    /// The access log.
    #[error(transparent)]
    AccessLog(#[from] SinkError),
    /// The address for metrics.
    #[error("metrics_listen: cannot listen on {address}: {cause}")]
    Metrics {
        /// What was asked for.
        address: String,
        /// What went wrong and what helps.
        cause: ListenError,
    },
    /// A listener.
    #[error("listen: cannot listen on {address}: {cause}")]
    Listen {
        /// What was asked for.
        address: String,
        /// What went wrong and what helps.
        cause: ListenError,
    },
    /// The control socket.
    #[error("control: cannot listen on unix:{}: {source}; is another server using it, and may this user write there?", path.display())]
    Control {
        /// Its path.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The user whose rights workers are to have.
    #[error(transparent)]
    Account(#[from] IdentityError),
    /// The shared memory or file of the hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The kernel refused something that no setting changes.
    #[error("starting the server: {what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}
