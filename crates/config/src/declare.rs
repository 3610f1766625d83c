//! Tables of settings: rows, lookup by name, and errors for unknown names.
//!
//! The server, the edge and the hub each declare one table with [`declare!`](crate::declare).

use crate::error::{SettingError, quoted};
use crate::nearest::nearest;
use crate::program::is_of_php;
use crate::value::Kind;
use crate::value_error::ValueError;

/// One row of a table. `A` is the type of the setting's alternative name.
#[derive(Debug, Clone, Copy)]
pub struct Setting<A = Option<&'static str>> {
    /// Name in snake case; unit and bound are suffixes: `idle_timeout_ms`.
    pub name: &'static str,
    /// Built-in value as text.
    pub default: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// For the server: the argument of the PHP API that sets the value, such as `Limits headerBytes`, if one exists.
    pub alias: A,
    /// Description, one sentence per line.
    pub doc: &'static str,
}

/// All settings of one program.
#[derive(Debug)]
pub struct Table<A: 'static> {
    /// Rows in the order of the documentation.
    pub rows: &'static [Setting<A>],
    /// Prefix of the environment variables.
    pub prefix: &'static str,
    /// Documentation page that lists the settings.
    pub page: &'static str,
}

/// Source of a value in a program that reads options, environment variables and a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// File, with the line number if available.
    File(&'a str),
    /// Environment variable with the program's prefix.
    Environment,
    /// Environment variable with a name that another program defined.
    Variable(&'a str),
    /// Command line.
    Option,
}

impl<A> Table<A> {
    /// Returns index and row of the setting.
    pub fn find(&self, name: &str) -> Option<(usize, &'static Setting<A>)> {
        self.rows
            .iter()
            .enumerate()
            .find(|(_, setting)| setting.name == name)
    }

    /// Returns the setting with the smallest edit distance from `name`, and that distance.
    pub(crate) fn nearest(&self, name: &str) -> Option<(&'static str, usize)> {
        nearest(name, self.rows.iter().map(|setting| setting.name))
    }

    /// Returns the environment variable of a setting.
    pub fn variable(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name.to_ascii_uppercase())
    }

    /// Converts an environment variable to a setting name. The setting may not exist. Returns `None` without the prefix.
    pub fn name_of(&self, variable: &str) -> Option<String> {
        let name = variable.strip_prefix(self.prefix)?;
        Some(name.to_ascii_lowercase())
    }

    /// Builds the error for an unknown name. `written` converts a setting name to the spelling of the source.
    pub(crate) fn unknown(
        &self,
        place: String,
        name: &str,
        written: impl Fn(&str) -> String,
    ) -> SettingError {
        // If more than half of the letters differ, the name was not mistyped.
        let suggestion = self
            .nearest(name)
            .filter(|(setting, distance)| distance * 2 <= setting.len())
            .map(|(setting, _)| written(setting));
        SettingError::Unknown {
            place,
            suggestion,
            page: self.page,
        }
    }

    /// Sets the values of a setting: any number for a list, otherwise exactly one. `assign` parses and stores them.
    ///
    /// # Errors
    /// Fails if the setting does not exist or a value is invalid.
    pub fn set(
        &self,
        place: Place<'_>,
        name: &str,
        values: &[String],
        assign: impl FnOnce(&'static Setting<A>, &[&str]) -> Result<(), ValueError>,
    ) -> Result<(), SettingError> {
        let written = |name: &str| match place {
            Place::File(_) => name.to_owned(),
            Place::Environment => self.variable(name),
            Place::Variable(variable) => variable.to_owned(),
            Place::Option => format!("--{}", name.replace('_', "-")),
        };
        let whole = |name: String| match place {
            Place::File(file) => format!("{file}: {name}"),
            Place::Environment | Place::Variable(_) => format!("environment variable {name}"),
            Place::Option => name,
        };
        let Some((_, setting)) = self.find(name) else {
            if is_of_php(name) {
                return Err(SettingError::OfPhp {
                    place: whole(written(name)),
                    page: self.page,
                });
            }
            return Err(self.unknown(whole(quoted(&written(name))), name, written));
        };
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        assign(setting, &values).map_err(|cause| {
            let place = whole(written(name));
            SettingError::invalid(place, &setting.kind, &values.join(" "), cause)
        })
    }
}

/// Declares the settings of a program: the typed `Settings` and the static `TABLE` that describes them.
///
/// A row is `name: type = default, kind, alias, doc;`. The default is given as text, as a user would write it.
#[macro_export]
macro_rules! declare {
    (
        prefix $prefix:expr;
        page $page:expr;
        alias $alias:ty;
        $($name:ident: $type:ty = $default:literal, $kind:expr, $also:expr, $doc:literal;)+
    ) => {
        /// Checked value of every setting. Sizes are in bytes, durations in milliseconds.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $(#[doc = $doc] pub $name: $type,)+
        }

        /// Descriptions of all settings.
        static TABLE: $crate::Table<$alias> = $crate::Table {
            rows: &[$($crate::Setting {
                name: stringify!($name),
                default: $default,
                kind: $kind,
                alias: $also,
                doc: $doc,
            }),+],
            prefix: $prefix,
            page: $page,
        };

        impl Default for Settings {
            fn default() -> Self {
                Self {
                    $($name: $crate::Value::read_all(&$kind.split($default), &$kind)
                        .expect("a default is in its range"),)+
                }
            }
        }

        impl Settings {
            /// Parses, checks and stores the values of a row. The error text completes "that is …".
            pub(crate) fn assign(
                &mut self,
                setting: &$crate::Setting<$alias>,
                values: &[&str],
            ) -> Result<(), $crate::ValueError> {
                match setting.name {
                    $(stringify!($name) => self.$name = $crate::Value::read_all(values, &$kind)?,)+
                    name => unreachable!("{name} is no row of the table"),
                }
                Ok(())
            }

            /// Formats the value of a row as text from which it can be parsed again.
            pub(crate) fn text(&self, name: &str) -> String {
                match name {
                    $(stringify!($name) => $crate::Value::text(&self.$name),)+
                    name => unreachable!("{name} is no row of the table"),
                }
            }
        }
    };
}
