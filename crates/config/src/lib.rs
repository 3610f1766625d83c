//! Every setting of Fermata, declared once.
//!
//! [`table()`] is the one declaration: name, type, default, range, unit and documentation of each
//! setting. The typed [`Settings`], the INI entries of the extension, `php --ri fermata` and
//! `docs/reference/settings.md` all come from it, so none of them can disagree with the others.
//!
//! A value may be given in four places. [`Builder`] merges them; the later one in this list wins:
//! the built-in default, `php.ini`, the program's code, the environment.
//!
//! The price of one table: a value arrives as text even from code. Settings are read once at start,
//! so that costs nothing that matters, and every source gets the same checks and the same errors.
//!
//! # Decisions and their price
//!
//! **Settings as text from one table.** One check, one error text, one documentation for INI, code and environment. Price:
//! numbers from PHP code take a detour through text, once at start.

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
