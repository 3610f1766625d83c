/* Ownership of connections that the application opened: blocking streams and Sockets with one peer, shared by handlers.
 *
 * Only the library that opened a connection knows its protocol: sending a mail takes ten commands, a Redis transaction any number.
 * So the handler or task that uses a connection first owns it until it finishes. All tasks of that handler share the ownership.
 * Other handlers queue, for at most `shared_wait_timeout_ms`. Within one handler, only calls of the same side exclude each other:
 * one fiber may read while another writes. No request is sent while another task waits for a reply.
 *
 * For Redis and SMTP, the text of the commands shows where an exchange ends, as for the objects of guards.c. There, the next owner
 * continues as soon as the current one waits elsewhere and has read all its replies. Redis replies are counted. A connection left
 * inside a transaction or a mail is shut down, since the next commands would join it.
 *
 * Connections passed to Runtime::keepOnCancel() have no owner: their messages identify the recipient. Non-blocking streams have
 * none either, since their library dispatches messages itself. An exception is a library that waits for one such stream only, as
 * php-amqplib does in stream_select(). Its wait counts as a blocking call: another reader would consume the data that it waits
 * for. So no request is sent before the previous reply was read. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include "zend_exceptions.h"
#include <fcntl.h>
#include "base/optimize_size.h"

#define CAPACITY_MIN 64
#define PLACE_BYTES_MAX 512
#define UNREAD "a reply that nobody has read"

/* A fiber that has used a connection. */
typedef struct fermata_claim {
	struct fermata_claim *next;          /* next claim of the same connection, latest first; all claims belong to one family */
	struct fermata_claim *next_of_fiber;
	fermata_fiber *fiber;
	int fd;
	uint64_t begun_at;            /* fermata_clock() at the first use */
} fermata_claim;

typedef enum protocol {
	PROTOCOL_NEW, /* nothing written yet */
	PROTOCOL_OTHER,
	PROTOCOL_REDIS,
	PROTOCOL_SMTP,
} protocol;

typedef enum sharing {
	SHARING_OWNED,
	SHARING_IN_PLACE, /* no owner; a library waits for this stream only, and reads each reply right after its request */
	SHARING_KEPT,
} sharing;

/* Unfinished operations of the connection. */
#define OPEN_MULTI 1
#define OPEN_WATCH 2
#define OPEN_SUBSCRIPTION 4 /* or MONITOR: lasts until the connection is closed */
#define OPEN_MAIL 8         /* a mail, and the commands before the first mail: EHLO, STARTTLS, AUTH */
#define OPEN_TEXT 16        /* between DATA and the line with the final dot */

/* Parser state of a Redis reply, which may be split at any byte. */
typedef struct redis_reply {
	uint64_t elements;   /* missing elements; 0 = no reply has started */
	uint64_t bytes_left; /* missing bytes of a string, with its CRLF */
	uint64_t number;     /* number in the current line */
	char kind;           /* first byte of the current line; 0 = between two lines */
	bool is_negative;
	bool is_push;        /* a push message: no reply to a command */
} redis_reply;

typedef struct ownership {
	uint64_t conversation;  /* conversation number; 0 = unknown */
	bool has_peer;          /* false for listeners and datagram sockets without a peer, which have no owner */
	bool is_in_place;       /* non-blocking, and a library waits for this stream only (SHARING_IN_PLACE) */
	bool is_late;           /* a wait for a reply timed out */
	bool is_cut_short;      /* an exception ended a wait of an owner after that owner had used the connection */
	bool is_flipped;        /* two fibers are inside a TLS stream, whose socket is non-blocking until both have left */
	protocol protocol;
	uint8_t open;
	/* for a Redis command that is only partly written */
	uint32_t arguments_left;
	bool is_name;
	uint64_t bytes_left;
	uint64_t unanswered;    /* Redis commands without a complete reply */
	redis_reply reply;      /* reply being read */
	bool has_replied;       /* the peer has sent data at least once */
	bool is_unanswered;     /* a previous owner has written data and read no reply since */
	bool has_reply;         /* the missing reply will arrive or has arrived */
	uint64_t left_by;       /* family of the previous owner, whose other tasks may read the reply; 0 = none left */
	fermata_claim *claims;
	const fermata_fiber *inside[2]; /* by side: fiber inside a call */
	const fermata_fiber *selects[2]; /* by side: fiber in stream_select() for this connection only */
	const fermata_fiber *requester; /* fiber that has written, if no fiber has read since */
	const fermata_fiber *writer;    /* last writer; compared, never dereferenced */
} ownership;

