/* Fermata\Worker: messages between the workers of a server.
 *
 * Each worker has a socket pair that all processes of the server inherit. All processes write to it; only the worker reads. If a
 * worker exits, its replacement reads the remaining messages. The handler runs for one message at a time, so messages of one sender
 * arrive in order. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fibers/watch.h"
#include "zend_closures.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include "jobs/jobs.h"
#include "base/optimize_size.h"

/* Maximum size of a message: below the kernel's default limit for one message (net.core.wmem_default, 208 KB). */
#define MESSAGE_BYTES_MAX 65536
/* Worker index of messages from other servers. */
#define OTHER_SERVER UINT32_MAX
/* Limits of one turn. Afterwards other handlers run, because message handlers may send further messages without end. */
#define TURN_MESSAGES_MAX 64
#define TURN_NS_MAX 5000000

static struct {
	int (*pairs)[2];  /* by worker: end to read, end to write */
	uint32_t len;     /* 0 = no running server, or no message handler */
	uint32_t index;
	fermata_watcher watcher;
	zval receive;     /* closure of Worker::receive() */
	const fermata_handler *handler;
	char *inbox;
	bool is_due;      /* a task that receives messages was started */
} peers;

static void close_all(void)
{
	for (uint32_t i = 0; i < peers.len; i++) {
		for (int end = 0; end < 2; end++) {
			if (peers.pairs[i][end] >= 0) {
				close(peers.pairs[i][end]);
			}
		}
	}
	if (peers.pairs) {
		pefree(peers.pairs, true);
	}
	peers.pairs = NULL;
	peers.len = 0;
}

/* Creates the sockets for `len` workers, in the master before it forks. Returns false with an exception pending. */
bool fermata_peers_open(const fermata_server *server, uint32_t len)
{
	if (Z_ISUNDEF(server->on_message.closure)) {
		return true;
	}
	peers.pairs = safe_pemalloc(len, sizeof(peers.pairs[0]), 0, true);
	for (peers.len = 0; peers.len < len; peers.len++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, peers.pairs[peers.len]) != 0) {
			zend_throw_exception_ex(fermata_ce_configuration, 0, "sockets between workers: %s", strerror(errno));
			close_all();
			return false;
		}
	}
	return true;
}

/* Called in the master when all workers have exited. */
void fermata_peers_close(void)
{
	close_all();
}

/* Called by the loop when messages can be read. */
static void on_ready(fermata_watcher *watcher, short happened)
{
	if (happened & POLLNVAL) {
		return;
	}
	fermata_future *task = fermata_task_begin(&peers.receive, FM_TASK_MESSAGES);
	peers.is_due = task;
	if (UNEXPECTED(!task)) {
		/* The task queue is full (tasks_queue_max). The queued tasks run before the loop polls again. */
		short why;
		zend_clear_exception();
		fermata_watch(watcher, peers.pairs[peers.index][0], POLLIN, &why);
		return;
	}
	fermata_future_release(task);
}

static void watch(void)
{
	short why;
	if (!fermata_watch(&peers.watcher, peers.pairs[peers.index][0], POLLIN, &why)) {
		fm_worker_log(fermata.worker, FERMATA_LOG_ERROR, FERMATA_LITERAL("messages of other workers cannot be waited for"));
	}
}

/* Called when a worker starts. */
void fermata_peers_start(const fermata_server *server, uint32_t worker_index)
{
	peers.index = worker_index;
	if (!peers.len) {
		return;
	}
	for (uint32_t i = 0; i < peers.len; i++) {
		if (i != worker_index) {
			close(peers.pairs[i][0]);
			peers.pairs[i][0] = -1;
		}
	}
	zend_function *receive = zend_hash_str_find_ptr(&fermata_ce_worker->function_table, ZEND_STRL("receive"));
	zend_create_fake_closure(&peers.receive, receive, fermata_ce_worker, fermata_ce_worker, NULL);
	peers.handler = &server->on_message;
	peers.inbox = pemalloc(MESSAGE_BYTES_MAX + sizeof(uint32_t), true);
	peers.watcher = (fermata_watcher){.fd = -1, .ready = on_ready};
	watch();
}

