/* Measures the kernel's share of a proxy's cost: copies bytes between two sockets without parsing them.
 *
 * `proxy_floor PORT BACKEND` listens on 127.0.0.1 and opens a separate backend connection for each client. It has one thread, one
 * `epoll_wait` for all ready sockets, and one `recv` and one `send` per piece. While a socket accepts no more bytes, its peer is
 * not read. There is no connection pool, time-out or log. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 4096
#define EVENTS_MAX 256
#define PIECE_BYTES (48 * 1024) /* read size of the edge */

/* One side of a proxied connection, indexed by its descriptor. */
static struct end {
	int other;
	uint32_t interest;
	char *kept; /* bytes not yet written to this side; usually NULL */
	size_t kept_len, kept_from;
} ends[DESCRIPTORS_MAX];

static int epoll;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void watch(int fd, uint32_t interest)
{
	if (ends[fd].interest != interest) {
		struct epoll_event event = {.events = interest, .data.fd = fd};
		if (epoll_ctl(epoll, ends[fd].interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0) {
			fail("epoll_ctl");
		}
		ends[fd].interest = interest;
	}
}

/* Closes both sides. Pending bytes are lost; benchmark clients disconnect only after they have received everything. */
static void end(int fd)
{
	int other = ends[fd].other;
	for (int at = 0; at < 2; at++, fd = other) {
		free(ends[fd].kept);
		ends[fd] = (struct end){0};
		close(fd);
	}
}

/* Reads once from `from` and writes the bytes to the other side. */
static void pass(int from)
{
	static char piece[PIECE_BYTES];
	int to = ends[from].other;
	if (ends[to].kept) {
		return;
	}
	ssize_t got = recv(from, piece, sizeof piece, 0);
	if (got <= 0) {
		if (got == 0 || errno != EAGAIN) {
			end(from);
		}
		return;
	}
	ssize_t sent = send(to, piece, (size_t)got, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN) {
		end(from);
		return;
	}
	if (sent < got) {
		size_t taken = sent < 0 ? 0 : (size_t)sent;
		ends[to].kept_len = (size_t)got - taken;
		ends[to].kept_from = 0;
		if (!(ends[to].kept = malloc(ends[to].kept_len))) {
			fail("malloc");
		}
		memcpy(ends[to].kept, piece + taken, ends[to].kept_len);
		watch(to, ends[to].interest | EPOLLOUT);
		watch(from, ends[from].interest & ~(uint32_t)EPOLLIN);
	}
}

/* Writes the pending bytes, then resumes reading the other side. */
static void flush(int fd)
{
	struct end *it = &ends[fd];
	ssize_t sent = send(fd, it->kept + it->kept_from, it->kept_len - it->kept_from, MSG_NOSIGNAL);
	if (sent < 0) {
		if (errno != EAGAIN) {
			end(fd);
		}
		return;
	}
	it->kept_from += (size_t)sent;
	if (it->kept_from == it->kept_len) {
		free(it->kept);
		it->kept = NULL;
		watch(fd, it->interest & ~(uint32_t)EPOLLOUT);
		watch(it->other, ends[it->other].interest | EPOLLIN);
	}
}

static void take(int listener, const struct sockaddr_in *backend)
{
	int client;
	while ((client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		/* connect() blocks, but only once per client, and the backend runs on this machine. */
		int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
		if (server >= DESCRIPTORS_MAX || connect(server, (const struct sockaddr *)backend, sizeof *backend) < 0) {
			fail("connect");
		}
		setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		if (fcntl(server, F_SETFL, O_NONBLOCK) < 0) {
			fail("fcntl");
		}
		ends[client].other = server;
		ends[server].other = client;
		watch(client, EPOLLIN);
		watch(server, EPOLLIN);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: proxy_floor PORT BACKEND\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in backend = own;
	backend.sin_port = htons((uint16_t)atoi(argv[2]));
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (struct sockaddr *)&own, sizeof own) < 0 || listen(listener, 4096) < 0) {
		fail("listen");
	}
	epoll = epoll_create1(EPOLL_CLOEXEC);
	watch(listener, EPOLLIN);
	for (;;) {
		struct epoll_event events[EVENTS_MAX];
		int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
		for (int at = 0; at < ready; at++) {
			int fd = events[at].data.fd;
			if (fd == listener) {
				take(listener, &backend);
				continue;
			}
			/* An earlier event of this batch may have closed it. */
			if (ends[fd].interest & events[at].events & EPOLLOUT && ends[fd].kept) {
				flush(fd);
			}
			if (ends[fd].interest & EPOLLIN && events[at].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
				pass(fd);
			} else if (ends[fd].interest && events[at].events & EPOLLERR) {
				end(fd);
			}
		}
	}
}
