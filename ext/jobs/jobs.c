/* Fermata\Jobs and the worker's side of a call: queues the call, and the fiber waits for the reply. See jobs.h. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "fibers/watch.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include "jobs/jobs.h"
#include "base/optimize_size.h"

#define PROCESSES_MAX 1024
#define QUEUE_MAX 1000000
#define TIMEOUT_MS_MAX 86400000
#define BYTES_MAX 1073741824
#define NS_PER_MS 1000000

static zend_object_handlers jobs_handlers;

#define THIS_JOBS() FERMATA_FROM(fermata_jobs, Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *jobs_create(zend_class_entry *ce)
{
	fermata_jobs *jobs = zend_object_alloc(sizeof(fermata_jobs), ce);
	memset(jobs, 0, XtOffsetOf(fermata_jobs, std));
	jobs->give = jobs->take = jobs->life[0] = jobs->life[1] = -1;
	zend_object_std_init(&jobs->std, ce);
	jobs->std.handlers = &jobs_handlers;
	return &jobs->std;
}

static void close_all(fermata_jobs *jobs)
{
	int *all[] = {&jobs->give, &jobs->take, &jobs->life[0], &jobs->life[1]};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (*all[i] >= 0) {
			close(*all[i]);
			*all[i] = -1;
		}
	}
}

static void jobs_free(zend_object *object)
{
	fermata_jobs *jobs = FERMATA_FROM(fermata_jobs, object);
	for (uint32_t i = 0; i < jobs->len; i++) {
		zval_ptr_dtor(&jobs->at[i].closure);
	}
	if (jobs->at) {
		efree(jobs->at);
	}
	if (jobs->names) {
		zend_array_destroy(jobs->names);
	}
	close_all(jobs);
	zend_object_std_dtor(object);
}

/* Reports the server's reference to the cycle collector. */
void fermata_jobs_gc(fermata_jobs *jobs, zend_get_gc_buffer *buffer)
{
	zend_get_gc_buffer_add_obj(buffer, &jobs->std);
}

static HashTable *jobs_get_gc(zend_object *object, zval **table, int *len)
{
	fermata_jobs *jobs = FERMATA_FROM(fermata_jobs, object);
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	for (uint32_t i = 0; i < jobs->len; i++) {
		zend_get_gc_buffer_add_zval(buffer, &jobs->at[i].closure);
	}
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

void fermata_jobs_init(void)
{
	fermata_ce_jobs->create_object = jobs_create;
	memcpy(&jobs_handlers, zend_get_std_object_handlers(), sizeof(jobs_handlers));
	jobs_handlers.offset = XtOffsetOf(fermata_jobs, std);
	jobs_handlers.free_obj = jobs_free;
	jobs_handlers.get_gc = jobs_get_gc;
	jobs_handlers.clone_obj = NULL;
	jobs_handlers.compare = zend_objects_not_comparable;
}

void fermata_jobs_release(fermata_jobs *jobs)
{
	if (jobs) {
		OBJ_RELEASE(&jobs->std);
	}
}

/* Start and stop, in the master */

/* Returns false with a MisuseError pending. */
static bool begin(fermata_jobs *jobs)
{
	if (!jobs->len) {
		fermata_misuse("jobs() was called and no job was added; call add() before run()");
		return false;
	}
	return jobs->started = true;
}

/* Opens the jobs of a test's server; see run_here(). Returns false with an exception pending. */
bool fermata_jobs_open_in_process(const fermata_server *server)
{
	return !server->jobs || begin(server->jobs);
}

/* Opens the queue, before the server binds its addresses. Returns false with an exception pending. */
bool fermata_jobs_open(const fermata_server *server, FmServer *core)
{
	fermata_jobs *jobs = server->jobs;
	int queue[2];
	if (!jobs) {
		return true;
	}
	if (!begin(jobs)) {
		return false;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, queue) == 0) {
		jobs->give = queue[0];
		jobs->take = queue[1];
	}
	if (jobs->give < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, jobs->life) != 0) {
		zend_throw_exception_ex(fermata_ce_configuration, 0, "the processes for jobs cannot be started: %s", strerror(errno));
		return false;
	}
	fm_server_companion(core, FERMATA_LITERAL("jobs"));
	return true;
}

