/* What hooked objects call in place of the C library's sleep(), poll(), select() and close().
 *
 * Each looks whether it would block, and whether a fiber may wait here; else it is the C library's function. When a wait is
 * ended by an exception (the client has left, a timeout() is over), the call fails as one that has been interrupted for good:
 * the caller returns to PHP, where the exception is met. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include "ext/standard/file.h"
#include <errno.h>
#include <pthread.h>
#include <sys/select.h>
#include <time.h>
#include "core/small.h"

#define FDS_INLINE_MAX 16
#define NS_PER_MS 1000000
#define MS_PER_S 1000
#define LINE_BYTES_MAX 1024
/* How long a handler or task may hold the worker for sockets, pipes and commands in places where PHP cannot wait, in all. */
#define HELD_MS_MAX 1000

/* Libraries have threads of their own, whose calls are none of our business. */
static pthread_t loop_thread;

void fermata_hooks_note_loop(void)
{
	loop_thread = pthread_self();
}

void fermata_hooks_init(void)
{
	fermata_hooks_note_loop();
	fermata_hook_sockets_init();
}

/* What has to run to its end at once: while a file is being read for include, other handlers would include it once more; libxml
 * and the extension soap keep what a call works with in globals. */
static bool is_inside_globals(void)
{
	static const char *const modules[] = {"soap", "libxml", "dom", "SimpleXML", "xmlreader", "xmlwriter", "xsl"};
	const zend_execute_data *frame = EG(current_execute_data);
	for (; frame && frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION; frame = frame->prev_execute_data) {
		const zend_module_entry *module = frame->func->internal_function.module;
		for (size_t i = 0; module && i < sizeof(modules) / sizeof(*modules); i++) {
			if (UNEXPECTED(strcmp(module->name, modules[i]) == 0)) {
				return true;
			}
		}
	}
	return frame && frame->func && ZEND_USER_CODE(frame->func->common.type) && frame->opline
		&& frame->opline->opcode == ZEND_INCLUDE_OR_EVAL;
}

bool fermata_hook_is_loop(void)
{
	return pthread_equal(pthread_self(), loop_thread);
}

fermata_hook_place fermata_hook_where(void)
{
	if (!fermata_hook_is_loop() || !fermata.handling || fermata.forked) {
		return UNEXPECTED(fermata_run.collects) && fermata_hook_is_loop() ? FERMATA_PLACE_CUT : FERMATA_PLACE_FREE;
	}
	if (UNEXPECTED(EG(exception))) {
		/* What is freed on its way may still have something to say. */
		return fermata_run.fiber->is_cut ? FERMATA_PLACE_CUT : FERMATA_PLACE_BOUNDED;
	}
	/* In a destructor the exception of a wait that was ended is put aside: that is no new beginning. */
	if (UNEXPECTED(fermata_wait_obstacle())) {
		return fermata_fiber_is_ended(fermata_run.fiber) ? FERMATA_PLACE_CUT : FERMATA_PLACE_BOUNDED;
	}
	fermata_run.fiber->is_cut = false;
	return EXPECTED(!is_inside_globals()) ? FERMATA_PLACE_WAITS : FERMATA_PLACE_FREE;
}

static bool begins_with_any(const char *name, const char *const *beginnings, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (strncasecmp(name, beginnings[i], strlen(beginnings[i])) == 0) {
			return true;
		}
	}
	return false;
}

ZEND_COLD bool fermata_hook_is_query(void)
{
	static const char *const modules[] = {"mysqli", "PDO", "pdo_mysql", "pdo_pgsql", "pgsql", "redis"};
	/* What waits for others rather than for an answer, and connections that nobody has yet. */
	static const char *const unbounded[] = {"__construct", "bl", "br", "bz", "connect", "monitor", "mysqli_connect", "mysqli_poll",
		"mysqli_real_connect", "open", "pconnect", "pg_connect", "pg_pconnect", "pgsqlGetNotify", "poll", "popen", "psubscribe",
		"real_connect", "ssubscribe", "subscribe", "wait", "xRead"};
	const zend_execute_data *frame = EG(current_execute_data);
	if (!frame || !frame->func || frame->func->type != ZEND_INTERNAL_FUNCTION || !frame->func->internal_function.module) {
		return false;
	}
	const char *module = frame->func->internal_function.module->name;
	const char *name = ZSTR_VAL(frame->func->common.function_name);
	for (size_t i = 0; i < sizeof(modules) / sizeof(*modules); i++) {
		if (strcmp(module, modules[i]) == 0) {
			return !begins_with_any(name, unbounded, sizeof(unbounded) / sizeof(*unbounded));
		}
	}
	return false;
}

