//! What tables of settings have in common: rows, how a name is found in them, and what is said of one that is not there.
//!
//! The server, the edge and the hub have a table each, declared by [`declare!`](crate::declare).

use crate::error::{SettingError, quoted};
use crate::nearest::nearest;
use crate::program::is_of_php;
use crate::value::Kind;
use crate::value_error::ValueError;

/// One row of a table. `A` is what else the program's users may know the setting by.
#[derive(Debug, Clone, Copy)]
pub struct Setting<A = Option<&'static str>> {
    /// Name in snake case, with unit and bound last: `idle_timeout_ms`.
    pub name: &'static str,
    /// The built-in value as text.
    pub default: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// Of the server's: the argument of the PHP surface that sets it, if there is one: `Limits headerBytes`.
    pub alias: A,
    /// What it does, one sentence per line.
    pub doc: &'static str,
}

/// The settings of a program.
#[derive(Debug)]
pub struct Table<A: 'static> {
    /// In the order that documentation shows them.
    pub rows: &'static [Setting<A>],
    /// What their environment variables begin with.
    pub prefix: &'static str,
    /// The page that lists them.
    pub page: &'static str,
}

/// Where a value is given, for a program whose settings are options, variables and keys of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// A file, with the line where it is known.
    File(&'a str),
    /// The environment.
    Environment,
    /// A variable of the environment that another program has named.
    Variable(&'a str),
    /// The command line.
    Option,
}

impl<A> Table<A> {
    /// The row of this name and its place in the table.
    pub fn find(&self, name: &str) -> Option<(usize, &'static Setting<A>)> {
        self.rows
            .iter()
            .enumerate()
            .find(|(_, setting)| setting.name == name)
    }

    /// The setting that the name becomes by the fewest changes, and by how many.
    pub(crate) fn nearest(&self, name: &str) -> Option<(&'static str, usize)> {
        nearest(name, self.rows.iter().map(|setting| setting.name))
    }

    /// The environment variable of a setting.
    pub fn variable(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name.to_ascii_uppercase())
    }

    /// The name that a setting of this environment variable has, whether there is one or not. `None`: it begins otherwise.
    pub fn name_of(&self, variable: &str) -> Option<String> {
        let name = variable.strip_prefix(self.prefix)?;
        Some(name.to_ascii_lowercase())
    }

    /// There is no setting of this name; `written` is how the user knows one in the place where it was given.
    pub(crate) fn unknown(
        &self,
        place: String,
        name: &str,
        written: impl Fn(&str) -> String,
    ) -> SettingError {
        // A name that shares less than half its letters with the nearest one was not mistyped.
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

    /// Gives a setting its values: any number of a list, one of everything else. `assign` reads and stores them.
    ///
    /// # Errors
    /// There is no such setting, or the values have no meaning.
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

/// Declares the settings of a program once: the typed `Settings` and the static `TABLE` of what they are.
///
/// A row is `name: type = default, kind, alias, doc;`, the default as the text that a user would give.
#[macro_export]
macro_rules! declare {
    (
        prefix $prefix:expr;
        page $page:expr;
        alias $alias:ty;
        $($name:ident: $type:ty = $default:literal, $kind:expr, $also:expr, $doc:literal;)+
    ) => {
        /// The value of every setting, checked. Sizes are bytes, durations milliseconds.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $(#[doc = $doc] pub $name: $type,)+
        }

        /// What there is to set.
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
            /// Reads, checks and stores the values of a row; the error is the cause, after "that is …".
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

            /// The value of a row as text that would be read as the same.
            pub(crate) fn text(&self, name: &str) -> String {
                match name {
                    $(stringify!($name) => $crate::Value::text(&self.$name),)+
                    name => unreachable!("{name} is no row of the table"),
                }
            }
        }
    };
}
