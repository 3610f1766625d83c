/* Replacements for the C library functions that PHP calls for plain files.
 *
 * Short or cached operations run directly in the loop. All others run in the core, and the fiber waits for them. Only the PHP
 * functions listed below wait. Other code that reads files (include, sessions, opcache, destructors) must not be interrupted by
 * another handler. For a call that only reads metadata or data, the core brings the result into the kernel's cache, and then the
 * call itself runs here. So the result is current, and the kernel sets positions, flags and errors. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "state/sapi_output.h"
#include "hooks/hooks.h"
#include "zend_exceptions.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "base/optimize_size.h"

#ifndef RWF_NOWAIT
# define RWF_NOWAIT 0x00000008
#endif
/* Minimum size of a read that is requested from the core. */
#define PIECE_BYTES_MIN 65536
#define RESOLVE_ONLY_CACHED 0x20
#define MAGIC_TMPFS 0x01021994
#define MAGIC_RAMFS 0x858458f6

/* No event reports a released lock, so the lock is retried with growing pauses. */
#define LOCK_PAUSE_MS_MIN 1
#define LOCK_PAUSE_MS_MAX 50
/* Time after which the worker searches for the owner of a session lock; most locks are free before that. */
#define LOCK_FIRST_LOOK_MS 8
#define LINE_BYTES_MAX 256
#define NS_PER_MS 1000000
#define LOCK_LOG_MS 5000 /* a longer wait for a session lock is logged */

/* Functions whose state stays valid while they wait: it is on the C stack or in a pinned stream. Functions that close a stream are
 * excluded. stream_copy_to_stream() is excluded because only one of its two streams is pinned. */
static const char *const function_names[] = {
	"copy", "error_log", "fdatasync", "fflush", "fgetc", "fgetcsv", "fgets", "file", "file_exists",
	"file_get_contents", "file_put_contents", "fileatime", "filectime", "filegroup", "fileinode", "filemtime", "fileowner",
	"fileperms", "filesize", "filetype", "flock", "fopen", "fpassthru", "fprintf", "fputcsv", "fputs", "fread", "fscanf",
	"fstat", "fsync", "ftruncate", "fwrite", "hash_file", "hash_hmac_file", "is_dir", "is_executable", "is_file", "is_link",
	"is_readable", "is_writable", "is_writeable", "link", "lstat", "md5_file", "mkdir", "move_uploaded_file", "readfile",
	"readlink", "rename", "rmdir", "sha1_file", "stat", "stream_get_contents", "stream_get_line",
	"symlink", "unlink", "vfprintf",
};
#define FUNCTIONS_LEN (sizeof(function_names) / sizeof(function_names[0]))

static HashTable functions; /* handlers of these functions */
static bool is_known;

/* Fills `functions`. Called before any handler runs. */
bool fermata_hook_files(void)
{
	if (is_known) {
		return true;
	}
	is_known = true;
	zend_hash_init(&functions, FUNCTIONS_LEN, NULL, NULL, true);
	for (size_t i = 0; i < FUNCTIONS_LEN; i++) {
		const zend_function *function = zend_hash_str_find_ptr(CG(function_table), function_names[i], strlen(function_names[i]));
		if (function && function->type == ZEND_INTERNAL_FUNCTION) {
			zend_hash_index_add_empty_element(&functions, (zend_ulong)(uintptr_t)function->internal_function.handler);
		}
	}
	return true;
}

void fermata_hook_files_end(void)
{
	if (is_known) {
		zend_hash_destroy(&functions);
		is_known = false;
	}
}

/* Returns true if PHP opens or reads a file for include through a userland stream wrapper, at any call depth. */
static bool is_including(const zend_execute_data *frame)
{
	const zend_execute_data *inner = NULL;
	for (; frame; inner = frame, frame = frame->prev_execute_data) {
		if (!frame->func || !ZEND_USER_CODE(frame->func->common.type) || !frame->opline
				|| frame->opline->opcode != ZEND_INCLUDE_OR_EVAL) {
			continue;
		}
		/* Included code runs as a function without a name. */
		bool runs = inner && inner->func && ZEND_USER_CODE(inner->func->common.type) && !inner->func->common.function_name;
		if (!runs) {
			return true;
		}
	}
	return false;
}

