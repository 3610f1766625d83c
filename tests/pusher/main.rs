//! Pusher clients, unmodified libraries and raw bytes, of `fermata hub` and of an application that
//! serves Pusher itself.

mod cache;
mod clients;
mod clock;
mod forged;
mod hub;
mod killed;
mod members;
mod messages;
mod nodes;
mod program;
mod sockjs;
mod unread;
mod watching;
mod webhooks;
