/* Replacements for the C library's recv(), send(), accept() and connect() in hooked objects. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/optimize_size.h"

#define MS_PER_S 1000

/* Waits after a call has failed because it would block. Returns true if the call may be repeated. */
static bool wait_for(fermata_hook_place place, int fd, short events, int timeout_option)
{
	struct timeval timeout = {0};
	socklen_t len = sizeof(timeout);
	int64_t timeout_ms = -1;
	if (getsockopt(fd, SOL_SOCKET, timeout_option, &timeout, &len) == 0 && (timeout.tv_sec || timeout.tv_usec)) {
		timeout_ms = (int64_t)timeout.tv_sec * MS_PER_S + timeout.tv_usec / MS_PER_S;
	}
	short happened = 0;
	bool is_ready = false;
	switch (place) {
		case FERMATA_PLACE_WAITS:
			is_ready = fermata_hook_wait_fd(fd, events, fermata_ms_to_due(timeout_ms), &happened) == FERMATA_WAIT_WOKEN;
			break;
		case FERMATA_PLACE_HOLDS: {
			struct pollfd one = {.fd = fd, .events = events};
			is_ready = fermata_hook_hold_fds(&one, 1, fermata_ms_to_due(timeout_ms)) == FERMATA_WAIT_WOKEN;
			break;
		}
		case FERMATA_PLACE_CUT: fermata_conversation_end(fd); break;
		case FERMATA_PLACE_BOUNDED:
		case FERMATA_PLACE_FREE: {
			struct pollfd one = {.fd = fd, .events = events};
			is_ready = fermata_hook_poll_bounded(&one, 1, (int)MIN(timeout_ms, INT_MAX)) > 0;
			break;
		}
	}
	errno = EAGAIN;
	if (UNEXPECTED(happened & POLLNVAL)) {
		/* The socket was closed, and its number may already belong to another file. */
		errno = EBADF;
		is_ready = false;
	}
	return is_ready;
}

static bool is_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	return flags >= 0 && !(flags & O_NONBLOCK);
}

/* Returns true if a call failed with EAGAIN although the socket is blocking, so the fiber has to wait. */
static bool has_to_wait(ssize_t done, int fd)
{
	return done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && is_blocking(fd);
}

static ssize_t receive(int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	fermata_hook_place place = fermata_hook_where();
	if ((flags & MSG_DONTWAIT) || place == FERMATA_PLACE_FREE) {
		return recvfrom(fd, buf, len, flags, from, from_len);
	}
	socklen_t room = from_len ? *from_len : 0;
	size_t got = 0;
	for (;;) {
		if (from_len) {
			*from_len = room;
		}
		ssize_t part = recvfrom(fd, (char *)buf + got, len - got, flags | MSG_DONTWAIT, from, from_len);
		if (part > 0) {
			got += (size_t)part;
			if (!(flags & MSG_WAITALL) || (flags & MSG_PEEK) || got == len) {
				return (ssize_t)got;
			}
		} else if (!has_to_wait(part, fd)) {
			return got ? (ssize_t)got : part;
		}
		if ((part < 0 || got < len) && !wait_for(place, fd, POLLIN, SO_RCVTIMEO)) {
			return got ? (ssize_t)got : -1;
		}
	}
}

/* Returns true in functions of the extension sockets. For streams, streams.c decides if a call may wait. */
static bool is_called_by_sockets(void)
{
	const zend_execute_data *frame = EG(current_execute_data);
	const zend_module_entry *module = fermata.handling && frame && frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION
		? frame->func->internal_function.module : NULL;
	return module && strcmp(module->name, "sockets") == 0;
}

static ssize_t hooked_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	bool is_own = fermata_hook_is_loop() && is_called_by_sockets(), entered = false;
	if (UNEXPECTED(is_own && !(flags & MSG_DONTWAIT) && !fermata_owner_enter(fd, FERMATA_SIDE_READ, &entered))) {
		errno = EBADF;
		return -1;
	}
	ssize_t got = receive(fd, buf, len, flags, from, from_len);
	bool is_read = got > 0 && !(flags & MSG_PEEK);
	if (is_read && is_own) {
		fermata_owner_read(fd, buf, (size_t)got);
		fermata_conversation_read(fd);
	}
	if (entered) {
		int error = errno;
		fermata_owner_leave(fd, FERMATA_SIDE_READ, is_read, got < 0 && (error == EAGAIN || error == EWOULDBLOCK));
		errno = error;
	}
	return got;
}

ssize_t fermata_hook_recv(int fd, void *buf, size_t len)
{
	return hooked_recvfrom(fd, buf, len, 0, NULL, NULL);
}

static ssize_t hooked_recv(int fd, void *buf, size_t len, int flags)
{
	return hooked_recvfrom(fd, buf, len, flags, NULL, NULL);
}

static ssize_t hooked_recv_chk(int fd, void *buf, size_t len, size_t size, int flags)
{
	return hooked_recvfrom(fd, buf, len, flags, NULL, NULL);
}

static ssize_t transmit(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	fermata_hook_place place = fermata_hook_where();
	if ((flags & MSG_DONTWAIT) || place == FERMATA_PLACE_FREE) {
		return sendto(fd, buf, len, flags, to, to_len);
	}
	size_t sent = 0;
	for (;;) {
		ssize_t part = sendto(fd, (const char *)buf + sent, len - sent, flags | MSG_DONTWAIT, to, to_len);
		if (part >= 0) {
			/* A blocking send() on a stream socket sends all bytes before it returns. */
			sent += (size_t)part;
			if (sent >= len || part == 0 || !is_blocking(fd)) {
				return (ssize_t)sent;
			}
		} else if (!has_to_wait(part, fd)) {
			return sent ? (ssize_t)sent : part;
		}
		if (!wait_for(place, fd, POLLOUT, SO_SNDTIMEO)) {
			return sent ? (ssize_t)sent : -1;
		}
	}
}

