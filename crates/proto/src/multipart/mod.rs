//! Reading `multipart/form-data` (RFC 7578 over RFC 2046, 5.1), resumable at any byte.
//!
//! Nothing is collected but the headers of one part, so a file of any size passes through. What starts like a
//! delimiter at the end of a piece is not held as bytes: the parser knows how much of the delimiter it was.
//! Strict like the rest of this crate: a line that only begins like the delimiter is refused, not guessed at.

mod head;
#[cfg(test)]
mod tests;

use memchr::memmem::Finder;

use crate::Refusal;
use crate::http1::is_field_byte;

pub use head::{Part, boundary};

/// Bytes of one part's headers with their final empty line.
pub const PART_HEAD_BYTES_MAX: usize = 8192;
/// Longest boundary (RFC 2046, 5.1.1).
pub const BOUNDARY_BYTES_MAX: usize = 70;
/// Spaces behind a delimiter.
const PADDING_BYTES_MAX: u32 = 256;

/// What comes out, in this order: for each part `Part`, any number of `Data`, `PartEnd`.
#[derive(Debug)]
pub enum Event<'a> {
    /// A part begins.
    Part(Part),
    /// A piece of its content; never empty.
    Data(&'a [u8]),
    /// The part is complete.
    PartEnd,
}

/// The state between two pieces of one body.
#[derive(Debug)]
pub struct Parser {
    /// Finds CR LF `--` boundary. Of these bytes only the first is a CR, on which [`Parser::scan`] relies.
    delimiter: Finder<'static>,
    state: State,
    /// Bytes of the delimiter that the last piece ended with; they are consumed, and data if no more follow.
    matched: usize,
    /// How many of `matched` the input did not really have: a line end that counts twice.
    assumed: usize,
    /// The headers of the part that begins.
    head: Vec<u8>,
    padding: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first delimiter: dropped.
    Preamble,
    /// Content of a part.
    Data,
    /// Right behind a delimiter.
    Delimiter,
    /// Behind a delimiter and spaces.
    Padding,
    PaddingLineFeed,
    Head,
    /// Behind a delimiter and one hyphen.
    CloseHyphen,
    /// Behind the last delimiter; only spaces and an end of line may follow.
    Close,
    CloseLineFeed,
    /// After the last delimiter: dropped.
    Epilogue,
}

impl Parser {
    /// A parser at the first byte of a body, with a boundary that [`boundary`] has given.
    #[must_use]
    pub fn new(boundary: &[u8]) -> Self {
        let delimiter = [b"\r\n--", boundary].concat();
        Self {
            delimiter: Finder::new(&delimiter).into_owned(),
            state: State::Preamble,
            // The first delimiter may stand at the very start, without the line end in front.
            matched: 2,
            assumed: 2,
            head: Vec::new(),
            padding: 0,
        }
    }

    /// Reads all of `input`, the bytes after those of the last call, and hands what is in it to `take`.
    ///
    /// # Errors
    /// What is wrong with the body, or what `take` has returned; the parser must not be used again.
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

    /// The body has ended.
    ///
    /// # Errors
    /// [`Refusal::MultipartUnfinished`] when its last delimiter has not come.
    pub fn finish(&self) -> Result<(), Refusal> {
        match self.state {
            State::Close | State::CloseLineFeed | State::Epilogue => Ok(()),
            _ => Err(Refusal::MultipartUnfinished),
        }
    }

    /// Looks for the delimiter; returns how much of the input was consumed.
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
        // Its beginning may stand at the end. The first CR that fits is the longest.
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

    /// The same when the piece before ended with the beginning of the delimiter.
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
            // It was data. None of it can begin a delimiter, for the only CR is its first byte.
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

    /// One byte of a delimiter's line.
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

    /// Collects the headers of a part; returns how much of the input was consumed.
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
                // In a part without content the line end of its headers is that of the delimiter (RFC 2046, 5.1.1).
                self.matched = 2;
                self.assumed = 2;
                take(Event::Part(part))?;
                return Ok(at + 1);
            }
        }
        Ok(input.len())
    }
}
