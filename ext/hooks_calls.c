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
#include "hooks.h"
#include "ext/standard/file.h"
#include <errno.h>
#include <pthread.h>
#include <sys/select.h>
#include <time.h>

#define FDS_INLINE_MAX 16
#define NS_PER_MS 1000000
#define MS_PER_S 1000

/* Libraries have threads of their own, whose calls are none of our business. */
static pthread_t loop_thread;

void fermata_hooks_init(void)
{
	loop_thread = pthread_self();
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

bool fermata_hook_may_wait(void)
{
	if (!fermata_hook_is_loop() || !fermata.handling || EG(exception)) {
		return false;
	}
	/* In a destructor the exception of a wait that was ended is put aside: that is no new beginning. */
	if (UNEXPECTED(fermata_wait_obstacle())) {
		return false;
	}
	fermata_run.fiber->is_cut = false;
	return !is_inside_globals();
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

fermata_wait_result fermata_hook_wait_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms)
{
	kept all = keep();
	return give_back(&all, fermata_wait_fds(fds, len, due_ms));
}

fermata_wait_result fermata_hook_wait_fd(int fd, short events, uint64_t due_ms, short *happened)
{
	struct pollfd one = {.fd = fd, .events = events};
	fermata_wait_result result = fermata_hook_wait_fds(&one, 1, due_ms);
	*happened = one.revents;
	return result;
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
	if (!seconds || !fermata_hook_may_wait()) {
		return fermata_hook_is_cut() ? seconds : sleep(seconds);
	}
	uint64_t second = (uint64_t)MS_PER_S * NS_PER_MS;
	return (unsigned int)((sleep_ns(seconds * second) + second - 1) / second);
}

static int hooked_nanosleep(const struct timespec *wanted, struct timespec *rest)
{
	if (UNEXPECTED(fermata_hook_is_cut())) {
		if (rest) {
			*rest = *wanted;
		}
		errno = EINTR;
		return -1;
	}
	bool is_valid = wanted->tv_sec >= 0 && wanted->tv_nsec >= 0 && wanted->tv_nsec < MS_PER_S * NS_PER_MS;
	if (!is_valid || !(wanted->tv_sec || wanted->tv_nsec) || !fermata_hook_may_wait()) {
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
	if (!us || !fermata_hook_may_wait()) {
		return fermata_hook_is_cut() ? 0 : usleep(us);
	}
	sleep_ns((uint64_t)us * (NS_PER_MS / MS_PER_S));
	return 0;
}

/* poll() and select() */

/* Somebody goes on asking although an exception is on its way: only the end of the connection ends that. */
static int poll_cut(struct pollfd *fds, nfds_t len)
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

static int hooked_poll(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	if (timeout_ms == 0) {
		return poll(fds, len, 0);
	}
	if (!fermata_hook_may_wait()) {
		return UNEXPECTED(fermata_hook_is_cut()) ? poll_cut(fds, len) : poll(fds, len, timeout_ms);
	}
	fermata_run.fiber->is_cut_told = false;
	switch (fermata_hook_wait_fds(fds, len, fermata_ms_to_due(timeout_ms))) {
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

/* For a library that goes on with its connection after a wait that has failed, and would take the answer that it has not
 * waited for as that to its next question. */
static int hooked_poll_closing(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	bool is_guarded = len == 1 && timeout_ms != 0 && fermata_hook_may_wait(), is_new = false;
	uintptr_t key = fermata_guard_key_of_fd(len ? fds[0].fd : 0);
	const fermata_fiber *taker = fermata_run.fiber;
	int ready;
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

static int hooked_select(int numbers, fd_set *readable, fd_set *writable, fd_set *urgent, struct timeval *timeout)
{
	fd_set *sets[3] = {readable, writable, urgent}, copies[3];
	if (timeout && timeout->tv_sec == 0 && timeout->tv_usec == 0) {
		return select(numbers, readable, writable, urgent, timeout);
	}
	bool is_cut = fermata_hook_is_cut();
	if (numbers < 0 || numbers > FD_SETSIZE || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0))
			|| (!is_cut && !fermata_hook_may_wait())) {
		return select(numbers, readable, writable, urgent, timeout);
	}
	for (int i = 0; i < 3; i++) {
		if (sets[i]) {
			copies[i] = *sets[i];
		}
	}
	const fd_set *wanted[3] = {readable ? &copies[0] : NULL, writable ? &copies[1] : NULL, urgent ? &copies[2] : NULL};
	uint64_t due_ms = FERMATA_NEVER;
	if (timeout && !is_cut) {
		due_ms = fermata_ms_to_due(timeout->tv_sec > INT32_MAX ? -1
			: (int64_t)timeout->tv_sec * MS_PER_S + (timeout->tv_usec + MS_PER_S - 1) / MS_PER_S);
	}
	struct pollfd few[FDS_INLINE_MAX], *fds = few;
	nfds_t len = list_fds(NULL, numbers, wanted);
	if (len > FDS_INLINE_MAX) {
		fds = safe_emalloc(len, sizeof(struct pollfd), 0);
	}
	list_fds(fds, numbers, wanted);
	int ready;
	bool is_closed = false;
	fermata_wait_result result = FERMATA_WAIT_WOKEN;
	for (;;) {
		/* PHP's own answer, for what poll() and select() see differently. */
		struct timeval now = {0, 0};
		ready = select(numbers, readable, writable, urgent, &now);
		if (ready != 0 || result != FERMATA_WAIT_WOKEN || is_cut) {
			break;
		}
		for (int i = 0; i < 3; i++) {
			if (sets[i]) {
				*sets[i] = copies[i];
			}
		}
		result = len ? fermata_hook_wait_fds(fds, len, due_ms) : fermata_hook_wait(due_ms);
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

/* Whoever waits for it is told. */
static int hooked_close(int fd)
{
	if (pthread_equal(pthread_self(), loop_thread) && fermata.worker) {
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
