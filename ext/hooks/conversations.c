/* Sockets over which the application exchanges requests and replies with a server, in order.
 *
 * An exception may end a wait (client disconnect, timeout(), cancelled task) before the reply was read. The next user of the
 * connection would read that reply as its own, which may be another user's data. So such a socket is shut down, and later calls on
 * it fail. Sockets of these two kinds are shut down:
 *
 * - a socket on which the fiber was waiting: read, write, connect or select();
 * - any other socket with an outstanding reply: the handler or task has written to it and not read since, or it has unread bytes.
 *   The fiber may wait elsewhere, for example in delay() between a request and its reply.
 *
 * Excluded are listeners, datagram sockets without a peer, pipes, files, and sockets passed to Runtime::keepOnCancel(). The
 * table is indexed by descriptor; the inode distinguishes a socket from a later one with the same number. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include "main/php_network.h"
#include "base/optimize_size.h"
#if __has_include("ext/sockets/php_sockets.h")
# ifndef HAVE_SOCKETS
/* The header requires this. ext/sockets may be a shared extension, for which PHP's config does not define it. */
#  define HAVE_SOCKETS 1
# endif
# include "ext/sockets/php_sockets.h"
# define HAVE_SOCKETS_OF_PHP
#endif

#define CAPACITY_MIN 64
#define PEER_BYTES_MAX 160
#define METHOD_BYTES_MAX 33
#define PATH_BYTES_MAX 257
#define LINE_BYTES_MAX 1024
/* Buffer size for discarded data, and maximum number of reads. Together they exceed the size of a socket's receive buffer. */
#define DISCARD_BYTES 16384
#define DISCARDS_MAX 1024

typedef struct conversation {
	ino_t inode;                /* 0 = unknown socket */
	uint64_t user;              /* first use of a connection by its last user (slot_of_conversations.since), which is unique */
	/* values of fermata_clock() */
	uint64_t begun_at, used_at;
	uint64_t written_at; /* last write; 0 = a read followed */
	bool is_kept, is_over;
} conversation;

static struct {
	conversation *at; /* indexed by descriptor */
	uint32_t capacity;
} table;

typedef struct slot_of_conversations {
	uint64_t since;  /* fermata_clock() when the handler or task first used a connection; 0 = not yet */
	uint32_t ended;  /* number of connections shut down while it waited for them or after it had used them; never decreases */
} slot_of_conversations;

static fermata_part part;
FERMATA_SLOT(slot_of_conversations, part)

static ino_t inode_of(int fd)
{
	struct stat found;
	return fstat(fd, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

/* Returns NULL if the descriptor is not a socket. */
static conversation *find(int fd)
{
	if (UNEXPECTED(fd < 0)) {
		return NULL;
	}
	if (UNEXPECTED((uint32_t)fd >= table.capacity)) {
		uint32_t capacity = table.capacity ? table.capacity : CAPACITY_MIN;
		while (capacity <= (uint32_t)fd) {
			capacity *= 2;
		}
		table.at = safe_perealloc(table.at, capacity, sizeof(conversation), 0, true);
		memset(table.at + table.capacity, 0, (capacity - table.capacity) * sizeof(conversation));
		table.capacity = capacity;
	}
	conversation *it = &table.at[fd];
	if (UNEXPECTED(!it->inode)) {
		ino_t inode = inode_of(fd);
		if (!inode) {
			return NULL;
		}
		*it = (conversation){.inode = inode, .begun_at = fermata_clock_tick()};
	}
	return it;
}

/* Records the first use of a connection. Connections opened later belong to this handler or task. */
static void note_first_use(fermata_fiber *self)
{
	if (!slot(self)->since) {
		slot(self)->since = fermata_clock_tick();
		fermata_touch(self, part);
	}
}

uint64_t fermata_conversations_since(const fermata_fiber *fiber)
{
	return slot(fiber)->since;
}

uint64_t fermata_conversation_number(int fd)
{
	note_first_use(fermata_this_fiber());
	const conversation *it = find(fd);
	return it ? it->begun_at : 0;
}

bool fermata_conversation_is_kept(int fd)
{
	return table.at[fd].is_kept;
}

uint64_t fermata_conversation_used_at(int fd)
{
	return table.at[fd].used_at;
}

bool fermata_conversation_is_gone(int fd)
{
	conversation *it = &table.at[fd];
	bool is_gone = it->inode != inode_of(fd);
	if (UNEXPECTED(is_gone)) {
		it->inode = 0;
	}
	return is_gone;
}

static conversation *use(int fd)
{
	fermata_fiber *self = fermata_this_fiber();
	if (UNEXPECTED(!fermata.handling || fermata.forked)) {
		return NULL;
	}
	note_first_use(self);
	conversation *it = find(fd);
	if (it) {
		it->user = slot(self)->since;
		it->used_at = fermata_clock_tick();
	}
	return it;
}

void fermata_conversation_opened(int fd)
{
	fermata_conversation_closed(fd);
	use(fd);
}

void fermata_conversation_wrote(int fd)
{
	conversation *it = use(fd);
	if (it) {
		it->written_at = it->used_at;
	}
}

void fermata_conversation_read(int fd)
{
	conversation *it = use(fd);
	if (it) {
		it->written_at = 0;
	}
}

void fermata_conversation_closed(int fd)
{
	if (fd >= 0 && (uint32_t)fd < table.capacity) {
		table.at[fd].inode = 0;
	}
}

static int option_of(int fd, int option)
{
	int value = 0;
	socklen_t len = sizeof(value);
	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

static bool has_peer(int fd)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	return getpeername(fd, (struct sockaddr *)&peer, &len) == 0;
}

/* Returns false for a datagram socket without a fixed peer: each datagram has its own sender. */
static bool is_conversation(int fd)
{
	int type = option_of(fd, SO_TYPE);
	return type >= 0 && option_of(fd, SO_ACCEPTCONN) != 1 && (type != SOCK_DGRAM || has_peer(fd));
}

/* Copies a string that has no NUL byte at its end. For `%.*s`, PHP's snprintf() would search the argument for one. */
static void copy_text(char *to, size_t size, FmStr from)
{
	size_t len = MIN(from.len, size - 1);
	if (len) {
		memcpy(to, from.ptr, len);
	}
	to[len] = '\0';
}

bool fermata_conversation_has_one_peer(int fd)
{
	return is_conversation(fd);
}

static void describe_peer(int fd, char *text, size_t size)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
		struct sockaddr_storage room;
	} peer = {0};
	socklen_t len = sizeof(peer);
	char host[INET6_ADDRSTRLEN];
	if (getpeername(fd, &peer.any, &len) == 0) {
		if (peer.any.sa_family == AF_INET && inet_ntop(AF_INET, &peer.v4.sin_addr, host, sizeof(host))) {
			snprintf(text, size, "%s:%u", host, ntohs(peer.v4.sin_port));
			return;
		}
		if (peer.any.sa_family == AF_INET6 && inet_ntop(AF_INET6, &peer.v6.sin6_addr, host, sizeof(host))) {
			snprintf(text, size, "[%s]:%u", host, ntohs(peer.v6.sin6_port));
			return;
		}
		if (peer.any.sa_family == AF_UNIX && len > sizeof(sa_family_t) && peer.local.sun_path[0]) {
			char path[sizeof(peer.local.sun_path) + 1];
			copy_text(path, sizeof(path), (FmStr){peer.local.sun_path, len - sizeof(sa_family_t)});
			snprintf(text, size, "unix:%s", path);
			return;
		}
	}
	snprintf(text, size, "descriptor %d", fd);
}