/* A fiber that waits for a connection. Stored on the fiber's C stack. */
typedef struct turn {
	fermata_waiter waiter; /* first member: the list links waiters */
	int fd;
	fermata_side side;
	sharing how;
} turn;

static struct {
	ownership *at; /* indexed by descriptor */
	uint32_t capacity;
	fermata_waiters turns; /* one list for all descriptors; usually empty */
} owners;

/* Fibers */

typedef struct claims {
	fermata_claim *claims; /* connections that the handler or task has used */
} claims;

static fermata_part part;
FERMATA_SLOT(claims, part)

static bool is_family(const fermata_fiber *one, const fermata_fiber *other)
{
	return one == other || (one->family && one->family == other->family);
}

static turn *first_in_queue(int fd)
{
	fermata_waiter *one = owners.turns.first;
	while (one && ((turn *)one)->fd != fd) {
		one = one->next;
	}
	return (turn *)one;
}

static bool queues(const fermata_fiber *fiber, int fd)
{
	for (const fermata_waiter *one = owners.turns.first; one; one = one->next) {
		if (one->fiber == fiber && ((const turn *)one)->fd == fd) {
			return true;
		}
	}
	return false;
}

/* Returns true if a fiber of another family is queued ahead of `before` (NULL = anywhere). */
static bool others_wait(const fermata_fiber *self, int fd, const turn *before)
{
	for (const fermata_waiter *one = owners.turns.first; one && one != (const fermata_waiter *)before; one = one->next) {
		if (((const turn *)one)->fd == fd && !is_family(one->fiber, self)) {
			return true;
		}
	}
	return false;
}

/* Returns true if another fiber that queues to write is ahead of `mine`. */
static bool is_behind(const fermata_fiber *self, int fd, const turn *mine)
{
	for (const fermata_waiter *one = owners.turns.first; one && one != (const fermata_waiter *)mine; one = one->next) {
		const turn *other = (const turn *)one;
		if (other->fd == fd && other->side == FERMATA_SIDE_WRITE && one->fiber != self) {
			return true;
		}
	}
	return false;
}

/* The table */

/* Returns NULL for a descriptor that cannot have an owner: a file, a listener, a datagram socket. */
static ownership *find(int fd)
{
	uint64_t conversation = fermata_conversation_number(fd);
	if (UNEXPECTED(!conversation)) {
		return NULL;
	}
	if (UNEXPECTED((uint32_t)fd >= owners.capacity)) {
		uint32_t capacity = owners.capacity ? owners.capacity : CAPACITY_MIN;
		while (capacity <= (uint32_t)fd) {
			capacity *= 2;
		}
		owners.at = safe_perealloc(owners.at, capacity, sizeof(ownership), 0, true);
		memset(owners.at + owners.capacity, 0, (capacity - owners.capacity) * sizeof(ownership));
		owners.capacity = capacity;
	}
	ownership *it = &owners.at[fd];
	if (UNEXPECTED(it->conversation != conversation)) {
		fermata_owner_closed(fd);
		it->conversation = conversation;
		it->has_peer = fermata_conversation_has_one_peer(fd);
	}
	return it->has_peer ? it : NULL;
}

static ownership *known(int fd)
{
	return fd >= 0 && (uint32_t)fd < owners.capacity && owners.at[fd].conversation ? &owners.at[fd] : NULL;
}

/* Claims */

static void claim(ownership *it, int fd, fermata_fiber *fiber)
{
	for (const fermata_claim *one = it->claims; one; one = one->next) {
		if (EXPECTED(one->fiber == fiber)) {
			return;
		}
	}
	fermata_claim *mine = pemalloc(sizeof(fermata_claim), true);
	*mine = (fermata_claim){it->claims, slot(fiber)->claims, fiber, fd, fermata_clock()};
	it->claims = mine;
	slot(fiber)->claims = mine;
	fermata_touch(fiber, part);
}

