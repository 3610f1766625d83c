//! Finds the PHP that runs servers, and the `fermata.so` to load into it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, at};
use serde::Deserialize;

/// Script that prints PHP's properties as JSON, after any output that ini files cause.
const QUESTION: &str = r#"
$status = function_exists('opcache_get_status');
echo "\nfermata:", json_encode([
    'version' => PHP_VERSION,
    'id' => PHP_VERSION_ID,
    'is_debug' => (bool) PHP_DEBUG,
    'extension_dir' => (string) ini_get('extension_dir'),
    'ini_file' => php_ini_loaded_file() ?: null,
    'memory_limit' => (string) ini_get('memory_limit'),
    'control' => get_cfg_var('fermata.control') ?: null,
    'fermata' => phpversion('fermata') ?: null,
    'has_opcache' => $status,
    'has_jit' => $status && ini_get('opcache.jit') !== false && in_array(php_uname('m'), ['x86_64', 'aarch64', 'arm64'], true),
    'xdebug' => phpversion('xdebug') ?: null,
]);
"#;
const ANSWER: &str = "\nfermata:";

/// PHP versions that the extension supports, as PHP_VERSION_ID.
pub const VERSIONS: std::ops::Range<u32> = 80_200..80_600;

/// Which PHP, and which extension.
#[derive(clap::Args, Clone, Debug)]
// The default group name would collide with the group of the command's own arguments.
#[group(id = "php_and_extension")]
pub struct Arguments {
    /// PHP executable that runs the script
    #[arg(
        long,
        env = "FERMATA_PHP",
        value_name = "PROGRAM",
        default_value = "php"
    )]
    php: PathBuf,
    /// Extension file [default: loaded by PHP's ini files, else fermata.so next to this command or in PHP's extension_dir]
    #[arg(long, env = "FERMATA_EXTENSION", value_name = "FILE")]
    extension: Option<PathBuf>,
}

/// Properties that PHP reports.
#[derive(Clone, Debug, Deserialize)]
pub struct Facts {
    pub version: String,
    pub id: u32,
    pub is_debug: bool,
    pub extension_dir: String,
    pub ini_file: Option<String>,
    pub memory_limit: String,
    /// Setting `control` from the ini files, even if they do not load the extension.
    pub control: Option<String>,
    /// Version of the extension that PHP loads through its ini files. `None`: these files load no extension.
    pub fermata: Option<String>,
    pub has_opcache: bool,
    pub has_jit: bool,
    pub xdebug: Option<String>,
}

/// PHP executable and its properties.
#[derive(Clone, Debug)]
pub struct Php {
    pub program: PathBuf,
    pub facts: Facts,
    /// Extension file to load; `None` if PHP loads the extension through its ini files or no file was found.
    pub extension: Option<PathBuf>,
}

impl Arguments {
    /// Queries PHP for its properties and searches for the extension.
    ///
    /// # Errors
    /// Fails with a message for the user if PHP cannot be executed or its output cannot be parsed.
    pub fn find(&self) -> Result<Php, Error> {
        let program = self.php.clone();
        let facts = ask(&program)?;
        let extension = match &self.extension {
            Some(file) if !file.is_file() => {
                return Err(Error::Misuse(format!(
                    "--extension {}: no such file",
                    file.display()
                )));
            }
            Some(file) => Some(absolute(file)),
            None if facts.fermata.is_some() => None,
            None => beside_command(&facts),
        };
        Ok(Php {
            program,
            facts,
            extension,
        })
    }
}

impl Php {
    /// Returns true if an extension is available.
    pub fn has_extension(&self) -> bool {
        self.facts.fermata.is_some() || self.extension.is_some()
    }

    /// Returns a PHP command with the extension, and with OPcache and its JIT if available.
    ///
    /// Debian disables OPcache and JIT for the CLI, which runs servers. Options that the caller appends override these.
    pub fn command(&self, has_jit: bool) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(file) = &self.extension {
            command
                .arg("-d")
                .arg(format!("extension={}", file.display()));
        }
        if self.facts.has_opcache {
            command.args(["-d", "opcache.enable_cli=1"]);
            // PHP prints a warning at each start if both Xdebug and the JIT are enabled.
            if has_jit && self.facts.has_jit && self.facts.xdebug.is_none() {
                command.args([
                    "-d",
                    "opcache.jit=tracing",
                    "-d",
                    "opcache.jit_buffer_size=64M",
                ]);
            }
        }
        command
    }

    /// Returns the version of the extension that a server would use.
    ///
    /// # Errors
    /// Fails with PHP's message if it cannot load the file, for example because the file was built for another PHP version.
    pub fn loaded_version(&self) -> Result<String, Error> {
        let Some(file) = &self.extension else {
            return match &self.facts.fermata {
                Some(version) => Ok(version.clone()),
                None => Err(Error::Misuse(format!(
                    "there is no fermata.so beside this command and none in {}",
                    self.facts.extension_dir
                ))),
            };
        };
        let option = format!("extension={}", file.display());
        let output = Command::new(&self.program)
            .args(["-d", &option, "-r", "echo phpversion('fermata');"])
            .stdin(Stdio::null())
            .output()
            .map_err(at(self.program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().last() {
            Some(version) if version.starts_with(|it: char| it.is_ascii_digit()) => {
                Ok(version.to_owned())
            }
            _ => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned() + &text;
                let line = said.lines().map(str::trim).find(|it| !it.is_empty());
                let line = line.unwrap_or("PHP did not load it");
                Err(Error::Misuse(line.to_owned()))
            }
        }
    }
}

fn ask(program: &Path) -> Result<Facts, Error> {
    let output = Command::new(program)
        .args(["-d", "display_errors=stderr", "-r", QUESTION])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            let name = program.display();
            Error::Misuse(format!(
                "{name}: {error}; install PHP, or name one by --php or FERMATA_PHP"
            ))
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = text.rsplit_once(ANSWER).map(|(_, it)| it);
    answer
        .and_then(|it| serde_json::from_str(it).ok())
        .ok_or_else(|| {
            Error::Misuse(format!(
                "{} is no PHP for the command line: {}",
                program.display(),
                String::from_utf8_lossy(&output.stderr)
                    .lines()
                    .next()
                    .unwrap_or("it answered nothing")
            ))
        })
}

/// Searches for `fermata.so` next to this command (builds), then in PHP's extension directory (packages).
fn beside_command(facts: &Facts) -> Option<PathBuf> {
    let command = std::env::current_exe().ok()?;
    let beside = command.parent()?.join("fermata.so");
    let installed = Path::new(&facts.extension_dir).join("fermata.so");
    [beside, installed].into_iter().find(|it| it.is_file())
}

fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}
