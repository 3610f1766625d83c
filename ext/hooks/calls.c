/* Replacements for the C library's sleep(), poll(), select() and close() in hooked objects.
 *
 * Each function waits in the fiber if the call would block and the fiber may wait there; otherwise it calls the C library. If an
 * exception ends the wait (the client disconnected, or a timeout() expired), the call fails and must not be retried. The caller
 * then returns to PHP, which handles the exception. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include <errno.h>
#include <sys/select.h>
#include <time.h>
#include "base/optimize_size.h"

#define FDS_INLINE_MAX 16
#define NS_PER_MS 1000000
#define MS_PER_S 1000

typedef struct slot_of_calls {
	bool waits_for_library; /* true while the fiber waits in poll() called by PHP itself or by libpq */
	bool is_cut_reported;   /* libcurl has received the error of an ended wait */
} slot_of_calls;

static fermata_part part;
FERMATA_SLOT(slot_of_calls, part)

void fermata_hooks_init(void)
{
	fermata_hooks_note_loop();
	fermata_hook_sockets_init();
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

static ZEND_COLD bool is_query(void)
{
	static const char *const modules[] = {"mysqli", "PDO", "pdo_mysql", "pdo_pgsql", "pgsql", "redis"};
	/* Not queries: functions that wait for other clients' data rather than for a reply, and functions that open a connection. */
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

/* sleep(), usleep() and nanosleep() */

/* Sleeps in the fiber. Returns the remaining nanoseconds: 0 after the complete time, more if an exception ended the sleep. */
static uint64_t sleep_ns(fermata_hook_place place, uint64_t ns)
{
	bool holds = place == FERMATA_PLACE_HOLDS;
	struct timespec begin, now;
	if (ns < NS_PER_MS) {
		/* Timers have a resolution of 1 ms: let other fibers run once, then block for the rest. */
		struct timespec rest = {0, (long)ns};
		if (!holds && fermata_hook_wait(0) == FERMATA_WAIT_FAILED) {
			return ns;
		}
		nanosleep(&rest, NULL);
		return 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	uint64_t ms = ns / NS_PER_MS;
	uint64_t due_ms = ms > INT64_MAX / 2 ? FERMATA_NEVER : fermata_ms_to_due((int64_t)ms);
	while ((holds ? fermata_hook_hold(due_ms) : fermata_hook_wait(due_ms)) == FERMATA_WAIT_WOKEN) {
	}
	if (EXPECTED(!EG(exception))) {
		return 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t gone = (uint64_t)(now.tv_sec - begin.tv_sec) * MS_PER_S * NS_PER_MS + now.tv_nsec - begin.tv_nsec;
	return ns > gone ? ns - gone : 1;
}

static bool is_waited_for(fermata_hook_place place)
{
	return place == FERMATA_PLACE_WAITS || place == FERMATA_PLACE_HOLDS;
}

static unsigned int hooked_sleep(unsigned int seconds)
{
	fermata_hook_place place = fermata_hook_where();
	if (!seconds || !is_waited_for(place)) {
		return place == FERMATA_PLACE_CUT ? seconds : sleep(seconds);
	}
	uint64_t second = (uint64_t)MS_PER_S * NS_PER_MS;
	return (unsigned int)((sleep_ns(place, seconds * second) + second - 1) / second);
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
	if (!is_valid || !(wanted->tv_sec || wanted->tv_nsec) || !is_waited_for(place)) {
		return nanosleep(wanted, rest);
	}
	uint64_t second = (uint64_t)MS_PER_S * NS_PER_MS;
	uint64_t ns = (uint64_t)wanted->tv_sec > UINT64_MAX / second / 2 ? UINT64_MAX / 2 : wanted->tv_sec * second + wanted->tv_nsec;
	uint64_t left = sleep_ns(place, ns);
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
	if (!us || !is_waited_for(place)) {
		return place == FERMATA_PLACE_CUT ? 0 : usleep(us);
	}
	sleep_ns(place, (uint64_t)us * (NS_PER_MS / MS_PER_S));
	return 0;
}

/* poll() and select() */

/* Returns the result of poll() after an exception ended the wait. If no event is ready, shuts down the connections, because their
 * data will not be read. */
static int poll_cut(struct pollfd *fds, nfds_t len)
{
	int ready = poll(fds, len, 0);
	if (!ready) {
		fermata_conversation_end_all(fds, len);
		errno = ECANCELED;
		ready = -1;
	}
	return ready;
}

/* libcurl calls poll() again despite the pending exception; only a closed connection makes it stop. */
static int poll_cut_curl(struct pollfd *fds, nfds_t len)
{
	if (len == 1 && slot(fermata_this_fiber())->is_cut_reported) {
		shutdown(fds[0].fd, SHUT_RDWR);
	}
	slot(fermata_this_fiber())->is_cut_reported = true;
	fermata_touch(fermata_this_fiber(), part);
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

/* Converts the result of a wait into the return value of poll(). */
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

static ZEND_COLD int poll_held(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	return poll_result(fds, len, fermata_hook_hold_fds(fds, len, fermata_ms_to_due(timeout_ms)));
}

int fermata_hook_poll(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	if (timeout_ms == 0) {
		return poll(fds, len, 0);
	}
	switch (fermata_hook_where()) {
		case FERMATA_PLACE_WAITS: break;
		case FERMATA_PLACE_HOLDS: return poll_held(fds, len, timeout_ms);
		case FERMATA_PLACE_BOUNDED: return fermata_hook_poll_bounded(fds, len, timeout_ms);
		case FERMATA_PLACE_CUT: return poll_cut(fds, len);
		case FERMATA_PLACE_FREE: return poll(fds, len, timeout_ms);
	}
	slot(fermata_this_fiber())->waits_for_library = true;
	fermata_wait_result result = fermata_hook_wait_fds(fds, len, fermata_ms_to_due(timeout_ms));
	slot(fermata_this_fiber())->waits_for_library = false;
	return poll_result(fds, len, result);
}

/* Replacement for poll() in libcurl. After an ended wait, libcurl closes the connection of the transfer, unless other transfers
 * share it: libcurl can still match their responses. */
static int hooked_poll_curl(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	if (timeout_ms == 0) {
		return poll(fds, len, 0);
	}
	switch (fermata_hook_where()) {
		case FERMATA_PLACE_WAITS: break;
		case FERMATA_PLACE_HOLDS:
			slot(fermata_this_fiber())->is_cut_reported = false;
			return poll_held(fds, len, timeout_ms);
		case FERMATA_PLACE_BOUNDED: return fermata_hook_poll_bounded(fds, len, timeout_ms);
		case FERMATA_PLACE_CUT: return poll_cut_curl(fds, len);
		case FERMATA_PLACE_FREE: return poll(fds, len, timeout_ms);
	}
	slot(fermata_this_fiber())->is_cut_reported = false;
	return poll_result(fds, len, fermata_hook_wait_fds_only(fds, len, fermata_ms_to_due(timeout_ms)));
}

static int hooked_poll_curl_chk(struct pollfd *fds, nfds_t len, int timeout_ms, size_t size)
{
	return hooked_poll_curl(fds, len, timeout_ms);
}

/* poll() as compiled with -D_FORTIFY_SOURCE. */
static int hooked_poll_chk(struct pollfd *fds, nfds_t len, int timeout_ms, size_t size)
{
	return fermata_hook_poll(fds, len, timeout_ms);
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

/* Returns true inside stream_select() and socket_select(), which pass descriptors of the application. Other functions wait for
 * connections of C libraries, which guards.c handles. */
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
	uint64_t due_ms = is_waited_for(place) ? fermata_ms_to_due(timeout_ms) : FERMATA_NEVER;
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
		/* Call select() itself: it reports some conditions differently from poll(). */
		struct timeval now = {0, 0};
		ready = select(numbers, readable, writable, urgent, &now);
		if (UNEXPECTED(ready == 0 && is_cut)) {
			fermata_conversation_end_all(fds, len);
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
		if (UNEXPECTED(place == FERMATA_PLACE_HOLDS)) {
			result = fermata_hook_hold_fds(fds, len, due_ms);
			continue;
		}
		bool is_registered = is_alone && fermata_owner_begin_wait(fds[0].fd, side);
		result = len ? fermata_hook_wait_fds(fds, len, due_ms) : fermata_hook_wait(due_ms);
		if (is_registered) {
			fermata_owner_end_wait(fds[0].fd, side);
		}
		for (nfds_t i = 0; i < len; i++) {
			is_closed |= (fds[i].revents & POLLNVAL) != 0;
		}
		if (UNEXPECTED(is_closed)) {
			/* Stop: the number of a closed descriptor may already belong to another file. */
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

/* Wakes fibers that wait for the descriptor, then closes it. */
static int hooked_close(int fd)
{
	if (UNEXPECTED(fermata_spawn_closes(fd))) {
		return 0;
	}
	if (fermata_hook_is_loop() && fermata.worker) {
		fermata_owner_closed(fd);
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
	{"poll", fermata_hook_poll},
	{"__poll_chk", hooked_poll_chk},
};
const size_t fermata_calls_poll_len = sizeof(fermata_calls_poll) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_poll_curl[] = {
	{"poll", hooked_poll_curl},
	{"__poll_chk", hooked_poll_curl_chk},
};
const size_t fermata_calls_poll_curl_len = sizeof(fermata_calls_poll_curl) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_select[] = {
	{"select", hooked_select},
};
const size_t fermata_calls_select_len = sizeof(fermata_calls_select) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_close[] = {
	{"close", hooked_close},
};
const size_t fermata_calls_close_len = sizeof(fermata_calls_close) / sizeof(fermata_replacement);

static void on_clean_up(fermata_fiber *fiber)
{
	*slot(fiber) = (slot_of_calls){0};
}

/* Returns true while a query runs: it continues after its client has disconnected, since ending it would cost the connection. */
static bool outlives_client(const fermata_fiber *fiber)
{
	return slot(fiber)->waits_for_library && is_query();
}

static fermata_part part = {.size = sizeof(slot_of_calls), .on_clean_up = on_clean_up, .outlives_client = outlives_client};

void fermata_calls_init(void)
{
	fermata_part_register(&part);
}
