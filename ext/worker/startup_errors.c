/* Exceptions that an application threw before it was served, for `fermata dev`.
 *
 * Frameworks catch exceptions of their start and print them in their own format, without the full file name. So this module records
 * each exception with its location, and writes all of them when the script finishes. The command finds the printed exception by its
 * message. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#include "base/base.h"
#include "zend_exceptions.h"
#include "worker/startup_errors.h"
#include <fcntl.h>
#include <unistd.h>

#define THROWN_MAX 64            /* maximum number of recorded exceptions; the newest are kept */
#define MESSAGE_BYTES_MAX 4096

/* Allocated with malloc(): the exceptions are written when PHP's heap is gone. */
typedef struct thrown {
	char *class, *message, *file;
	uint32_t line;
} thrown;

static thrown kept[THROWN_MAX];
static uint32_t kept_count; /* total; the newest THROWN_MAX are stored */
static const char *path;    /* NULL = recording is off */
static void (*throw_before)(zend_object *exception);

static void release(thrown *it)
{
	free(it->class);
	free(it->message);
	free(it->file);
	*it = (thrown){0};
}

static void keep(zend_object *exception)
{
	if (exception && path && instanceof_function(exception->ce, zend_ce_throwable)) {
		FmStr message = fermata_exception_string(exception, ZEND_STR_MESSAGE);
		FmStr file = fermata_exception_string(exception, ZEND_STR_FILE);
		thrown *it = &kept[kept_count++ % THROWN_MAX];
		release(it);
		it->class = strdup(ZSTR_VAL(exception->ce->name));
		it->message = strndup(message.ptr, MIN(message.len, MESSAGE_BYTES_MAX));
		it->file = strndup(file.ptr, file.len);
		it->line = fermata_exception_line(exception);
	}
	if (throw_before) {
		throw_before(exception);
	}
}

void fermata_startup_errors_start(void)
{
	path = getenv("FERMATA_DEVELOPMENT_THROWN");
	if (path && !throw_before && zend_throw_exception_hook != keep) {
		throw_before = zend_throw_exception_hook;
		zend_throw_exception_hook = keep;
	}
}

void fermata_startup_errors_drop(void)
{
	path = NULL;
	for (uint32_t i = 0; i < THROWN_MAX; i++) {
		release(&kept[i]);
	}
	kept_count = 0;
}

/* Writes class, message, file and line of each exception, each followed by NUL; newest first. */
void fermata_startup_errors_end(void)
{
	if (path && kept_count) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
		FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
		for (uint32_t i = 0; file && i < MIN(kept_count, THROWN_MAX); i++) {
			const thrown *it = &kept[(kept_count - 1 - i) % THROWN_MAX];
			if (it->class && it->message && it->file) {
				fprintf(file, "%s%c%s%c%s%c%u%c", it->class, 0, it->message, 0, it->file, 0, it->line, 0);
			}
		}
		if (file) {
			fclose(file);
		}
	}
	fermata_startup_errors_drop();
}