static bool may_wait(void)
{
	if (!fermata_hook_is_on(FERMATA_HOOK_FILES) || !fermata_hook_may_wait()) {
		return false;
	}
	const zend_execute_data *frame = EG(current_execute_data);
	return frame && frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION
		&& zend_hash_index_exists(&functions, (zend_ulong)(uintptr_t)frame->func->internal_function.handler)
		&& !is_including(frame->prev_execute_data);
}

bool fermata_hook_file_may_wait(void)
{
	return may_wait();
}

/* File operations in the core */

typedef enum outcome {
	DONE,
	CUT,  /* an exception is pending; the core still completes the operation */
	NONE, /* the core cannot run the operation; the caller has to make the call */
} outcome;

static outcome work(const FmFileCall *call, int64_t *answer)
{
	fermata_file_wait one = {.fiber = fermata_this_fiber()};
	FmFileJobId id;
	if (!fm_file_call(fermata.worker, call, (uintptr_t)&one, &id, answer)) {
		return NONE;
	}
	if (!id) {
		return DONE;
	}
	while (!one.over) {
		if (UNEXPECTED(fermata_hook_wait(FERMATA_NEVER) == FERMATA_WAIT_FAILED)) {
			fm_file_forget(fermata.worker, id);
			errno = ECANCELED;
			return CUT;
		}
	}
	*answer = fm_file_call_take(fermata.worker, id);
	return DONE;
}

bool fermata_hook_file_work(const FmFileCall *call, int64_t *answer)
{
	return work(call, answer) == DONE;
}

/* Converts a result of the core into the return value and errno of a C library function. */
static int64_t result_of(int64_t answer)
{
	if (answer < 0) {
		errno = (int)-answer;
		return -1;
	}
	return answer;
}

static FmStr text_of(const char *path)
{
	return (FmStr){path, strlen(path)};
}

static void tried(void)
{
	int error = errno;
	fm_file_tried(fermata.worker);
	errno = error;
}

static bool may_try_short(void)
{
	return fm_file_may_try(fermata.worker, 0, false, 0, 0);
}

/* Evaluates `expression` directly if the loop has time for a short call. Otherwise passes `call` to the core; if the core cannot
 * run it, evaluates `expression` after all. */
#define SHORT_OR_WORK(type, expression, ...) \
	if (may_wait()) { \
		if (may_try_short()) { \
			type made = (expression); \
			tried(); \
			return made; \
		} \
		const FmFileCall call = __VA_ARGS__; \
		int64_t answer; \
		switch (work(&call, &answer)) { \
			case DONE: return (type)result_of(answer); \
			case CUT: return -1; \
			case NONE: break; \
		} \
	} \
	return (expression)

/* Like SHORT_OR_WORK(), for calls that only read metadata: the core fills the kernel's cache, then `expression` is evaluated. */
#define SHORT_OR_LOOK(type, expression, path_asked, follows) \
	if (may_wait()) { \
		if (may_try_short()) { \
			type made = (expression); \
			tried(); \
			return made; \
		} \
		if (UNEXPECTED(!look(path_asked, follows))) { \
			return -1; \
		} \
	} \
	return (expression)

/* Has the core look up a path, so that the kernel caches it. Returns false after an exception. */
static bool look(const char *path, bool follows)
{
	const FmFileCall call = {.kind = FM_CALL_LOOK, .path = text_of(path), .flags = follows};
	int64_t answer;
	return work(&call, &answer) != CUT;
}

/* Operations on paths */

static int hooked_stat(const char *path, struct stat *found)
{
	SHORT_OR_LOOK(int, stat(path, found), path, true);
}

static int hooked_lstat(const char *path, struct stat *found)
{
	SHORT_OR_LOOK(int, lstat(path, found), path, false);
}

