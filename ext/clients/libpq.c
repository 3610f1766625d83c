/* Makes libpq wait in a fiber, and prevents two fibers from using one of its connections concurrently.
 *
 * Some calls do not pass through a guard of guards.c: PHP frees a statement, or requests results in a destructor. Such calls are
 * guarded here, with the key of the connection's descriptor. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/keys.h"
#include <dlfcn.h>
#include <poll.h>
#include "base/optimize_size.h"

/* Maximum number of reads that drain a connection after its shutdown. A socket's receive buffer holds less data. */
#define COPY_READS_MAX 1024

/* Replacement for poll() in libpq. libpq continues to use its connection after a failed wait, and would read the missed reply as
 * the reply to its next request. So the connection is shut down. */
static int poll_guarded(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	bool is_guarded = len == 1 && timeout_ms != 0 && fermata_hook_may_wait(), is_new = false;
	uintptr_t key = fermata_key_of_fd(len ? fds[0].fd : 0);
	const fermata_fiber *taker = fermata_this_fiber();
	int ready;
	if (UNEXPECTED(fermata_is_retired() && !EG(current_execute_data))) {
		/* After a fatal error, PHP frees the connection. libpq would first read all outstanding replies, so shut the connection
		 * down. */
		shutdown(fds[0].fd, SHUT_RDWR);
	}
	if (UNEXPECTED(is_guarded && !fermata_guard_take(key, &is_new, false))) {
		/* The call did not pass through a guard, and libpq's protocol state does not fit the other fiber's request. */
		fermata_refuse_shared("connection to PostgreSQL");
		ready = -1;
	} else {
		ready = fermata_hook_poll(fds, len, timeout_ms);
		if (is_new) {
			fermata_guard_give_back(key, taker, NULL);
		}
		if (EXPECTED(ready >= 0 || len != 1 || !fermata_hook_is_cut())) {
			return ready;
		}
	}
	shutdown(fds[0].fd, SHUT_RDWR);
	errno = ECANCELED;
	return ready;
}

/* poll() as compiled with -D_FORTIFY_SOURCE. */
static int poll_guarded_chk(struct pollfd *fds, nfds_t len, int timeout_ms, size_t size)
{
	return poll_guarded(fds, len, timeout_ms);
}

const fermata_replacement fermata_calls_libpq[] = {
	{"poll", poll_guarded},
	{"__poll_chk", poll_guarded_chk},
};
const size_t fermata_calls_libpq_len = sizeof(fermata_calls_libpq) / sizeof(fermata_replacement);

/* When PHP frees a PDO statement, at any time and in any fiber, it sends DEALLOCATE to PostgreSQL. If another fiber waits for a
 * reply, libpq would read that reply first. If no fiber waits, the next request would read the reply to DEALLOCATE. So the command
 * is not sent; the server drops the statement when the connection is closed. */

static void *(*libpq_exec)(void *connection, const char *text);
static int (*libpq_socket)(const void *connection);

static void *guarded_exec(void *connection, const char *text)
{
	bool forgets = strncmp(text, ZEND_STRL("DEALLOCATE ")) == 0 || strncmp(text, ZEND_STRL("CLOSE ")) == 0;
	if (forgets && fermata_hook_where() == FERMATA_PLACE_CUT) {
		return NULL;
	}
	if (UNEXPECTED((fermata.handling || fermata_is_collecting())
			&& fermata_guard_is_anothers(fermata_key_of_fd(libpq_socket(connection))))) {
		if (!forgets) {
			fermata_refuse_shared("connection to PostgreSQL");
		}
		return NULL;
	}
	return libpq_exec(connection, text);
}

/* The extension pgsql requests results until libpq returns NULL. During a COPY, libpq always returns a result, which reports that
 * the COPY continues. If a script was interrupted in a COPY and then cleans up or frees the connection, it would block the worker
 * forever. So the second such result in a row ends the COPY, if nothing was sent in between. */

#define PGRES_COPY_OUT 3
#define PGRES_COPY_IN 4

static struct {
	void *(*get_result)(void *connection);
	int (*status)(const void *result);
	int (*put_copy_end)(void *connection, const char *error);
	int (*consume_input)(void *connection);
	int (*end_copy)(void *connection);
	const void *connection; /* connection whose last result was a COPY */
} libpq_results;

static void *hooked_get_result(void *connection)
{
	void *result = libpq_results.get_result(connection);
	int status = result ? libpq_results.status(result) : 0;
	bool was_copy = libpq_results.connection == connection, is_copy = status == PGRES_COPY_IN || status == PGRES_COPY_OUT;
	libpq_results.connection = is_copy ? connection : NULL;
	if (UNEXPECTED(was_copy && is_copy)) {
		libpq_results.connection = NULL;
		if (status != PGRES_COPY_IN || libpq_results.put_copy_end(connection, "the COPY was left in the middle") != 1) {
			/* Shut the connection down instead of reading the rest of the COPY, whose size has no limit. The loop reads the data
			 * that has already arrived. */
			shutdown(libpq_socket(connection), SHUT_RDWR);
			for (uint32_t i = 0; i < COPY_READS_MAX && libpq_results.consume_input(connection); i++) {
			}
		}
	}
	return result;
}

/* Called at the end of a COPY: the next result belongs to another command, which may be a second COPY of the same query. */
static int hooked_end_copy(void *connection)
{
	if (libpq_results.connection == connection) {
		libpq_results.connection = NULL;
	}
	return libpq_results.end_copy(connection);
}

static void hook_results(void *library)
{
	static const fermata_replacement calls[] = {
		{"PQgetResult", (void *)hooked_get_result},
		{"PQendcopy", (void *)hooked_end_copy},
	};
	uint32_t failed = 0;
	libpq_results.get_result = (void *(*)(void *))dlsym(library, "PQgetResult");
	libpq_results.status = (int (*)(const void *))dlsym(library, "PQresultStatus");
	libpq_results.put_copy_end = (int (*)(void *, const char *))dlsym(library, "PQputCopyEnd");
	libpq_results.consume_input = (int (*)(void *))dlsym(library, "PQconsumeInput");
	libpq_results.end_copy = (int (*)(void *))dlsym(library, "PQendcopy");
	if (libpq_results.get_result && libpq_results.status && libpq_results.put_copy_end && libpq_results.consume_input
			&& libpq_results.end_copy) {
		fermata_patch(fermata_patch_has("pgsql.so") ? "pgsql.so" : "php", calls, sizeof(calls) / sizeof(*calls), &failed);
	}
}

bool fermata_hook_libpq(void)
{
	static const fermata_replacement call = {"PQexec", (void *)guarded_exec};
	void *library = dlopen("libpq.so.5", RTLD_LAZY | RTLD_NOLOAD);
	if (!library) {
		return true;
	}
	libpq_exec = (void *(*)(void *, const char *))dlsym(library, "PQexec");
	libpq_socket = (int (*)(const void *))dlsym(library, "PQsocket");
	uint32_t failed = 0;
	if (libpq_exec && libpq_socket) {
		hook_results(library);
		fermata_patch(fermata_patch_has("pdo_pgsql.so") ? "pdo_pgsql.so" : "php", &call, 1, &failed);
	}
	dlclose(library);
	return !failed;
}