bool fermata_hook_may_wait(void)
{
	return fermata_hook_where() == FERMATA_PLACE_WAITS;
}

bool fermata_hook_is_cut(void)
{
	return UNEXPECTED(pthread_equal(pthread_self(), loop_thread) && fermata.handling && EG(exception) && fermata_run.fiber->is_cut);
}

/* Waiting */

/* What constructors set for warnings inside of them, and proc_close() for what it closes, must not reach other handlers. */
typedef struct kept {
	zend_error_handling_t handling;
	zend_class_entry *exception_class;
	int waits_for_process;
} kept;

static kept keep(void)
{
	kept all = {.handling = EG(error_handling), .exception_class = EG(exception_class), .waits_for_process = FG(pclose_wait)};
	FG(pclose_wait) = 0;
	EG(error_handling) = EH_NORMAL;
	EG(exception_class) = NULL;
	return all;
}

static fermata_wait_result give_back(const kept *all, fermata_wait_result result)
{
	EG(error_handling) = all->handling;
	EG(exception_class) = all->exception_class;
	FG(pclose_wait) = all->waits_for_process;
	fermata_run.fiber->is_cut = result == FERMATA_WAIT_FAILED;
	return result;
}

fermata_wait_result fermata_hook_wait(uint64_t due_ms)
{
	kept all = keep();
	return give_back(&all, fermata_wait(due_ms));
}

/* For libraries that know themselves what to do with a connection whose wait was ended. */
static fermata_wait_result wait_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms)
{
	kept all = keep();
	return give_back(&all, fermata_wait_fds(fds, len, due_ms));
}

static ZEND_COLD void end_conversations(const struct pollfd *fds, nfds_t len)
{
	for (nfds_t i = 0; i < len; i++) {
		/* The number of one that was closed may be that of another by now. */
		if (!(fds[i].revents & POLLNVAL)) {
			fermata_conversation_end(fds[i].fd);
		}
	}
}

fermata_wait_result fermata_hook_wait_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms)
{
	fermata_wait_result result = wait_fds(fds, len, due_ms);
	if (UNEXPECTED(result == FERMATA_WAIT_FAILED)) {
		end_conversations(fds, len);
	}
	return result;
}

fermata_wait_result fermata_hook_wait_fd(int fd, short events, uint64_t due_ms, short *happened)
{
	struct pollfd one = {.fd = fd, .events = events};
	fermata_wait_result result = fermata_hook_wait_fds(&one, 1, due_ms);
	*happened = one.revents;
	return result;
}

/* Where PHP cannot wait */

static uint64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * MS_PER_S + (uint64_t)now.tv_nsec / NS_PER_MS;
}

static ZEND_COLD void say_held_too_long(void)
{
	char line[LINE_BYTES_MAX];
	int len = snprintf(line, sizeof(line), "%s:%u: a call that PHP cannot wait in was given up after %d ms for which it has held "
		"the worker, as after a time-out; end conversations before the object is released", zend_get_executed_filename(),
		zend_get_executed_lineno(), HELD_MS_MAX);
	fm_worker_log(fermata_run.worker, FERMATA_LOG_WARNING, (FmStr){line, MIN((size_t)len, sizeof(line) - 1)});
}

int fermata_hook_poll_bounded(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	fermata_fiber *self = fermata_run.fiber;
	int left = self->held_ms < HELD_MS_MAX ? (int)(HELD_MS_MAX - self->held_ms) : 0;
	bool is_short = timeout_ms >= 0 && timeout_ms <= left;
	uint64_t begin = now_ms();
	int ready = poll(fds, len, is_short ? timeout_ms : left);
	int error = errno;
	self->held_ms += now_ms() - begin;
	self->touched = true;
	if (UNEXPECTED(ready == 0 && !is_short)) {
		self->held_ms = HELD_MS_MAX;
		if (left) {
			say_held_too_long();
		}
		end_conversations(fds, len);
	}
	errno = error;
	return ready;
}

/* sleep() and its kin */

