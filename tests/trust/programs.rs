//! Random handlers: they share connections, wait in every way, start, race and cancel tasks, leave results unread and generators
//! unfinished. The expected values of each handler do not depend on concurrent handlers.
//!
//! `FERMATA_TEST_SEED` repeats a run, `FERMATA_TEST_SECONDS` makes it longer;
//! `FERMATA_TEST_VALGRIND=1` runs the server under memcheck.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::{Connection, Random, ReadError, Server, deadline, workspace_root};
use fermata_tests::{fixture, json};
use serde_json::Value;

use crate::conversations::seconds;
use crate::peer::Peer;
use crate::services::Service;

/// Default duration of a run.
const SECONDS: u64 = 12;
/// Maximum number of handlers of one program.
const HANDLERS_MAX: usize = 6;
/// Maximum nesting of statements.
const DEPTH_MAX: usize = 4;
/// Maximum number of statements per block.
const STATEMENTS_MAX: usize = 4;
/// Number of programs between two checks for leaks.
const REST_EVERY: u64 = 25;
/// Memory that a worker may gain in total, and per program, because PHP caches executed code.
const MEMORY_BYTES_MAX: u64 = 24 << 20;
const PROGRAM_BYTES_MAX: u64 = 32 << 10;
/// Number of programs after which the server is replaced. PHP retains the texts of evaluated code until its script ends; this
/// filled a worker's gigabyte after 98,000 handlers.
const PROGRAMS_PER_SERVER: u64 = 10_000;
const DESCRIPTORS_MAX: u64 = 24;
/// Number of times that the last programs run again, with their code cached. Memory must not grow afterwards.
const AGAIN_PROGRAMS: usize = 8;
const AGAIN_BEFORE: usize = 4;
const AGAIN: usize = 20;
const AGAIN_BYTES_MAX: u64 = 256 << 10;

/// Connections in the order in which a handler may acquire them.
const CONNECTIONS: [&str; 7] = [
    "mysql",
    "mysqli",
    "pdo-pgsql",
    "sqlite",
    "redis",
    "lines",
    "smtp",
];
/// Number of connections with rows and transactions.
const DATABASES: usize = 4;
/// Index of the first connection that always comes from a pool: streams, which handlers cannot share, and
/// mail, which tasks cannot share.
const LINES: usize = 5;

/// Writes a handler as PHP code.
struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    /// Number of connections.
    connections: usize,
    /// The handler's index, and the number of ids it has used.
    handler: usize,
    ids: usize,
    depth: usize,
}

