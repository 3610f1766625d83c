//! Detects changed files of a project, with inotify or by polling.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::fs;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::error::{Error, at};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Maximum number of watched folders and of polled files.
const FOLDERS_MAX: usize = 10_000;
const FILES_MAX: usize = 50_000;
/// Maximum depth below a root.
const DEPTH_MAX: usize = 24;

/// Polling interval.
const LOOK: Duration = Duration::from_millis(100);

/// Folders of dependencies and generated files, which are skipped unless --watch includes them.
const LEFT_OUT: &[&str] = &[
    "vendor",
    "node_modules",
    "var",
    "storage",
    "cache",
    "tmp",
    "log",
    "logs",
];

/// Extensions of files that the script loads; a change restarts the server.
const PROGRAMS: &[&str] = &[
    "php", "phtml", "inc", "twig", "tpl", "latte", "mustache", "html", "htm", "env", "yaml", "yml",
    "xml", "json", "neon", "ini", "toml", "mo", "po", "sql", "md",
];
/// Extensions of files of pages; a change only reloads pages.
const PAGES: &[&str] = &[
    "css", "js", "mjs", "map", "svg", "png", "jpg", "jpeg", "gif", "webp", "avif", "ico", "woff",
    "woff2",
];

/// Kind of a changed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Program,
    Page,
}

/// Set of changed files.
#[derive(Debug, Default)]
pub struct Changes {
    names: BTreeSet<PathBuf>,
    has_program: bool,
    is_asked: bool,
}

impl Changes {
    /// Requests a reload without a changed file.
    pub fn asked() -> Self {
        Self {
            is_asked: true,
            ..Self::default()
        }
    }

    pub fn is_any(&self) -> bool {
        self.is_asked || !self.names.is_empty()
    }

    pub fn is_of_pages_alone(&self) -> bool {
        !self.has_program && !self.is_asked
    }

    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Returns the changed PHP files.
    pub fn programs(&self) -> impl Iterator<Item = &PathBuf> {
        let is_php = |path: &&PathBuf| path.extension().is_some_and(|end| end == "php");
        self.names.iter().filter(is_php)
    }

    fn add(&mut self, path: &Path) -> bool {
        let Some(kind) = kind_of(path) else {
            return false;
        };
        self.has_program |= kind == Kind::Program;
        self.names.insert(path.to_owned());
        true
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = std::env::current_dir().unwrap_or_default();
        match self.names.iter().next() {
            None => write!(out, "SIGHUP"),
            Some(first) => {
                let name = first.strip_prefix(&own).unwrap_or(first);
                write!(
                    out,
                    "{}",
                    crate::format::harmless(&name.display().to_string())
                )?;
                match self.names.len() {
                    1 => Ok(()),
                    count => write!(out, " and {} more", count - 1),
                }
            }
        }
    }
}

/// Returns the kind of a file, or `None` for files that do not matter, such as editors' backup files.
fn kind_of(path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    if name == ".env"
        || (name.starts_with(".env.") && !name.ends_with(".swp") && !name.ends_with('~'))
    {
        return Some(Kind::Program);
    }
    if name.starts_with('.') || name.starts_with('#') {
        return None;
    }
    let (_, end) = name.rsplit_once('.')?;
    let is_among = |ends: &[&str]| ends.contains(&end);
    match (is_among(PROGRAMS), is_among(PAGES)) {
        (true, _) => Some(Kind::Program),
        (_, true) => Some(Kind::Page),
        _ => None,
    }
}

fn is_left_out(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.is_none_or(|name| name.starts_with('.') || LEFT_OUT.contains(&name))
}

/// Watcher of folders and files.
#[derive(Debug)]
pub struct Watcher {
    roots: Vec<PathBuf>,
    /// Loaded files outside of the roots; other files in their folders are ignored.
    others: HashSet<PathBuf>,
    eyes: Eyes,
}

#[derive(Debug)]
enum Eyes {
    /// inotify, with the folder of each watch descriptor.
    Kernel(OwnedFd, HashMap<i32, PathBuf>),
    /// Polling, with modification time and size of each file.
    Own {
        seen: HashMap<PathBuf, Seen>,
        due: Instant,
    },
}

type Seen = (Option<SystemTime>, u64);