/* Nanoseconds that are left; 0 = to the end. */
static uint64_t sleep_ns(uint64_t ns)
{
	struct timespec begin, now;
	if (ns < NS_PER_MS) {
		/* Finer than our timers: others get their turn, and the rest of it is slept. */
		struct timespec rest = {0, (long)ns};
		if (fermata_hook_wait(0) == FERMATA_WAIT_FAILED) {
			return ns;
		}
		nanosleep(&rest, NULL);
		return 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	uint64_t ms = ns / NS_PER_MS;
	uint64_t due_ms = ms > INT64_MAX / 2 ? FERMATA_NEVER : fermata_ms_to_due((int64_t)ms);
	while (fermata_hook_wait(due_ms) == FERMATA_WAIT_WOKEN) {
	}
	if (EXPECTED(!EG(exception))) {
		return 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t gone = (uint64_t)(now.tv_sec - begin.tv_sec) * MS_PER_S * NS_PER_MS + now.tv_nsec - begin.tv_nsec;
	return ns > gone ? ns - gone : 1;
}

static unsigned int hooked_sleep(unsigned int seconds)
{
	fermata_hook_place place = fermata_hook_where();
	if (!seconds || place != FERMATA_PLACE_WAITS) {
		return place == FERMATA_PLACE_CUT ? seconds : sleep(seconds);
	}
	uint64_t second = (uint64_t)MS_PER_S * NS_PER_MS;
	return (unsigned int)((sleep_ns(seconds * second) + second - 1) / second);
}

static int hooked_nanosleep(const struct timespec *wanted, struct timespec *rest)
{
	fermata_hook_place place = fermata_hook_where();
	if (UNEXPECTED(place == FERMATA_PLACE_CUT)) {
		if (rest) {
			*rest = *wanted;
		}
		errno = EINTR;
		return -1;
	}
	bool is_valid = wanted->tv_sec >= 0 && wanted->tv_nsec >= 0 && wanted->tv_nsec < MS_PER_S * NS_PER_MS;
	if (!is_valid || !(wanted->tv_sec || wanted->tv_nsec) || place != FERMATA_PLACE_WAITS) {
		return nanosleep(wanted, rest);
	}
	uint64_t second = (uint64_t)MS_PER_S * NS_PER_MS;
	uint64_t ns = (uint64_t)wanted->tv_sec > UINT64_MAX / second / 2 ? UINT64_MAX / 2 : wanted->tv_sec * second + wanted->tv_nsec;
	uint64_t left = sleep_ns(ns);
	if (EXPECTED(!left)) {
		return 0;
	}
	if (rest) {
		rest->tv_sec = (time_t)(left / second);
		rest->tv_nsec = (long)(left % second);
	}
	errno = EINTR;
	return -1;
}

static int hooked_usleep(useconds_t us)
{
	fermata_hook_place place = fermata_hook_where();
	if (!us || place != FERMATA_PLACE_WAITS) {
		return place == FERMATA_PLACE_CUT ? 0 : usleep(us);
	}
	sleep_ns((uint64_t)us * (NS_PER_MS / MS_PER_S));
	return 0;
}

/* poll() and select() */

/* The wait is over: what has not arrived will not be read. */
static int poll_cut(struct pollfd *fds, nfds_t len)
{
	int ready = poll(fds, len, 0);
	if (!ready) {
		end_conversations(fds, len);
		errno = ECANCELED;
		ready = -1;
	}
	return ready;
}

/* The library goes on although an exception is pending: only the end of the connection stops it. */
static int poll_cut_curl(struct pollfd *fds, nfds_t len)
{
	if (len == 1 && fermata_run.fiber->is_cut_told) {
		shutdown(fds[0].fd, SHUT_RDWR);
	}
	fermata_run.fiber->is_cut_told = true;
	int ready = poll(fds, len, 0);
	if (!ready) {
		errno = ECANCELED;
		ready = -1;
	}
	return ready;
}

static int count_ready(const struct pollfd *fds, nfds_t len)
{
	int ready = 0;
	for (nfds_t i = 0; i < len; i++) {
		ready += fds[i].revents != 0;
	}
	return ready;
}

/* As poll(), from how the wait has ended. */
static int poll_result(struct pollfd *fds, nfds_t len, fermata_wait_result result)
{
	switch (result) {
		case FERMATA_WAIT_WOKEN: {
			int ready = count_ready(fds, len);
			return EXPECTED(ready) ? ready : poll(fds, len, 0);
		}
		case FERMATA_WAIT_DUE: return 0;
		case FERMATA_WAIT_FAILED: break;
	}
	errno = ECANCELED;
	return -1;
}

static int hooked_poll(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	if (timeout_ms == 0) {
		return poll(fds, len, 0);
	}
	switch (fermata_hook_where()) {
		case FERMATA_PLACE_WAITS: break;
		case FERMATA_PLACE_BOUNDED: return fermata_hook_poll_bounded(fds, len, timeout_ms);
		case FERMATA_PLACE_CUT: return poll_cut(fds, len);
		case FERMATA_PLACE_FREE: return poll(fds, len, timeout_ms);
	}
	fermata_run.fiber->waits_for_library = true;
	fermata_wait_result result = fermata_hook_wait_fds(fds, len, fermata_ms_to_due(timeout_ms));
	fermata_run.fiber->waits_for_library = false;
	return poll_result(fds, len, result);
}

/* A transfer that was ended costs libcurl its connection, unless other transfers share it, whose answers it tells apart. */
static int hooked_poll_curl(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	if (timeout_ms == 0) {
		return poll(fds, len, 0);
	}
	switch (fermata_hook_where()) {
		case FERMATA_PLACE_WAITS: break;
		case FERMATA_PLACE_BOUNDED: return fermata_hook_poll_bounded(fds, len, timeout_ms);
		case FERMATA_PLACE_CUT: return poll_cut_curl(fds, len);
		case FERMATA_PLACE_FREE: return poll(fds, len, timeout_ms);
	}
	fermata_run.fiber->is_cut_told = false;
	return poll_result(fds, len, wait_fds(fds, len, fermata_ms_to_due(timeout_ms)));
}

/* For a library that goes on with its connection after a wait that has failed, and would take the answer that it has not
 * waited for as that to its next question. */
static int hooked_poll_closing(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	bool is_guarded = len == 1 && timeout_ms != 0 && fermata_hook_may_wait(), is_new = false;
	uintptr_t key = fermata_guard_key_of_fd(len ? fds[0].fd : 0);
	const fermata_fiber *taker = fermata_run.fiber;
	int ready;
	if (UNEXPECTED(fermata_run.retired && !EG(current_execute_data))) {
		/* After a fatal error nobody goes on with it, but PHP, which frees it, takes all answers that are still to come. */
		shutdown(fds[0].fd, SHUT_RDWR);
	}
	if (UNEXPECTED(is_guarded && !fermata_guard_take(key, &is_new))) {
		/* By a way that no guard knows. The library has lost the other's place in the conversation by now. */
		fermata_guard_refuse("connection to PostgreSQL");
		ready = -1;
	} else {
		ready = hooked_poll(fds, len, timeout_ms);
		if (is_new) {
			fermata_guard_give_back(key, taker);
		}
		if (EXPECTED(ready >= 0 || len != 1 || !fermata_hook_is_cut())) {
			return ready;
		}
	}
	shutdown(fds[0].fd, SHUT_RDWR);
	errno = ECANCELED;
	return ready;
}

static int hooked_poll_curl_chk(struct pollfd *fds, nfds_t len, int timeout_ms, size_t size)
{
	return hooked_poll_curl(fds, len, timeout_ms);
}

static int hooked_poll_closing_chk(struct pollfd *fds, nfds_t len, int timeout_ms, size_t size)
{
	return hooked_poll_closing(fds, len, timeout_ms);
}

/* What -D_FORTIFY_SOURCE makes of poll(). */
static int hooked_poll_chk(struct pollfd *fds, nfds_t len, int timeout_ms, size_t size)
{
	return hooked_poll(fds, len, timeout_ms);
}

static nfds_t list_fds(struct pollfd *fds, int numbers, const fd_set *sets[3])
{
	static const short events[3] = {POLLIN, POLLOUT, POLLPRI};
	nfds_t len = 0;
	for (int fd = 0; fd < numbers; fd++) {
		struct pollfd one = {.fd = fd};
		for (int i = 0; i < 3; i++) {
			if (sets[i] && FD_ISSET(fd, sets[i])) {
				one.events |= events[i];
			}
		}
		if (one.events) {
			if (fds) {
				fds[len] = one;
			}
			len++;
		}
	}
	return len;
}

/* Other functions wait for what a library in C has, which guards.c knows. */
static bool is_called_by_program(void)
{
	const zend_execute_data *frame = EG(current_execute_data);
	const zend_string *name = frame && frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION
		? frame->func->common.function_name : NULL;
	return name && (zend_string_equals_literal(name, "stream_select") || zend_string_equals_literal(name, "socket_select"));
}

static int hooked_select(int numbers, fd_set *readable, fd_set *writable, fd_set *urgent, struct timeval *timeout)
{
	fd_set *sets[3] = {readable, writable, urgent}, copies[3];
	if (timeout && timeout->tv_sec == 0 && timeout->tv_usec == 0) {
		return select(numbers, readable, writable, urgent, timeout);
	}
	fermata_hook_place place = fermata_hook_where();
	bool is_cut = place == FERMATA_PLACE_CUT;
	if (numbers < 0 || numbers > FD_SETSIZE || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0))
			|| place == FERMATA_PLACE_FREE) {
		return select(numbers, readable, writable, urgent, timeout);
	}
	for (int i = 0; i < 3; i++) {
		if (sets[i]) {
			copies[i] = *sets[i];
		}
	}
	const fd_set *wanted[3] = {readable ? &copies[0] : NULL, writable ? &copies[1] : NULL, urgent ? &copies[2] : NULL};
	int64_t timeout_ms = !timeout || timeout->tv_sec > INT32_MAX / MS_PER_S - 1 ? -1
		: (int64_t)timeout->tv_sec * MS_PER_S + (timeout->tv_usec + MS_PER_S - 1) / MS_PER_S;
	uint64_t due_ms = place == FERMATA_PLACE_WAITS ? fermata_ms_to_due(timeout_ms) : FERMATA_NEVER;
	struct pollfd few[FDS_INLINE_MAX], *fds = few;
	nfds_t len = list_fds(NULL, numbers, wanted);
	if (len > FDS_INLINE_MAX) {
		fds = safe_emalloc(len, sizeof(struct pollfd), 0);
	}
	list_fds(fds, numbers, wanted);
	bool is_alone = len == 1 && place == FERMATA_PLACE_WAITS && is_called_by_program();
	fermata_side side = is_alone && fds[0].events & POLLIN ? FERMATA_SIDE_READ : FERMATA_SIDE_WRITE;
	if (is_alone) {
		fermata_owner_note_wait(fds[0].fd);
	}
	int ready;
	bool is_closed = false;
	fermata_wait_result result = FERMATA_WAIT_WOKEN;
	for (;;) {
		/* PHP's own answer, for what poll() and select() see differently. */
		struct timeval now = {0, 0};
		ready = select(numbers, readable, writable, urgent, &now);
		if (UNEXPECTED(ready == 0 && is_cut)) {
			end_conversations(fds, len);
		}
		if (ready != 0 || result != FERMATA_WAIT_WOKEN || is_cut) {
			break;
		}
		for (int i = 0; i < 3; i++) {
			if (sets[i]) {
				*sets[i] = copies[i];
			}
		}
		if (UNEXPECTED(place == FERMATA_PLACE_BOUNDED)) {
			result = fermata_hook_poll_bounded(fds, len, (int)timeout_ms) == 0 ? FERMATA_WAIT_DUE : FERMATA_WAIT_WOKEN;
			continue;
		}
		bool is_told = is_alone && fermata_owner_begin_wait(fds[0].fd, side);
		result = len ? fermata_hook_wait_fds(fds, len, due_ms) : fermata_hook_wait(due_ms);
		if (is_told) {
			fermata_owner_end_wait(fds[0].fd, side);
		}
		for (nfds_t i = 0; i < len; i++) {
			is_closed |= (fds[i].revents & POLLNVAL) != 0;
		}
		if (UNEXPECTED(is_closed)) {
			/* The number may be that of another file by now. */
			break;
		}
	}
	if (fds != few) {
		efree(fds);
	}
	if (UNEXPECTED(ready == 0 && (is_cut || result == FERMATA_WAIT_FAILED))) {
		errno = ECANCELED;
		ready = -1;
	} else if (UNEXPECTED(is_closed)) {
		errno = EBADF;
		ready = -1;
	}
	return ready;
}