/* Called by objects linked with a glibc before 2.33. On 64-bit systems, all versions of `struct stat` are the same. */
static int hooked_xstat(int version, const char *path, struct stat *found)
{
	return hooked_stat(path, found);
}

static int hooked_lxstat(int version, const char *path, struct stat *found)
{
	return hooked_lstat(path, found);
}

static int hooked_access(const char *path, int mode)
{
	SHORT_OR_LOOK(int, access(path, mode), path, true);
}

static ssize_t hooked_readlink(const char *path, char *buf, size_t size)
{
	SHORT_OR_LOOK(ssize_t, readlink(path, buf, size), path, false);
}

static int hooked_rename(const char *from, const char *to)
{
	SHORT_OR_WORK(int, rename(from, to), {.kind = FM_CALL_RENAME, .path = text_of(from), .other = text_of(to)});
}

static int hooked_link(const char *target, const char *path)
{
	SHORT_OR_WORK(int, link(target, path), {.kind = FM_CALL_LINK, .path = text_of(target), .other = text_of(path)});
}

static int hooked_symlink(const char *target, const char *path)
{
	SHORT_OR_WORK(int, symlink(target, path), {.kind = FM_CALL_SYMLINK, .path = text_of(target), .other = text_of(path)});
}

static int hooked_unlink(const char *path)
{
	SHORT_OR_WORK(int, unlink(path), {.kind = FM_CALL_UNLINK, .path = text_of(path)});
}

static int hooked_rmdir(const char *path)
{
	SHORT_OR_WORK(int, rmdir(path), {.kind = FM_CALL_REMOVE_DIRECTORY, .path = text_of(path)});
}

static int hooked_mkdir(const char *path, mode_t mode)
{
	SHORT_OR_WORK(int, mkdir(path, mode), {.kind = FM_CALL_MAKE_DIRECTORY, .path = text_of(path), .mode = mode});
}

/* open() */

/* Opens a file if its path is in the kernel's cache. Returns true with a descriptor or with errno set. Returns false if the kernel
 * would have to read the disk. */
static bool open_cached(const char *path, int flags, int *fd)
{
#ifdef SYS_openat2
	const struct { uint64_t flags, mode, resolve; } how = {(uint64_t)(unsigned int)flags, 0, RESOLVE_ONLY_CACHED};
	*fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	return *fd >= 0 || errno == ENOENT || errno == ENOTDIR || errno == EACCES;
#else
	return false;
#endif
}

static int open_in_order(const char *path, int flags, mode_t mode)
{
	int64_t answer;
	int fd;
	if (!may_wait()) {
		return open(path, flags, mode);
	}
	if (!(flags & (O_CREAT | O_TRUNC)) && (flags & O_TMPFILE) != O_TMPFILE) {
		if (EXPECTED(fm_file_inline_bytes_max(fermata.worker)) && open_cached(path, flags, &fd)) {
			return fd;
		}
		return look(path, true) ? open(path, flags, mode) : -1;
	}
	if (may_try_short()) {
		fd = open(path, flags, mode);
		tried();
		return fd;
	}
	const FmFileCall call = {.kind = FM_CALL_OPEN, .path = text_of(path), .flags = flags, .mode = mode};
	switch (work(&call, &answer)) {
		case DONE:
			if (answer != -ENXIO) {
				return (int)result_of(answer);
			}
			break;
		case CUT: return -1;
		case NONE: break;
	}
	return open(path, flags, mode);
}

static int hooked_open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {
		va_list rest;
		va_start(rest, flags);
		mode = (mode_t)va_arg(rest, int);
		va_end(rest);
	}
	return open_in_order(path, flags, mode);
}

/* open() with two arguments as compiled with -D_FORTIFY_SOURCE. */
static int hooked_open_2(const char *path, int flags)
{
	return open_in_order(path, flags, 0);
}

/* read() and write() */

/* Returns true for tmpfs and ramfs, which are in memory. Some kernels do not report their pages as cached. */
static bool is_in_memory(int fd)
{
	struct statfs found;
	return fstatfs(fd, &found) == 0 && (found.f_type == MAGIC_TMPFS || (unsigned long)found.f_type == MAGIC_RAMFS);
}

