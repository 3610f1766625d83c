//! Finds folders to which a `.htaccess` denies all access, as DokuWiki and MediaWiki do for their data.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number and depth of searched folders.
const FOLDERS_MAX: usize = 20_000;
const DEPTH_MAX: usize = 24;

/// Maximum number of denied folders; each costs one comparison per request.
const DENIED_MAX: usize = 256;

/// Maximum size of a `.htaccess`.
const BYTES_MAX: u64 = 256 * 1024;

/// Returns the denied folders as paths relative to `root` with a leading slash; omits folders below a denied folder.
pub fn folders(root: &Path) -> Vec<String> {
    let mut denied = Vec::new();
    let mut open: Vec<(PathBuf, String, usize)> = vec![(root.to_owned(), String::new(), 0)];
    let mut seen = 0;
    while let Some((folder, path, depth)) = open.pop() {
        seen += 1;
        if seen > FOLDERS_MAX || denied.len() == DENIED_MAX {
            eprintln!(
                "fermata serve: {} has too many folders to look for .htaccess in all of them",
                root.display()
            );
            break;
        }
        if depth > 0 && refuses(&folder.join(".htaccess")) {
            denied.push(path);
            continue;
        }
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let (place, name) = (entry.path(), entry.file_name());
            // Hidden folders are never served. Symbolic links are followed, as in PHP-FPM.
            let Some(name) = name.to_str().filter(|it| !it.starts_with('.')) else {
                continue;
            };
            if depth < DEPTH_MAX && place.is_dir() {
                open.push((place, format!("{path}/{name}"), depth + 1));
            }
        }
    }
    denied.sort();
    denied
}

fn refuses(file: &Path) -> bool {
    let is_short = fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() <= BYTES_MAX);
    is_short && fs::read(file).is_ok_and(|text| refuses_all(&String::from_utf8_lossy(&text)))
}

/// Returns true if a `.htaccess` denies all access: `Require all denied` or the older `Deny from all`, outside of sections for
/// specific files. Conditions on Apache modules or versions count as true.
fn refuses_all(text: &str) -> bool {
    let mut sections: Vec<bool> = Vec::new();
    for line in text.lines() {
        let words: Vec<String> = line
            .split_whitespace()
            .map(str::to_ascii_lowercase)
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [first, ..] if first.starts_with("</") => {
                sections.pop();
            }
            [first, ..] if first.starts_with('<') => {
                let is_of_all = ["<ifmodule", "<ifversion", "<requireall", "<requireany"];
                sections.push(is_of_all.iter().any(|it| first.starts_with(it)));
            }
            ["require", "all", "denied"] | ["deny", "from", "all"]
                if sections.iter().all(|it| *it) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_folders_are_refused_and_no_others() {
        for (text, is_denied) in [
            ("Require all denied", true),
            ("## no access\nOrder allow,deny\nDeny from all\n", true),
            (
                "<IfModule mod_authz_core.c>\n  Require all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\n  \
                Order allow,deny\n  Deny from all\n</IfModule>",
                true,
            ),
            ("<Files \"*.ini\">\nRequire all denied\n</Files>", false),
            (
                "<FilesMatch x>\nDeny from all\n</FilesMatch>\nRequire all granted",
                false,
            ),
            ("# Require all denied", false),
            ("RewriteEngine on", false),
        ] {
            assert_eq!(refuses_all(text), is_denied, "{text}");
        }
    }
}
