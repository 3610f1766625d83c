//! `fermata serve FOLDER`: runs an application under PHP-FPM behind the edge.
//!
//! This process supervises both. PHP-FPM is restarted after a crash, with an increasing pause; when the edge exits, the command
//! exits. On shutdown the edge stops first, because its running requests need PHP.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fermata_io::process::{self, Exit};
use fermata_io::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use fermata_io::users;

use super::develop::Development;
use super::{denied, fpm};
use crate::child::{self, Child, Signals};
use crate::error::{Error, at};
use crate::format;

/// Index files of a folder.
const INDEXES: [&str; 2] = ["index.php", "index.html"];

/// Usual names of the document root in frameworks and at hosters.
const PUBLIC_FOLDERS: [&str; 5] = ["public", "web", "www", "htdocs", "public_html"];

/// Default address, like that of a server.
const LISTEN: &str = "127.0.0.1:8080";

/// Maximum time from the start of PHP until it accepts connections.
const START_MAX: Duration = Duration::from_secs(20);

/// Time to finish running requests on shutdown. It exceeds the edge's own drain timeout.
const EDGE_END_MAX: Duration = Duration::from_secs(40);
const FPM_END_MAX: Duration = Duration::from_secs(10);

/// Pause before PHP is restarted after an early exit; doubles each time up to the maximum.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Uptime from which an exit does not count as a failed start.
const RAN_WELL: Duration = Duration::from_secs(10);

/// Options that only apply to a folder.
#[derive(clap::Args)]
// Set the group name, because the default name would collide with the name of the command.
#[group(id = "folder")]
pub struct Arguments {
    /// For a folder: PHP-FPM, or php-cgi [default: the newest installed]
    #[arg(long, env = "FERMATA_FPM", value_name = "PROGRAM")]
    fpm: Option<PathBuf>,
    /// For a folder: number of concurrent PHP requests, one process of PHP-FPM each
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    children: Option<u32>,
    /// For a folder: user that PHP and the edge run as if started as root [default: www-data]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// For a folder: address of the control port, instead of a private Unix socket
    #[arg(long, value_name = "HOST:PORT")]
    control: Option<String>,
}

/// Options shared with scripts.
pub struct Common<'a> {
    pub folder: &'a Path,
    pub listen: Option<&'a str>,
    pub workers: Option<u32>,
    /// True to print a line per request.
    pub shows_requests: bool,
    pub dry_run: bool,
}

/// Options of `fermata dev`.
pub struct Watched {
    pub roots: Vec<PathBuf>,
    pub polls: bool,
    /// True to print request lines in color.
    pub is_coloured: bool,
}

/// Configuration of both processes.
struct Plan {
    root: PathBuf,
    listen: String,
    fpm: fpm::Fpm,
    edge: Vec<String>,
    grip_url: String,
    denied: usize,
}

/// Temporary folder with sockets and configuration, removed on drop.
struct Place(PathBuf);

