//! Reads fields of items. Errors have the texts of Pushpin, because publishers compare them.

use super::error::ItemError;
use crate::encoding;
use crate::packet::Notation;
use crate::value::Value;

type Read<T> = Result<T, ItemError>;

/// An object whose fields are read, and the object's name in errors.
#[derive(Clone, Copy)]
pub(super) struct Object<'a> {
    pub value: &'a Value,
    pub place: &'a str,
    pub notation: Notation,
}

impl<'a> Object<'a> {
    pub fn new(value: &'a Value, place: &'a str, notation: Notation) -> Read<Self> {
        match value {
            Value::Map(_) => Ok(Self {
                value,
                place,
                notation,
            }),
            _ => Err(ItemError::Object(place.to_owned())),
        }
    }

    pub fn text(&self, name: &'static str) -> Read<Option<&'a [u8]>> {
        match self.value.get(name) {
            None => Ok(None),
            Some(value) => value.bytes().map(Some).ok_or_else(|| self.kind(name)),
        }
    }

    pub fn owned(&self, name: &'static str) -> Read<Option<Vec<u8>>> {
        Ok(self.text(name)?.map(<[u8]>::to_vec))
    }

    pub fn boolean(&self, name: &'static str) -> Read<bool> {
        match self.value.get(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(self.kind(name)),
        }
    }

    /// Returns an integer from zero to `max`.
    pub fn number(&self, name: &'static str, max: u32) -> Read<Option<u32>> {
        let Some(value) = self.value.get(name) else {
            // Not present.
            return Ok(None);
        };
        let number = value.integer().ok_or_else(|| self.kind(name))?;
        match u32::try_from(number) {
            Ok(number) if number <= max => Ok(Some(number)),
            _ => Err(self.invalid(name)),
        }
    }

    /// Returns the text under `plain`, or the bytes under `binary`. If both exist, the bytes take precedence. In JSON the bytes are
    /// base64.
    pub fn content(&self, plain: &'static str, binary: &'static str) -> Read<Option<Content>> {
        let Some(bytes) = self.text(binary)? else {
            return Ok(self.owned(plain)?.map(Content::Plain));
        };
        match self.notation {
            Notation::Tnetstring => Ok(Some(Content::Binary(bytes.to_vec()))),
            Notation::Json => encoding::base64(bytes)
                .map(|bytes| Some(Content::Binary(bytes)))
                .ok_or_else(|| self.invalid(binary)),
        }
    }

    pub fn kind(&self, name: &'static str) -> ItemError {
        ItemError::Type {
            place: self.place.to_owned(),
            name: name.to_owned(),
        }
    }

    pub fn invalid(&self, name: &'static str) -> ItemError {
        ItemError::Invalid {
            place: self.place.to_owned(),
            name,
        }
    }

    pub fn unknown(&self, name: &'static str) -> ItemError {
        ItemError::Unknown {
            place: self.place.to_owned(),
            name,
        }
    }

    pub fn missing(&self, names: &'static str) -> ItemError {
        ItemError::Missing {
            place: self.place.to_owned(),
            names,
        }
    }
}

/// Content, and the kind of name under which it was given.
pub(super) enum Content {
    Plain(Vec<u8>),
    Binary(Vec<u8>),
}

impl Content {
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Plain(bytes) | Self::Binary(bytes) => bytes,
        }
    }
}

/// Parses an object of texts.
pub(super) fn texts(value: &Value, place: &str) -> Read<Vec<(Vec<u8>, Vec<u8>)>> {
    let Value::Map(entries) = value else {
        return Err(ItemError::Object(place.to_owned()));
    };
    entries
        .iter()
        .map(|(name, value)| {
            let value = value.bytes().ok_or_else(|| ItemError::Type {
                place: place.to_owned(),
                name: String::from_utf8_lossy(name).into_owned(),
            })?;
            Ok((name.clone(), value.to_vec()))
        })
        .collect()
}