static void close_ends(int *one, int *other)
{
	close(*one);
	close(*other);
	*one = *other = -1;
}

/* Closes the ends that a worker does not use. The master keeps all ends open, for processes that it starts later, and so that
 * queued calls survive a restart of the job processes. */
void fermata_jobs_in_worker(const fermata_server *server)
{
	if (server->jobs) {
		close_ends(&server->jobs->take, &server->jobs->life[0]);
	}
}

/* Runs the supervisor in the master's companion process. Returns only in job processes, which then finish as by exit(). */
void fermata_jobs_supervise(const fermata_server *server, FmCompanion *companion)
{
	fermata_jobs *jobs = server->jobs;
	close_ends(&jobs->give, &jobs->life[1]);
	if (!fermata_job_supervise(jobs, companion)) {
		_exit(0);
	}
	fermata_job_work(server, jobs);
	fm_companion_free(companion);
}

/* Called when all workers have exited, or the server did not start. */
void fermata_jobs_end(const fermata_server *server, int32_t supervisor)
{
	fermata_jobs *jobs = server->jobs;
	if (!jobs) {
		return;
	}
	if (jobs->life[1] >= 0) {
		/* Write instead of closing only: a process that a handler forked may hold the end open for long. */
		send(jobs->life[1], "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	close_all(jobs);
	while (supervisor > 0 && waitpid(supervisor, NULL, 0) < 0 && errno == EINTR) {
	}
}

/* A call */

typedef struct job_call {
	fermata_jobs *jobs;
	const zend_string *name;
	uint64_t due_ms, due_ns;
	int fd;
	uint32_t end; /* FM_JOB_*, for the metrics */
} job_call;

static ZEND_COLD void throw_late(job_call *call)
{
	call->end = FM_JOB_TIMED_OUT;
	zend_throw_exception_ex(fermata_ce_timeout, 0, "job %s has taken longer than " ZEND_ULONG_FMT " ms, and was ended",
		ZSTR_VAL(call->name), (zend_ulong)call->jobs->timeout_ms);
}

static ZEND_COLD void throw_died(job_call *call, FmStr why)
{
	if (fermata_now_ns() >= call->due_ns) {
		throw_late(call);
		return;
	}
	if (!why.len) {
		why = FERMATA_LITERAL("it was killed or has exited; the log says how");
	}
	call->end = FM_JOB_CRASHED;
	/* PHP's `%.*s` calls strlen(), and the text has no NUL. */
	zend_string *reason = zend_string_init(why.ptr, why.len, 0);
	zend_throw_exception_ex(fermata_ce_job_crashed, 0, "the process that ran job %s has died: %s", ZSTR_VAL(call->name),
		ZSTR_VAL(reason));
	zend_string_release(reason);
}

/* Waits until the socket is ready. Returns false with an exception pending. */
static bool wait_for(job_call *call, int fd, short events)
{
	short happened;
	switch (fermata_wait_fd(fd, events, call->due_ms, &happened)) {
		case FERMATA_WAIT_WOKEN: return true;
		case FERMATA_WAIT_DUE: throw_late(call); return false;
		default: return false;
	}
}

/* Puts the call into the queue. Returns false with an exception pending. */
static bool give(job_call *call, int other, uint32_t job, uint32_t bytes)
{
	fermata_job_head head = {.due_ns = call->due_ns, .job = job, .bytes = bytes};
	struct iovec part = {.iov_base = &head, .iov_len = sizeof(head)};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	memset(&control, 0, sizeof(control));
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
	passed->cmsg_level = SOL_SOCKET;
	passed->cmsg_type = SCM_RIGHTS;
	passed->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(passed), &other, sizeof(int));
	for (;;) {
		if (sendmsg(call->jobs->give, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
			return true;
		}
		if (errno == EAGAIN) {
			if (!wait_for(call, call->jobs->give, POLLOUT)) {
				return false;
			}
		} else if (errno == ETOOMANYREFS) {
			call->end = FM_JOB_REJECTED;
			zend_throw_exception(fermata_ce_backpressure, "too many jobs wait for a process; the limit is that of open files", 0);
			return false;
		} else if (errno == EPIPE || errno == ECONNREFUSED || errno == ECONNRESET || errno == ENOTCONN) {
			throw_died(call, FERMATA_LITERAL("the server has ended, and the processes that run jobs with it"));
			return false;
		} else if (errno != EINTR) {
			call->end = FM_JOB_REJECTED;
			zend_throw_exception_ex(fermata_ce_backpressure, 0, "job %s cannot be given to a process: %s", ZSTR_VAL(call->name), strerror(errno));
			return false;
		}
	}
}

/* Sends without blocking. Returns the number of bytes sent so far; SIZE_MAX when all are sent or the receiver is gone. */
static size_t send_some(int fd, FmStr text, size_t sent)
{
	while (sent < text.len) {
		ssize_t some = send(fd, text.ptr + sent, text.len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (some >= 0) {
			sent += (size_t)some;
		} else if (errno == EAGAIN) {
			return sent;
		} else if (errno != EINTR) {
			return SIZE_MAX;
		}
	}
	return SIZE_MAX;
}

/* Reads exactly len bytes. Returns false with an exception pending. */
static bool receive(job_call *call, char *into, size_t len)
{
	while (len) {
		ssize_t some = recv(call->fd, into, len, MSG_DONTWAIT);
		if (some > 0) {
			into += some;
			len -= (size_t)some;
		} else if (some < 0 && errno == EAGAIN) {
			if (!wait_for(call, call->fd, POLLIN)) {
				return false;
			}
		} else if (some == 0 || errno != EINTR) {
			throw_died(call, FERMATA_LITERAL(""));
			return false;
		}
	}
	return true;
}

static void take_reply(job_call *call, fermata_job_reply reply, zend_string *text, zval *return_value)
{
	switch ((fermata_job_status)reply.status) {
		case FERMATA_JOB_DONE:
			call->end = FM_JOB_DONE;
			if (!fermata_jobs_unserialize(return_value, ZSTR_VAL(text), ZSTR_LEN(text)) && !EG(exception)) {
				call->end = FM_JOB_FAILED;
				zend_throw_exception_ex(fermata_ce_job_failed, 0, "the result of job %s cannot be unserialised here", ZSTR_VAL(call->name));
			}
			break;
		case FERMATA_JOB_THREW: {
			call->end = FM_JOB_FAILED;
			/* The first line is the class. */
			const char *end = memchr(ZSTR_VAL(text), '\n', ZSTR_LEN(text));
			size_t len = end ? (size_t)(end - ZSTR_VAL(text)) : 0;
			zend_object *exception = zend_throw_exception_ex(fermata_ce_job_failed, 0, "job %s: %s", ZSTR_VAL(call->name),
				ZSTR_VAL(text) + (end ? len + 1 : 0));
			zend_update_property_stringl(fermata_ce_job_failed, exception, ZEND_STRL("thrown"), ZSTR_VAL(text), len);
			break;
		}
		default: throw_died(call, fermata_str(text)); break;
	}
}

static void run(job_call *call, int other, uint32_t job, FmStr arguments, zval *return_value)
{
	/* Send as much as the socket buffer accepts before the call is queued. */
	size_t sent = send_some(call->fd, arguments, 0);
	if (!give(call, other, job, (uint32_t)arguments.len)) {
		close(other);
		return;
	}
	close(other);
	while (sent < arguments.len) {
		if (!wait_for(call, call->fd, POLLOUT)) {
			return;
		}
		sent = send_some(call->fd, arguments, sent);
	}
	fermata_job_reply reply;
	if (!receive(call, (char *)&reply, sizeof(reply))) {
		return;
	}
	if (reply.bytes > call->jobs->bytes_max) {
		throw_died(call, FERMATA_LITERAL("what it has sent is no reply"));
		return;
	}
	zend_string *text = zend_string_alloc(reply.bytes, false);
	ZSTR_VAL(text)[reply.bytes] = 0;
	if (receive(call, ZSTR_VAL(text), reply.bytes)) {
		take_reply(call, reply, text, return_value);
	}
	zend_string_release(text);
}

/* Runs a job in the process of a test. Arguments and result are still serialized, so that the job receives the same values as in a
 * job process. */
static void run_here(job_call *call, uint32_t job, FmStr arguments, zval *return_value)
{
	smart_str text = {0};
	fermata_job_status status = fermata_job_call(call->jobs, job, arguments, &text);
	if (UNEXPECTED(fermata_fibers_is_unwinding())) {
		/* The test finished while the job waits. */
		zend_throw_graceful_exit();
	} else {
		take_reply(call, (fermata_job_reply){.status = status, .bytes = (uint32_t)ZSTR_LEN(text.s)}, text.s, return_value);
	}
	smart_str_free(&text);
}

/* Runs a job in another process, over the call's own socket pair. */
static void run_elsewhere(job_call *call, uint32_t job, FmStr arguments, zval *return_value)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
		call->end = FM_JOB_REJECTED;
		zend_throw_exception_ex(fermata_ce_backpressure, 0, "job %s cannot be given to a process: %s", ZSTR_VAL(call->name), strerror(errno));
		return;
	}
	call->fd = pair[0];
	run(call, pair[1], job, arguments, return_value);
	/* A process that receives the job later detects by the closed socket that the caller gave up. */
	close(pair[0]);
}

/* Methods */

ZEND_METHOD(Fermata_Jobs, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_Jobs, add)
{
	zend_string *name;
	zend_fcall_info info;
	zend_fcall_info_cache cache;
	fermata_handler job;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(name)
		Z_PARAM_FUNC(info, cache)
	ZEND_PARSE_PARAMETERS_END();
	fermata_jobs *jobs = THIS_JOBS();
	if (jobs->started) {
		fermata_misuse("run() was called; jobs are added before it");
		RETURN_THROWS();
	}
	if (jobs->names && zend_hash_exists(jobs->names, name)) {
		fermata_misuse("there is a job %s already", ZSTR_VAL(name));
		RETURN_THROWS();
	}
	if (!fermata_handler_init(&job, &info.function_name)) {
		if (!EG(exception)) {
			fermata_misuse("the work of job %s cannot be called", ZSTR_VAL(name));
		}
		RETURN_THROWS();
	}
	if (!jobs->names) {
		jobs->names = zend_new_array(8);
	}
	zval place;
	ZVAL_LONG(&place, jobs->len);
	zend_hash_add(jobs->names, name, &place);
	jobs->at = safe_erealloc(jobs->at, jobs->len + 1, sizeof(fermata_handler), 0);
	jobs->at[jobs->len++] = job;
	RETURN_OBJ_COPY(Z_OBJ_P(ZEND_THIS));
}

static void collect(zval *all, zval *given, uint32_t given_len, HashTable *named)
{
	zend_string *name;
	zval *argument;
	array_init_size(all, given_len);
	for (uint32_t i = 0; i < given_len; i++) {
		Z_TRY_ADDREF(given[i]);
		zend_hash_next_index_insert(Z_ARRVAL_P(all), &given[i]);
	}
	if (named) {
		ZEND_HASH_FOREACH_STR_KEY_VAL(named, name, argument) {
			Z_TRY_ADDREF_P(argument);
			zend_hash_update(Z_ARRVAL_P(all), name, argument);
		} ZEND_HASH_FOREACH_END();
	}
}

/* Checks the arguments here, so that the error contains the line of the call. Returns false with a MisuseError pending. */
static bool check_given(const fermata_handler *job, const zend_string *name, uint32_t given_len, HashTable *named)
{
	const zend_function *function = job->call.function_handler;
	if (function->type != ZEND_USER_FUNCTION || (function->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE)) {
		return true;
	}
	for (uint32_t i = given_len; i < function->common.required_num_args; i++) {
		zend_string *parameter = function->op_array.arg_info[i].name;
		if (!named || !zend_hash_exists(named, parameter)) {
			fermata_misuse("job %s is not given its parameter $%s", ZSTR_VAL(name), ZSTR_VAL(parameter));
			return false;
		}
	}
	return true;
}

ZEND_METHOD(Fermata_Jobs, run)
{
	zend_string *name;
	zval *given, all;
	uint32_t given_len;
	HashTable *named;
	ZEND_PARSE_PARAMETERS_START(1, -1)
		Z_PARAM_STR(name)
		Z_PARAM_VARIADIC_WITH_NAMED(given, given_len, named)
	ZEND_PARSE_PARAMETERS_END();
	fermata_jobs *jobs = THIS_JOBS();
	const zval *job = jobs->names ? zend_hash_find(jobs->names, name) : NULL;
	if (!fermata_can_wait()) {
		RETURN_THROWS();
	}
	if (!job) {
		fermata_misuse("there is no job %s; jobs are added to Jobs before the server runs", ZSTR_VAL(name));
		RETURN_THROWS();
	}
	if (!check_given(&jobs->at[Z_LVAL_P(job)], name, given_len, named)) {
		RETURN_THROWS();
	}
	if (jobs->pending >= jobs->queue_max) {
		fm_count_job(fermata.worker, FM_JOB_REJECTED);
		zend_throw_exception_ex(fermata_ce_backpressure, 0, "%u jobs (the queue of jobs()) of this worker have not ended; try again",
			jobs->pending);
		RETURN_THROWS();
	}
	smart_str text = {0};
	collect(&all, given, given_len, named);
	bool done = fermata_jobs_serialize(&all, &text);
	zval_ptr_dtor(&all);
	if (done && ZSTR_LEN(text.s) > jobs->bytes_max) {
		fermata_misuse("the arguments of job %s take %zu bytes; messageBytes of jobs() is %u", ZSTR_VAL(name), ZSTR_LEN(text.s), jobs->bytes_max);
		done = false;
	}
	if (done) {
		job_call call = {.jobs = jobs, .name = name, .fd = -1, .end = FM_JOB_CANCELLED,
			.due_ms = fm_worker_now_ms(fermata.worker) + jobs->timeout_ms + 1,
			.due_ns = fermata_now_ns() + jobs->timeout_ms * NS_PER_MS};
		fm_worker_jobs(fermata.worker, ++jobs->pending);
		(fermata_is_in_process() ? run_here : run_elsewhere)(&call, (uint32_t)Z_LVAL_P(job), fermata_str(text.s), return_value);
		fm_worker_jobs(fermata.worker, --jobs->pending);
		fm_count_job(fermata.worker, call.end);
	}
	smart_str_free(&text);
}

/* Returns false with a MisuseError pending. */
static bool check_range(const char *what, zend_long value, zend_long most)
{
	if (value >= 1 && value <= most) {
		return true;
	}
	fermata_misuse("jobs(): %s must be 1 to " ZEND_LONG_FMT ", not " ZEND_LONG_FMT, what, most, value);
	return false;
}

ZEND_METHOD(Fermata_Server, jobs)
{
	zend_long processes = 1, queue = 1000, timeout_ms = 30000, bytes = 8388608;
	ZEND_PARSE_PARAMETERS_START(0, 4)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(processes)
		Z_PARAM_LONG(queue)
		Z_PARAM_LONG(timeout_ms)
		Z_PARAM_LONG(bytes)
	ZEND_PARSE_PARAMETERS_END();
	fermata_server *server = FERMATA_FROM(fermata_server, Z_OBJ_P(ZEND_THIS));
	if (!fermata_server_check_open(server)) {
		RETURN_THROWS();
	}
	if (server->jobs) {
		fermata_misuse("jobs() was called already; a server has one set of processes for its jobs");
		RETURN_THROWS();
	}
	if (!check_range("processes", processes, PROCESSES_MAX) || !check_range("queue", queue, QUEUE_MAX)
		|| !check_range("timeoutMs", timeout_ms, TIMEOUT_MS_MAX) || !check_range("messageBytes", bytes, BYTES_MAX)) {
		RETURN_THROWS();
	}
	fermata_jobs *jobs = FERMATA_FROM(fermata_jobs, jobs_create(fermata_ce_jobs));
	jobs->processes = (uint32_t)processes;
	jobs->queue_max = (uint32_t)queue;
	jobs->timeout_ms = (uint64_t)timeout_ms;
	jobs->bytes_max = (uint32_t)bytes;
	server->jobs = jobs;
	RETURN_OBJ_COPY(&jobs->std);
}
