//! The head of a CGI response: header lines including `Status`, and an empty line.

/// Maximum size of a head in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A response without its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Status from `Status`; without it, 302 if there is a `Location`, otherwise 200.
    pub status: u16,
    /// Reason phrase from `Status`; empty = the standard phrase.
    pub reason: Vec<u8>,
    /// The other headers, in order.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Reason why a response's head is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The head is larger than [`HEAD_BYTES_MAX`].
    #[error("the program's response has a head of more than {HEAD_BYTES_MAX} bytes")]
    TooLarge,
    /// A line is not a header, or contains a control byte.
    #[error("the program's response has a line in its head that is no header")]
    Line,
    /// The `Status` is invalid.
    #[error("the program's response has a Status that is neither 102, 103 nor 200 to 999")]
    Status,
    /// Too many interim heads.
    #[error("the program sent too many interim responses")]
    Interim,
    /// The output ended before the empty line.
    #[error("the program's output ended within the head of its response")]
    Truncated,
}

impl Head {
    /// Returns true if another head follows.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// Parses the head at the start of `bytes`; returns it with its size. Returns `None` if the
    /// head is incomplete.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, HeadError> {
        let view = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
        let mut head = Self::default();
        let mut at = 0;
        while let Some(end) = view[at..].iter().position(|&byte| byte == b'\n') {
            let line = &view[at..at + end];
            at += end + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                head.finish();
                return Ok(Some((head, at)));
            }
            head.line(line)?;
        }
        match view.len() {
            HEAD_BYTES_MAX => Err(HeadError::TooLarge),
            _ => Ok(None),
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), HeadError> {
        let colon = line
            .iter()
            .position(|&byte| byte == b':')
            .ok_or(HeadError::Line)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let is_token =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let is_text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
        if name.is_empty() || !name.iter().all(is_token) || !value.iter().all(is_text) {
            return Err(HeadError::Line);
        }
        if !name.eq_ignore_ascii_case(b"Status") {
            self.headers.push((name.to_vec(), value.to_vec()));
            return Ok(());
        }
        let (digits, reason) = value.split_at(value.len().min(3));
        let status = std::str::from_utf8(digits)
            .ok()
            .filter(|_| digits.iter().all(u8::is_ascii_digit));
        let is_apart = reason.first().is_none_or(|&byte| byte == b' ');
        self.status = status
            .and_then(|digits| digits.parse().ok())
            // Only the server may send 100 and 101.
            .filter(|&status: &u16| (status >= 200 || matches!(status, 102 | 103)) && is_apart)
            .ok_or(HeadError::Status)?;
        self.reason = reason.trim_ascii().to_vec();
        Ok(())
    }

    fn finish(&mut self) {
        if self.status == 0 {
            let has_location = self
                .headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(b"Location"));
            self.status = if has_location { 302 } else { 200 };
        }
    }
}
