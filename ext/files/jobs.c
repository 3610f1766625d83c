/* Jobs of the core on files: the fiber that asks for one waits until it is over, where PHP can wait; elsewhere the call
 * blocks, until those are over as well that it must not overtake. What goes wrong becomes an exception of the class that belongs to it. */
#include "files/file.h"
#include "main/fopen_wrappers.h"
#include "zend_exceptions.h"
#include "core/small.h"

/* A lock has no event: it is asked for again and again, less and less often. */
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

/* Some jobs have ended: their waiting fibers go on. */
void fermata_files_woken(void)
{
	uint64_t user;
	while (fm_file_next(fermata_run.worker, &user)) {
		fermata_file_wait *one = (fermata_file_wait *)(uintptr_t)user;
		one->over = true;
		fermata_wake(one->fiber);
	}
}

static bool wait_for(FmFileJobId id, fermata_file_wait *one)
{
	while (!one->over) {
		if (UNEXPECTED(fermata_wait(FERMATA_NEVER) == FERMATA_WAIT_FAILED)) {
			/* The work goes on without us: half of it would be worse. */
			fm_file_forget(fermata_run.worker, id);
			return false;
		}
	}
	return true;
}

/* Strings of the job are valid until this returns, those of the result until the next job. */
bool fermata_file_run(const FmFileJob *job, FmFileResult *result)
{
	FmError error;
	FmFileJobId id;
	fermata_file_wait one = {.fiber = fermata_run.fiber};
	error.len = 0;
	/* Where PHP cannot wait, the core does, behind what has to be done before. */
	uint64_t user = fermata_wait_obstacle() ? 0 : (uintptr_t)&one;
	FmWorker *worker = fermata.forked ? NULL : fermata.worker;
	/* Without a server to keep going it is up to the program's memory_limit. */
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

/* What was read, as a string of PHP's; NULL behind the last line. */
zend_string *fermata_file_bytes(const FmFileResult *result)
{
	zend_string *bytes = result->bytes.ptr ? zend_string_init_fast(result->bytes.ptr, result->bytes.len) : NULL;
	fm_file_release();
	return bytes;
}

/* A path that is about to be used. */
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
		bool can_wait = !fermata_wait_obstacle();
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
		if (fermata_wait(fm_worker_now_ms(fermata_run.worker) + pause_ms) == FERMATA_WAIT_FAILED) {
			return false;
		}
		pause_ms = MIN(pause_ms * 2, LOCK_PAUSE_MS_MAX);
		if (UNEXPECTED(!file->open)) {
			fermata_misuse("the file was closed while its lock was waited for");
			return false;
		}
	}
}