static void forget_claim(fermata_claim *gone)
{
	for (fermata_claim **at = &slot(gone->fiber)->claims; *at; at = &(*at)->next_of_fiber) {
		if (*at == gone) {
			*at = gone->next_of_fiber;
			break;
		}
	}
	pefree(gone, true);
}

static void drop_claims(ownership *it)
{
	while (it->claims) {
		fermata_claim *gone = it->claims;
		it->claims = gone->next;
		forget_claim(gone);
	}
}

/* Returns the name of an unfinished operation that the next owner's commands would join; NULL if there is none. */
static const char *what_is_open(const ownership *it)
{
	return it->open & OPEN_MULTI ? "a transaction (MULTI)" : it->open & OPEN_WATCH ? "a WATCH" : it->open & OPEN_SUBSCRIPTION
		? "a subscription" : it->open & OPEN_MAIL ? "a mail" : it->is_late ? "a reply that was waited for in vain" : NULL;
}

/* Returns true if every request has been answered and every reply read. */
static bool is_answered(const ownership *it, int fd)
{
	return !it->unanswered && !it->reply.elements && fermata_conversation_is_at_rest(fd);
}

/* Called when the last fiber of the owning family has finished or released the connection. */
static void become_free(ownership *it, int fd, const fermata_fiber *by, bool has_failed)
{
	const char *open = what_is_open(it);
	if (!open && UNEXPECTED(it->protocol != PROTOCOL_NEW && !is_answered(it, fd))) {
		/* A peer that has never sent data may be a log server, which does not reply. */
		it->has_reply = it->protocol != PROTOCOL_OTHER || it->has_replied || fermata_conversation_is_unread(fd);
		it->is_unanswered = true;
		it->left_by = by->family;
		if (it->has_reply && !by->future) {
			open = UNREAD;
		}
	}
	if (!open && UNEXPECTED((has_failed && it->protocol == PROTOCOL_OTHER) || (it->is_cut_short && it->protocol <= PROTOCOL_OTHER))) {
		open = "what may be a conversation";
	}
	if (UNEXPECTED(open)) {
		fermata_conversation_end_left(fd, open);
	}
	it->open = 0;
	it->unanswered = 0;
	it->reply = (redis_reply){0};
	it->is_late = it->is_cut_short = false;
	it->requester = NULL;
	it->protocol = PROTOCOL_NEW;
	it->arguments_left = 0;
	it->bytes_left = 0;
}

/* Returns true if the next owner may continue before the current one has finished. */
static bool is_at_rest(const ownership *it, int fd)
{
	return it->protocol > PROTOCOL_OTHER && !it->open && !it->bytes_left && !it->arguments_left && !it->inside[FERMATA_SIDE_READ]
		&& !it->inside[FERMATA_SIDE_WRITE] && is_answered(it, fd);
}

/* The queue */

/* Returns true if a call has to wait for a call of another task of the same handler, or of any other fiber if there is no
 * owner. */
static bool is_inside(const ownership *it, int fd, const fermata_fiber *self, fermata_side side, sharing how)
{
	if ((it->inside[side] && it->inside[side] != self) || (it->selects[side] && it->selects[side] != self)) {
		return true;
	}
	/* A part of the reply for the writer may have arrived. */
	if (side == FERMATA_SIDE_WRITE && how == SHARING_IN_PLACE && it->writer && it->writer != self
			&& it->selects[FERMATA_SIDE_READ] == it->writer) {
		return true;
	}
	/* The fiber that waits for a reply has to read it first. */
	return side == FERMATA_SIDE_WRITE && how != SHARING_KEPT && it->requester && it->requester != self
		&& (it->inside[FERMATA_SIDE_READ] == it->requester || it->inside[FERMATA_SIDE_WRITE] == it->requester
			|| it->selects[FERMATA_SIDE_READ] == it->requester || it->selects[FERMATA_SIDE_WRITE] == it->requester || queues(it->requester, fd));
}

