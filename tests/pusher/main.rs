//! `fermata hub`, and a program in its place, with clients that speak Pusher: libraries as they are, and bytes.

mod clients;
mod hub;
mod killed;
mod members;
mod messages;
mod nodes;
mod program;
mod sockjs;
mod watching;
mod webhooks;
