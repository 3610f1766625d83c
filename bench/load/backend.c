/* Backend of the waiting row: responds to every request 50 ms after its arrival, with or without keep-alive.
 *
 * `backend PORT` listens on 127.0.0.1 and exits with its parent. All delays are equal, so responses are due in the order of the
 * requests and one queue suffices. A connection carries one request at a time, whose head ends with an empty line. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DELAY_NS 50000000
#define CLIENTS_MAX 20000
#define HEAD_BYTES_MAX 2048
#define EVENTS_MAX 256

static const char kept[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nOK\n";
static const char closed[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nOK\n";

static struct client {
	uint32_t generation; /* identifies responses to an earlier client with this descriptor */
	uint16_t len;
	bool waits, closes;
	char head[HEAD_BYTES_MAX + 1];
} clients[CLIENTS_MAX];

static struct due {
	uint64_t at_ns;
	int fd;
	uint32_t generation;
} queue[CLIENTS_MAX];
static uint32_t first, len;

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void end(int fd)
{
	clients[fd].generation++;
	close(fd);
}

static void receive(int fd)
{
	struct client *client = &clients[fd];
	ssize_t got = recv(fd, client->head + client->len, (size_t)(HEAD_BYTES_MAX - client->len), MSG_DONTWAIT);
	if (got <= 0) {
		if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
			end(fd);
		}
		return;
	}
	client->len += (uint16_t)got;
	client->head[client->len] = 0;
	if (!strstr(client->head, "\r\n\r\n")) {
		if (client->len == HEAD_BYTES_MAX) {
			end(fd);
		}
		return;
	}
	if (client->waits || len == CLIENTS_MAX) {
		end(fd);
		return;
	}
	client->waits = true;
	client->closes = strstr(client->head, "HTTP/1.0\r\n") || strcasestr(client->head, "\r\nconnection: close");
	client->len = 0;
	queue[(first + len++) % CLIENTS_MAX] = (struct due){now_ns() + DELAY_NS, fd, client->generation};
}

static void answer(const struct due *due)
{
	struct client *client = &clients[due->fd];
	if (client->generation != due->generation) {
		return;
	}
	client->waits = false;
	const char *text = client->closes ? closed : kept;
	if (send(due->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 || client->closes) {
		end(due->fd);
	}
}

static void take_all(int listener, int epoll)
{
	int fd;
	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		if (fd >= CLIENTS_MAX) {
			close(fd);
			continue;
		}
		struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
		clients[fd].len = 0;
		clients[fd].waits = false;
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) {
			end(fd);
		}
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), epoll = epoll_create1(EPOLL_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	address.sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0));
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
	if (epoll < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 4096)
		|| epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event)) {
		perror("backend");
		return 1;
	}
	for (;;) {
		int timeout_ms = -1;
		if (len) {
			uint64_t now = now_ns(), at = queue[first].at_ns;
			timeout_ms = at > now ? (int)((at - now + 999999) / 1000000) : 0;
		}
		struct epoll_event events[EVENTS_MAX];
		int found = epoll_wait(epoll, events, EVENTS_MAX, timeout_ms);
		for (int i = 0; i < found; i++) {
			if (events[i].data.fd == listener) {
				take_all(listener, epoll);
			} else {
				receive(events[i].data.fd);
			}
		}
		uint64_t now = now_ns();
		while (len && queue[first].at_ns <= now) {
			struct due due = queue[first];
			first = (first + 1) % CLIENTS_MAX;
			len--;
			answer(&due);
		}
	}
}
