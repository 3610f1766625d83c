/* Measures the kernel's share of the cost: accepts, holds and sends to connections with system calls and little else.
 *
 * `floor PORT WORKERS send|writev|hub` listens on 127.0.0.1 with WORKERS processes and exits with its parent. A `GET` of a path
 * that ends in `/events` receives the head of an event stream and is held. The body of a `POST` is sent to every held connection
 * of all processes: in one `send`, or in one `writev` of three parts. Any other request receives a page. There is no router,
 * time-out, history or queue: a connection that cannot accept an event immediately is closed.
 *
 * With `hub`, each event is one `send`, and the server also speaks the protocols of `bench hub`'s clients. For Mercure it holds a
 * `GET` of the hub. For Pusher, `/app/` becomes a WebSocket, which receives its socket id and, after the client's first message,
 * its subscription. Keys and signatures are not checked. */
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
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS_MAX 256
#define CLIENTS_MAX 20000 /* maximum number of descriptors of a process */
#define EVENTS_MAX 256
#define REQUEST_BYTES_MAX 8192
#define RING_EVENTS 4096 /* a process that falls this far behind exits */
#define DATA_BYTES_MAX 1024

static const char stream[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
	"Transfer-Encoding: chunked\r\n\r\n";
static const char page[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"status\":\"OK\"}";
static const char upgraded[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	"Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n"; /* for the key that `bench hub` sends, sixteen zero bytes */
static const char established[] = "{\"event\":\"pusher:connection_established\","
	"\"data\":\"{\\\"socket_id\\\":\\\"123456789.123456789\\\",\\\"activity_timeout\\\":120}\"}";
static const char subscribed[] = "{\"event\":\"pusher_internal:subscription_succeeded\",\"channel\":\"bench\",\"data\":\"{}\"}";
static const char published[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
static const char accepted[] = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";

/* Published events, shared by all processes. */
static struct ring {
	uint32_t lock;
	uint64_t count;
	struct event {
		size_t len;
		char data[DATA_BYTES_MAX];
	} events[RING_EVENTS];
} *ring;

static int wakes[WORKERS_MAX], workers;
static bool in_parts, is_hub;
/* Received bytes of an incomplete request, by descriptor; usually NULL. */
static struct request {
	size_t len;
	char bytes[REQUEST_BYTES_MAX + 1];
} *requests[CLIENTS_MAX];
static int held[CLIENTS_MAX], places[CLIENTS_MAX], held_len; /* held descriptors, and the index of each in `held` */
static bool is_held[CLIENTS_MAX], is_websocket[CLIENTS_MAX];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void end(int fd)
{
	if (is_held[fd]) {
		int last = held[--held_len];
		held[places[fd]] = last;
		places[last] = places[fd];
		is_held[fd] = false;
	}
	is_websocket[fd] = false;
	free(requests[fd]);
	requests[fd] = NULL;
	close(fd);
}

static void answer(int fd, const char *bytes, size_t len)
{
	if (send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len) {
		end(fd);
	}
}

/* Writes the head of an unmasked text frame (RFC 6455, section 5.2) and returns its length in bytes. */
static size_t frame_head(char *head, size_t len)
{
	head[0] = (char)0x81;
	if (len < 126) {
		head[1] = (char)len;
		return 2;
	}
	head[1] = 126;
	head[2] = (char)(len >> 8);
	head[3] = (char)len;
	return 4;
}

static void say(int fd, const char *text, size_t len)
{
	char frame[512];
	size_t head_len = frame_head(frame, len);
	memcpy(frame + head_len, text, len);
	answer(fd, frame, head_len + len);
}

static void hold(int fd)
{
	places[fd] = held_len;
	held[held_len++] = fd;
	is_held[fd] = true;
}

static void publish(const char *data, size_t len)
{
	while (__atomic_exchange_n(&ring->lock, 1, __ATOMIC_ACQUIRE)) {
	}
	struct event *event = &ring->events[ring->count % RING_EVENTS];
	event->len = len;
	memcpy(event->data, data, len);
	__atomic_store_n(&ring->count, ring->count + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->lock, 0, __ATOMIC_RELEASE);
	for (int worker = 0; worker < workers; worker++) {
		if (eventfd_write(wakes[worker], 1) < 0) {
			fail("eventfd");
		}
	}
}

/* Sends the events published since `next` to every held connection. Returns the number of the next event. */
static uint64_t deliver(uint64_t next)
{
	static char whole[DATA_BYTES_MAX + 64], frame[DATA_BYTES_MAX + 4];
	for (uint64_t count = __atomic_load_n(&ring->count, __ATOMIC_ACQUIRE); next < count; next++) {
		if (count - next > RING_EVENTS / 2) {
			fprintf(stderr, "floor: a worker is %llu events behind\n", (unsigned long long)(count - next));
			exit(1);
		}
		struct event *event = &ring->events[next % RING_EVENTS];
		char head[48];
		int head_len = snprintf(head, sizeof head, "%zx\r\nid: %016llx\ndata: ", event->len + 29, (unsigned long long)next);
		struct iovec parts[] = {{head, (size_t)head_len}, {event->data, event->len}, {"\n\n\r\n", 4}};
		size_t len = 0;
		for (int part = 0; part < 3; part++) {
			memcpy(whole + len, parts[part].iov_base, parts[part].iov_len);
			len += parts[part].iov_len;
		}
		size_t frame_len = 0;
		if (is_hub) {
			frame_len = frame_head(frame, event->len);
			memcpy(frame + frame_len, event->data, event->len);
			frame_len += event->len;
		}
		/* Iterate from the end: closing a connection moves the last one to its index. */
		for (int at = held_len - 1; at >= 0; at--) {
			const char *bytes = is_websocket[held[at]] ? frame : whole;
			size_t bytes_len = is_websocket[held[at]] ? frame_len : len;
			ssize_t sent = in_parts ? writev(held[at], parts, 3) : send(held[at], bytes, bytes_len, MSG_NOSIGNAL);
			if (sent != (ssize_t)bytes_len) {
				end(held[at]);
			}
		}
	}
	return next;
}

/* Handles the request at the start of `bytes`. Returns its length in bytes, or 0 if it is incomplete. */
static size_t handle(int fd, char *bytes)
{
	if (is_websocket[fd]) {
		/* Benchmark clients send each message in one piece. The first one subscribes. */
		if (!is_held[fd]) {
			say(fd, subscribed, sizeof subscribed - 1);
			hold(fd);
		}
		return strlen(bytes);
	}
	char *head_end = strstr(bytes, "\r\n\r\n");
	if (!head_end) {
		return 0;
	}
	size_t head_len = (size_t)(head_end - bytes) + 4, content = 0;
	if (!strncmp(bytes, "POST ", 5)) {
		char *field = strcasestr(bytes, "\r\ncontent-length:");
		content = field && field < head_end ? strtoul(field + 17, NULL, 10) : 0;
		if (content == 0 || content > DATA_BYTES_MAX) {
			fprintf(stderr, "floor: a message of %zu bytes\n", content);
			exit(1);
		}
		if (strlen(bytes + head_len) < content) {
			return 0;
		}
		publish(bytes + head_len, content);
		answer(fd, is_hub ? published : accepted, is_hub ? sizeof published - 1 : sizeof accepted - 1);
	} else if (is_hub && !strncmp(bytes, "GET /app/", 9)) {
		char both[sizeof upgraded + sizeof established + 4];
		size_t len = sizeof upgraded - 1;
		memcpy(both, upgraded, len);
		len += frame_head(both + len, sizeof established - 1);
		memcpy(both + len, established, sizeof established - 1);
		is_websocket[fd] = true;
		answer(fd, both, len + sizeof established - 1);
	} else if (memmem(bytes, strcspn(bytes, "\r"), is_hub ? "/mercure?" : "/events ", is_hub ? 9 : 8)) {
		hold(fd);
		answer(fd, stream, sizeof stream - 1);
	} else {
		answer(fd, page, sizeof page - 1);
	}
	return head_len + content;
}

static void receive(int fd)
{
	static char room[REQUEST_BYTES_MAX + 1];
	struct request *kept = requests[fd];
	char *bytes = kept ? kept->bytes : room;
	size_t len = kept ? kept->len : 0;
	ssize_t got = recv(fd, bytes + len, REQUEST_BYTES_MAX - len, MSG_DONTWAIT);
	if (got <= 0) {
		if (got == 0 || errno != EAGAIN) {
			end(fd);
		}
		return;
	}
	len += (size_t)got;
	bytes[len] = 0;
	/* Benchmark clients send one request at a time. */
	if (handle(fd, bytes) != 0) {
		if (requests[fd]) {
			requests[fd]->len = 0;
		}
		return;
	}
	if (!kept && !(kept = requests[fd] = malloc(sizeof *kept))) {
		fail("malloc");
	}
	memmove(kept->bytes, bytes, len + 1);
	kept->len = len;
}

static void take(int epoll, int listener)
{
	for (int taken = 0; taken < EVENTS_MAX; taken++) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			return;
		}
		struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};
		if (fd >= CLIENTS_MAX || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
			fail("epoll_ctl");
		}
		/* Most requests arrive before their connection is accepted. */
		receive(fd);
	}
}

static void work(uint16_t port, int number)
{
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 4096) < 0) {
		fail("listen");
	}
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	for (int at = 0; at < 2; at++) {
		int fd = at == 0 ? listener : wakes[number];
		struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	}
	printf("worker %d started pid=%d\n", number, (int)getpid());
	fflush(stdout);
	for (uint64_t next = 0;;) {
		struct epoll_event events[EVENTS_MAX];
		int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
		for (int at = 0; at < ready; at++) {
			int fd = events[at].data.fd;
			if (fd == listener) {
				take(epoll, listener);
			} else if (fd == wakes[number]) {
				eventfd_t count;
				eventfd_read(fd, &count);
				next = deliver(next);
			} else {
				receive(fd);
			}
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 4 || (workers = atoi(argv[2])) < 1 || workers > WORKERS_MAX) {
		fprintf(stderr, "usage: floor PORT WORKERS send|writev|hub, with at most %d workers\n", WORKERS_MAX);
		return 2;
	}
	in_parts = !strcmp(argv[3], "writev");
	is_hub = !strcmp(argv[3], "hub");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max < CLIENTS_MAX ? limit.rlim_max : CLIENTS_MAX;
	setrlimit(RLIMIT_NOFILE, &limit);
	ring = mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ring == MAP_FAILED) {
		fail("mmap");
	}
	for (int worker = 0; worker < workers; worker++) {
		wakes[worker] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	}
	for (int worker = 0; worker < workers; worker++) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			work((uint16_t)atoi(argv[1]), worker);
		}
	}
	/* A worker exits only on failure. */
	wait(NULL);
	return 1;
}
