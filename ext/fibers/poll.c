/* Fermata\Poll waits for many streams, signals and a timeout. Fermata\Revolt\Driver is based on it.
 *
 * The streams are in a separate epoll set. In a handler or task, the fiber waits until the set is ready. Elsewhere, the process
 * waits. After fork(), parent and child would share the set, so the child creates another one on the next use. */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "fibers/callbacks.h"
#include "fibers/watch.h"
#include "zend_exceptions.h"

#define EVENTS_MAX 64
#define SIGNALS_MAX 65
/* Keys of events that belong to no stream; keys of streams are positive. */
#define KEY_WAKE (-1)
#define KEY_SIGNAL (-2)

#define WANTS_READ 1
#define WANTS_WRITE 2

typedef struct fermata_poll {
	int set, wake;         /* -1 = not created yet */
	uint32_t fork;         /* value of fermata.forks when the descriptors were created */
	HashTable streams;     /* resource number => requested events; the higher bits are the descriptor */
	HashTable always;      /* the same for streams that epoll rejects, such as regular files, which are always ready */
	uint64_t signals;      /* bit mask of watched signals */
	bool waits;
	zend_object std;
} fermata_poll;

/* Signals of the process. The signal handler marks the signal and writes to `fd`, which wakes the waiting fiber. */
static struct {
	int fd;
	uint32_t fork;
	volatile sig_atomic_t seen[SIGNALS_MAX];
	uint32_t watched[SIGNALS_MAX]; /* number of Poll objects that watch the signal */
	struct sigaction before[SIGNALS_MAX];
} signals = {.fd = -1};

static zend_object_handlers poll_handlers;

#define THIS_POLL() FERMATA_FROM(fermata_poll, Z_OBJ_P(ZEND_THIS))
#define BIT(signal) (UINT64_C(1) << ((signal) - 1))

/* Signals */

static void on_signal(int number)
{
	int before = errno;
	uint64_t one = 1;
	signals.seen[number] = 1;
	if (write(signals.fd, &one, sizeof(one)) < 0) {
		/* The eventfd is full, so the wait ends without this write. */
	}
	errno = before;
}

static void signal_watch(int number)
{
	if (!signals.watched[number]++) {
		struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
		sigemptyset(&action.sa_mask);
		signals.seen[number] = 0;
		sigaction(number, &action, &signals.before[number]);
	}
}

static void signal_unwatch(int number)
{
	if (!--signals.watched[number]) {
		sigaction(number, &signals.before[number], NULL);
	}
}

/* The epoll set */

static void add(const fermata_poll *poll, int fd, int key)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)(int64_t)key};
	epoll_ctl(poll->set, EPOLL_CTL_ADD, fd, &event);
}

/* PHP never reuses the number of a resource, but the kernel reuses descriptors. */
static bool is_open(zend_ulong number)
{
	const zval *resource = zend_hash_index_find(&EG(regular_list), number);
	return resource && Z_RES_P(resource)->type >= 0;
}

/* Removes other streams with this descriptor: they were closed, and the descriptor now belongs to another stream. */
static void forget_descriptor(fermata_poll *poll, int fd, zend_ulong but)
{
	zend_ulong number;
	zval *wanted;
	ZEND_HASH_FOREACH_NUM_KEY_VAL(&poll->streams, number, wanted) {
		if (number != but && Z_LVAL_P(wanted) >> 2 == fd) {
			zend_hash_index_del(&poll->streams, number);
		}
	} ZEND_HASH_FOREACH_END();
}

static int register_stream(fermata_poll *poll, zend_ulong number, zend_long wanted)
{
	struct epoll_event event = {
		.events = (wanted & WANTS_READ ? EPOLLIN : 0) | (wanted & WANTS_WRITE ? EPOLLOUT : 0),
		.data.u64 = number,
	};
	int fd = (int)(wanted >> 2);
	if (epoll_ctl(poll->set, EPOLL_CTL_ADD, fd, &event) == 0) {
		return 0;
	}
	if (errno != EEXIST) {
		return -1;
	}
	forget_descriptor(poll, fd, number);
	return epoll_ctl(poll->set, EPOLL_CTL_MOD, fd, &event);
}