/* Returns true if the call may start. `mine` is the fiber's place in the queue; NULL if it is not queued. */
static bool may_go_on(ownership *it, int fd, const fermata_fiber *self, fermata_side side, sharing how, const turn *mine)
{
	if (is_inside(it, fd, self, side, how)) {
		return false;
	}
	if (how == SHARING_KEPT) {
		return true;
	}
	if (how == SHARING_IN_PLACE) {
		/* A fiber may write its request in parts, and no other request may come between them. */
		return side == FERMATA_SIDE_READ || it->requester == self || EXPECTED(!owners.turns.first) || !is_behind(self, fd, mine);
	}
	if (it->claims && is_family(it->claims->fiber, self)) {
		/* The fiber may continue its own exchange. To start a new exchange, it waits behind the queued fibers. */
		return mine || side == FERMATA_SIDE_READ || EXPECTED(!owners.turns.first) || !others_wait(self, fd, NULL)
			|| !is_at_rest(it, fd);
	}
	if (it->claims && !is_at_rest(it, fd)) {
		return false;
	}
	return EXPECTED(!owners.turns.first) || !others_wait(self, fd, mine);
}

/* Wakes the waiters that may now proceed. */
static void wake(ownership *it, int fd)
{
	const fermata_fiber *first = NULL;
	for (fermata_waiter *one = owners.turns.first; one; one = one->next) {
		const turn *next = (turn *)one;
		if (next->fd == fd && (!first || is_family(first, one->fiber))
				&& may_go_on(it, fd, one->fiber, next->side, next->how, next)) {
			first = next->how == SHARING_OWNED ? one->fiber : NULL;
			fermata_wake(one->fiber);
		}
	}
}

static ZEND_COLD void throw_late(const ownership *it)
{
	char place[PLACE_BYTES_MAX] = "another place";
	const fermata_fiber *holder = it->claims ? it->claims->fiber : it->selects[FERMATA_SIDE_READ];
	if (holder && holder->is_listed) {
		fermata_fiber_place(holder, place, sizeof(place));
	}
	zend_throw_exception_ex(fermata_ce_timeout, 0, "after " ZEND_ULONG_FMT " ms (shared_wait_timeout_ms) another handler or task "
		"still uses this connection, in %s; give handlers connections of a Fermata\\Pool",
		(zend_ulong)fermata_fibers_shared_wait_ms(), place);
}

/* Queues until the call may start. Returns false after an exception, or if the connection was closed. */
static ZEND_COLD bool wait_for_turn(int fd, fermata_side side, sharing how)
{
	fermata_fiber *self = fermata_this_fiber();
	uint64_t due_ms = fermata_ms_to_due((int64_t)fermata_fibers_shared_wait_ms());
	turn mine = {.waiter = {.fiber = self}, .fd = fd, .side = side, .how = how};
	ownership *it = &owners.at[fd];
	if (UNEXPECTED(!fermata_hook_may_wait())) {
		fermata_refuse_shared("stream or socket");
		return false;
	}
	const fermata_fiber *holder = fermata_owner_waited_for(fd, self);
	if (UNEXPECTED(holder && !fermata_check_deadlock(holder))) {
		return false;
	}
	if (it->claims && is_family(it->claims->fiber, self) && !is_inside(it, fd, self, side, how)) {
		/* The owner gives up the connection to the fibers that are queued for it. */
		drop_claims(it);
		wake(it, fd);
	}
	fermata_waiters_add(&owners.turns, &mine.waiter);
	fermata_note_awaited(self, fermata_key_of_fd(fd));
	fermata_wait_result waited = FERMATA_WAIT_WOKEN;
	bool is_mine = false;
	while (mine.waiter.list && !(is_mine = may_go_on(&owners.at[fd], fd, self, side, how, &mine))) {
		waited = fermata_hook_wait(due_ms);
		if (UNEXPECTED(waited != FERMATA_WAIT_WOKEN)) {
			break;
		}
	}
	fermata_note_awaited(self, 0);
	bool is_closed = !mine.waiter.list;
	fermata_waiters_remove(&mine.waiter);
	it = &owners.at[fd];
	if (UNEXPECTED(!is_mine && !is_closed)) {
		if (waited == FERMATA_WAIT_DUE) {
			throw_late(it);
		}
		/* The fiber may have been woken to continue, but cannot. Wake the next one instead. */
		wake(it, fd);
	}
	return is_mine;
}

/* Handles a reply that the previous owner has not read. A task of that owner may read the reply. For any other fiber, the
 * connection is shut down, unless the fiber writes to a peer that does not reply. */