impl Writer<'_> {
    fn id(&mut self) -> String {
        self.ids += 1;
        format!("h{}n{}", self.handler, self.ids)
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{}{line}", "    ".repeat(self.depth));
    }

    fn chance(&mut self, one_of: usize) -> bool {
        self.random.within(0..one_of) == 0
    }

    /// Returns a pause in seconds, usually a short one.
    fn seconds(&mut self) -> f64 {
        [0.0, 0.0, 0.001, 0.002, 0.004, 0.01][self.random.within(0..6)]
    }

    /// Writes some statements. `from` is the first connection that may be used here.
    fn block(&mut self, from: usize) {
        self.depth += 1;
        for _ in 0..=self.random.within(0..STATEMENTS_MAX) {
            self.statement(from);
        }
        self.depth -= 1;
    }

    fn statement(&mut self, from: usize) {
        let can_nest = self.depth < DEPTH_MAX;
        match self.random.within(0..if can_nest { 18 } else { 5 }) {
            0 | 1 => self.ask(from),
            2 => {
                let seconds = self.seconds();
                self.line(&format!("Fermata\\delay({seconds});"));
            }
            3 => self.kept(),
            4 => self.other_wait(),
            5 => self.transaction(from),
            6 | 7 => self.rows(from),
            8 => self.together("all", from),
            9 => self.together("race", from),
            10 => self.timeout(from),
            11 => self.cancelled(from),
            12 => self.generator(from),
            13 => self.nested_fiber(from),
            14 => self.destructor(),
            15 => self.queue(from),
            16 => self.halfway(from),
            _ => self.thrown(from),
        }
    }

    /// Returns a connection, and true if it comes from a pool; `None` if all connections are held.
    fn connection(&mut self, from: usize, to: usize) -> Option<(usize, bool)> {
        if from >= to {
            return None;
        }
        let at = self.random.within(from..to);
        let is_pool = at >= LINES || self.chance(2);
        Some((at, is_pool))
    }

    fn open(&mut self, at: usize, is_pool: bool) {
        let (name, db) = (CONNECTIONS[at], format!("$db{}", self.depth));
        self.line(&format!(
            "$shared->tried(fn () => $shared->use('{name}', {is_pool}, function ({db}) use ($shared) {{"
        ));
    }

    fn close(&mut self) {
        self.line("}));");
    }

    fn ask(&mut self, from: usize) {
        let Some((at, is_pool)) = self.connection(from, self.connections) else {
            return;
        };
        let (id, seconds, name) = (self.id(), self.seconds(), CONNECTIONS[at]);
        let db = format!("$db{}", self.depth);
        self.open(at, is_pool);
        self.line(&format!(
            "    $shared->check(ask('{name}', {db}, '{id}', {seconds:.4}), '{id}');"
        ));
        self.close();
    }

    /// Writes code that checks state which PHP and the handler keep across waits.
    fn kept(&mut self) {
        let (id, seconds) = (self.id(), self.seconds());
        let precision = self.random.within(3..17);
        self.line(&format!("$local = '{id}'; ini_set('precision', '{precision}'); setlocale(LC_ALL, 'C'); putenv('LEFT={id}'); $_GET = ['{id}'];"));
        self.line(&format!("Fermata\\delay({seconds});"));
        self.line(&format!("$shared->check([$local, ini_get('precision'), getenv('LEFT'), $_GET], ['{id}', '{precision}', '{id}', ['{id}']]);"));
    }

    fn other_wait(&mut self) {
        let seconds = self.seconds();
        let line = match self.random.within(0..5) {
            0 => format!("usleep((int) ({seconds} * 1e6));"),
            1 => "exec('true');".into(),
            2 => "$pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); Fermata\\async(function () use ($pair) { Fermata\\delay(0.001); fwrite($pair[0], \"x\\n\"); }); $shared->check(fgets($pair[1]), \"x\\n\");".into(),
            3 => "$file = tmpfile(); fwrite($file, 'written'); fsync($file); rewind($file); $shared->check(fread($file, 10), 'written');".into(),
            _ => "$mutex = new Fermata\\Sync\\Mutex(); Fermata\\async(fn () => $mutex->synchronized(fn () => Fermata\\delay(0.002))); $mutex->synchronized(fn () => null);".into(),
        };
        self.line(&line);
    }

    /// Writes a transaction that must not be visible to other handlers. Sometimes it stays open, and
    /// the server has to roll it back.
    fn transaction(&mut self, from: usize) {
        let Some((at, is_pool)) = self.connection(from, DATABASES) else {
            return;
        };
        let (id, name, db) = (self.id(), CONNECTIONS[at], format!("$db{}", self.depth));
        self.open(at, is_pool);
        self.line(&format!("    begin('{name}', {db});"));
        // A pool rolls back returned connections. The shared connection belongs to its handler
        // while a transaction is open.
        let is_undone = !is_pool || self.chance(2);
        if is_undone {
            self.line("    try {");
        }
        self.line(&format!(
            "    $shared->check(write('{name}', {db}, '{id}'), 1);"
        ));
        // SQLite locks the whole file.
        self.block(if name == "sqlite" {
            self.connections
        } else {
            at + 1
        });
        self.line(&format!(
            "    $shared->check(write('{name}', {db}, '{id}'), 2);"
        ));
        if is_undone {
            self.line(&format!("    }} finally {{ undo('{name}', {db}); }}"));
        }
        self.close();
    }

    /// Writes other statements between a request and its reply, or within a mail, and then continues the request or mail.
    fn halfway(&mut self, from: usize) {
        let Some((at, is_pool)) = self.connection(from.max(LINES), self.connections) else {
            return;
        };
        let (id, name, db) = (self.id(), CONNECTIONS[at], format!("$db{}", self.depth));
        self.open(at, is_pool);
        self.line(&format!("    say('{name}', {db}, '{id}');"));
        self.block(at + 1);
        self.line(&format!(
            "    $shared->check(hear('{name}', {db}, '{id}'), '{id}');"
        ));
        self.close();
    }

    fn rows(&mut self, from: usize) {
        let Some((at, is_pool)) = self.connection(from, DATABASES) else {
            return;
        };
        let (id, name, db) = (self.id(), CONNECTIONS[at], format!("$db{}", self.depth));
        let (count, stop) = (self.random.within(1..40), self.random.within(1..40));
        self.open(at, is_pool);
        self.line(&format!(
            "    $at = 0; foreach (rows('{name}', {db}, '{id}', {count}) as $row) {{"
        ));
        self.line(&format!(
            "        $shared->check([(int) $row[0], $row[1]], [++$at, '{id}']);"
        ));
        self.line(&format!("        if ($at === {stop}) {{"));
        self.depth += 2;
        self.block(at + 1);
        self.depth -= 2;
        let leaves = self.chance(3);
        self.line(if leaves { "            break;" } else { "" });
        self.line("        }");
        self.line("    }");
        if !leaves {
            self.line(&format!("    $shared->check($at, {count});"));
        }
        self.close();
    }

    fn closure(&mut self, from: usize) {
        self.line("    function () use ($shared) {");
        self.depth += 1;
        self.block(from);
        self.depth -= 1;
        self.line("    },");
    }

    fn together(&mut self, function: &str, from: usize) {
        self.line(&format!("$shared->tried(fn () => Fermata\\{function}("));
        for _ in 0..self.random.within(1..4) {
            self.closure(from);
        }
        self.line("));");
    }

    fn timeout(&mut self, from: usize) {
        let seconds = self.seconds();
        self.line(&format!(
            "$shared->tried(fn () => Fermata\\timeout({seconds},"
        ));
        self.closure(from);
        self.line("));");
    }

    fn cancelled(&mut self, from: usize) {
        let seconds = self.seconds();
        self.line("$task = Fermata\\async(");
        self.closure(from);
        self.line(");");
        self.line(&format!("Fermata\\delay({seconds});"));
        if self.chance(2) {
            self.line("$task->cancel();");
        }
        self.line("$shared->tried(fn () => $task->await());");
    }

    /// The generator may be destroyed before it has yielded all values.
    fn generator(&mut self, from: usize) {
        let stop = self.random.within(1..4);
        self.line("$steps = (function () use ($shared) {");
        self.line("    for ($i = 1; $i <= 3; $i++) {");
        self.line("        try {");
        self.depth += 2;
        self.block(from);
        self.depth -= 2;
        self.line("            yield $i;");
        self.line("        } finally {");
        self.line("            $shared->checks++;");
        self.line("        }");
        self.line("    }");
        self.line("})();");
        self.line("$seen = 0;");
        self.line("foreach ($steps as $step) {");
        self.line("    $shared->check($step, ++$seen);");
        self.line(&format!("    if ($seen === {stop}) {{ break; }}"));
        self.line("}");
        self.line("unset($steps);");
    }

    fn nested_fiber(&mut self, from: usize) {
        self.line("$fiber = new Fiber(");
        self.closure(from);
        self.line(");");
        self.line("$fiber->start(); $shared->check($fiber->isTerminated(), true);");
    }

    fn destructor(&mut self) {
        let (id, name) = (self.id(), CONNECTIONS[self.random.within(0..LINES)]);
        let in_cycle = if self.chance(2) {
            " $cycle = new stdClass(); $cycle->cycle = $cycle; $cycle->object = $object; unset($cycle);"
        } else {
            ""
        };
        self.line(&format!(
            "$object = new AsksAtItsEnd($shared, '{name}', '{id}');{in_cycle}"
        ));
        self.line("$object = null;");
        if self.chance(2) {
            self.line("gc_collect_cycles();");
        }
    }

    fn queue(&mut self, from: usize) {
        let id = self.id();
        self.line(&format!("$queue_{id} = new Fermata\\Sync\\Queue();"));
        self.line(&format!(
            "Fermata\\async(function () use ($queue_{id}, $shared) {{"
        ));
        self.line("    try {");
        self.depth += 1;
        self.block(from);
        self.depth -= 1;
        self.line("    } finally {");
        self.line(&format!("        $queue_{id}->tryPush('{id}');"));
        self.line("    }");
        self.line("});");
        self.line(&format!("$shared->check($queue_{id}->pop(), '{id}');"));
    }

    fn thrown(&mut self, from: usize) {
        let id = self.id();
        self.line("try {");
        self.block(from);
        self.line(&format!("    throw new RuntimeException('{id}');"));
        self.line("} catch (RuntimeException $e) {");
        self.line(&format!(
            "    if (!$e instanceof Fermata\\Exception\\FermataException && !$e instanceof PDOException) {{ $shared->check($e->getMessage(), '{id}'); }}"
        ));
        self.line("}");
    }
}

