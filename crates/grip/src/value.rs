//! Values of items and commands, independent of the notation.
//!
//! JSON has text and tnetstrings have bytes. This type uses bytes for both, so that code after the parsers exists only once.

use serde_json::Value as Json;

/// A value of JSON or of a tnetstring.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The value `null` in JSON, `~` in tnetstrings.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A number that is not an integer.
    Float(f64),
    /// Text or bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// An object, in written order; the last of equal keys is used.
    Map(Vec<(Vec<u8>, Value)>),
}

impl Value {
    /// Returns the value under `key`. `None`: this value is not an object, or has no such key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Map(entries) => entries
                .iter()
                .rev()
                .find(|(name, _)| name == key.as_bytes())
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the bytes of a text.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns an integer. Also accepts a float without a fraction, and text that consists of digits, because PHP publishers send
    /// these.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Some(*number as i64)
            }
            Self::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// Converts to JSON. Text that is not valid UTF-8 gets replacement characters.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Integer(number) => Json::from(*number),
            Self::Float(number) => Json::from(*number),
            Self::Bytes(bytes) => Json::String(String::from_utf8_lossy(bytes).into_owned()),
            Self::List(values) => Json::Array(values.iter().map(Self::to_json).collect()),
            Self::Map(entries) => Json::Object(
                entries
                    .iter()
                    .map(|(name, value)| {
                        (String::from_utf8_lossy(name).into_owned(), value.to_json())
                    })
                    .collect(),
            ),
        }
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Self::Integer(number),
                None => Self::Float(number.as_f64().unwrap_or(f64::MAX)),
            },
            Json::String(text) => Self::Bytes(text.into_bytes()),
            Json::Array(values) => Self::List(values.into_iter().map(Self::from).collect()),
            Json::Object(entries) => Self::Map(
                entries
                    .into_iter()
                    .map(|(name, value)| (name.into_bytes(), Self::from(value)))
                    .collect(),
            ),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

/// Creates an object with these entries.
pub fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(
        entries
            .into_iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_of_equal_keys_is_used() {
        let value = map([("a", Value::Integer(1)), ("a", Value::Integer(2))]);
        assert_eq!(value.get("a"), Some(&Value::Integer(2)));
        assert_eq!(value.get("b"), None);
        assert_eq!(Value::Null.get("a"), None);
    }

    #[test]
    fn accepts_integers_in_three_notations() {
        for (value, expected) in [
            (Value::Integer(-3), Some(-3)),
            (Value::Float(200.0), Some(200)),
            (Value::Float(1.5), None),
            (Value::Float(f64::NAN), None),
            (Value::Float(1e300), None),
            (Value::from("200"), Some(200)),
            (Value::from("2 "), None),
            (Value::from(""), None),
            (Value::Bool(true), None),
        ] {
            assert_eq!(value.integer(), expected, "{value:?}");
        }
    }

    #[test]
    fn json_round_trips() {
        let json: Json =
            serde_json::from_str(r#"{"a":[1,2.5,null,true,"ü"],"b":{"c":-9007199254740993}}"#)
                .expect("valid JSON");
        assert_eq!(Value::from(json.clone()).to_json(), json);
        assert_eq!(
            Value::from(serde_json::from_str::<Json>("18446744073709551615").expect("a number")),
            Value::Float(18446744073709551615.0)
        );
    }
}
