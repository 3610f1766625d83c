/* Fibers that wait for descriptors. The core watches each descriptor once, for the events of all its watchers. After reporting an
 * event, the core no longer watches the descriptor, and is armed again if watchers remain. */
#include "fibers/watch.h"
#include "handler/parts.h"
#include <errno.h>
#include "base/optimize_size.h"

#define DESCRIPTORS_CAPACITY_MIN 64
#define WATCHERS_INLINE_MAX 8

typedef struct descriptor {
	fermata_watcher *first;
	short armed; /* events armed in the core */
} descriptor;

static struct {
	descriptor *at; /* indexed by descriptor */
	uint32_t capacity, watchers_len;
} table;

static uint32_t interest_of(short events)
{
	return (events & POLLIN ? FM_WATCH_READ : 0) | (events & POLLOUT ? FM_WATCH_WRITE : 0)
		| (events & POLLPRI ? FM_WATCH_PRIORITY : 0);
}

static short happened_of(uint32_t interest)
{
	return (interest & FM_WATCH_READ ? POLLIN : 0) | (interest & FM_WATCH_WRITE ? POLLOUT : 0)
		| (interest & FM_WATCH_PRIORITY ? POLLPRI : 0) | (interest & FM_WATCH_HANGUP ? POLLHUP : 0);
}

static short wanted(const descriptor *it)
{
	short events = 0;
	for (const fermata_watcher *watcher = it->first; watcher; watcher = watcher->next) {
		events |= watcher->events;
	}
	return events;
}

static void reserve(uint32_t fd)
{
	if (EXPECTED(fd < table.capacity)) {
		return;
	}
	uint32_t capacity = table.capacity ? table.capacity : DESCRIPTORS_CAPACITY_MIN;
	while (capacity <= fd) {
		capacity *= 2;
	}
	table.at = safe_perealloc(table.at, capacity, sizeof(descriptor), 0, true);
	memset(table.at + table.capacity, 0, (capacity - table.capacity) * sizeof(descriptor));
	table.capacity = capacity;
}

static void unlink_watcher(fermata_watcher *watcher)
{
	if (watcher->previous) {
		watcher->previous->next = watcher->next;
	} else {
		table.at[watcher->fd].first = watcher->next;
	}
	if (watcher->next) {
		watcher->next->previous = watcher->previous;
	}
	watcher->fd = -1;
	table.watchers_len--;
}

/* Stops watching a descriptor, but not in a forked child, which shares the kernel's epoll set with its parent. */
static void forget(int fd)
{
	if (EXPECTED(!fermata.forked)) {
		fm_watch(fermata.worker, fd, 0, NULL);
	}
}

static void notify(int fd, short happened);

bool fermata_watch(fermata_watcher *watcher, int fd, short events, short *why)
{
	*why = POLLNVAL;
	watcher->fd = -1;
	if (UNEXPECTED(fd < 0)) {
		return false;
	}
	reserve(fd);
	fermata_fibers_note_descriptor(fd);
	descriptor *it = &table.at[fd];
	/* Arm the descriptor even if it is armed: its number may belong to another file now. */
	short all = wanted(it) | events;
	uint32_t code = fm_watch(fermata.worker, fd, interest_of(all), NULL);
	if (UNEXPECTED(code != FM_OK)) {
		it->armed = 0;
		if (code == FM_ALWAYS_READY) {
			*why = events;
		}
		if (it->first) {
			/* The core does not watch the descriptor for its other watchers either. */
			notify(fd, POLLNVAL);
		}
		return false;
	}
	it->armed = all;
	watcher->fd = fd;
	watcher->events = events;
	watcher->previous = NULL;
	watcher->next = it->first;
	if (it->first) {
		it->first->previous = watcher;
	}
	it->first = watcher;
	table.watchers_len++;
	return true;
}

void fermata_unwatch(fermata_watcher *watcher)
{
	int fd = watcher->fd;
	if (fd < 0) {
		return;
	}
	if (UNEXPECTED((uint32_t)fd >= table.capacity)) {
		/* The worker has stopped. */
		watcher->fd = -1;
		return;
	}
	unlink_watcher(watcher);
	/* If other watchers remain, the core may report one spurious event. */
	descriptor *it = &table.at[fd];
	if (!it->first && it->armed) {
		it->armed = 0;
		forget(fd);
	}
}

uint32_t fermata_watchers_len(void)
{
	return table.watchers_len;
}

static void notify(int fd, short happened)
{
	short failed = POLLERR | POLLHUP | POLLNVAL;
	fermata_watcher *watcher = table.at[fd].first, *notified = NULL;
	while (watcher) {
		fermata_watcher *next = watcher->next;
		if (happened & (watcher->events | failed)) {
			unlink_watcher(watcher);
			/* Remove all watchers first, so that one that watches again is not notified twice. */
			watcher->next = notified;
			notified = watcher;
		}
		watcher = next;
	}
	while (notified) {
		watcher = notified;
		notified = watcher->next;
		watcher->ready(watcher, happened);
	}
}

