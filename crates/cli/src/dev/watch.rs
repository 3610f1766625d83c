//! Which files of a project have changed: told by the kernel, or seen by looking at all of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::fs;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::error::{Error, at};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Folders that are watched, and files that are looked at, at most.
const FOLDERS_MAX: usize = 10_000;
const FILES_MAX: usize = 50_000;
/// How deep below a root.
const DEPTH_MAX: usize = 24;

/// How often all files are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Folders of what is fetched, made or written while the program runs. Name one by --watch to have it watched.
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

/// Files that the program is read from, by what stands behind the last dot.
const PROGRAMS: &[&str] = &[
    "php", "phtml", "inc", "twig", "tpl", "latte", "mustache", "html", "htm", "env", "yaml", "yml",
    "xml", "json", "neon", "ini", "toml", "mo", "po", "sql", "md",
];
/// Files of pages: no program need be read again.
const PAGES: &[&str] = &[
    "css", "js", "mjs", "map", "svg", "png", "jpg", "jpeg", "gif", "webp", "avif", "ico", "woff",
    "woff2",
];

/// What a change is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Program,
    Page,
}

/// Files that have changed.
#[derive(Debug, Default)]
pub struct Changes {
    names: BTreeSet<PathBuf>,
    has_program: bool,
    is_asked: bool,
}

impl Changes {
    /// The program is to be reloaded.
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

    /// Those that are PHP's.
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

/// `None`: what nobody reads, such as what editors put aside.
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

/// Looks after some folders.
#[derive(Debug)]
pub struct Watcher {
    roots: Vec<PathBuf>,
    /// Folders of files outside of the roots, of which only those files count.
    others: HashSet<PathBuf>,
    eyes: Eyes,
}

#[derive(Debug)]
enum Eyes {
    /// The kernel's: a folder by its number.
    Kernel(OwnedFd, HashMap<i32, PathBuf>),
    /// Ours: when each file was changed, and how long it is.
    Own {
        seen: HashMap<PathBuf, Seen>,
        due: Instant,
    },
}

type Seen = (Option<SystemTime>, u64);

impl Watcher {
    /// # Errors
    /// One sentence for the user.
    pub fn new(roots: &[PathBuf], polls: bool) -> Result<Self, Error> {
        let mut found = Vec::new();
        for root in roots {
            let path = fs::canonicalize(root).map_err(at(root.display()))?;
            found.push(path);
        }
        let eyes = match polls {
            true => Eyes::Own {
                seen: HashMap::new(),
                due: Instant::now() + LOOK,
            },
            false => {
                let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
                let fd = inotify::init(flags).map_err(|error| {
                    format!(
                        "the kernel cannot tell of changes (inotify): {error}; --poll does without"
                    )
                })?;
                Eyes::Kernel(fd, HashMap::new())
            }
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

    /// Watches files that the program has read, wherever they are.
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

    /// What to wait for beside [`Self::due`].
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.eyes {
            Eyes::Kernel(fd, _) => Some(fd.as_fd()),
            Eyes::Own { .. } => None,
        }
    }

    /// When to read again even if nothing is told.
    pub fn due(&self) -> Instant {
        match &self.eyes {
            Eyes::Kernel(..) => Instant::now() + Duration::from_secs(60),
            Eyes::Own { due, .. } => *due,
        }
    }

    /// Adds what has changed since the last call; false when nothing has.
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
            // A file that was only made has yet to be written.
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
            // More has changed than the kernel keeps, new folders perhaps among it.
            changes.is_asked = true;
            has_changed = true;
            for root in self.roots.clone() {
                self.add_folders(&root);
            }
        }
        for (path, is_folder) in paths {
            if is_folder && !is_left_out(&path) && self.is_in_roots(&path) {
                // Files in it may have been written before it was watched.
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

    /// Of folders outside of the roots only what the program has read.
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

    /// The files that are there. Each folder is watched before it is read, so that what is made meanwhile is seen as well.
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
        // Not MODIFY: a file that is being written is not read yet.
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
            // It may be gone again.
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

/// The files below a folder. `enter` is called with each folder before it is read.
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
            // Links to folders are not followed: they may lead anywhere, and in circles.
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
        // As another program would, between the watch and the reading.
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
