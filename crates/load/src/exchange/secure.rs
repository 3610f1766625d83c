//! Adapter that runs another protocol inside TLS.

use super::{Answer, Protocol};
use crate::error::Fault;
use crate::tls::{Connector, Tls};

/// Runs `inner` over TLS if there is a connector, and in plain text otherwise.
#[derive(Debug)]
pub(crate) struct Secure<P> {
    inner: P,
    connector: Option<Connector>,
}

/// State of one connection.
#[derive(Debug, Default)]
pub(crate) struct Wire<W> {
    inner: W,
    tls: Option<Tls>,
    /// Error while opening, reported at the first read.
    broken: Option<Fault>,
    /// Decrypted bytes; the first `read` bytes are consumed.
    plain: Vec<u8>,
    read: usize,
    /// Bytes to encrypt. They are collected until bytes are sent, to use few records.
    outgoing: Vec<u8>,
}

impl<P> Secure<P> {
    pub fn new(inner: P, connector: Option<Connector>) -> Self {
        Self { inner, connector }
    }
}

impl<P: Protocol> Protocol for Secure<P> {
    type Wire = Wire<P::Wire>;

    fn open(&mut self, wire: &mut Self::Wire, out: &mut Vec<u8>) -> bool {
        let Some(connector) = &self.connector else {
            return self.inner.open(&mut wire.inner, out);
        };
        wire.plain.clear();
        wire.read = 0;
        wire.outgoing.clear();
        match connector.connect() {
            Ok(tls) => wire.tls = Some(tls),
            Err(cause) => wire.broken = Some(cause),
        }
        self.inner.open(&mut wire.inner, &mut wire.outgoing)
    }

    fn request(&mut self, wire: &mut Self::Wire, number: u64, out: &mut Vec<u8>) {
        let out = match wire.tls {
            Some(_) => &mut wire.outgoing,
            None => out,
        };
        self.inner.request(&mut wire.inner, number, out);
    }

    fn end_turn(&mut self, wire: &mut Self::Wire, out: &mut Vec<u8>) {
        if let Some(tls) = &mut wire.tls
            && !wire.outgoing.is_empty()
        {
            if let Err(cause) = tls.write(&wire.outgoing, out) {
                wire.broken = Some(cause);
            }
            wire.outgoing.clear();
        }
    }

    fn handle(
        &mut self,
        wire: &mut Self::Wire,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Answer>), Fault> {
        if let Some(cause) = wire.broken.take() {
            return Err(cause);
        }
        let Some(tls) = &mut wire.tls else {
            return self.inner.handle(&mut wire.inner, input, out);
        };
        tls.read(input, &mut wire.plain, out)?;
        let unread = &mut wire.plain[wire.read..];
        let handled = self
            .inner
            .handle(&mut wire.inner, unread, &mut wire.outgoing);
        let (used, answer) = handled?;
        wire.read += used;
        if wire.read == wire.plain.len() {
            wire.plain.clear();
            wire.read = 0;
        }
        self.end_turn(wire, out);
        // TLS has consumed all of the input. The caller calls again, with empty input, for further responses in `plain`.
        Ok((input.len(), answer))
    }

    fn handle_end(&mut self, wire: &mut Self::Wire) -> Option<Answer> {
        self.inner.handle_end(&mut wire.inner)
    }
}
