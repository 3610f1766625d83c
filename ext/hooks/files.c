/* Plain files: what PHP's functions call of the C library for them.
 *
 * What is short or cached is done here, in the loop; the rest is the core's work on files, which the fiber waits for. Only
 * functions that are named below wait: whatever else opens and reads files (include, sessions, opcache, destructors) relies
 * on nobody else running meanwhile. Where a call cannot change anything, the kernel is only made to know the answer, and the
 * call is made then: so what it says is true when the program hears it, and positions, flags and errors are the kernel's. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "core/stray.h"
#include "hooks/hooks.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "core/small.h"

#ifndef RWF_NOWAIT
# define RWF_NOWAIT 0x00000008
#endif
/* Less is not worth the trouble of asking for it. */
#define PIECE_BYTES_MIN 65536
#define RESOLVE_ONLY_CACHED 0x20
#define MAGIC_TMPFS 0x01021994
#define MAGIC_RAMFS 0x858458f6

/* A lock has no event: it is asked for again and again, less and less often. */
#define LOCK_PAUSE_MS_MIN 1
#define LOCK_PAUSE_MS_MAX 50

/* Functions whose own state is whole while they wait: they have it on the C stack or in a stream that is pinned. Closing has
 * not, and stream_copy_to_stream() has two streams, of which one is not pinned. */
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

static HashTable functions; /* their handlers */
static bool is_known;