/* Reads a regular file. The result is shorter than `len` only at the end of the file or after an error. */
static ssize_t read_file(int fd, char *buf, size_t len)
{
	size_t got = 0, in_turn = 0, inline_max = fm_file_inline_bytes_max(fermata.worker);
	while (got < len) {
		struct iovec piece = {buf + got, MIN(len - got, MAX(inline_max, PIECE_BYTES_MIN))};
		ssize_t part = -1;
		errno = EAGAIN;
		if (EXPECTED(inline_max)) {
			part = syscall(SYS_preadv2, fd, &piece, 1, -1L, -1L, RWF_NOWAIT);
		}
		if (part < 0 && errno != EAGAIN && errno != EOPNOTSUPP && errno != ENOSYS) {
			return got ? (ssize_t)got : -1;
		}
		if (part < 0) {
			off_t at = lseek(fd, 0, SEEK_CUR);
			if ((errno == EAGAIN || !is_in_memory(fd)) && at >= 0) {
				const FmFileCall call = {.kind = FM_CALL_LOAD, .fd = fd, .offset = (uint64_t)at, .len = piece.iov_len};
				int64_t answer;
				if (UNEXPECTED(work(&call, &answer) == CUT)) {
					errno = EAGAIN;
					return got ? (ssize_t)got : -1;
				}
			}
			part = read(fd, piece.iov_base, piece.iov_len);
			if (part < 0) {
				return got ? (ssize_t)got : -1;
			}
		}
		if (part == 0) {
			break;
		}
		got += (size_t)part;
		in_turn += (size_t)part;
		if (got < len && in_turn >= inline_max) {
			/* Let other fibers run after a large read from the cache. */
			in_turn = 0;
			fermata_fibers_end_turn();
			if (UNEXPECTED(fermata_hook_wait(0) == FERMATA_WAIT_FAILED)) {
				break;
			}
		}
	}
	return (ssize_t)got;
}

bool fermata_hook_reads_file(int fd, const struct stat *found, void *buf, size_t len, ssize_t *result)
{
	if (!S_ISREG(found->st_mode) || !may_wait()) {
		return false;
	}
	*result = read_file(fd, buf, len);
	return true;
}

/* Earlier writes of this worker that are queued for the file run first. */
bool fermata_hook_writes_file(int fd, const struct stat *found, const void *buf, size_t len, ssize_t *result)
{
	if (!S_ISREG(found->st_mode) || !fermata_hook_is_on(FERMATA_HOOK_FILES) || !fermata_hook_is_loop() || !fermata.handling
			|| fermata.forked) {
		return false;
	}
	if (!may_wait()) {
		fm_file_settle(fermata.worker, found->st_dev, found->st_ino);
		return false;
	}
	if (fm_file_may_try(fermata.worker, len, true, found->st_dev, found->st_ino)) {
		*result = write(fd, buf, len);
		tried();
		return true;
	}
	const FmFileCall call = {.kind = FM_CALL_WRITE, .fd = fd, .data = {buf, len}};
	int64_t answer;
	switch (work(&call, &answer)) {
		case DONE: *result = (ssize_t)result_of(answer); return true;
		case CUT: errno = EAGAIN; *result = -1; return true;
		case NONE: break;
	}
	fm_file_settle(fermata.worker, found->st_dev, found->st_ino);
	return false;
}

static ssize_t hooked_copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t len, unsigned int flags)
{
	int64_t answer;
	const FmFileCall call = {.kind = FM_CALL_COPY, .fd = from, .other_fd = to, .len = len};
	if (!from_at && !to_at && !flags && may_wait()) {
		switch (work(&call, &answer)) {
			case DONE: return (ssize_t)result_of(answer);
			case CUT: errno = ENOSYS; return -1; /* the caller falls back to read(), which also fails */
			case NONE: break;
		}
	}
	return copy_file_range(from, from_at, to, to_at, len, flags);
}