/* Called when a worker stops. */
void fermata_peers_stop(void)
{
	if (peers.inbox) {
		fermata_unwatch(&peers.watcher);
		zval_ptr_dtor(&peers.receive);
		ZVAL_UNDEF(&peers.receive);
		pefree(peers.inbox, true);
		peers.inbox = NULL;
	}
}

/* Calls the handler with one message. Logs its exceptions, so that the next message is still delivered. */
static void deliver(uint32_t from, const char *text, size_t len)
{
	zval arguments[2], result;
	ZVAL_UNDEF(&result);
	if (fermata_jobs_unserialize(&arguments[0], text, len)) {
		ZVAL_LONG(&arguments[1], from == OTHER_SERVER ? -1 : (zend_long)from);
		zend_fcall_info info = {.size = sizeof(info), .retval = &result, .params = arguments, .param_count = 2};
		zend_fcall_info_cache call = peers.handler->call;
		ZVAL_COPY_VALUE(&info.function_name, &peers.handler->closure);
		zend_call_function(&info, &call);
		zval_ptr_dtor(&result);
		zval_ptr_dtor(&arguments[0]);
	} else if (!EG(exception)) {
		if (from == OTHER_SERVER) {
			fermata_misuse("a message of another server's worker cannot be unserialised");
		} else {
			fermata_misuse("a message of worker %u cannot be unserialised", from);
		}
	}
	if (EG(exception) && !zend_is_unwind_exit(EG(exception)) && !zend_is_graceful_exit(EG(exception))) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
}

/* The task that receives the queued messages. */
ZEND_METHOD(Fermata_Worker, receive)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (UNEXPECTED(!peers.is_due)) {
		/* The method is private; the application called it by reflection. */
		fermata_misuse("only the server itself receives the messages of other workers");
		RETURN_THROWS();
	}
	peers.is_due = false;
	uint64_t began_ns = fermata_now_ns();
	for (uint32_t taken = 0; !EG(exception) && taken < TURN_MESSAGES_MAX && fermata_now_ns() - began_ns < TURN_NS_MAX; taken++) {
		uint32_t from;
		ssize_t len = recv(peers.pairs[peers.index][0], peers.inbox, MESSAGE_BYTES_MAX + sizeof(from), MSG_DONTWAIT);
		if (len < (ssize_t)sizeof(from)) {
			if (len < 0 && errno == EINTR) {
				continue;
			}
			break;
		}
		memcpy(&from, peers.inbox, sizeof(from));
		deliver(from, peers.inbox + sizeof(from), (size_t)len - sizeof(from));
	}
	if (!fermata_fibers_is_unwinding()) {
		/* If messages are left, the watcher fires immediately. */
		watch();
	}
}

