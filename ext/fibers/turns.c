/* Turns: at most so many handlers under way (handlers_max), for programs whose handlers must not meet.
 *
 * A handler that has no turn waits on a fiber of its own before it is called, as it would wait for a mutex: meanwhile the loop
 * goes on with holds, files and tasks. Turns are given in the order of arrival. */
#include "fibers/fibers.h"

static uint32_t turns_max, turns_taken;
static fermata_waiters line;

void fermata_turns_start(uint32_t handlers_max)
{
	turns_max = handlers_max;
	fermata_run.takes_turns = handlers_max > 0;
	turns_taken = 0;
	line = (fermata_waiters){0};
}

bool fermata_turns_are_single(void)
{
	return turns_max == 1;
}

/* False after an exception: the client has left meanwhile, or the worker stops. */
bool fermata_turn_take(void)
{
	fermata_fiber *fiber = fermata_run.fiber;
	/* An error handler has the turn of the handler that has failed. */
	if (!turns_max || fiber->has_turn || fiber->future || fermata_fibers_is_unwinding()) {
		return true;
	}
	if (turns_taken < turns_max) {
		turns_taken++;
		fiber->has_turn = fiber->touched = true;
		return true;
	}
	fermata_waiter waiter = {.fiber = fiber};
	fermata_waiters_add(&line, &waiter);
	fermata_wait_result result = fermata_wait(FERMATA_NEVER);
	bool is_given = !waiter.list;
	if (!is_given) {
		fermata_waiters_remove(&waiter);
	}
	fiber->has_turn = is_given;
	fiber->touched = true;
	return result != FERMATA_WAIT_FAILED;
}

/* The handler has ended: the first in the line is next. */
void fermata_turn_end(fermata_fiber *fiber)
{
	fermata_waiter *next = line.first;
	fiber->has_turn = false;
	if (!next) {
		turns_taken--;
		return;
	}
	fermata_waiters_remove(next);
	fermata_wake(next->fiber);
}
