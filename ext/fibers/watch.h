/* Watches descriptors of the application (sockets, pipes, processes) for a waiting fiber or a callback.
 *
 * Readiness is level-triggered, as with poll(), and may be spurious. A descriptor may have many watchers. The code that closes a
 * watched descriptor has to call fermata_watch_closing(), which ends the waits. Without that call, no watcher is notified. */
#ifndef FERMATA_WATCH_H
#define FERMATA_WATCH_H

#include "fibers/fibers.h"
#include <poll.h>

/* A one-shot watcher. The owner unwatches it before freeing it. */
typedef struct fermata_watcher {
	struct fermata_watcher *next, *previous; /* watchers of the same descriptor */
	int fd;                                  /* -1 = not watched */
	short events;                            /* POLLIN, POLLOUT, POLLPRI */
	/* Called by the loop between two handlers, after the watcher was removed. Receives the events, which may include POLLHUP, or
	 * POLLNVAL if the descriptor is being closed. May watch again; must not run PHP code. */
	void (*ready)(struct fermata_watcher *watcher, short happened);
} fermata_watcher;

/* Requires a running worker. Returns false if the descriptor cannot be watched: `*why` is POLLNVAL, or `events` for a file that
 * is always ready, such as a regular file. */
bool fermata_watch(fermata_watcher *watcher, int fd, short events, short *why);
/* Does nothing for a watcher that is not watched. */
void fermata_unwatch(fermata_watcher *watcher);
/* Returns the number of watchers of all descriptors. */
uint32_t fermata_watchers_len(void);
/* Must be called before a descriptor that may be watched is closed. */
void fermata_watch_closing(int fd);

/* Like poll(), but suspends only the fiber; requires fermata_can_wait(). Sets `revents`. WOKEN: a descriptor is ready. DUE: the
 * time is over. FAILED: an exception is pending. With DUE and FAILED, all `revents` are 0, except POLLNVAL for a closed
 * descriptor, whose number must not be used any more. WOKEN with all `revents` 0 means that poll() itself fails; call it to get
 * the error. */
fermata_wait_result fermata_wait_fd(int fd, short events, uint64_t due_ms, short *happened);
fermata_wait_result fermata_wait_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms);
/* Converts milliseconds from now into a due time; negative = never. */
uint64_t fermata_ms_to_due(int64_t ms);

/* worker/loop.c: handles the core's event. */
void fermata_watch_ready(const FmEvent *event);
void fermata_watches_init(void);

#endif