/* Describes the handler that waited, as "GET /path". */
static void describe_handler(char *text, size_t size)
{
	const FmEvent *event = &fermata_this_request()->event;
	if (fermata_is_collecting()) {
		snprintf(text, size, "a destructor");
	} else if (fermata_this_fiber()->future) {
		snprintf(text, size, "a task");
	} else if (fermata_this_socket()) {
		snprintf(text, size, "a WebSocket handler");
	} else if (fermata_this_stream()) {
		/* The request structure may already describe another request. */
		snprintf(text, size, "the body of a stream");
	} else {
		char method[METHOD_BYTES_MAX], path[PATH_BYTES_MAX];
		copy_text(method, sizeof(method), event->method);
		copy_text(path, sizeof(path), event->path);
		snprintf(text, size, "%s %s", method, path);
	}
}

/* Logs that a connection was shut down. If handlers share the connection, this is a warning, since its next user gets an error. */
static ZEND_COLD void log_shut_down(int fd, bool is_own)
{
	char peer[PEER_BYTES_MAX], who[METHOD_BYTES_MAX + PATH_BYTES_MAX], line[LINE_BYTES_MAX];
	describe_peer(fd, peer, sizeof(peer));
	describe_handler(who, sizeof(who));
	const char *file = zend_get_executed_filename();
	int len = snprintf(line, sizeof(line), "the connection to %s was shut down: a wait of %s was ended in %s:%u before the reply "
		"was read, which the next use would have taken for its own", peer, who, file, zend_get_executed_lineno());
	fm_worker_log(fermata.worker, is_own ? FERMATA_LOG_DEBUG : FERMATA_LOG_WARNING,
		(FmStr){line, MIN((size_t)len, sizeof(line) - 1)});
}

/* Discards data that has already arrived, since a shut down socket can still be read. */
void fermata_conversation_discard(int fd)
{
	char room[DISCARD_BYTES];
	for (uint32_t i = 0; i < DISCARDS_MAX && recv(fd, room, sizeof(room), MSG_DONTWAIT) > 0; i++) {
	}
	fermata_stream_discard(fd);
}

void fermata_conversation_end(int fd)
{
	int before = errno;
	/* Destructors that the garbage collector runs between two handlers cannot wait either. */
	conversation *it = (fermata.handling || fermata_is_collecting()) && !fermata.forked ? find(fd) : NULL;
	if (it && it->inode != inode_of(fd)) {
		/* The socket was closed by a call that is not hooked. */
		it->inode = 0;
		it = find(fd);
	}
	if (it && !it->is_kept && is_conversation(fd)) {
		if (!it->is_over) {
			fermata_fiber *self = fermata_this_fiber();
			it->is_over = true;
			slot(self)->ended++;
			log_shut_down(fd, slot(self)->since && it->user == slot(self)->since && it->begun_at > slot(self)->since);
		}
		shutdown(fd, SHUT_RDWR);
		fermata_conversation_discard(fd);
	}
	errno = before;
}