void fermata_watch_ready(const FmEvent *event)
{
	uint32_t fd = event->handler;
	if (UNEXPECTED(fd >= table.capacity)) {
		return;
	}
	table.at[fd].armed = 0;
	notify(fd, happened_of(event->code));
	descriptor *it = &table.at[fd];
	if (it->first && !it->armed) {
		short events = wanted(it);
		if (fm_watch(fermata.worker, fd, interest_of(events), NULL) == FM_OK) {
			it->armed = events;
		} else {
			notify(fd, POLLNVAL);
		}
	}
}

void fermata_watch_closing(int fd)
{
	if (fd < 0 || (uint32_t)fd >= table.capacity || !table.at[fd].first) {
		return;
	}
	table.at[fd].armed = 0;
	forget(fd);
	notify(fd, POLLNVAL);
}

static void watches_free(void)
{
	if (table.at) {
		pefree(table.at, true);
	}
	memset(&table, 0, sizeof(table));
}

static fermata_part part = {.on_retire = watches_free, .on_stop = watches_free};

void fermata_watches_init(void)
{
	fermata_part_register(&part);
}

/* Waiting fibers */

typedef struct waiting {
	fermata_watcher watcher;
	fermata_fiber *fiber;
	bool is_closed;
} waiting;

static void wake(fermata_watcher *watcher, short happened)
{
	waiting *self = (waiting *)watcher;
	self->is_closed = happened & POLLNVAL;
	fermata_wake(self->fiber);
}

uint64_t fermata_ms_to_due(int64_t ms)
{
	if (ms < 0) {
		return FERMATA_NEVER;
	}
	/* A running clock is already inside the current millisecond; the clock of a test stands still. */
	return fm_worker_now_ms(fermata.worker) + (uint64_t)ms + (fermata_run.in_process && ms > 0 ? 0 : 1);
}

/* Returns true if an event will wake the fiber, false if the fiber need not wait. */
static bool watch_all(waiting *all, struct pollfd *fds, nfds_t len)
{
	bool is_ready = false;
	for (nfds_t i = 0; i < len; i++) {
		short why;
		all[i].fiber = fermata_run.fiber;
		all[i].watcher.ready = wake;
		all[i].watcher.fd = -1;
		all[i].is_closed = false;
		fds[i].revents = 0;
		if (fds[i].fd >= 0 && !fermata_watch(&all[i].watcher, fds[i].fd, fds[i].events, &why)) {
			fds[i].revents = why;
			is_ready |= why != 0;
		}
	}
	return !is_ready;
}

fermata_wait_result fermata_wait_fds(struct pollfd *fds, nfds_t len, uint64_t due_ms)
{
	waiting few[WATCHERS_INLINE_MAX];
	waiting *all = len <= WATCHERS_INLINE_MAX ? few : safe_emalloc(len, sizeof(waiting), 0);
	fermata_wait_result result = FERMATA_WAIT_WOKEN;
	for (;;) {
		int ready = poll(fds, len, 0);
		if (ready > 0) {
			break;
		}
		if (UNEXPECTED(ready < 0)) {
			for (nfds_t i = 0; i < len; i++) {
				fds[i].revents = 0;
			}
			if (errno != EINTR) {
				break;
			}
			/* A received signal interrupts the call even if its timeout is 0. */
		}
		if (!watch_all(all, fds, len)) {
			for (nfds_t i = 0; i < len; i++) {
				fermata_unwatch(&all[i].watcher);
			}
			/* poll() accepted the descriptor, but epoll rejected it: the descriptor was replaced, or the kernel is out of
			 * memory. */
			break;
		}
		result = fermata_wait(due_ms);
		bool is_closed = false;
		for (nfds_t i = 0; i < len; i++) {
			fermata_unwatch(&all[i].watcher);
			is_closed |= all[i].is_closed;
		}
		if (result != FERMATA_WAIT_WOKEN || is_closed) {
			/* The number of a closed descriptor may already belong to another file. */
			for (nfds_t i = 0; i < len; i++) {
				fds[i].revents = all[i].is_closed ? POLLNVAL : 0;
			}
			break;
		}
	}
	if (all != few) {
		efree(all);
	}
	return result;
}

fermata_wait_result fermata_wait_fd(int fd, short events, uint64_t due_ms, short *happened)
{
	struct pollfd one = {.fd = fd, .events = events};
	fermata_wait_result result = fermata_wait_fds(&one, 1, due_ms);
	*happened = one.revents;
	return result;
}
