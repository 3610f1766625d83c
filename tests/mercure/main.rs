//! `fermata hub` with clients that speak Mercure: libraries as they are, and bytes.

mod clients;
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
