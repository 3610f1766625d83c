//! A wall clock that a test sets forward and back while a server runs.
//!
//! A library that `LD_PRELOAD` names adds an offset to `CLOCK_REALTIME`; the other clocks stay as they are. The offset is in
//! a file that the library maps, so all processes of the server see a jump at the same moment.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use fermata_testkit::Directory;

const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none;
static volatile int64_t *offset_s = &none;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("WALL_CLOCK_OFFSET");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED)
        offset_s = mapped;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    int result = syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += *offset_s;
    return result;
}

int gettimeofday(struct timeval *out, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
"#;

/// The clock of one server.
pub struct WallClock {
    directory: Directory,
    library: PathBuf,
}

impl WallClock {
    /// Compiles the library. Returns `None` without a C compiler.
    ///
    /// # Panics
    /// Panics if the library does not compile.
    #[track_caller]
    pub fn new() -> Option<WallClock> {
        let directory = Directory::new();
        let source = directory.write("clock.c", LIBRARY);
        let library = directory.join("clock.so");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]);
        let Ok(output) = compiler.arg(&library).arg(source).output() else {
            println!("skipped: no C compiler");
            return None;
        };
        assert!(output.status.success(), "{output:?}");
        let clock = WallClock { directory, library };
        clock.set(0);
        Some(clock)
    }

    /// Returns the environment variables for a server with this clock.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("WALL_CLOCK_OFFSET", self.path().display().to_string()),
        ]
    }

    /// Sets the clock `ahead_s` seconds ahead of the machine's.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn set(&self, ahead_s: i64) {
        use std::os::unix::fs::FileExt as _;
        let mut options = fs::File::options();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.path());
        file.and_then(|it| it.write_all_at(&ahead_s.to_ne_bytes(), 0))
            .expect("a file of its own");
    }

    fn path(&self) -> PathBuf {
        self.directory.join("offset")
    }
}
