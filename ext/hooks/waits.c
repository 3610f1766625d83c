/* Waits of hooked calls: which calls may suspend the fiber, and the functions that suspend it or hold the worker.
 *
 * If an exception ends a wait, the fiber counts as cut until that exception is handled: its calls neither block nor wait. A call
 * at a place where PHP cannot wait holds the worker, for at most HELD_MS_MAX per handler or task. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "fibers/callbacks.h"
#include "hooks/hooks.h"
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include "base/optimize_size.h"

#define NS_PER_MS 1000000
#define MS_PER_S 1000
#define LINE_BYTES_MAX 1024
/* Maximum total time for which a handler or task may hold the worker for sockets, pipes and commands where PHP cannot wait. */
#define HELD_MS_MAX 1000

typedef struct slot_of_waits {
	uint64_t held_ms; /* total time for which the fiber has held the worker where PHP cannot wait */
	bool is_cut;      /* an exception ended a wait, and may still be pending */
} slot_of_waits;

static fermata_part part;
FERMATA_SLOT(slot_of_waits, part)

/* Thread of the loop. Libraries may have their own threads, whose calls are not hooked. */
static pthread_t loop_thread;

static bool is_on[FERMATA_HOOKS_LEN];

bool fermata_hook_is_on(fermata_hook which)
{
	return is_on[which];
}

void fermata_hook_set_on(fermata_hook which, bool on)
{
	is_on[which] = on;
}

void fermata_hooks_note_loop(void)
{
	loop_thread = pthread_self();
}

/* Returns true inside code that must not be interrupted by another handler. If a fiber waited while include reads a file, another
 * handler would include the file a second time. libxml and the extension soap store the state of a call in globals. */
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
		return UNEXPECTED(fermata_is_collecting()) && fermata_hook_is_loop() ? FERMATA_PLACE_CUT : FERMATA_PLACE_FREE;
	}
	if (UNEXPECTED(EG(exception))) {
		/* Destructors run while the exception unwinds the stack. They may still write to connections. */
		return slot(fermata_this_fiber())->is_cut ? FERMATA_PLACE_CUT : FERMATA_PLACE_BOUNDED;
	}
	/* While a destructor runs, PHP hides the pending exception. So check if a wait of the fiber has been ended. */
	if (UNEXPECTED(fermata_hold_obstacle())) {
		return fermata_fiber_is_ended(fermata_this_fiber()) ? FERMATA_PLACE_CUT : FERMATA_PLACE_BOUNDED;
	}
	slot(fermata_this_fiber())->is_cut = false;
	if (UNEXPECTED(is_inside_globals())) {
		return FERMATA_PLACE_FREE;
	}
	return EXPECTED(!fermata_is_in_callback()) ? FERMATA_PLACE_WAITS : FERMATA_PLACE_HOLDS;
}

bool fermata_hook_may_wait(void)
{
	return fermata_hook_where() == FERMATA_PLACE_WAITS;
}

bool fermata_hook_is_cut(void)
{
	return UNEXPECTED(fermata_hook_is_loop() && fermata.handling && EG(exception) && slot(fermata_this_fiber())->is_cut);
}

/* Waiting */

static fermata_wait_result note_result(fermata_wait_result result)
{
	slot(fermata_this_fiber())->is_cut = result == FERMATA_WAIT_FAILED;
	if (UNEXPECTED(result == FERMATA_WAIT_FAILED)) {
		fermata_touch(fermata_this_fiber(), part);
	}
	return result;
}

fermata_wait_result fermata_hook_wait(uint64_t due_ms)
{
	return note_result(fermata_wait(due_ms));
}

fermata_wait_result fermata_hook_wait_fds_only(struct pollfd *fds, nfds_t len, uint64_t due_ms)
{
	return note_result(fermata_wait_fds(fds, len, due_ms));
}

fermata_wait_result fermata_hook_wait_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms)
{
	fermata_wait_result result = fermata_hook_wait_fds_only(fds, len, due_ms);
	if (UNEXPECTED(result == FERMATA_WAIT_FAILED)) {
		fermata_conversation_end_all(fds, len);
	}
	return result;
}

fermata_wait_result fermata_hook_hold_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms)
{
	fermata_wait_result result = note_result(fermata_block(fds, len, due_ms));
	if (UNEXPECTED(result == FERMATA_WAIT_FAILED)) {
		fermata_conversation_end_all(fds, len);
	}
	return result;
}

fermata_wait_result fermata_hook_hold(uint64_t due_ms)
{
	return fermata_hook_hold_fds(NULL, 0, due_ms);
}

fermata_wait_result fermata_hook_wait_fd(int fd, short events, uint64_t due_ms, short *happened)
{
	struct pollfd one = {.fd = fd, .events = events};
	fermata_wait_result result = fermata_hook_wait_fds(&one, 1, due_ms);
	*happened = one.revents;
	return result;
}

/* Places where PHP cannot wait */

uint64_t fermata_hook_clock_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * MS_PER_S + (uint64_t)now.tv_nsec / NS_PER_MS;
}

static ZEND_COLD void log_held_too_long(void)
{
	char line[LINE_BYTES_MAX];
	int len = snprintf(line, sizeof(line), "%s:%u: a call that PHP cannot wait in was given up after %d ms for which it has held "
		"the worker, as after a time-out; end conversations before the object is released", zend_get_executed_filename(),
		zend_get_executed_lineno(), HELD_MS_MAX);
	fm_worker_log(fermata.worker, FERMATA_LOG_WARNING, (FmStr){line, MIN((size_t)len, sizeof(line) - 1)});
}

int fermata_hook_poll_bounded(struct pollfd *fds, nfds_t len, int timeout_ms)
{
	fermata_fiber *self = fermata_this_fiber();
	int left = slot(self)->held_ms < HELD_MS_MAX ? (int)(HELD_MS_MAX - slot(self)->held_ms) : 0;
	bool is_short = timeout_ms >= 0 && timeout_ms <= left;
	uint64_t begin = fermata_hook_clock_ms();
	int ready = poll(fds, len, is_short ? timeout_ms : left);
	int error = errno;
	slot(self)->held_ms += fermata_hook_clock_ms() - begin;
	fermata_touch(self, part);
	if (UNEXPECTED(ready == 0 && !is_short)) {
		slot(self)->held_ms = HELD_MS_MAX;
		if (left) {
			log_held_too_long();
		}
		fermata_conversation_end_all(fds, len);
	}
	errno = error;
	return ready;
}

static void on_clean_up(fermata_fiber *fiber)
{
	*slot(fiber) = (slot_of_waits){0};
}

static fermata_part part = {.size = sizeof(slot_of_waits), .on_clean_up = on_clean_up};

void fermata_waits_init(void)
{
	fermata_part_register(&part);
}
