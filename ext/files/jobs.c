/* File jobs of the core. The calling fiber waits until its job is complete. Where PHP cannot wait, the call blocks, also until
 * earlier jobs that must precede it are complete. Failures become exceptions. */
#include "fibers/callbacks.h"
#include "files/files.h"
#include "main/fopen_wrappers.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

/* File locks have no event, so waiting fibers poll with growing pauses. */
#define LOCK_PAUSE_MS_MIN 1
#define LOCK_PAUSE_MS_MAX 50

zend_class_entry *fermata_ce_file_failure;
zend_class_entry *fermata_ce_file_not_found, *fermata_ce_access_denied, *fermata_ce_file_exists, *fermata_ce_disk_full;
zend_class_entry *fermata_ce_is_directory, *fermata_ce_not_directory, *fermata_ce_directory_not_empty;

static ZEND_COLD void throw_failure(zend_class_entry *ce, const char *message, FmStr path)
{
	zend_object *exception = zend_throw_exception(ce, message, 0);
	zval value;
	ZVAL_STRINGL(&value, path.ptr ? path.ptr : "", path.len);
	zend_update_property_ex(fermata_ce_file_failure, exception, ZSTR_KNOWN(ZEND_STR_PATH), &value);
	zval_ptr_dtor(&value);
}

static ZEND_COLD void fail(uint32_t code, const FmError *error, FmStr path)
{
	zend_class_entry *ce;
	switch (code) {
		case FM_FILE_NOT_FOUND: ce = fermata_ce_file_not_found; break;
		case FM_FILE_ACCESS_DENIED: ce = fermata_ce_access_denied; break;
		case FM_FILE_EXISTS: ce = fermata_ce_file_exists; break;
		case FM_FILE_FULL: ce = fermata_ce_disk_full; break;
		case FM_FILE_IS_DIRECTORY: ce = fermata_ce_is_directory; break;
		case FM_FILE_NOT_DIRECTORY: ce = fermata_ce_not_directory; break;
		case FM_FILE_NOT_EMPTY: ce = fermata_ce_directory_not_empty; break;
		case FM_FILE_OTHER: ce = fermata_ce_file_failure; break;
		default: fermata_throw(code, error); return;
	}
	char message[sizeof(error->message) + 1];
	fermata_copy(message, sizeof(message), "", (FmStr){error->message, error->len});
	throw_failure(ce, message, path);
}

/* Wakes the fibers whose jobs are complete. */
static void on_wake(void)
{
	uint64_t user;
	while (fm_file_next(fermata.worker, &user)) {
		fermata_file_wait *one = (fermata_file_wait *)(uintptr_t)user;
		one->over = true;
		fermata_wake(one->fiber);
	}
}

static bool wait_for(FmFileJobId id, fermata_file_wait *one)
{
	while (!one->over) {
		if (UNEXPECTED(fermata_wait(FERMATA_NEVER) == FERMATA_WAIT_FAILED)) {
			/* The job continues without its fiber, because a half-done job would be worse. */
			fm_file_forget(fermata.worker, id);
			return false;
		}
	}
	return true;
}

/* The caller's strings must stay valid until this function returns. The result's strings are valid until the next job. */
bool fermata_file_run(const FmFileJob *job, FmFileResult *result)
{
	FmError error;
	FmFileJobId id;
	fermata_file_wait one = {.fiber = fermata_this_fiber()};
	error.len = 0;
	/* Where PHP cannot wait, the core blocks, after the jobs that must precede this one. */
	uint64_t user = fermata_wait_obstacle() ? 0 : (uintptr_t)&one;
	FmWorker *worker = fermata.forked ? NULL : fermata.worker;
	/* Outside a server only memory_limit applies. */
	uint64_t bytes_max = worker ? fm_file_bytes_max(worker) : UINT64_MAX;
	uint32_t code = fm_file_begin(worker, job, bytes_max, user, &id, result, &error);
	if (code == FM_OK && id) {
		if (!wait_for(id, &one)) {
			return false;
		}
		code = fm_file_take(worker, id, result, &error);
	}
	if (UNEXPECTED(code != FM_OK)) {
		fail(code, &error, job->path);
		return false;
	}
	return true;
}

/* Returns the bytes that were read as a PHP string; NULL after the last line. */
zend_string *fermata_file_bytes(const FmFileResult *result)
{
	zend_string *bytes = result->bytes.ptr ? zend_string_init_fast(result->bytes.ptr, result->bytes.len) : NULL;
	fm_file_release();
	return bytes;
}

/* Checks a path before use. */
bool fermata_file_check_path(const zend_string *path)
{
	if (UNEXPECTED(!ZSTR_LEN(path))) {
		fermata_misuse("the path of a file must not be empty");
		return false;
	}
	if (UNEXPECTED(php_check_open_basedir_ex(ZSTR_VAL(path), 0))) {
		zend_string *message = zend_strpprintf(0, "open_basedir does not allow %s", ZSTR_VAL(path));
		throw_failure(fermata_ce_access_denied, ZSTR_VAL(message), fermata_str(path));
		zend_string_release(message);
		return false;
	}
	return true;
}

bool fermata_file_check_count(zend_long number, zend_long min, const char *what)
{
	if (UNEXPECTED(number < min)) {
		fermata_misuse("%s must be %s, not " ZEND_LONG_FMT, what, min ? "1 or more" : "0 or more", number);
	}
	return number >= min;
}

/* Waits for a lock in a fiber, or blocks. */
bool fermata_file_lock(fermata_file *file, uint32_t lock, bool waits, bool *locked)
{
	uint64_t pause_ms = LOCK_PAUSE_MS_MIN;
	for (;;) {
		bool holds = false, can_wait = !fermata_wait_obstacle();
		if (UNEXPECTED(!can_wait)) {
			/* The lock's owner may be a handler of this worker, which could not continue if this call blocked. */
			can_wait = holds = fermata_has_to_hold();
		}
		FmError error;
		error.len = 0;
		uint32_t code = fm_open_file_lock(file->open, lock, waits && !can_wait, locked, &error);
		if (code != FM_OK) {
			fail(code, &error, fermata_str(Z_STR_P(OBJ_PROP_NUM(&file->std, 0))));
			return false;
		}
		if (*locked || !waits) {
			return true;
		}
		uint64_t due_ms = fm_worker_now_ms(fermata.worker) + pause_ms;
		if ((holds ? fermata_block(NULL, 0, due_ms) : fermata_wait(due_ms)) == FERMATA_WAIT_FAILED) {
			return false;
		}
		pause_ms = MIN(pause_ms * 2, LOCK_PAUSE_MS_MAX);
		if (UNEXPECTED(!file->open)) {
			fermata_misuse("the file was closed while its lock was waited for");
			return false;
		}
	}
}

static fermata_part part = {.on_wake = on_wake};

void fermata_file_jobs_init(void)
{
	fermata_part_register(&part);
}
