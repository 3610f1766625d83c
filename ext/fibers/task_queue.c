/* The queue of tasks that have not started. */
#include "fibers/task_queue.h"
#include "base/optimize_size.h"

fermata_task_queue fermata_queued;

void fermata_task_queue_add(fermata_future *future)
{
	fermata_task_queue *queue = &fermata_queued;
	if (UNEXPECTED(future->is_urgent)) {
		future->next = queue->first;
		queue->first = future;
		queue->last = queue->last ? queue->last : future;
	} else {
		future->next = NULL;
		if (queue->last) {
			queue->last->next = future;
		} else {
			queue->first = future;
		}
		queue->last = future;
	}
	queue->len++;
	fermata_run.waits = true;
}

fermata_future *fermata_task_queue_take(void)
{
	fermata_future *future = fermata_queued.first;
	if (future) {
		fermata_queued.first = future->next;
		if (!fermata_queued.first) {
			fermata_queued.last = NULL;
		}
		fermata_queued.len--;
	}
	return future;
}