static ssize_t hooked_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	bool is_own = fermata_hook_is_loop() && is_called_by_sockets(), entered = false;
	if (UNEXPECTED(is_own && !(flags & MSG_DONTWAIT) && !fermata_owner_enter(fd, FERMATA_SIDE_WRITE, &entered))) {
		errno = EBADF;
		return -1;
	}
	ssize_t sent = transmit(fd, buf, len, flags, to, to_len);
	if (sent > 0 && is_own) {
		fermata_conversation_wrote(fd);
		fermata_owner_wrote(fd, buf, (size_t)sent);
	}
	if (entered) {
		int error = errno;
		fermata_owner_leave(fd, FERMATA_SIDE_WRITE, sent > 0, false);
		errno = error;
	}
	return sent;
}

ssize_t fermata_hook_send(int fd, const void *buf, size_t len)
{
	return hooked_sendto(fd, buf, len, 0, NULL, 0);
}

static ssize_t hooked_send(int fd, const void *buf, size_t len, int flags)
{
	return hooked_sendto(fd, buf, len, flags, NULL, 0);
}

/* Replacement for write() in socket_write() */
static ssize_t hooked_socket_write(int fd, const void *buf, size_t len)
{
	ssize_t written = hooked_sendto(fd, buf, len, 0, NULL, 0);
	/* If the extension sockets is linked into PHP's own binary, the table belongs to all of PHP. Then this function also receives
	 * descriptors of other files. */
	return UNEXPECTED(written < 0 && errno == ENOTSOCK) ? write(fd, buf, len) : written;
}

/* Workers may share a listening socket. After one connection, poll() would succeed in two workers, and the slower accept() would
 * block. So only the worker with this lock polls and accepts. The kernel releases the lock if the worker crashes. */
static int accept_lock = -1;

void fermata_hook_sockets_init(void)
{
	if (accept_lock < 0) {
		accept_lock = memfd_create("fermata-accept", MFD_CLOEXEC);
	}
}

static void lock_accept(short type)
{
	struct flock all = {.l_type = type, .l_whence = SEEK_SET};
	while (fcntl(accept_lock, F_SETLKW, &all) < 0 && errno == EINTR) {
	}
}

static int hooked_accept4(int fd, struct sockaddr *from, socklen_t *from_len, int flags)
{
	fermata_hook_place place = fermata_hook_where();
	if (place != FERMATA_PLACE_FREE) {
		/* For the reason given in hooked_connect(). */
		flags |= SOCK_CLOEXEC;
	}
	for (; place != FERMATA_PLACE_FREE && is_blocking(fd); place = fermata_hook_where()) {
		struct pollfd one = {.fd = fd, .events = POLLIN};
		lock_accept(F_WRLCK);
		int ready = poll(&one, 1, 0);
		int accepted = ready > 0 ? accept4(fd, from, from_len, flags) : -1;
		int error = errno;
		lock_accept(F_UNLCK);
		errno = error;
		if (ready > 0) {
			return accepted;
		}
		if (!wait_for(place, fd, POLLIN, SO_RCVTIMEO)) {
			return -1;
		}
	}
	return accept4(fd, from, from_len, flags);
}

static int hooked_accept(int fd, struct sockaddr *from, socklen_t *from_len)
{
	return hooked_accept4(fd, from, from_len, 0);
}

static int hooked_connect(int fd, const struct sockaddr *to, socklen_t to_len)
{
	int flags = fcntl(fd, F_GETFL), error = 0;
	fermata_hook_place place = fermata_hook_where();
	if (place != FERMATA_PLACE_FREE) {
		fermata_owner_closed(fd);
		fermata_conversation_opened(fd);
		/* Without this flag, a command that another handler starts would inherit the connection. The connection would then stay
		 * open, with its locks on the server. */
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
	/* On a Unix socket, connect() never returns EINPROGRESS: it succeeds or fails immediately. */
	if (flags < 0 || (flags & O_NONBLOCK) || to->sa_family == AF_UNIX || place == FERMATA_PLACE_FREE) {
		return connect(fd, to, to_len);
	}
	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	int result = connect(fd, to, to_len);
	if (result < 0 && errno == EINPROGRESS) {
		bool is_ready = wait_for(place, fd, POLLOUT, SO_SNDTIMEO);
		socklen_t len = sizeof(error);
		if (UNEXPECTED(!is_ready && errno == EBADF)) {
			return -1;
		}
		if (!is_ready) {
			/* The kernel reports the same error after SO_SNDTIMEO. */
			error = EG(exception) ? ECANCELED : EINPROGRESS;
		} else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
			error = errno;
		}
		result = error ? -1 : 0;
	} else if (result < 0) {
		error = errno;
	}
	fcntl(fd, F_SETFL, flags);
	errno = error;
	return result;
}

const fermata_replacement fermata_calls_sockets[] = {
	{"recv", hooked_recv},
	{"__recv_chk", hooked_recv_chk},
	{"recvfrom", hooked_recvfrom},
	{"send", hooked_send},
	{"sendto", hooked_sendto},
	{"accept", hooked_accept},
	{"accept4", hooked_accept4},
	{"connect", hooked_connect},
};
const size_t fermata_calls_sockets_len = sizeof(fermata_calls_sockets) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_sockets_write[] = {
	{"write", hooked_socket_write},
};
const size_t fermata_calls_sockets_write_len = sizeof(fermata_calls_sockets_write) / sizeof(fermata_replacement);
