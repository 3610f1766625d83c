//! HTTP/1.1 and Server-Sent Events as state machines