ZEND_COLD void fermata_conversation_end_all(const struct pollfd *fds, nfds_t len)
{
	for (nfds_t i = 0; i < len; i++) {
		/* Skip closed descriptors: their number may already belong to another file. */
		if (!(fds[i].revents & POLLNVAL)) {
			fermata_conversation_end(fds[i].fd);
		}
	}
}

bool fermata_conversation_is_unread(int fd)
{
	int waiting = 0;
	return (ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0) || fermata_stream_is_unread(fd);
}

/* Returns true if a reply is missing or only partly read. */
static bool has_pending_reply(int fd, const conversation *it, uint64_t since)
{
	return it->written_at > since || (it->used_at > since && fermata_conversation_is_unread(fd));
}

bool fermata_conversation_is_at_rest(int fd)
{
	return !table.at[fd].written_at && !fermata_conversation_is_unread(fd);
}

ZEND_COLD void fermata_conversation_end_left(int fd, const char *what)
{
	char peer[PEER_BYTES_MAX], line[LINE_BYTES_MAX];
	conversation *it = &table.at[fd];
	if (it->is_over || fermata.forked || fermata_conversation_is_gone(fd)) {
		return;
	}
	it->is_over = true;
	describe_peer(fd, peer, sizeof(peer));
	int len = snprintf(line, sizeof(line), "the connection to %s was shut down: %s has ended in the middle of %s", peer,
		fermata_this_fiber()->future ? "a task" : "a handler", what);
	fm_worker_log(fermata.worker, FERMATA_LOG_WARNING, (FmStr){line, MIN((size_t)len, sizeof(line) - 1)});
	shutdown(fd, SHUT_RDWR);
	fermata_conversation_discard(fd);
}

uint32_t fermata_conversations_ended(void)
{
	return fermata_this_fiber() ? slot(fermata_this_fiber())->ended : 0;
}

/* Called when an exception ended a wait. Shuts down the fiber's connections with a missing reply to a request sent after
 * `since`. */
static ZEND_COLD void on_cut(fermata_fiber *self, uint64_t since)
{
	since = MAX(since, slot(self)->since);
	for (uint32_t fd = 0; slot(self)->since && fd < table.capacity; fd++) {
		const conversation *it = &table.at[fd];
		/* Datagrams, such as log messages, usually have no reply. */
		if (it->inode && it->user == slot(self)->since && !it->is_over && has_pending_reply((int)fd, it, since) && option_of((int)fd, SO_TYPE) != SOCK_DGRAM) {
			fermata_conversation_end((int)fd);
		}
	}
}

/* Returns the descriptor; -1 with an exception pending. */
static int fd_of(zval *given)
{
	if (Z_TYPE_P(given) == IS_RESOURCE) {
		php_stream *stream;
		php_stream_from_zval_no_verify(stream, given);
		int fd = stream ? fermata_stream_socket(stream) : -1;
		php_socket_t any = -1;
		if (stream && fd < 0
				&& php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **)&any, 0) == SUCCESS) {
			fd = any;
		}
		return fd;
	}
#ifdef HAVE_SOCKETS_OF_PHP
	const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("socket"));
	if (Z_TYPE_P(given) == IS_OBJECT && class && class->type == ZEND_INTERNAL_CLASS && Z_OBJCE_P(given) == class) {
		return ((const php_socket *)((const char *)Z_OBJ_P(given) - XtOffsetOf(php_socket, std)))->bsd_socket;
	}
#endif
	return -1;
}

ZEND_METHOD(Fermata_Runtime, keepOnCancel)
{
	zval *connection;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_ZVAL(connection)
	ZEND_PARSE_PARAMETERS_END();
	int fd = fd_of(connection);
	conversation *it = find(fd);
	if (UNEXPECTED(!it)) {
		zend_argument_type_error(1, "must be an open stream over a socket, or a Socket, %s given", fermata_type_name(connection));
		RETURN_THROWS();
	}
	it->is_kept = true;
}

static void on_stop(void)
{
	if (table.at) {
		pefree(table.at, true);
	}
	memset(&table, 0, sizeof(table));
}

static void on_clean_up(fermata_fiber *fiber)
{
	slot(fiber)->since = 0;
}

static bool has_rest(const fermata_fiber *fiber)
{
	return slot(fiber)->since;
}

static void on_move(fermata_fiber *from, fermata_fiber *to)
{
	if (!slot(to)->since) {
		slot(to)->since = slot(from)->since;
	}
	slot(from)->since = 0;
}

static fermata_part part = {.size = sizeof(slot_of_conversations), .on_clean_up = on_clean_up, .has_rest = has_rest, .on_move = on_move,
	.on_cut = on_cut, .on_stop = on_stop};

void fermata_conversations_init(void)
{
	fermata_part_register(&part);
}