impl Watcher {
    /// Watches `roots`; polls instead of using inotify if `polls`.
    ///
    /// # Errors
    /// Fails with a message for the user if a root does not exist or inotify is unavailable.
    pub fn new(roots: &[PathBuf], polls: bool) -> Result<Self, Error> {
        let mut found = Vec::new();
        for root in roots {
            let path = fs::canonicalize(root).map_err(at(root.display()))?;
            found.push(path);
        }
        let eyes = if polls {
            Eyes::Own {
                seen: HashMap::new(),
                due: Instant::now() + LOOK,
            }
        } else {
            let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
            let fd = inotify::init(flags).map_err(|error| {
                format!("the kernel cannot tell of changes (inotify): {error}; --poll does without")
            })?;
            Eyes::Kernel(fd, HashMap::new())
        };
        let mut watcher = Self {
            roots: found,
            others: HashSet::new(),
            eyes,
        };
        for root in watcher.roots.clone() {
            watcher.add_folders(&root);
        }
        if let Eyes::Own { .. } = watcher.eyes {
            let files = watcher.files();
            watcher.eyes = Eyes::Own {
                seen: files,
                due: Instant::now() + LOOK,
            };
        }
        Ok(watcher)
    }

    /// Also watches files that the script loaded from outside of the roots, except below `vendor`.
    pub fn add_files(&mut self, files: &[PathBuf]) {
        for file in files {
            let is_known = self.roots.iter().any(|root| file.starts_with(root));
            let is_fetched = file.components().any(|part| part.as_os_str() == "vendor");
            if is_known || is_fetched || !file.is_absolute() || self.others.len() >= FILES_MAX {
                continue;
            }
            if self.others.insert(file.clone()) {
                match (&mut self.eyes, file.parent()) {
                    (Eyes::Kernel(..), Some(folder)) => self.add_folder(folder),
                    (Eyes::Own { seen, .. }, _) => {
                        seen.insert(file.clone(), look(file));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Returns the descriptor to poll in addition to [`Self::due`]; `None` in polling mode.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.eyes {
            Eyes::Kernel(fd, _) => Some(fd.as_fd()),
            Eyes::Own { .. } => None,
        }
    }

    /// Returns the time of the next read if the descriptor stays silent.
    pub fn due(&self) -> Instant {
        match &self.eyes {
            Eyes::Kernel(..) => Instant::now() + Duration::from_secs(60),
            Eyes::Own { due, .. } => *due,
        }
    }

    /// Adds the changes since the last call; returns false if nothing changed.
    pub fn read(&mut self, changes: &mut Changes) -> bool {
        match &self.eyes {
            Eyes::Kernel(..) => self.read_kernel(changes),
            Eyes::Own { due, .. } => *due <= Instant::now() && self.look_at_all(changes),
        }
    }

    fn read_kernel(&mut self, changes: &mut Changes) -> bool {
        let mut paths = Vec::new();
        let Eyes::Kernel(fd, folders) = &self.eyes else {
            return false;
        };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(fd, &mut buffer);
        let (mut gone, mut is_lost) = (Vec::new(), false);
        while let Ok(event) = reader.next() {
            is_lost |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            if event.events().contains(ReadFlags::IGNORED) {
                gone.push(event.wd());
            }
            let name = event.file_name().and_then(|name| name.to_str().ok());
            let is_folder = event.events().contains(ReadFlags::ISDIR);
            // A created file is still empty; CLOSE_WRITE follows.
            let is_empty = event.events().contains(ReadFlags::CREATE) && !is_folder;
            if let (Some(folder), Some(name), false) = (folders.get(&event.wd()), name, is_empty) {
                paths.push((folder.join(name), is_folder));
            }
        }
        if let Eyes::Kernel(_, folders) = &mut self.eyes {
            folders.retain(|number, _| !gone.contains(number));
        }
        let mut has_changed = false;
        if is_lost {
            // The event queue overflowed, so new folders may be unwatched: scan again and reload.
            changes.is_asked = true;
            has_changed = true;
            for root in self.roots.clone() {
                self.add_folders(&root);
            }
        }
        for (path, is_folder) in paths {
            if is_folder && !is_left_out(&path) && self.is_in_roots(&path) {
                // Files may have been written before the folder was watched.
                for file in self.add_folders(&path) {
                    has_changed |= changes.add(&file);
                }
            } else if self.counts(&path) {
                has_changed |= changes.add(&path);
            }
        }
        has_changed
    }

    fn look_at_all(&mut self, changes: &mut Changes) -> bool {
        let now = self.files();
        let Eyes::Own { seen, due } = &mut self.eyes else {
            return false;
        };
        *due = Instant::now() + LOOK;
        let mut has_changed = false;
        for (path, state) in &now {
            if seen.get(path) != Some(state) {
                has_changed |= changes.add(path);
            }
        }
        for path in seen.keys() {
            if !now.contains_key(path) {
                has_changed |= changes.add(path);
            }
        }
        *seen = now;
        has_changed
    }

    fn is_in_roots(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Returns true for files in the roots and for loaded files outside of them.
    fn counts(&self, path: &Path) -> bool {
        self.is_in_roots(path) || self.others.contains(path)
    }

    fn files(&self) -> HashMap<PathBuf, Seen> {
        let below = self.roots.iter().flat_map(|root| files_below(root));
        let all = below.chain(self.others.iter().cloned());
        all.filter(|path| kind_of(path).is_some())
            .map(|path| {
                let seen = look(&path);
                (path, seen)
            })
            .collect()
    }

    /// Watches the folders below `root` and returns their files. Each folder is watched before it is read, so that no file created
    /// in between is missed.
    fn add_folders(&mut self, root: &Path) -> Vec<PathBuf> {
        match self.eyes {
            Eyes::Kernel(..) => walk(root, |folder| self.add_folder(folder)),
            Eyes::Own { .. } => Vec::new(),
        }
    }

    fn add_folder(&mut self, folder: &Path) {
        let Eyes::Kernel(fd, folders) = &mut self.eyes else {
            return;
        };
        if folders.len() >= FOLDERS_MAX {
            return;
        }
        // CLOSE_WRITE instead of MODIFY: wait until the file is complete.
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR;
        match inotify::add_watch(&*fd, folder, flags) {
            Ok(number) => {
                folders.insert(number, folder.to_owned());
            }
            Err(rustix::io::Errno::NOSPC) => eprintln!(
                "fermata dev: {}: the kernel watches no more folders; raise fs.inotify.max_user_watches, or use --poll",
                folder.display()
            ),
            // The folder may already have been removed.
            Err(_) => {}
        }
    }
}

fn look(path: &Path) -> Seen {
    fs::metadata(path).map_or((None, 0), |it| (it.modified().ok(), it.len()))
}

fn files_below(root: &Path) -> Vec<PathBuf> {
    walk(root, |_| ())
}

/// Returns the files below a folder; calls `enter` with each folder before reading it.
fn walk(root: &Path, mut enter: impl FnMut(&Path)) -> Vec<PathBuf> {
    let (mut files, mut entered) = (Vec::new(), 0);
    let mut open = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        enter(&folder);
        entered += 1;
        if entered >= FOLDERS_MAX {
            break;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // Symbolic links to folders are not followed, because they may form loops.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder {
                if files.len() < FILES_MAX {
                    files.push(path);
                }
            } else if depth < DEPTH_MAX && !is_left_out(&path) {
                open.push((path, depth + 1));
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_editors_put_aside_is_no_change() {
        for (name, expected) in [
            ("a/server.php", Some(Kind::Program)),
            ("a/.env", Some(Kind::Program)),
            ("a/.env.local", Some(Kind::Program)),
            ("a/page.html.twig", Some(Kind::Program)),
            ("a/style.css", Some(Kind::Page)),
            ("a/server.php~", None),
            ("a/.server.php.swp", None),
            ("a/.#server.php", None),
            ("a/4913", None),
            ("a/app.log", None),
        ] {
            assert_eq!(kind_of(Path::new(name)), expected, "{name}");
        }
        for (name, expected) in [("a/vendor", true), ("a/.git", true), ("a/src", false)] {
            assert_eq!(is_left_out(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn a_folder_that_is_made_while_another_is_read_is_seen() {
        let root = std::env::temp_dir().join(format!("fermata-watch-{}", std::process::id()));
        fs::create_dir_all(root.join("a")).expect("a folder");
        let mut entered = Vec::new();
        // Simulates another process that writes between watching and reading.
        let files = walk(&root, |folder| {
            entered.push(folder.to_owned());
            if folder.ends_with("a") {
                fs::create_dir(folder.join("b")).expect("a folder");
                fs::write(folder.join("b/c.php"), "").expect("a file");
            }
        });
        assert_eq!(entered, [root.clone(), root.join("a"), root.join("a/b")]);
        assert_eq!(files, [root.join("a/b/c.php")]);
        fs::remove_dir_all(&root).expect("the folder of the test");
    }

    #[test]
    fn folders_that_are_gone_are_forgotten() {
        let root = std::env::temp_dir().join(format!("fermata-watched-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder");
        let mut watcher = Watcher::new(std::slice::from_ref(&root), false).expect("inotify");
        for _ in 0..3 {
            fs::create_dir(root.join("a")).expect("a folder");
            watcher.read(&mut Changes::default());
            fs::remove_dir(root.join("a")).expect("the folder is empty");
            watcher.read(&mut Changes::default());
        }
        let Eyes::Kernel(_, folders) = &watcher.eyes else {
            panic!("the kernel watches");
        };
        assert_eq!(folders.len(), 1, "{folders:?}");
        fs::remove_dir_all(&root).expect("the folder of the test");
    }
}