/* Always runs the call in the core, because it writes to the disk. */
#define WORK(expression, ...) \
	if (may_wait()) { \
		const FmFileCall call = __VA_ARGS__; \
		int64_t answer; \
		switch (work(&call, &answer)) { \
			case DONE: return (int)result_of(answer); \
			case CUT: return -1; \
			case NONE: break; \
		} \
	} \
	return (expression)

static int hooked_fsync(int fd)
{
	WORK(fsync(fd), {.kind = FM_CALL_SYNC, .fd = fd});
}

static int hooked_fdatasync(int fd)
{
	WORK(fdatasync(fd), {.kind = FM_CALL_SYNC, .fd = fd, .flags = 1});
}

int fermata_hook_sync(int fd, bool data_only)
{
	return data_only ? hooked_fdatasync(fd) : hooked_fsync(fd);
}

static int hooked_ftruncate(int fd, off_t len)
{
	if (len < 0) {
		return ftruncate(fd, len);
	}
	WORK(ftruncate(fd, len), {.kind = FM_CALL_TRUNCATE, .fd = fd, .len = (uint64_t)len});
}

/* Returns true if PHP's session module requests the lock. Such a call waits even if the hook is off, while the request keeps its
 * session (state/sessions.c). */
static bool is_session_lock(void)
{
	const zend_execute_data *frame = EG(current_execute_data);
	const zend_module_entry *module = frame && frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION
		? frame->func->internal_function.module : NULL;
	return module && strcmp(module->name, "session") == 0;
}

/* Returns true if a line of /proc/self/fdinfo shows a lock of this descriptor. */
static bool has_lock(long fd)
{
	char path[64], line[LINE_BYTES_MAX];
	bool found = false;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%ld", fd);
	FILE *file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		found = strncmp(line, "lock:", 5) == 0 && strstr(line, "FLOCK");
	}
	if (file) {
		fclose(file);
	}
	return found;
}

/* Returns true if another descriptor of this process has the lock that flock() on this descriptor waits for. */
static bool has_lock_itself(int fd)
{
	struct stat file, other;
	const struct dirent *entry;
	bool found = false;
	DIR *descriptors = fstat(fd, &file) == 0 ? opendir("/proc/self/fd") : NULL;
	while (descriptors && !found && (entry = readdir(descriptors))) {
		long number = strtol(entry->d_name, NULL, 10);
		found = number > 2 && number != fd && fstat((int)number, &other) == 0 && other.st_ino == file.st_ino
			&& other.st_dev == file.st_dev && has_lock(number);
	}
	if (descriptors) {
		closedir(descriptors);
	}
	return found;
}

static ZEND_COLD void log_long_lock(uint64_t waited_ms)
{
	char line[LINE_BYTES_MAX];
	FmDetail detail;
	fermata_detail(&detail);
	detail.file = fermata_str_or_empty(zend_get_executed_filename_ex());
	detail.line = zend_get_executed_lineno();
	int len = snprintf(line, sizeof(line), "a handler has waited %" PRIu64 " ms for the lock of a session that another request"
		" has; its worker runs no other handler meanwhile", waited_ms);
	fm_worker_log_at(fermata.worker, FERMATA_LOG_WARNING, true, (FmStr){line, MIN((size_t)len, sizeof(line) - 1)}, &detail);
}

/* Ends the wait for a session lock with an exception, so that the session is not used without the lock. */
static ZEND_COLD int give_up_session_lock(bool is_own)
{
	fermata_session_unlocked();
	if (is_own) {
		fermata_misuse("this worker has the lock of the session itself, so waiting for it would never end: close the file that has"
			" the lock");
	} else if (!EG(exception)) {
		zend_throw_exception_ex(fermata_ce_timeout, 0, "another request has had the lock of the session for " ZEND_ULONG_FMT
			" ms (shared_wait_timeout_ms)", (zend_ulong)fermata_fibers_shared_wait_ms());
	}
	errno = is_own ? EDEADLK : ECANCELED;
	return -1;
}