/// A handler.
struct Handler {
    text: String,
    leaves_after: Option<Duration>,
}

fn program(random: &mut Random, connections: usize, number: &mut usize) -> Vec<Handler> {
    let handlers = random.within(1..HANDLERS_MAX + 1);
    let mut program = Vec::new();
    for _ in 0..handlers {
        *number += 1;
        let mut writer = Writer {
            random,
            text: "return static function (Shared $shared): void {\n".into(),
            connections,
            handler: *number,
            ids: 0,
            depth: 0,
        };
        writer.block(0);
        if writer.chance(12) {
            writer.text += "    exit;\n";
        }
        writer.text += "};\n";
        let text = writer.text;
        let leaves_after =
            (random.within(0..4) == 0).then(|| Duration::from_millis(random.within(0..20) as u64));
        program.push(Handler { text, leaves_after });
    }
    program
}

/// Resources of an idle worker.
struct Rest {
    memory: u64,
    descriptors: u64,
    told: Value,
}

struct Place {
    server: Server,
    is_slow: bool,
    connections: usize,
    _services: [Service; 3],
    _smtp: Option<Service>,
}

impl Place {
    fn start() -> Place {
        let services = [Service::mariadb(), Service::postgres(), Service::redis()];
        let builder = fixture("programs").workers(1).ini("memory_limit=1G");
        let peer = Peer::start(builder.directory().path());
        let folder = services[1].socket.parent().expect("a folder").to_path_buf();
        let file = builder.directory().join("programs.sqlite");
        let is_slow = std::env::var_os("FERMATA_TEST_VALGRIND").is_some();
        let mut builder = builder
            .env("SQLITE", file)
            .env("MYSQL", &services[0].socket)
            .env("POSTGRES", folder)
            .env("REDIS", &services[2].socket)
            .env("LINES_SOCKET", &peer.socket)
            .setting("abandoned_query_ms_max", 100)
            // After a cancellation, two handlers may wait for each other's open connections.
            .setting("shared_wait_timeout_ms", 2_000);
        if is_slow {
            let suppressions = workspace_root().join("ext/tests/valgrind.supp");
            let log = builder.directory().join("valgrind.%p");
            builder = builder
                .behind(&[
                    "valgrind",
                    "-q",
                    "--max-stackframe=1000000",
                    "--num-callers=30",
                    &format!("--suppressions={}", suppressions.display()),
                    &format!("--log-file={}", log.display()),
                ])
                .env("USE_ZEND_ALLOC", "0")
                .env("ZEND_DONT_UNLOAD_MODULES", "1")
                .setting("blocking_call_ms", 0)
                .setting("stall_timeout_ms", 0);
        }
        // `None` if the package is not installed.
        let smtp = Service::smtp();
        if let Some(smtp) = &smtp {
            builder = builder.env("SMTP_PORT", smtp.port.to_string());
        }
        let server = builder.start();
        let prepared = server.connect().get("/prepare");
        assert_eq!(prepared.status(), 200, "{}", server.log().text());
        Place {
            server,
            is_slow,
            connections: CONNECTIONS.len() - usize::from(smtp.is_none()),
            _services: services,
            _smtp: smtp,
        }
    }

