//! GRIP as state machines: what a backend tells the edge, what is published, and how both travel.
//!
//! Nothing here knows a socket, a clock or a thread; time is an argument. Input is hostile: every bound has a
//! name, and `fuzzing` holds the promises that each parser keeps for any bytes.
//!
//! - [`instruct`]: what an origin's response asks for, as headers or as JSON.
//! - [`item`], [`filter`], [`patch`], [`template`]: what is published, and what each subscriber gets of it.
//! - [`packet`], [`tnetstring`], [`value`]: the notations of items.

#![forbid(unsafe_code)]

pub mod encoding;
pub mod filter;
pub mod instruct;
pub mod item;
pub mod last;
pub mod packet;
pub mod params;
pub mod template;
pub mod tnetstring;
pub mod value;
