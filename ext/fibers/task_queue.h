/* A task, and the queue of tasks that have not started. tasks.c adds tasks; scheduler.c decides when the first of them starts. */
#ifndef FERMATA_TASK_QUEUE_H
#define FERMATA_TASK_QUEUE_H

#include "fibers/fibers.h"

typedef enum fermata_future_state {
	FERMATA_FUTURE_QUEUED,
	FERMATA_FUTURE_RUNNING,
	FERMATA_FUTURE_DONE,
	FERMATA_FUTURE_FAILED,
} fermata_future_state;

struct fermata_future {
	fermata_future_state state;
	bool is_cancelled; /* true = waits of the task end with an exception */
	bool is_seen;      /* the result was requested, or certainly will be */
	bool is_detached;  /* no code can request the result */
	uint8_t kind;      /* FM_TASK_* */
	fermata_handler work;
	zval result;
	zend_object *exception;
	fermata_fiber *fiber; /* set while it runs */
	fermata_client *client; /* set until the task runs */
	zend_array *context_values; /* set until the task runs */
	uint64_t family;
	uint64_t share; /* key in `shares` (tasks.c); 0 = the task belongs to no request */
	fermata_waiters waiters;
	uint64_t turn;
	bool is_urgent; /* other fibers wait for its work */
	fermata_future *next; /* next in the queue, which holds a reference */
	zend_object std;
};

typedef struct fermata_task_queue {
	fermata_future *first, *last;
	uint32_t len;
	uint32_t deferred; /* number of tasks that are queued only after their handlers finish */
	uint32_t held;     /* number of tasks that are held back, because the share of their request is used up */
} fermata_task_queue;
extern fermata_task_queue fermata_queued;

/* Adds a task and takes ownership of the reference. An urgent task precedes all others. */
void fermata_task_queue_add(fermata_future *future);
/* Removes the first task and returns it with its reference; NULL = the queue is empty. */
fermata_future *fermata_task_queue_take(void);

#endif