/* Waits until the next attempt; returns false after an exception. */
static bool pause_for_lock(uint64_t pause_ms, bool waits)
{
	if (EXPECTED(waits)) {
		return fermata_hook_wait(fm_worker_now_ms(fermata.worker) + pause_ms) != FERMATA_WAIT_FAILED;
	}
	struct timespec pause = {0, (long)pause_ms * NS_PER_MS};
	nanosleep(&pause, NULL);
	return true;
}

/* Holds the worker until the next attempt. A blocking flock() could deadlock: another handler of this worker may have the lock. */
static ZEND_COLD bool hold_for_lock(uint64_t pause_ms)
{
	return fermata_hook_hold(fm_worker_now_ms(fermata.worker) + pause_ms) != FERMATA_WAIT_FAILED;
}

static int hooked_flock(int fd, int operation)
{
	bool is_session = fermata_hook_is_loop() && fermata.handling && !fermata.forked && is_session_lock();
	bool waits = is_session ? fermata_hook_may_wait() : may_wait();
	bool holds = !waits && !(operation & (LOCK_NB | LOCK_UN)) && fermata_hook_where() == FERMATA_PLACE_HOLDS;
	if ((operation & (LOCK_NB | LOCK_UN)) || !(waits || is_session || holds)) {
		return flock(fd, operation);
	}
	uint64_t pause_ms = LOCK_PAUSE_MS_MIN, begun_ms = fermata_hook_clock_ms(), waited_ms = 0;
	int result;
	bool is_logged = false;
	while ((result = flock(fd, operation | LOCK_NB)) != 0 && errno == EWOULDBLOCK) {
		if (is_session && waited_ms && pause_ms == LOCK_FIRST_LOOK_MS && has_lock_itself(fd)) {
			return give_up_session_lock(true);
		}
		if (is_session && waited_ms >= fermata_fibers_shared_wait_ms()) {
			return give_up_session_lock(false);
		}
		if (is_session && !is_logged && waited_ms >= LOCK_LOG_MS) {
			is_logged = true;
			log_long_lock(waited_ms);
		}
		if (UNEXPECTED(holds ? !hold_for_lock(pause_ms) : !pause_for_lock(pause_ms, waits))) {
			if (is_session) {
				return give_up_session_lock(false);
			}
			errno = ECANCELED;
			return -1;
		}
		pause_ms = MIN(pause_ms * 2, LOCK_PAUSE_MS_MAX);
		waited_ms = fermata_hook_clock_ms() - begun_ms;
	}
	return result;
}

static const fermata_replacement session_calls[] = {{"flock", hooked_flock}};

/* Hooks flock() in workers whose handlers may open sessions. If PHP's calls of flock() cannot be replaced, they block as in plain
 * PHP. */
void fermata_hook_session_locks(void)
{
	uint32_t failed = 0;
	fermata_hooks_note_loop();
	fermata_patch(fermata_patch_has("session.so") ? "session.so" : "php", session_calls, 1, &failed);
}

const fermata_replacement fermata_calls_files[] = {
	{"open", hooked_open},
	{"open64", hooked_open},
	{"__open_2", hooked_open_2},
	{"__open64_2", hooked_open_2},
	{"stat", hooked_stat},
	{"stat64", hooked_stat},
	{"lstat", hooked_lstat},
	{"lstat64", hooked_lstat},
	{"__xstat", hooked_xstat},
	{"__xstat64", hooked_xstat},
	{"__lxstat", hooked_lxstat},
	{"__lxstat64", hooked_lxstat},
	{"access", hooked_access},
	{"readlink", hooked_readlink},
	{"rename", hooked_rename},
	{"link", hooked_link},
	{"symlink", hooked_symlink},
	{"unlink", hooked_unlink},
	{"rmdir", hooked_rmdir},
	{"mkdir", hooked_mkdir},
	{"copy_file_range", hooked_copy_file_range},
	{"fsync", hooked_fsync},
	{"fdatasync", hooked_fdatasync},
	{"ftruncate", hooked_ftruncate},
	{"ftruncate64", hooked_ftruncate},
	{"flock", hooked_flock},
};
const size_t fermata_calls_files_len = sizeof(fermata_calls_files) / sizeof(fermata_replacement);
