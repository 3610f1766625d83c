//! Streaming parser for `multipart/form-data` (RFC 7578 over RFC 2046, section 5.1). Parsing can stop and resume at any
//! byte.
//!
//! The parser buffers only the headers of one part, so files of any size pass through. If a piece ends with a possible
//! start of the delimiter, it stores the number of matching bytes, not the bytes. A line that starts with the delimiter
//! but continues with other bytes is rejected.

mod head;
#[cfg(test)]
mod tests;

use memchr::memmem::Finder;

use crate::Refusal;
use crate::http1::is_field_byte;

pub use head::{Part, boundary};

/// Maximum bytes of one part's headers, including their final empty line.
pub const PART_HEAD_BYTES_MAX: usize = 8192;
/// Maximum length of a boundary (RFC 2046, section 5.1.1).
pub const BOUNDARY_BYTES_MAX: usize = 70;
/// Maximum number of spaces after a delimiter.
const PADDING_BYTES_MAX: u32 = 256;

/// Events of the parser. Each part yields `Part`, any number of `Data`, then `PartEnd`.
#[derive(Debug)]
pub enum Event<'a> {
    /// Start of a part.
    Part(Part),
    /// A piece of the part's content; never empty.
    Data(&'a [u8]),
    /// End of the part.
    PartEnd,
}

/// Parser state between two pieces of one body.
#[derive(Debug)]
pub struct Parser {
    /// Searches for CR LF `--` boundary. Only the first byte of the delimiter is a CR; [`Parser::scan`] relies on this.
    delimiter: Finder<'static>,
    state: State,
    /// Number of bytes of the delimiter with which the last piece ended. They were consumed without an event. If the next piece
    /// does not continue the delimiter, they were data.
    matched: usize,
    /// Number of leading bytes of `matched` that are never data. At the start of a body, the delimiter's line end is missing
    /// and only assumed. After a part's headers, it is the line end that ended them.
    assumed: usize,
    /// Header bytes of the part that is starting.
    head: Vec<u8>,
    padding: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first delimiter. These bytes are dropped.
    Preamble,
    /// Content of a part.
    Data,
    /// Directly after a delimiter.
    Delimiter,
    /// After a delimiter and spaces.
    Padding,
    PaddingLineFeed,
    Head,
    /// After a delimiter and one hyphen.
    CloseHyphen,
    /// After the last delimiter; only spaces and a line end may follow.
    Close,
    CloseLineFeed,
    /// After the line of the last delimiter. These bytes are dropped.
    Epilogue,
}

impl Parser {
    /// Creates a parser at the first byte of a body, with a boundary returned by [`boundary`].
    #[must_use]
    pub fn new(boundary: &[u8]) -> Self {
        let delimiter = [b"\r\n--", boundary].concat();
        Self {
            delimiter: Finder::new(&delimiter).into_owned(),
            state: State::Preamble,
            // The first delimiter may be at the very start, without a preceding line end.
            matched: 2,
            assumed: 2,
            head: Vec::new(),
            padding: 0,
        }
    }

    /// Parses the complete `input`, which continues the previous call's input, and passes each event to `take`.
    ///
    /// # Errors
    /// A parse error of the body, or the error that `take` returned. The parser must not be used again.
    pub fn feed<E: From<Refusal>>(
        &mut self,
        input: &[u8],
        take: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        while at < input.len() {
            match self.state {
                State::Preamble | State::Data => at += self.scan(&input[at..], take)?,
                State::Head => at += self.head(&input[at..], take)?,
                State::Epilogue => return Ok(()),
                _ => {
                    self.state = self.step(input[at])?;
                    at += 1;
                }
            }
        }
        Ok(())
    }

    /// Checks that the body was complete when it ended.
    ///
    /// # Errors
    /// [`Refusal::MultipartUnfinished`] if the last delimiter is missing.
    pub fn finish(&self) -> Result<(), Refusal> {
        match self.state {
            State::Close | State::CloseLineFeed | State::Epilogue => Ok(()),
            _ => Err(Refusal::MultipartUnfinished),
        }
    }