/* Sends a message to a worker. Returns false if the worker's socket is full. */
static bool send_to(uint32_t to, uint32_t from, FmStr text)
{
	struct iovec parts[] = {{.iov_base = &from, .iov_len = sizeof(from)}, {.iov_base = (char *)text.ptr, .iov_len = text.len}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	while (sendmsg(peers.pairs[to][1], &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno != EINTR) {
			return false;
		}
	}
	return true;
}

static ZEND_COLD void throw_full(uint32_t worker)
{
	zend_throw_exception_ex(fermata_ce_backpressure, 0, "worker %u has not read the messages it has; try again later", worker);
}

/* Serializes a message. Returns false with an exception pending. The caller frees the text in any case. */
static bool prepare(zval *message, smart_str *text)
{
	if (!peers.len || !fermata.worker) {
		fermata_misuse(fermata.worker ? "this server has no handler for messages; give one to Server::onMessage()"
			: "messages can be sent only in a worker of a running server");
		return false;
	}
	if (!fermata_jobs_serialize(message, text)) {
		return false;
	}
	if (ZSTR_LEN(text->s) > MESSAGE_BYTES_MAX) {
		fermata_misuse("the message takes %zu bytes; %d is the most", ZSTR_LEN(text->s), MESSAGE_BYTES_MAX);
		return false;
	}
	return true;
}

ZEND_METHOD(Fermata_Worker, send)
{
	zend_long to;
	zval *message;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_LONG(to)
		Z_PARAM_ZVAL(message)
	ZEND_PARSE_PARAMETERS_END();
	smart_str text = {0};
	if (prepare(message, &text)) {
		if (to < 0 || to >= (zend_long)peers.len) {
			fermata_misuse("there is no worker " ZEND_LONG_FMT "; their numbers are 0 to %u", to, peers.len - 1);
		} else if (!send_to((uint32_t)to, peers.index, fermata_str(text.s))) {
			throw_full((uint32_t)to);
		}
	}
	smart_str_free(&text);
}

ZEND_METHOD(Fermata_Worker, broadcast)
{
	zval *message;
	bool self = false;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_ZVAL(message)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(self)
	ZEND_PARSE_PARAMETERS_END();
	smart_str text = {0};
	if (prepare(message, &text)) {
		/* If the queue of one worker is full, the message is still delivered to the others. */
		uint32_t full = peers.len;
		for (uint32_t to = 0; to < peers.len; to++) {
			if ((self || to != peers.index) && !send_to(to, peers.index, fermata_str(text.s))) {
				full = to;
			}
		}
		FmError error;
		error.len = 0;
		uint32_t code = fm_worker_send_to_servers(fermata.worker, fermata_str(text.s), &error);
		if (full != peers.len) {
			throw_full(full);
		} else if (UNEXPECTED(code != FM_OK)) {
			fermata_throw(code, &error);
		}
	}
	smart_str_free(&text);
}

/* Queues a broadcast of another server's worker behind the messages of this server. */
void fermata_peers_on_message(FmStr text)
{
	if (!peers.len || text.len > MESSAGE_BYTES_MAX) {
		/* There is no message handler, or the message is not from Worker::broadcast(). */
		return;
	}
	if (!send_to(peers.index, OTHER_SERVER, text)) {
		fm_worker_log(fermata.worker, FERMATA_LOG_ERROR, FERMATA_LITERAL("a message of another server's worker is lost: this "
			"worker has not read the messages it has"));
	}
}

ZEND_METHOD(Fermata_Worker, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_Worker, index)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!fermata.worker) {
		fermata_misuse("only the workers of a running server have a number");
		RETURN_THROWS();
	}
	RETURN_LONG(peers.index);
}

ZEND_METHOD(Fermata_Server, onMessage)
{
	zend_fcall_info info;
	zend_fcall_info_cache call;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(info, call)
	ZEND_PARSE_PARAMETERS_END();
	fermata_server *server = FERMATA_FROM(fermata_server, Z_OBJ_P(ZEND_THIS));
	if (!fermata_server_check_open(server)) {
		RETURN_THROWS();
	}
	if (!Z_ISUNDEF(server->on_message.closure)) {
		fermata_misuse("there is a handler for messages already");
		RETURN_THROWS();
	}
	if (!fermata_handler_init(&server->on_message, &info.function_name)) {
		ZVAL_UNDEF(&server->on_message.closure);
		if (!EG(exception)) {
			fermata_misuse("the handler for messages cannot be called");
		}
		RETURN_THROWS();
	}
	static const fermata_given given[] = {{FERMATA_GIVEN_ANY, NULL}, {FERMATA_GIVEN_INT, NULL}};
	if (!fermata_handler_takes(&server->on_message, "the handler for messages of workers", given, 2)) {
		zval_ptr_dtor(&server->on_message.closure);
		ZVAL_UNDEF(&server->on_message.closure);
		RETURN_THROWS();
	}
	RETURN_OBJ_COPY(Z_OBJ_P(ZEND_THIS));
}