static ZEND_COLD void take_over(ownership *it, int fd, const fermata_fiber *self, fermata_side side)
{
	if (it->left_by && it->left_by == self->family) {
		it->is_unanswered = false;
	} else if (it->has_reply || side == FERMATA_SIDE_READ) {
		it->is_unanswered = false;
		fermata_conversation_end_left(fd, UNREAD);
	}
}

/* Entry points of hooked calls */

static bool is_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	return flags >= 0 && !(flags & O_NONBLOCK);
}

static sharing sharing_of(const ownership *it, int fd)
{
	return UNEXPECTED(fermata_conversation_is_kept(fd)) ? SHARING_KEPT
		: UNEXPECTED(it->is_in_place && !it->claims && !is_blocking(fd)) ? SHARING_IN_PLACE : SHARING_OWNED;
}

void fermata_owner_note_wait(int fd)
{
	ownership *it = find(fd);
	if (it && !it->is_in_place && !it->claims) {
		it->is_in_place = !is_blocking(fd);
	}
}

bool fermata_owner_begin_wait(int fd, fermata_side side)
{
	ownership *it = known(fd);
	const fermata_fiber *self = fermata_this_fiber();
	/* A wait does not make the fiber the owner; several fibers may wait at the same time. */
	if (!it || it->inside[side] || it->selects[side] || fermata_conversation_is_kept(fd) || (it->claims ? !is_family(it->claims->fiber, self) : !it->is_in_place)) {
		return false;
	}
	it->selects[side] = self;
	return true;
}

void fermata_owner_end_wait(int fd, fermata_side side)
{
	ownership *it = known(fd);
	/* The connection may have been closed during the wait. */
	if (EXPECTED(it && it->selects[side] == fermata_this_fiber())) {
		it->selects[side] = NULL;
		if (UNEXPECTED(owners.turns.first)) {
			wake(it, fd);
		}
	}
}

bool fermata_owner_enter(int fd, fermata_side side, bool *entered)
{
	fermata_fiber *self = fermata_this_fiber();
	*entered = false;
	if (UNEXPECTED(!fermata.handling || fermata.forked || fd < 0)) {
		return true;
	}
	ownership *it = find(fd);
	/* The socket of a TLS stream is non-blocking while a fiber is inside a call. */
	if (!it || it->inside[side] == self || (!it->claims && !it->inside[!side] && !it->is_in_place && !is_blocking(fd))) {
		return true;
	}
	sharing how = sharing_of(it, fd);
	if (UNEXPECTED(!may_go_on(it, fd, self, side, how, NULL))) {
		if (UNEXPECTED(fermata_conversation_is_gone(fd))) {
			/* The socket was closed by a call that is not hooked. */
			fermata_owner_closed(fd);
			return fermata_owner_enter(fd, side, entered);
		}
		if (!wait_for_turn(fd, side, how)) {
			return false;
		}
		it = &owners.at[fd];
	}
	if (EXPECTED(how == SHARING_OWNED)) {
		if (UNEXPECTED(it->is_unanswered)) {
			take_over(it, fd, self, side);
		}
		if (UNEXPECTED(it->claims && !is_family(it->claims->fiber, self))) {
			drop_claims(it);
		}
		claim(it, fd, self);
	}
	it->inside[side] = self;
	*entered = true;
	return true;
}

void fermata_owner_leave(int fd, fermata_side side, bool is_done, bool is_timed_out)
{
	ownership *it = known(fd);
	/* The connection may have been closed during the call. */
	if (UNEXPECTED(!it || it->inside[side] != fermata_this_fiber())) {
		return;
	}
	it->inside[side] = NULL;
	if (EXPECTED(is_done)) {
		it->requester = side == FERMATA_SIDE_WRITE ? fermata_this_fiber() : NULL;
		it->writer = side == FERMATA_SIDE_WRITE ? fermata_this_fiber() : it->writer;
		it->has_replied |= side == FERMATA_SIDE_READ;
		/* A late reply cannot be matched to its request, except with Redis, whose replies are counted. */
		it->is_late &= it->protocol != PROTOCOL_REDIS;
	} else if (UNEXPECTED(is_timed_out && side == FERMATA_SIDE_READ && it->requester)) {
		it->is_late = true;
	}
	if (UNEXPECTED(owners.turns.first)) {
		wake(it, fd);
	}
}

