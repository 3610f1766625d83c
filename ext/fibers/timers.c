/* Timers are in a heap, earliest first. The core wakes the loop only for the earliest timer, so a disarmed timer causes no
 * wake-up. */
#include "fibers/fibers.h"

#define TIMERS_CAPACITY_MIN 64

static struct {
	fermata_timer **at;
	uint32_t len, capacity;
} heap;

static zend_always_inline void place(uint32_t index, fermata_timer *timer)
{
	heap.at[index] = timer;
	timer->at = index + 1;
}

static void move_up(uint32_t index, fermata_timer *timer)
{
	while (index) {
		uint32_t parent = (index - 1) / 2;
		if (heap.at[parent]->due_ms <= timer->due_ms) {
			break;
		}
		place(index, heap.at[parent]);
		index = parent;
	}
	place(index, timer);
}

static void move_down(uint32_t index, fermata_timer *timer)
{
	for (;;) {
		uint32_t child = 2 * index + 1;
		if (child >= heap.len) {
			break;
		}
		if (child + 1 < heap.len && heap.at[child + 1]->due_ms < heap.at[child]->due_ms) {
			child++;
		}
		if (timer->due_ms <= heap.at[child]->due_ms) {
			break;
		}
		place(index, heap.at[child]);
		index = child;
	}
	place(index, timer);
}

/* Arms a timer that is not armed. The number of timers is bounded by the numbers of fibers, every() calls and streams. */
void fermata_timer_arm(fermata_timer *timer, uint64_t due_ms)
{
	if (UNEXPECTED(heap.len == heap.capacity)) {
		heap.capacity = heap.capacity ? heap.capacity * 2 : TIMERS_CAPACITY_MIN;
		heap.at = safe_perealloc(heap.at, heap.capacity, sizeof(fermata_timer *), 0, true);
	}
	timer->due_ms = due_ms;
	move_up(heap.len++, timer);
	/* Have the loop report the new wake-up time to the core. */
	fermata_run.waits = true;
}

void fermata_timer_disarm(fermata_timer *timer)
{
	uint32_t index = timer->at;
	if (!index--) {
		return;
	}
	timer->at = 0;
	fermata_timer *last = heap.at[--heap.len];
	if (last == timer) {
		return;
	}
	if (index && heap.at[(index - 1) / 2]->due_ms > last->due_ms) {
		move_up(index, last);
	} else {
		move_down(index, last);
	}
}

fermata_timer *fermata_timer_first(void)
{
	return heap.len ? heap.at[0] : NULL;
}

void fermata_timers_free(void)
{
	while (heap.len) {
		heap.at[--heap.len]->at = 0;
	}
	pefree(heap.at, true);
	memset(&heap, 0, sizeof(heap));
}

/* Converts seconds from now into a due time, which is never early and at most 1 ms late. With the clock of a test, which stands
 * still, the time is exact. Returns false with a MisuseError pending. */
bool fermata_seconds_to_due(double seconds, uint64_t *due_ms)
{
	if (UNEXPECTED(!(seconds >= 0))) {
		fermata_misuse("a time to wait must be 0 or more seconds, not %g", seconds);
		return false;
	}
	if (seconds > FERMATA_SECONDS_MAX) {
		*due_ms = FERMATA_NEVER;
	} else if (seconds == 0) {
		*due_ms = 0;
	} else {
		double ms = seconds * 1000;
		uint64_t whole = (uint64_t)ms;
		/* A running clock is already inside the current millisecond. */
		uint64_t rest = fermata_run.in_process ? whole < ms : 1;
		*due_ms = fm_worker_now_ms(fermata.worker) + whole + rest;
	}
	return true;
}