    /// Searches for the delimiter; returns the number of bytes consumed.
    fn scan<E: From<Refusal>>(
        &mut self,
        input: &[u8],
        take: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        if self.matched > 0 {
            return self.scan_on(input, take);
        }
        let delimiter = self.delimiter.needle();
        if let Some(found) = self.delimiter.find(input) {
            let consumed = found + delimiter.len();
            self.data(&input[..found], take)?;
            self.delimiter_found(take)?;
            return Ok(consumed);
        }
        // The input may end with the start of the delimiter. The first CR that matches gives the longest match.
        let tail = input.len().saturating_sub(delimiter.len() - 1);
        let starts = memchr::memchr_iter(b'\r', &input[tail..]).map(|at| tail + at);
        let held = starts
            .into_iter()
            .find(|&start| delimiter.starts_with(&input[start..]))
            .unwrap_or(input.len());
        self.matched = input.len() - held;
        self.data(&input[..held], take)?;
        Ok(input.len())
    }

    /// Continues [`Parser::scan`] if the previous piece ended with the start of the delimiter.
    fn scan_on<E: From<Refusal>>(
        &mut self,
        input: &[u8],
        take: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let missing = &self.delimiter.needle()[self.matched..];
        let same = missing.iter().zip(input).take_while(|(a, b)| a == b);
        let same = same.count();
        self.matched += same;
        if same == missing.len() {
            self.matched = 0;
            self.assumed = 0;
            self.delimiter_found(take)?;
        } else if same < input.len() {
            // The matched bytes were data. No other delimiter can start within them, because only the first byte of a delimiter
            // is a CR.
            let data = std::mem::take(&mut self.assumed)..std::mem::take(&mut self.matched);
            self.data(&self.delimiter.needle()[data], take)?;
        }
        Ok(same)
    }

    fn data<E>(
        &self,
        data: &[u8],
        take: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.state == State::Data && !data.is_empty() {
            take(Event::Data(data))?;
        }
        Ok(())
    }

    fn delimiter_found<E>(
        &mut self,
        take: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let was = std::mem::replace(&mut self.state, State::Delimiter);
        self.padding = 0;
        if was == State::Data {
            take(Event::PartEnd)?;
        }
        Ok(())
    }

    /// Processes one byte of a delimiter's line.
    fn step(&mut self, byte: u8) -> Result<State, Refusal> {
        match (self.state, byte) {
            (State::Delimiter, b'-') => Ok(State::CloseHyphen),
            (State::CloseHyphen, b'-') => Ok(State::Close),
            (State::Delimiter | State::Padding, b' ' | b'\t') => self.pad(State::Padding),
            (State::Close, b' ' | b'\t') => self.pad(State::Close),
            (State::Delimiter | State::Padding, b'\r') => Ok(State::PaddingLineFeed),
            (State::PaddingLineFeed, b'\n') => Ok(State::Head),
            (State::Close, b'\r') => Ok(State::CloseLineFeed),
            (State::CloseLineFeed, b'\n') => Ok(State::Epilogue),
            _ => Err(Refusal::MultipartDelimiter),
        }
    }

    fn pad(&mut self, next: State) -> Result<State, Refusal> {
        self.padding += 1;
        if self.padding > PADDING_BYTES_MAX {
            return Err(Refusal::MultipartDelimiter);
        }
        Ok(next)
    }

    /// Collects the headers of a part; returns the number of bytes consumed.
    fn head<E: From<Refusal>>(
        &mut self,
        input: &[u8],
        take: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        for (at, &byte) in input.iter().enumerate() {
            let after_return = self.head.last() == Some(&b'\r');
            if after_return != (byte == b'\n')
                || !(is_field_byte(byte) || matches!(byte, b'\r' | b'\n'))
            {
                return Err(Refusal::MultipartHead.into());
            }
            if self.head.len() == PART_HEAD_BYTES_MAX {
                return Err(Refusal::MultipartHeadTooLarge.into());
            }
            self.head.push(byte);
            if byte == b'\n' && (self.head.len() == 2 || self.head.ends_with(b"\r\n\r\n")) {
                let part = Part::parse(&self.head)?;
                self.head.clear();
                self.state = State::Data;
                // In a part without content, the line end of the headers also starts the delimiter (RFC 2046, section
                // 5.1.1).
                self.matched = 2;
                self.assumed = 2;
                take(Event::Part(part))?;
                return Ok(at + 1);
            }
        }
        Ok(input.len())
    }
}