/* The waiting fiber is told. */
static int hooked_close(int fd)
{
	if (UNEXPECTED(fermata_spawn_closes(fd))) {
		return 0;
	}
	if (pthread_equal(pthread_self(), loop_thread) && fermata.worker) {
		fermata_conversation_closed(fd);
		fermata_watch_closing(fd);
	}
	return close(fd);
}

const fermata_replacement fermata_calls_sleep[] = {
	{"sleep", hooked_sleep},
	{"usleep", hooked_usleep},
	{"nanosleep", hooked_nanosleep},
};
const size_t fermata_calls_sleep_len = sizeof(fermata_calls_sleep) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_poll[] = {
	{"poll", hooked_poll},
	{"__poll_chk", hooked_poll_chk},
};
const size_t fermata_calls_poll_len = sizeof(fermata_calls_poll) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_poll_curl[] = {
	{"poll", hooked_poll_curl},
	{"__poll_chk", hooked_poll_curl_chk},
};
const size_t fermata_calls_poll_curl_len = sizeof(fermata_calls_poll_curl) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_poll_closing[] = {
	{"poll", hooked_poll_closing},
	{"__poll_chk", hooked_poll_closing_chk},
};
const size_t fermata_calls_poll_closing_len = sizeof(fermata_calls_poll_closing) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_select[] = {
	{"select", hooked_select},
};
const size_t fermata_calls_select_len = sizeof(fermata_calls_select) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_close[] = {
	{"close", hooked_close},
};
const size_t fermata_calls_close_len = sizeof(fermata_calls_close) / sizeof(fermata_replacement);
