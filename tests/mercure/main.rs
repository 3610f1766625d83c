//! `fermata hub` with Mercure clients: unmodified libraries, and raw bytes.

mod clients;
mod clock;
mod doors;
mod draft;
mod hub;
mod keys;
mod killed;
mod malformed;
mod nodes;
mod subscriptions;
mod tokens;
mod updates;
