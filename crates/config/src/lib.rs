//! Declares, merges and checks all settings of the server.
//!
//! [`table()`] is the single declaration: name, type, default, range, unit and documentation of each
//! setting. The typed [`Settings`], the INI entries of the extension, `php --ri fermata` and
//! `docs/reference/settings.md` are all derived from this table, so they cannot disagree.
//!
//! A setting has four sources. [`Builder`] merges them; a later source in this list overrides earlier ones:
//! the built-in default, `php.ini`, the PHP script, the environment.
//!
//! # Design decisions
//!
//! **Every value is parsed from text.** INI, code and environment share one set of checks, error messages and documentation.
//! The cost: numbers from PHP code are converted to text and back, once at startup.

#![forbid(unsafe_code)]

mod builder;
mod declare;
mod error;
mod listen;
mod nearest;
mod networks;
mod otel;
mod process;
mod program;
mod proxy_headers;
pub mod reference;
mod secrets;
mod table;
mod value;
mod value_error;
mod variables;

pub use builder::{Builder, Source, check_addresses, check_option, problem};
pub use declare::{Place, Setting, Table};
pub use error::SettingError;
pub use listen::{Access, LISTENERS_MAX, Listen, Scheme, Transport};
pub use nearest::nearest;
pub use networks::Networks;
pub use process::{environment, unknown_variables};
pub use program::Program;
pub use proxy_headers::{ProxyHeader, ProxyHeaders};
pub use secrets::mask_secrets;
pub use table::{Settings, WORKERS_MAX, effective, table};
pub use value::{Kind, LogFormat, LogLevel, Value, billionths};
pub use value_error::{AddressError, NetworkError, ProxyHeadersError, ValueError};
pub use variables::{EDGE_PREFIX, is_service_variable};
