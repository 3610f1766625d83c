/* Turns limit the number of handlers that run or wait at a time (handlers_max), for applications whose handlers must not overlap.
 *
 * A handler without a turn waits on its own fiber before it is called, as for a mutex. The loop continues with held clients, files
 * and tasks. Handlers receive turns in the order of arrival. */
#include "fibers/fibers.h"
#include "handler/parts.h"

static uint32_t turns_max, turns_taken;
static fermata_waiters line;

typedef struct turn {
	bool is_taken;
} turn;

static fermata_part part;
FERMATA_SLOT(turn, part)

/* Acquires a turn. Returns false with an exception pending: the client has disconnected, or the worker stops. */
static bool take(void)
{
	fermata_fiber *fiber = fermata_run.fiber;
	/* An error handler runs in the turn of the failed handler. */
	if (!turns_max || slot(fiber)->is_taken || fiber->future || fermata_fibers_is_unwinding()) {
		return true;
	}
	if (turns_taken < turns_max) {
		turns_taken++;
		slot(fiber)->is_taken = true;
		fermata_touch(fiber, part);
		return true;
	}
	fermata_waiter waiter = {.fiber = fiber};
	fermata_waiters_add(&line, &waiter);
	fermata_wait_result result = fermata_wait(FERMATA_NEVER);
	bool is_given = !waiter.list;
	if (!is_given) {
		fermata_waiters_remove(&waiter);
	}
	slot(fiber)->is_taken = is_given;
	fermata_touch(fiber, part);
	return result != FERMATA_WAIT_FAILED;
}

static void on_start(void)
{
	turns_max = fermata_fibers_settings()->handlers_max;
	fermata_run.take_turn = turns_max ? take : NULL;
	turns_taken = 0;
	line = (fermata_waiters){0};
}

bool fermata_turns_are_single(void)
{
	return turns_max == 1;
}

/* Called when the handler has finished: its turn passes to the first waiting handler. */
static void on_clean_up(fermata_fiber *fiber)
{
	fermata_waiter *next = line.first;
	if (EXPECTED(!slot(fiber)->is_taken)) {
		return;
	}
	slot(fiber)->is_taken = false;
	if (!next) {
		turns_taken--;
		return;
	}
	fermata_waiters_remove(next);
	fermata_wake(next->fiber);
}

static fermata_part part = {.size = sizeof(turn), .on_clean_up = on_clean_up, .on_start = on_start};

void fermata_turns_init(void)
{
	fermata_part_register(&part);
}