static void close_set(fermata_poll *poll)
{
	if (poll->set >= 0) {
		close(poll->set);
		close(poll->wake);
		poll->set = poll->wake = -1;
	}
}

/* Creates the eventfd for signals. Returns false with an exception pending. */
static bool open_signals(void)
{
	if (signals.fd >= 0 && signals.fork != fermata.forks) {
		close(signals.fd);
		signals.fd = -1;
	}
	if (signals.fd < 0) {
		signals.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		signals.fork = fermata.forks;
	}
	return signals.fd >= 0;
}

/* Creates the epoll set. Returns false with an exception pending. */
static bool open_set(fermata_poll *poll)
{
	if (EXPECTED(poll->set >= 0 && poll->fork == fermata.forks)) {
		return true;
	}
	close_set(poll);
	poll->set = epoll_create1(EPOLL_CLOEXEC);
	poll->wake = poll->set < 0 ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (poll->wake < 0 || (poll->signals && !open_signals())) {
		zend_throw_exception_ex(fermata_ce_configuration, 0, "streams cannot be waited for: %s", strerror(errno));
		if (poll->set >= 0) {
			close(poll->set);
			poll->set = -1;
		}
		return false;
	}
	poll->fork = fermata.forks;
	add(poll, poll->wake, KEY_WAKE);
	if (poll->signals) {
		add(poll, signals.fd, KEY_SIGNAL);
	}
	zend_ulong number;
	zval *wanted;
	ZEND_HASH_FOREACH_NUM_KEY_VAL(&poll->streams, number, wanted) {
		if (is_open(number)) {
			register_stream(poll, number, Z_LVAL_P(wanted));
		} else {
			zend_hash_index_del(&poll->streams, number);
		}
	} ZEND_HASH_FOREACH_END();
	return true;
}

/* Object lifecycle */

static zend_object *poll_create(zend_class_entry *ce)
{
	fermata_poll *poll = zend_object_alloc(sizeof(fermata_poll), ce);
	memset(poll, 0, XtOffsetOf(fermata_poll, std));
	poll->set = poll->wake = -1;
	zend_hash_init(&poll->streams, 8, NULL, NULL, false);
	zend_hash_init(&poll->always, 0, NULL, NULL, false);
	zend_object_std_init(&poll->std, ce);
	poll->std.handlers = &poll_handlers;
	return &poll->std;
}

static void poll_free(zend_object *object)
{
	fermata_poll *poll = FERMATA_FROM(fermata_poll, object);
	for (int number = 1; number < SIGNALS_MAX; number++) {
		if (poll->signals & BIT(number)) {
			signal_unwatch(number);
		}
	}
	close_set(poll);
	zend_hash_destroy(&poll->streams);
	zend_hash_destroy(&poll->always);
	zend_object_std_dtor(object);
}

void fermata_poll_init(void)
{
	fermata_ce_poll->create_object = poll_create;
	memcpy(&poll_handlers, zend_get_std_object_handlers(), sizeof(poll_handlers));
	poll_handlers.offset = XtOffsetOf(fermata_poll, std);
	poll_handlers.free_obj = poll_free;
	poll_handlers.clone_obj = NULL;
	poll_handlers.compare = zend_objects_not_comparable;
}

/* Methods */

static bool in_handler(void)
{
	return fermata.handling && !fermata.forked;
}

ZEND_METHOD(Fermata_Poll, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_Poll, inHandler)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(in_handler());
}

static void forget(fermata_poll *poll, zend_ulong number)
{
	zval *wanted = zend_hash_index_find(&poll->streams, number);
	if (wanted) {
		struct epoll_event unused = {0};
		/* The kernel has already removed a closed descriptor, whose number may now belong to another stream. */
		if (poll->set >= 0 && poll->fork == fermata.forks && is_open(number)) {
			epoll_ctl(poll->set, EPOLL_CTL_DEL, (int)(Z_LVAL_P(wanted) >> 2), &unused);
		}
		zend_hash_index_del(&poll->streams, number);
	}
	zend_hash_index_del(&poll->always, number);
}