    fn run(&self, program: &[Handler]) -> Result<(), String> {
        self.run_at("/run", program)
    }

    fn run_at(&self, target: &str, program: &[Handler]) -> Result<(), String> {
        let begun = Instant::now();
        let pid = self.server.worker_pids();
        let mut running: Vec<Option<Connection>> = Vec::new();
        for handler in program {
            let mut connection = self.server.connect();
            let head = format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
                handler.text.len()
            );
            connection.send(head + &handler.text);
            running.push(Some(connection));
        }
        let mut leaving: Vec<(Duration, usize)> = (0..program.len())
            .filter_map(|at| Some((program[at].leaves_after?, at)))
            .collect();
        leaving.sort_unstable();
        for (after, at) in leaving {
            thread::sleep(after.saturating_sub(begun.elapsed()));
            running[at] = None;
        }
        for (connection, handler) in running.into_iter().zip(program) {
            let Some(mut connection) = connection else {
                continue;
            };
            let answer = connection.try_read_response(false);
            let is_good = match &answer {
                Ok(response) => match response.status() {
                    200 => response.text() == "done",
                    500 => handler.text.contains("exit;"),
                    _ => false,
                },
                Err(ReadError::TimedOut | ReadError::Ended(_)) | Err(_) => false,
            };
            if !is_good {
                let answer = answer.map(|it| format!("{} {}", it.status(), it.text()));
                return Err(format!("{answer:?} of\n{}", handler.text));
            }
        }
        if self.server.worker_pids() == pid {
            Ok(())
        } else {
            Err("the worker has ended".into())
        }
    }

    /// Returns the resources when no handler runs.
    fn rest(&self) -> Rest {
        let end = Instant::now() + deadline();
        loop {
            let told = json(&self.server.connect().get("/rest"));
            if told["lent"] == 0 && told["rows"] == 0 {
                let number = |name: &str| told[name].as_u64().expect("a number");
                return Rest {
                    memory: number("memory"),
                    descriptors: number("descriptors"),
                    told,
                };
            }
            assert!(Instant::now() < end, "left over: {told}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns memcheck's reports about frames of Fermata.
    fn reports(&self) -> String {
        let mut reports = String::new();
        for entry in std::fs::read_dir(self.server.directory().path()).expect("a folder") {
            let path = entry.expect("an entry").path();
            if !path.to_string_lossy().contains("/valgrind.") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text
                .lines()
                .map(|line| line.split_once("== ").map_or("", |it| it.1))
                .collect();
            for report in lines.split(|line| line.trim().is_empty()) {
                if report.iter().any(|line| {
                    line.contains("fermata") || line.contains("SIGSEGV") || line.contains("SIGABRT")
                }) {
                    reports += &(report.join("\n") + "\n\n");
                }
            }
        }
        reports
    }
}

/// Returns the program with fewer handlers that still fails.
fn shrink(place: &Place, mut program: Vec<Handler>, mut why: String) -> (Vec<Handler>, String) {
    let mut at = 0;
    while at < program.len() && program.len() > 1 {
        let left = program.remove(at);
        let found = (0..3).find_map(|_| place.run(&program).err());
        match found {
            Some(found) => why = found,
            None => {
                program.insert(at, left);
                at += 1;
            }
        }
    }
    (program, why)
}

/// Runs programs again and checks that nothing leaks.
fn run_again(place: &Place, programs: &[Vec<Handler>]) {
    let mut before = None;
    for round in 0..AGAIN_BEFORE + AGAIN {
        if round == AGAIN_BEFORE {
            before = Some(place.rest());
        }
        for program in programs {
            let ran = place.run_at("/run?keep=1", program);
            ran.unwrap_or_else(|why| panic!("run again: {why}\n{}", place.reports()));
        }
    }
    let (before, after) = (before.expect("it was reached"), place.rest());
    assert!(
        after.memory <= before.memory + AGAIN_BYTES_MAX,
        "memory has grown by {} bytes: {}, and before {}",
        after.memory - before.memory,
        after.told,
        before.told
    );
    println!("run again: {} and then {}", before.told, after.told);
}

#[test]
fn programs_that_are_made_up_see_what_is_theirs() {
    let seed = Random::seed_from_environment();
    let mut place = Place::start();
    let mut random = Random::new(seed);
    let end = Instant::now() + Duration::from_secs(seconds().unwrap_or(SECONDS));
    let (mut programs, mut handlers, mut first) = (0_u64, 0, None);
    let mut begun = 0;
    let mut last: Vec<Vec<Handler>> = Vec::new();
    while Instant::now() < end {
        let program = program(&mut random, place.connections, &mut handlers);
        programs += 1;
        if let Err(why) = place.run(&program) {
            let (program, why) = shrink(&place, program, why);
            let texts: Vec<&str> = program
                .iter()
                .map(|handler| handler.text.as_str())
                .collect();
            panic!(
                "program {programs}: {why}\n--- of {} handlers:\n{}\n{}",
                program.len(),
                texts.join("\n"),
                place.reports()
            );
        }
        last.push(program);
        if last.len() > AGAIN_PROGRAMS {
            last.remove(0);
        }
        if programs - begun == PROGRAMS_PER_SERVER {
            let reports = place.reports();
            assert!(reports.is_empty(), "{reports}");
            (place, begun, first) = (Place::start(), programs, None);
        }
        if programs.is_multiple_of(REST_EVERY) {
            let rest = place.rest();
            let first: &Rest = first.get_or_insert(rest);
            let rest = place.rest();
            let memory_max =
                first.memory + MEMORY_BYTES_MAX + (programs - begun) * PROGRAM_BYTES_MAX;
            assert!(
                rest.memory <= memory_max
                    && rest.descriptors <= first.descriptors + DESCRIPTORS_MAX
                    || place.is_slow,
                "after {programs} programs there is {}, at first {}",
                rest.told,
                first.told
            );
        }
    }
    if !place.is_slow {
        run_again(&place, &last);
    }
    let rest = place.rest();
    let reports = place.reports();
    assert!(reports.is_empty(), "{reports}");
    println!("{programs} programs, {handlers} handlers, {}", rest.told);
}
