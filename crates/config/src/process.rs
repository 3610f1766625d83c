//! Reads the environment of this process and finds variables that no program reads.

use crate::error::SettingError;
use crate::program::Program;
use crate::table::table;
use crate::value_error::ValueError;
use crate::variables::{ENVIRONMENT_PREFIX, Strangers, is_listed, is_ours};

/// Reads the environment of this process; skips variables whose names are not UTF-8.
///
/// # Errors
/// Fails if a variable with the prefix of settings has a value that is not UTF-8.
pub fn environment() -> Result<Vec<(String, String)>, SettingError> {
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        let Ok(name) = name.into_string() else {
            continue;
        };
        match value.into_string() {
            Ok(value) => variables.push((name, value)),
            Err(_) if name.starts_with(ENVIRONMENT_PREFIX) && !is_listed(&name) => {
                return Err(SettingError::Invalid {
                    place: format!("environment variable {name}"),
                    value: "not shown".to_owned(),
                    cause: ValueError::Form("UTF-8"),
                    fix: "text in UTF-8".to_owned(),
                });
            }
            Err(_) => {}
        }
    }
    Ok(variables)
}

/// Returns one sentence for each variable that looks like a setting but is not one.
pub fn unknown_variables<'a>(
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<String> {
    let mut strangers = Strangers::default();
    for (variable, value) in variables {
        if is_ours(variable) && !is_setting(variable) {
            strangers.take(variable, value, Program::Edge);
        }
    }
    let settings = table().iter().map(|setting| setting.environment_name());
    strangers.sentences(&settings.collect::<Vec<_>>())
}

fn is_setting(variable: &str) -> bool {
    table()
        .iter()
        .any(|setting| setting.environment_name() == variable)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::variables::{EDGE_PREFIX, NAMED_MAX, OTHERS, is_service_variable};

    fn sentences(variables: &[(&str, &str)]) -> Vec<String> {
        unknown_variables(variables.iter().copied())
    }

    #[test]
    fn what_nobody_reads_is_told_with_what_was_meant() {
        for (variable, words) in [
            ("FERMATA_CONTORL", "did you mean FERMATA_CONTROL?"),
            ("FERMATA_EXTENTION", "did you mean FERMATA_EXTENSION?"),
            (
                "FERMATA_MAX_BODY_BYTES",
                "did you mean FERMATA_BODY_BYTES_MAX?",
            ),
            ("FERMATA_BODY_MAX", "did you mean FERMATA_BODY_BYTES_MAX?"),
            ("FERMATA_RETRIES", "docs/reference/settings.md"),
            ("fermata_workers", "did you mean FERMATA_WORKERS?"),
        ] {
            let told = sentences(&[(variable, "secret")]);
            assert_eq!(told.len(), 1, "{variable}");
            assert!(
                told[0].contains(variable)
                    && told[0].contains(words)
                    && !told[0].contains("secret"),
                "{told:?}"
            );
        }
        assert_eq!(
            sentences(&[("FERMATA_WORKERS", "1"), ("HOME", "/")]),
            [""; 0]
        );
        let many: Vec<String> = (0..1000)
            .map(|at| format!("FERMATA_NOT_ONE_{at}"))
            .collect();
        let told = unknown_variables(many.iter().map(|it| (it.as_str(), "")));
        assert_eq!(told.len(), NAMED_MAX + 1);
        assert!(told[NAMED_MAX].starts_with("992 more"), "{told:?}");
        let long = format!("FERMATA_{}\n", "X".repeat(100_000));
        assert!(sentences(&[(&long, "")])[0].len() < 1000);
    }

    #[test]
    fn services_of_kubernetes_are_nobodys_mistake() {
        for name in ["FERMATA", "FERMATA_EDGE", "FERMATA_MY_HUB"] {
            for (end, value) in [
                ("SERVICE_HOST", "10.0.0.1"),
                ("SERVICE_PORT", "80"),
                ("SERVICE_PORT_HTTP_ALT", "80"),
                ("PORT", "tcp://10.0.0.1:80"),
                ("PORT_80_TCP", "tcp://10.0.0.1:80"),
                ("PORT_80_TCP_PROTO", "tcp"),
                ("PORT_80_TCP_PORT", "80"),
                ("PORT_80_UDP_ADDR", "10.0.0.1"),
            ] {
                let variable = format!("{name}_{end}");
                assert!(is_service_variable(&variable, value), "{variable}");
            }
        }
        for (variable, value) in [
            ("FERMATA_PORT", "80"),
            ("FERMATA_PORT_X_TCP", "80"),
            ("FERMATA_PORT_80_TCP_X", "80"),
        ] {
            assert!(!is_service_variable(variable, value), "{variable}");
        }
        for setting in table() {
            let variable = setting.environment_name();
            assert!(!is_service_variable(&variable, "x"), "{variable}");
        }
    }

    /// Text that precedes a variable's name in source that reads it.
    const READS: [&str; 9] = [
        "getenv(\"",
        "getenv('",
        "env = \"",
        "env::var(\"",
        "env::var_os(\"",
        "process.env.",
        "environ.get(\"",
        "environ[\"",
        "${",
    ];

    fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder)
            .expect("a folder of ours")
            .flatten()
        {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let is_others = ["target", "node_modules", "vendor", "project"].contains(&&*name);
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_others => files_below(&path, found),
                Ok(kind) if kind.is_file() => found.push(path),
                _ => {}
            }
        }
    }

    #[test]
    fn whatever_something_reads_is_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = vec![root.join("Makefile")];
        for folder in [
            "crates",
            "ext",
            "php/src",
            "php/tests",
            "scripts",
            "tests",
            "bench/lib",
        ] {
            files_below(&root.join(folder), &mut files);
        }
        let mut read_somewhere = 0;
        for file in files {
            let Ok(text) = std::fs::read_to_string(&file) else {
                continue;
            };
            for read in READS {
                for (at, _) in text.match_indices(&format!("{read}{ENVIRONMENT_PREFIX}")) {
                    let name = &text[at + read.len()..];
                    let end = name.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                    let name = &name[..end.unwrap_or(name.len())];
                    // The prefix itself, to which code appends a name, is not a variable.
                    let is_known = name == ENVIRONMENT_PREFIX
                        || name.starts_with(EDGE_PREFIX)
                        || is_listed(name)
                        || is_setting(name);
                    assert!(
                        is_known,
                        "{name}, which {} reads, is not in OTHERS",
                        file.display()
                    );
                    read_somewhere += 1;
                }
            }
        }
        assert!(read_somewhere > 20, "{read_somewhere}");
    }

    #[test]
    fn nothing_listed_is_a_setting() {
        for (name, _) in OTHERS {
            assert!(!is_setting(name), "{name}");
        }
        let mut settings = table().iter().map(|setting| setting.environment_name());
        assert!(settings.all(|it| it == "FERMATA_TEST_CLOCK" || !is_listed(&it)));
    }
}