impl Place {
    /// Creates the folder. `is_shared` means that the application runs as another user, who must be able to connect to its sockets.
    fn new(is_shared: bool) -> Result<Self, Error> {
        let bytes = fermata_io::random::u64();
        let name = format!("fermata-{}-{bytes:x}", process::pid());
        let path = std::env::temp_dir().join(name);
        let mut builder = fs::DirBuilder::new();
        // Anyone who can connect to php-cgi's socket can run PHP code as the user of php-cgi, so only this user may enter the
        // folder. A shared folder is used only with PHP-FPM, which restricts its socket to the user. Mode 711 hides the file names
        // from other users.
        let mode = if is_shared { 0o711 } else { 0o700 };
        let made = builder.mode(mode).create(&path);
        made.map_err(at(path.display()))?;
        // The umask may have removed bits.
        let _ = fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Serves the folder until a signal arrives or the edge exits.
///
/// # Errors
/// Fails with a message for the user if PHP or the edge cannot start, or if the edge fails.
pub fn run(
    common: &Common<'_>,
    arguments: &Arguments,
    watched: Option<&Watched>,
) -> Result<(), Error> {
    let signals = Signals::install(&[SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1])?;
    let is_shared = user(arguments)?.is_some_and(|it| it != "root");
    let place = Place::new(is_shared)?;
    let mut development = match watched {
        Some(it) => Some(Development::new(&it.roots, it.polls, &place.0)?),
        None => None,
    };
    let plan = plan(common, arguments, &place.0, watched.is_some())?;
    let mut start_fpm = child::bound(&plan.fpm.command())?;
    start_fpm.env("GRIP_URL", &plan.grip_url);
    if watched.is_some_and(|it| it.is_coloured) {
        start_fpm.env("FERMATA_DEVELOPMENT_COLOURED", "1");
    }
    let mut edge = Command::new(std::env::current_exe()?);
    edge.arg("edge").args(&plan.edge);
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        // Only the edge notifies systemd of readiness.
        edge.env("NOTIFY_SOCKET", socket);
    }
    if common.dry_run {
        let config = fs::read_to_string(&plan.fpm.config).unwrap_or_default();
        let shown = format::command(&plan.fpm.command()) + &format::command(&edge);
        return format::print(&(config + &shown));
    }
    let failed = at(plan.fpm.program.display());
    let mut php = Child::start(&mut start_fpm).map_err(failed)?;
    let due = Instant::now() + START_MAX;
    while !plan.fpm.is_listening() {
        if let Some(exit) = php.exit() {
            return Err(Error::Misuse(format!(
                "{} ended: {exit}",
                plan.fpm.program.display()
            )));
        }
        if Instant::now() > due {
            return Err(Error::Misuse(format!(
                "{} does not listen",
                plan.fpm.program.display()
            )));
        }
        let soon = Instant::now() + Duration::from_millis(10);
        if matches!(signals.wait(soon), Some(SIGINT | SIGTERM | SIGQUIT)) {
            return Ok(());
        }
    }
    let mut edge = Child::start(&mut child::bound(&edge)?)?;
    format::print(&banner(&plan))?;
    let outcome = supervise(
        &plan,
        &signals,
        &mut start_fpm,
        (&mut php, &mut edge),
        development.as_mut(),
    );
    // The edge stops first: its running requests need PHP.
    child::end(&mut edge, SIGTERM, &signals, EDGE_END_MAX);
    child::end(&mut php, plan.fpm.end_signal(), &signals, FPM_END_MAX);
    outcome
}

/// Restarts PHP when it exits, until the edge exits or a signal to stop arrives.
fn supervise(
    plan: &Plan,
    signals: &Signals,
    start_fpm: &mut Command,
    (php, edge): (&mut Child, &mut Child),
    mut development: Option<&mut Development>,
) -> Result<(), Error> {
    let mut pause = PAUSE;
    let mut start_at = None;
    loop {
        if let Some(exit) = edge.exit() {
            return match exit {
                Exit::Code(0) => Ok(()),
                exit => Err(Error::Misuse(format!("the edge ended: {exit}"))),
            };
        }
        if let (Some(exit), None) = (php.exit(), start_at) {
            if php.since.elapsed() > RAN_WELL {
                pause = PAUSE;
            }
            let name = plan.fpm.program.display();
            eprintln!("fermata serve: {name} ended: {exit}; it is started again");
            start_at = Some(Instant::now() + pause);
            pause = PAUSE_MAX.min(pause * 2);
        }
        if start_at.is_some_and(|at| at <= Instant::now()) {
            start_at = None;
            *php = Child::start(start_fpm)?;
        }
        let mut due = start_at.unwrap_or_else(|| Instant::now() + Duration::from_secs(60));
        if let Some(development) = &mut development {
            development.look(&plan.grip_url);
            due = due.min(development.due());
        }
        let changes = development.as_ref().and_then(|it| it.fd());
        match signals.wait_with(due, changes) {
            Some(SIGINT | SIGTERM | SIGQUIT) => return Ok(()),
            Some(SIGHUP) => {
                edge.signal(SIGHUP);
                // SIGUSR2 makes PHP-FPM reload settings and scripts after its running requests.
                plan.fpm.reloads().then(|| php.signal(SIGUSR2));
            }
            Some(SIGUSR1) => edge.signal(SIGUSR1),
            _ => {}
        }
    }
}

fn plan(
    common: &Common<'_>,
    arguments: &Arguments,
    place: &Path,
    is_development: bool,
) -> Result<Plan, Error> {
    let folder = common.folder;
    let root = fs::canonicalize(folder).map_err(at(folder.display()))?;
    if let Some(warning) = without_index(&root) {
        eprintln!("fermata serve: {warning}");
    }
    let text = root
        .to_str()
        .ok_or("the folder's name is not UTF-8")?
        .to_owned();
    let listen = listen(common.listen)?;
    let user = user(arguments)?;
    let program = fpm::find(arguments.fpm.as_deref())?;
    let children = arguments.children.unwrap_or_else(|| {
        let cores = u32::try_from(process::usable_cores()).unwrap_or(1);
        (4 * cores).max(8)
    });
    let settings = if is_development {
        Development::settings(place)
    } else {
        Vec::new()
    };
    let fpm = fpm::Fpm::configure(program, place, children, user.as_deref(), settings)?;
    let denied = denied::folders(&root);
    let deny: String = denied
        .iter()
        .map(|path| format!(",deny={}", quoted(path)))
        .collect();
    let root_quoted = quoted(&text);
    let socket = quoted(&fpm.socket.display().to_string());
    let reload = format!(
        "*,path_beg=/.fermata/ fastcgi/{socket},root={},script=/reload.php",
        quoted(&place.display().to_string())
    );
    let route = format!(
        "* file/{root_quoted},links{deny} fastcgi/{socket},root={root_quoted},script=/index.php,front{deny}"
    );
    let socket = place.join("control").display().to_string();
    let (control, grip_url) = match (&arguments.control, &user) {
        (Some(address), _) => (address.clone(), format!("http://{address}")),
        (None, Some(user)) => (
            format!("unix:{socket}?mode=600&user={user}"),
            format!("http+unix:{socket}"),
        ),
        (None, None) => (
            format!("unix:{socket}?mode=600"),
            format!("http+unix:{socket}"),
        ),
    };
    let mut edge: Vec<String> = [
        "--listen",
        &listen,
        "--control",
        &control,
        "--route",
        &route,
    ]
    .map(str::to_owned)
    .into();
    let mut add = |name: &str, value: String| edge.extend([name.to_owned(), value]);
    if is_development {
        add("--route", reload);
        // Error pages contain source code; reject other hosts to prevent DNS rebinding.
        let allowed = std::env::var("FERMATA_ALLOWED_HOSTS");
        add(
            "--allowed-hosts",
            allowed.unwrap_or_else(|_| "localhost".to_owned()),
        );
    }
    if let Some(workers) = common.workers {
        add("--workers", workers.to_string());
    }
    if common.shows_requests {
        add("--log-requests", "true".to_owned());
    }
    if let Some(user) = user.filter(|it| it != "root") {
        add("--user", user);
    }
    Ok(Plan {
        root,
        listen,
        fpm,
        edge,
        grip_url,
        denied: denied.len(),
    })
}

/// Returns a warning if the folder has no index file, such as the root of a project.
fn without_index(root: &Path) -> Option<String> {
    let has_index = |folder: &Path| INDEXES.iter().any(|name| folder.join(name).is_file());
    if has_index(root) {
        return None;
    }
    let meant = PUBLIC_FOLDERS
        .iter()
        .map(|name| root.join(name))
        .find(|folder| has_index(folder));
    let advice = match meant {
        Some(folder) => format!("serve {}", folder.display()),
        None => "name the folder that a web server would serve".to_owned(),
    };
    Some(format!(
        "{} has no index.php: a path that is none of its files is answered 404; {advice}",
        root.display()
    ))
}

fn banner(plan: &Plan) -> String {
    let denied = match plan.denied {
        0 => String::new(),
        1 => ", 1 folder refused by its .htaccess".to_owned(),
        count => format!(", {count} folders refused by their .htaccess"),
    };
    format!(
        "serving {} at http://{} with {}{denied}; Ctrl+C stops both\n",
        plan.root.display(),
        plan.listen,
        plan.fpm.program.display(),
    )
}

/// Parses `http://HOST:PORT` or `HOST:PORT`.
fn listen(given: Option<&str>) -> Result<String, Error> {
    let text = given.unwrap_or(LISTEN);
    let address = text.strip_prefix("http://").unwrap_or(text);
    let address = address.strip_suffix('/').unwrap_or(address);
    let found: Option<SocketAddr> = match address.to_socket_addrs() {
        Ok(mut found) => found.next(),
        Err(_) => None,
    };
    match found {
        Some(found) => Ok(found.to_string()),
        None => Err(Error::Misuse(format!(
            "--listen {text}: a folder is served at http://HOST:PORT; for TLS set FERMATA_EDGE_LISTEN_TLS and \
            FERMATA_EDGE_TLS_CERTIFICATES"
        ))),
    }
}

/// Returns the user that PHP runs as; `None` = the current user.
fn user(arguments: &Arguments) -> Result<Option<String>, Error> {
    let is_root = process::user() == 0;
    match (&arguments.user, is_root) {
        (Some(user), true) => {
            users::number(user, Path::new(users::USERS))
                .map_err(|error| format!("--user {error}"))?;
            Ok(Some(user.clone()))
        }
        (Some(_), false) => Err(Error::Misuse(
            "--user needs root, who alone can change to it".to_owned(),
        )),
        (None, false) => Ok(None),
        (None, true) => match users::number("www-data", Path::new(users::USERS)) {
            Ok(_) => Ok(Some("www-data".to_owned())),
            Err(_) => Err(Error::Misuse(
                "started as root, and there is no user www-data: give --user NAME".to_owned(),
            )),
        },
    }
}

/// Quotes a text for the edge's route syntax.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_servers() {
        assert_eq!(listen(None).expect("the default"), "127.0.0.1:8080");
        assert_eq!(
            listen(Some("http://127.0.0.1:80/")).expect("an address"),
            "127.0.0.1:80"
        );
        assert!(listen(Some("https://127.0.0.1:80")).is_err());
    }
}