ZEND_METHOD(Fermata_Poll, watch)
{
	zval *resource, value;
	bool read, write;
	php_stream *stream;
	int fd;
	ZEND_PARSE_PARAMETERS_START(3, 3)
		Z_PARAM_RESOURCE(resource)
		Z_PARAM_BOOL(read)
		Z_PARAM_BOOL(write)
	ZEND_PARSE_PARAMETERS_END();
	fermata_poll *poll = THIS_POLL();
	zend_ulong number = (zend_ulong)Z_RES_HANDLE_P(resource);
	if (!read && !write) {
		forget(poll, number);
		return;
	}
	stream = (php_stream *)zend_fetch_resource2_ex(resource, "stream", php_file_le_stream(), php_file_le_pstream());
	if (!stream || !open_set(poll)) {
		RETURN_THROWS();
	}
	if (php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void *)&fd, false) != SUCCESS || fd < 0) {
		fermata_misuse("the stream has no descriptor that could be waited for");
		RETURN_THROWS();
	}
	ZVAL_LONG(&value, (zend_long)fd << 2 | (read ? WANTS_READ : 0) | (write ? WANTS_WRITE : 0));
	if (register_stream(poll, number, Z_LVAL(value)) == 0) {
		zend_hash_index_update(&poll->streams, number, &value);
	} else if (errno == EPERM) {
		zend_hash_index_update(&poll->always, number, &value);
	} else {
		zend_throw_exception_ex(fermata_ce_backpressure, 0, "the stream cannot be waited for: %s", strerror(errno));
	}
}

ZEND_METHOD(Fermata_Poll, signal)
{
	zend_long number;
	bool watch;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_LONG(number)
		Z_PARAM_BOOL(watch)
	ZEND_PARSE_PARAMETERS_END();
	fermata_poll *poll = THIS_POLL();
	if (number < 1 || number >= SIGNALS_MAX || number == SIGKILL || number == SIGSTOP) {
		fermata_misuse("signal " ZEND_LONG_FMT " cannot be waited for", number);
		RETURN_THROWS();
	}
	if (fermata.worker && number == SIGTERM) {
		fermata_misuse("SIGTERM stops a worker of a server and cannot be waited for in it");
		RETURN_THROWS();
	}
	if (watch == !!(poll->signals & BIT(number))) {
		return;
	}
	if (!watch) {
		poll->signals &= ~BIT(number);
		signal_unwatch((int)number);
		return;
	}
	if (!open_set(poll) || !open_signals()) {
		RETURN_THROWS();
	}
	if (!poll->signals) {
		add(poll, signals.fd, KEY_SIGNAL);
	}
	poll->signals |= BIT(number);
	signal_watch((int)number);
}

ZEND_METHOD(Fermata_Poll, wake)
{
	ZEND_PARSE_PARAMETERS_NONE();
	const fermata_poll *poll = THIS_POLL();
	uint64_t one = 1;
	if (poll->wake >= 0 && write(poll->wake, &one, sizeof(one)) < 0) {
		/* The eventfd is full, so the wait ends without this write. */
	}
}

static void drain(int fd)
{
	uint64_t count;
	if (read(fd, &count, sizeof(count)) < 0) {
		/* Another Poll object has already read the event. */
	}
}

/* Waits for events. Returns false after an exception; otherwise sets `*len` to the number of events. */
static bool wait_events(fermata_poll *poll, double seconds, bool background, struct epoll_event *events, int *len)
{
	if (!in_handler()) {
		/* Rounded up, so that the caller's timers for this time have expired. */
		double ms = seconds < 0 ? -1 : ceil(seconds * 1000);
		*len = epoll_wait(poll->set, events, EVENTS_MAX, ms > INT_MAX ? INT_MAX : (int)ms);
		return true;
	}
	*len = epoll_wait(poll->set, events, EVENTS_MAX, 0);
	if (*len > 0) {
		return true;
	}
	fermata_wait_result result;
	uint64_t due_ms = FERMATA_NEVER;
	bool holds = UNEXPECTED(fermata_wait_obstacle() != NULL) && fermata_has_to_hold();
	if ((!holds && !fermata_can_wait()) || (seconds >= 0 && !fermata_seconds_to_due(seconds, &due_ms))) {
		return false;
	}
	fermata_background(background);
	if (UNEXPECTED(holds)) {
		struct pollfd one = {.fd = poll->set, .events = POLLIN};
		result = fermata_block(&one, 1, due_ms);
	} else if (due_ms) {
		short happened;
		result = fermata_wait_fd(poll->set, POLLIN, due_ms, &happened);
	} else {
		/* Let other fibers run. */
		result = fermata_wait(0);
	}
	fermata_background(false);
	if (result == FERMATA_WAIT_FAILED) {
		return false;
	}
	*len = epoll_wait(poll->set, events, EVENTS_MAX, 0);
	return true;
}

