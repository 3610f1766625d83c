/* Descriptors of the program: sockets, pipes and processes that fibers wait for, or that somebody is called for.
 *
 * Readiness is told as poll() tells it: by level, and spuriously now and then. One descriptor may be watched by many at the
 * same time. It may be closed at any time; fermata_watch_closing() then ends the waits, and without it nothing is told. */
#ifndef FERMATA_WATCH_H
#define FERMATA_WATCH_H

#include "fibers/fibers.h"
#include <poll.h>

/* One who is told once. Lies in memory of its owner, who unwatches it before that memory goes. */
typedef struct fermata_watcher {
	struct fermata_watcher *next, *previous; /* those of the same descriptor */
	int fd;                                  /* -1 = not watched */
	short events;                            /* POLLIN, POLLOUT, POLLPRI */
	/* Called by the loop between two handlers, when it is not watched any more: with what has happened, among it POLLHUP
	 * unasked for, or with POLLNVAL when the descriptor is being closed. It may watch again, and must not run PHP code. */
	void (*ready)(struct fermata_watcher *watcher, short happened);
} fermata_watcher;

/* Needs a running worker, and no fiber that may wait. False when the descriptor cannot be watched: `*why` is POLLNVAL, or
 * `events` for a file that is always ready, such as a regular one. */
bool fermata_watch(fermata_watcher *watcher, int fd, short events, short *why);
/* Of one that is not watched: nothing. */
void fermata_unwatch(fermata_watcher *watcher);
/* How many are watched, of all descriptors. */
uint32_t fermata_watchers_len(void);
/* To be called before a descriptor is closed while it may be watched. */
void fermata_watch_closing(int fd);

/* As poll() of one or many, and the fiber waits instead of the process: needs fermata_can_wait(). Fills `revents`. WOKEN:
 * something is ready, DUE: the time is over, FAILED: an exception is pending. `revents` are 0 after the latter two, except
 * for POLLNVAL: the descriptor was closed, and its number must not be used any more. WOKEN with `revents` of 0: poll() itself
 * fails, and says why when it is asked. */
fermata_wait_result fermata_wait_fd(int fd, short events, uint64_t due_ms, short *happened);
fermata_wait_result fermata_wait_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms);
/* When so many milliseconds from now are over; less than 0 = never. */
uint64_t fermata_ms_to_due(int64_t ms);

/* core/runner.c: the core's event. */
void fermata_watch_ready(const FmEvent *event);
/* fibers.c: the worker ends. */
void fermata_watches_free(void);

#endif