/* Before any handler runs. */
bool fermata_hook_files(void)
{
	fermata_hook_streams();
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

/* A stream of the program's own may be what is being included, however many functions deeper this is. */
static bool is_including(const zend_execute_data *frame)
{
	const zend_execute_data *inner = NULL;
	for (; frame; inner = frame, frame = frame->prev_execute_data) {
		if (!frame->func || !ZEND_USER_CODE(frame->func->common.type) || !frame->opline
				|| frame->opline->opcode != ZEND_INCLUDE_OR_EVAL) {
			continue;
		}
		/* What was included runs as code without a name. */
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

/* Work of the core */

typedef enum outcome {
	DONE,
	CUT,  /* an exception is pending; the work goes on without us: half of it would be worse */
	NONE, /* it cannot be worked on: the call is to be made */
} outcome;

static outcome work(const FmFileCall *call, int64_t *answer)
{
	fermata_file_wait one = {.fiber = fermata_run.fiber};
	FmFileJobId id;
	if (!fm_file_call(fermata_run.worker, call, (uintptr_t)&one, &id, answer)) {
		return NONE;
	}
	if (!id) {
		return DONE;
	}
	while (!one.over) {
		if (UNEXPECTED(fermata_hook_wait(FERMATA_NEVER) == FERMATA_WAIT_FAILED)) {
			fm_file_forget(fermata_run.worker, id);
			errno = ECANCELED;
			return CUT;
		}
	}
	*answer = fm_file_call_take(fermata_run.worker, id);
	return DONE;
}

bool fermata_hook_file_work(const FmFileCall *call, int64_t *answer)
{
	return work(call, answer) == DONE;
}

/* As a function of the C library would return it. */
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
	fm_file_tried(fermata_run.worker);
	errno = error;
}

static bool may_try_short(void)
{
	return fm_file_may_try(fermata_run.worker, 0, false, 0, 0);
}

/* Makes `expression` in the loop if it is short now, has `call` worked on else, and makes it if that cannot be. */
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

/* As above for what is only asked: the kernel gets to know it, and is asked then. */
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

/* False after an exception. */
static bool look(const char *path, bool follows)
{
	const FmFileCall call = {.kind = FM_CALL_LOOK, .path = text_of(path), .flags = follows};
	int64_t answer;
	return work(&call, &answer) != CUT;
}

/* Names */

static int hooked_stat(const char *path, struct stat *found)
{
	SHORT_OR_LOOK(int, stat(path, found), path, true);
}

static int hooked_lstat(const char *path, struct stat *found)
{
	SHORT_OR_LOOK(int, lstat(path, found), path, false);
}

/* By which programs call them that were linked with a glibc before 2.33; all versions of the structure are one here. */
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

/* Opening */

/* The kernel opens what it has in memory, or says that it would have to ask a disk (false). */
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
		if (EXPECTED(fm_file_inline_bytes_max(fermata_run.worker)) && open_cached(path, flags, &fd)) {
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

/* What -D_FORTIFY_SOURCE makes of an open() of two arguments. */
static int hooked_open_2(const char *path, int flags)
{
	return open_in_order(path, flags, 0);
}

/* Reading and writing */

/* Of tmpfs some kernels do not tell what is cached: all of it. */
static bool is_in_memory(int fd)
{
	struct statfs found;
	return fstatfs(fd, &found) == 0 && (found.f_type == MAGIC_TMPFS || (unsigned long)found.f_type == MAGIC_RAMFS);
}

/* As read() of a regular file, which is short only at its end. */
static ssize_t read_file(int fd, char *buf, size_t len)
{
	size_t got = 0, in_turn = 0, inline_max = fm_file_inline_bytes_max(fermata_run.worker);
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
			/* Much was there: others get their turn. */
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

/* What others of this worker have asked to be written to this file comes first. */
bool fermata_hook_writes_file(int fd, const struct stat *found, const void *buf, size_t len, ssize_t *result)
{
	if (!S_ISREG(found->st_mode) || !fermata_hook_is_on(FERMATA_HOOK_FILES) || !fermata_hook_is_loop() || !fermata.handling
			|| fermata.forked) {
		return false;
	}
	if (!may_wait()) {
		fm_file_settle(fermata_run.worker, found->st_dev, found->st_ino);
		return false;
	}
	if (fm_file_may_try(fermata_run.worker, len, true, found->st_dev, found->st_ino)) {
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
	fm_file_settle(fermata_run.worker, found->st_dev, found->st_ino);
	return false;
}

static ssize_t hooked_copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t len, unsigned int flags)
{
	int64_t answer;
	const FmFileCall call = {.kind = FM_CALL_COPY, .fd = from, .other_fd = to, .len = len};
	if (!from_at && !to_at && !flags && may_wait()) {
		switch (work(&call, &answer)) {
			case DONE: return (ssize_t)result_of(answer);
			case CUT: errno = ENOSYS; return -1; /* the caller goes on to read, finds that it cannot, and ends */
			case NONE: break;
		}
	}
	return copy_file_range(from, from_at, to, to_at, len, flags);
}

/* Always the disk's. */
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

/* Whether PHP's sessions ask for the lock: theirs are waited for without the hook, since nobody else gets at the session
 * meanwhile (core/stray.c). */
static bool is_session_lock(void)
{
	const zend_execute_data *frame = EG(current_execute_data);
	const zend_module_entry *module = frame && frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION
		? frame->func->internal_function.module : NULL;
	return module && strcmp(module->name, "session") == 0;
}

static int hooked_flock(int fd, int operation)
{
	int result = -1;
	bool is_session = false;
	if ((operation & (LOCK_NB | LOCK_UN)) || !(may_wait() || (is_session = fermata_hook_may_wait() && is_session_lock()))) {
		return flock(fd, operation);
	}
	uint64_t pause_ms = LOCK_PAUSE_MS_MIN;
	while ((result = flock(fd, operation | LOCK_NB)) != 0 && errno == EWOULDBLOCK) {
		uint64_t due_ms = fm_worker_now_ms(fermata_run.worker) + pause_ms;
		if (UNEXPECTED(fermata_hook_wait(due_ms) == FERMATA_WAIT_FAILED)) {
			if (is_session) {
				fermata_session_unlocked();
			}
			errno = ECANCELED;
			return -1;
		}
		pause_ms = MIN(pause_ms * 2, LOCK_PAUSE_MS_MAX);
	}
	return result;
}

static const fermata_replacement session_calls[] = {{"flock", hooked_flock}};

/* In a worker whose handlers may open sessions. Where PHP's calls cannot be exchanged they block as ever. */
void fermata_hook_session_locks(void)
{
	uint32_t failed = 0;
	fermata_hooks_init();
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