static void add_ready(zval *streams, zend_ulong number, zend_long wanted, uint32_t happened)
{
	zend_long ready = (happened & (EPOLLIN | EPOLLHUP | EPOLLERR) ? WANTS_READ : 0) | (happened & (EPOLLOUT | EPOLLHUP | EPOLLERR) ? WANTS_WRITE : 0);
	if (ready & wanted) {
		add_index_long(streams, number, ready & wanted);
	}
}

static void collect(fermata_poll *poll, const struct epoll_event *events, int len, zval *streams, zval *numbers)
{
	zend_ulong number;
	zval *wanted;
	bool is_haunted = false;
	for (int i = 0; i < len; i++) {
		int64_t key = (int64_t)events[i].data.u64;
		if (key == KEY_WAKE) {
			drain(poll->wake);
		} else if (key == KEY_SIGNAL) {
			drain(signals.fd);
		} else if ((wanted = zend_hash_index_find(&poll->streams, (zend_ulong)key))) {
			add_ready(streams, (zend_ulong)key, Z_LVAL_P(wanted), events[i].events);
		} else {
			/* This process has closed the descriptor, but a forked process still has it open. Only a new set removes such an
			 * event. */
			is_haunted = true;
		}
	}
	if (UNEXPECTED(is_haunted)) {
		close_set(poll);
	}
	ZEND_HASH_FOREACH_NUM_KEY_VAL(&poll->always, number, wanted) {
		add_ready(streams, number, Z_LVAL_P(wanted), EPOLLIN | EPOLLOUT);
	} ZEND_HASH_FOREACH_END();
	for (int signal = 1; poll->signals && signal < SIGNALS_MAX; signal++) {
		if (poll->signals & BIT(signal) && signals.seen[signal]) {
			signals.seen[signal] = 0;
			add_next_index_long(numbers, signal);
		}
	}
}

ZEND_METHOD(Fermata_Poll, wait)
{
	double seconds = -1;
	bool is_null = true, background = false;
	ZEND_PARSE_PARAMETERS_START(0, 2)
		Z_PARAM_OPTIONAL
		Z_PARAM_DOUBLE_OR_NULL(seconds, is_null)
		Z_PARAM_BOOL(background)
	ZEND_PARSE_PARAMETERS_END();
	fermata_poll *poll = THIS_POLL();
	if (!is_null && !(seconds >= 0)) {
		fermata_misuse("a time to wait must be 0 or more seconds, not %g", seconds);
		RETURN_THROWS();
	}
	if (UNEXPECTED(poll->waits)) {
		fermata_misuse("another handler or task waits with this Poll already");
		RETURN_THROWS();
	}
	if (!open_set(poll)) {
		RETURN_THROWS();
	}
	if (zend_hash_num_elements(&poll->always)) {
		seconds = 0;
	} else if (is_null) {
		seconds = -1;
	}
	struct epoll_event events[EVENTS_MAX];
	int len = 0;
	poll->waits = true;
	bool done = wait_events(poll, seconds, background, events, &len);
	poll->waits = false;
	if (!done) {
		RETURN_THROWS();
	}
	zval streams, numbers;
	array_init(&streams);
	array_init(&numbers);
	collect(poll, events, len, &streams, &numbers);
	array_init_size(return_value, 2);
	zend_hash_next_index_insert_new(Z_ARRVAL_P(return_value), &streams);
	zend_hash_next_index_insert_new(Z_ARRVAL_P(return_value), &numbers);
}
