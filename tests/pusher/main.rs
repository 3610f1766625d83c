//! `fermata hub` with clients that speak Pusher: libraries as they are, and bytes.

mod clients;
mod hub;
mod killed;
mod messages;
mod watching;
mod webhooks;