void fermata_owner_left(int fd, fermata_side side, const fermata_fiber *fiber)
{
	ownership *it = known(fd);
	if (it && it->inside[side] == fiber) {
		it->inside[side] = NULL;
		wake(it, fd);
	}
}

bool fermata_owner_is_other_inside(int fd, fermata_side side)
{
	const ownership *it = known(fd);
	return it && it->inside[!side] && it->inside[!side] != fermata_this_fiber();
}

bool *fermata_owner_flipped(int fd)
{
	static bool nowhere;
	ownership *it = known(fd);
	return it ? &it->is_flipped : &nowhere;
}

/* Protocol parsers */

static bool is_word(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

static void note_redis(ownership *it, const char *name, size_t len)
{
	if (is_word(name, len, "MULTI")) {
		it->open |= OPEN_MULTI;
	} else if (is_word(name, len, "WATCH")) {
		it->open |= OPEN_WATCH;
	} else if (is_word(name, len, "EXEC") || is_word(name, len, "DISCARD")) {
		it->open &= ~(OPEN_MULTI | OPEN_WATCH);
	} else if (is_word(name, len, "UNWATCH")) {
		it->open &= ~OPEN_WATCH;
	} else if (is_word(name, len, "SUBSCRIBE") || is_word(name, len, "PSUBSCRIBE") || is_word(name, len, "SSUBSCRIBE")
			|| is_word(name, len, "MONITOR")) {
		it->open |= OPEN_SUBSCRIPTION;
	}
}

/* Parses the commands that are written. A command is an array of strings with their lengths, so a partly written command can be
 * continued. */
static void read_redis(ownership *it, const char *at, size_t len)
{
	const char *end = at + len;
	while (at < end) {
		if (it->bytes_left) {
			uint64_t piece = MIN(it->bytes_left, (uint64_t)(end - at));
			at += piece;
			it->bytes_left -= piece;
			continue;
		}
		const char *line = memchr(at, '\n', (size_t)(end - at));
		if (UNEXPECTED(!line || *at != (it->arguments_left ? '$' : '*'))) {
			it->protocol = PROTOCOL_OTHER;
			return;
		}
		uint64_t number = 0;
		for (const char *digit = at + 1; digit < line && *digit >= '0' && *digit <= '9' && number < UINT32_MAX; digit++) {
			number = number * 10 + (uint64_t)(*digit - '0');
		}
		bool is_list = *at == '*';
		at = line + 1;
		if (is_list) {
			it->arguments_left = (uint32_t)number;
			it->is_name = true;
			it->unanswered++;
			continue;
		}
		if (it->is_name) {
			if (UNEXPECTED((uint64_t)(end - at) < number)) {
				it->protocol = PROTOCOL_OTHER;
				return;
			}
			note_redis(it, at, (size_t)number);
			it->is_name = false;
		}
		it->arguments_left--;
		it->bytes_left = number + strlen("\r\n");
	}
}

static bool ends_with(const char *text, size_t len, const char *end)
{
	size_t end_len = strlen(end);
	return len >= end_len && strncasecmp(text + len - end_len, end, end_len) == 0;
}

static bool begins_with(const char *text, size_t len, const char *beginning)
{
	return len >= strlen(beginning) && strncasecmp(text, beginning, strlen(beginning)) == 0;
}

/* Parses the commands that are written. Libraries write complete lines. The line with the final dot ends a mail. */
static void read_smtp(ownership *it, const char *text, size_t len)
{
	if (it->open & OPEN_TEXT) {
		if (ends_with(text, len, "\r\n.\r\n") || is_word(text, len, ".\r\n")) {
			it->open = 0;
		}
	} else if (ends_with(text, len, "DATA\r\n")) {
		it->open = OPEN_MAIL | OPEN_TEXT;
	} else if (begins_with(text, len, "RSET")) {
		it->open = 0;
	} else if (!begins_with(text, len, "NOOP") && !begins_with(text, len, "QUIT")) {
		it->open |= OPEN_MAIL;
	}
}

void fermata_owner_wrote(int fd, const char *text, size_t len)
{
	ownership *it = known(fd);
	if (UNEXPECTED(!it || !it->claims || !len)) {
		return;
	}
	if (UNEXPECTED(it->protocol == PROTOCOL_NEW)) {
		it->protocol = len > 1 && *text == '*' && text[1] >= '0' && text[1] <= '9' ? PROTOCOL_REDIS
			: begins_with(text, len, "EHLO ") || begins_with(text, len, "HELO ") || begins_with(text, len, "LHLO ")
				|| begins_with(text, len, "MAIL FROM:") ? PROTOCOL_SMTP : PROTOCOL_OTHER;
	}
	switch (it->protocol) {
		case PROTOCOL_REDIS: read_redis(it, text, len); break;
		case PROTOCOL_SMTP: read_smtp(it, text, len); break;
		case PROTOCOL_NEW:
		case PROTOCOL_OTHER: break;
	}
}

/* Handles the end of a reply line. Returns false if the line is not valid Redis protocol. */
static bool end_reply_line(redis_reply *it)
{
	uint64_t number = it->is_negative ? 0 : it->number;
	switch (it->kind) {
		case '+': case '-': case ':': case '_': case '#': case ',': case '(':
			break;
		case '$': case '!': case '=':
			it->bytes_left = it->is_negative ? 0 : number + strlen("\r\n");
			break;
		case '*': case '~': case '>':
			it->elements += number;
			break;
		case '%':
			it->elements += 2 * number;
			break;
		case '|':
			/* Attributes precede the value to which they belong. */
			it->elements += 2 * number + 1;
			break;
		default:
			return false;
	}
	it->elements--;
	it->kind = 0;
	return true;
}

/* Parses replies of Redis (RESP2 and RESP3), and counts the complete ones. */
static void read_replies(ownership *it, const char *at, size_t len)
{
	redis_reply *reply = &it->reply;
	for (const char *end = at + len; at < end;) {
		if (reply->bytes_left) {
			uint64_t piece = MIN(reply->bytes_left, (uint64_t)(end - at));
			at += piece;
			reply->bytes_left -= piece;
		} else if (!reply->kind) {
			reply->is_push = reply->elements ? reply->is_push : *at == '>';
			reply->elements += !reply->elements;
			reply->kind = *at++;
			reply->number = 0;
			reply->is_negative = false;
			continue;
		} else if (*at == '\n') {
			at++;
			if (UNEXPECTED(!end_reply_line(reply))) {
				it->protocol = PROTOCOL_OTHER;
				return;
			}
		} else {
			reply->is_negative |= *at == '-';
			if (*at >= '0' && *at <= '9' && reply->number < UINT32_MAX) {
				reply->number = reply->number * 10 + (uint64_t)(*at - '0');
			}
			at++;
			continue;
		}
		if (!reply->elements && !reply->bytes_left && !reply->is_push && it->unanswered) {
			it->unanswered--;
		}
	}
}

void fermata_owner_read(int fd, const char *text, size_t len)
{
	ownership *it = known(fd);
	if (it && it->protocol == PROTOCOL_REDIS) {
		read_replies(it, text, len);
	}
}

/* Cleanup */

void fermata_owners_forget(void)
{
	owners.turns = (fermata_waiters){0};
}

void fermata_owner_closed(int fd)
{
	ownership *it = known(fd);
	if (EXPECTED(!it)) {
		return;
	}
	drop_claims(it);
	*it = (ownership){0};
	turn *next;
	while (UNEXPECTED(owners.turns.first) && (next = first_in_queue(fd))) {
		fermata_note_awaited(next->waiter.fiber, 0);
		fermata_waiters_remove(&next->waiter);
		fermata_wake(next->waiter.fiber);
	}
}

bool fermata_owner_end_queue(int fd)
{
	const ownership *it = UNEXPECTED(owners.turns.first) ? known(fd) : NULL;
	if (!it || it->inside[FERMATA_SIDE_READ] || it->inside[FERMATA_SIDE_WRITE] || !first_in_queue(fd)) {
		return false;
	}
	fermata_owner_closed(fd);
	return true;
}

static void give_back(fermata_claim *mine, bool has_failed)
{
	int fd = mine->fd;
	ownership *it = &owners.at[fd];
	for (fermata_claim **at = &it->claims; *at; at = &(*at)->next) {
		if (*at == mine) {
			*at = mine->next;
			break;
		}
	}
	if (it->requester == mine->fiber && it->claims) {
		it->requester = NULL;
	}
	const fermata_fiber *by = mine->fiber;
	forget_claim(mine);
	if (!it->claims) {
		become_free(it, fd, by, has_failed);
	}
	if (UNEXPECTED(owners.turns.first)) {
		wake(it, fd);
	}
}

static void on_unlock(uint64_t since)
{
	fermata_claim *one = slot(fermata_this_fiber())->claims, *next;
	for (; UNEXPECTED(one); one = next) {
		next = one->next_of_fiber;
		if (one->begun_at >= since) {
			give_back(one, false);
		}
	}
}

static void on_clean_up(fermata_fiber *fiber)
{
	while (slot(fiber)->claims) {
		ownership *it = &owners.at[slot(fiber)->claims->fd];
		for (int side = 0; side < 2; side++) {
			/* A PHP Fiber of the handler may be suspended inside a call. */
			if (UNEXPECTED(it->inside[side] == fiber)) {
				it->inside[side] = NULL;
			}
			if (UNEXPECTED(it->selects[side] == fiber)) {
				it->selects[side] = NULL;
			}
		}
		give_back(slot(fiber)->claims, fiber->has_failed);
	}
}

/* Called when an exception ends a wait of the fiber. Connections with an unknown protocol that the fiber has used after `since`
 * are not passed to another handler, even if PHP code catches the exception. */
static ZEND_COLD void on_cut(fermata_fiber *fiber, uint64_t since)
{
	since = MAX(since, fermata_conversations_since(fiber));
	for (const fermata_claim *one = slot(fiber)->claims; one; one = one->next_of_fiber) {
		owners.at[one->fd].is_cut_short |= fermata_conversation_used_at(one->fd) > since;
	}
}

static void on_wait(fermata_fiber *fiber)
{
	if (EXPECTED(!owners.turns.first)) {
		return;
	}
	for (const fermata_claim *one = slot(fiber)->claims; one; one = one->next_of_fiber) {
		wake(&owners.at[one->fd], one->fd);
	}
}

static void on_move(fermata_fiber *from, fermata_fiber *to)
{
	while (slot(from)->claims) {
		fermata_claim *one = slot(from)->claims;
		ownership *it = &owners.at[one->fd];
		slot(from)->claims = one->next_of_fiber;
		one->next_of_fiber = slot(to)->claims;
		one->fiber = to;
		slot(to)->claims = one;
		for (int side = 0; side < 2; side++) {
			if (UNEXPECTED(it->inside[side] == from)) {
				it->inside[side] = to;
			}
			if (UNEXPECTED(it->selects[side] == from)) {
				it->selects[side] = to;
			}
		}
		if (it->requester == from) {
			it->requester = to;
		}
	}
}

const fermata_fiber *fermata_owner_waited_for(int fd, const fermata_fiber *by)
{
	const ownership *it = known(fd);
	if (!it) {
		return NULL;
	}
	if (it->claims && !is_family(it->claims->fiber, by)) {
		return is_at_rest(it, fd) ? NULL : it->claims->fiber;
	}
	for (int side = 0; side < 2; side++) {
		if (it->inside[side] && it->inside[side] != by) {
			return it->inside[side];
		}
		if (it->selects[side] && it->selects[side] != by) {
			return it->selects[side];
		}
	}
	/* A writer outside the queue may already have finished. */
	return it->requester && it->requester != by && queues(it->requester, fd) ? it->requester : NULL;
}

static void on_stop(void)
{
	for (uint32_t fd = 0; fd < owners.capacity; fd++) {
		drop_claims(&owners.at[fd]);
	}
	if (owners.at) {
		pefree(owners.at, true);
	}
	memset(&owners, 0, sizeof(owners));
}

static bool has_rest(const fermata_fiber *fiber)
{
	return slot(fiber)->claims;
}

static fermata_part part = {.size = sizeof(claims), .on_clean_up = on_clean_up, .has_rest = has_rest, .on_move = on_move,
	.on_wait = on_wait, .on_cut = on_cut, .on_unlock = on_unlock, .on_stop = on_stop};

void fermata_owners_init(void)
{
	fermata_part_register(&part);
}
