/* Processes that run jobs, and their supervisor.
 *
 * The supervisor is the companion process of the master and runs no PHP. It replaces processes that exit. The server's processes
 * hold the other end of the socket pair `life`. When the server stops, this end becomes readable and these processes exit. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "state/php_state.h"
#include "state/changes.h"
#include "hooks/standard_error.h"
#include "fibers/fibers.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"
#include "zend_smart_str.h"
#include "jobs/process.h"
#include "jobs/values.h"
#include "base/optimize_size.h"

#define STABLE_MS 1000        /* a process that ran this long started successfully */
#define RESTART_MS_MIN 100
#define RESTART_MS_MAX 5000
#define END_MS_MAX 2000       /* grace period of jobs that run when the server stops */
#define LATE_MS 100           /* delay of the kill, so that the caller's time-out comes first */
#define TRACE_BYTES_MAX 16384
#define NS_PER_MS 1000000
#define FATAL (E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR)

/* The supervisor */

typedef struct job_slot {
	pid_t pid; /* 0 = none */
	uint64_t started_ms, due_ms, delay_ms;
	bool *busy; /* shared with the process: it runs a job */
} job_slot;

/* State of this process. */
static struct {
	const FmCompanion *companion;
	bool *busy; /* flag of its slot; NULL in the supervisor */
} here;

static uint64_t now_ms(void)
{
	return fermata_now_ns() / NS_PER_MS;
}

static void log_line(uint32_t level, const char *format, ...)
{
	char text[256];
	va_list arguments;
	va_start(arguments, format);
	int len = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fm_companion_log(here.companion, level, (FmStr){text, MIN((size_t)MAX(len, 0), sizeof(text) - 1)});
}

/* Logs a line that a job wrote to standard error. */
static void log_text(FmStr line)
{
	fm_companion_log_text(here.companion, line);
}

static void ignore_signals(void)
{
	/* Terminals and service managers signal the whole process group; the master decides when the server stops. */
	static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
		signal(ignored[i], SIG_IGN);
	}
	signal(SIGCHLD, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
}

static void on_end(job_slot *slot, int status)
{
	if (*slot->busy) {
		*slot->busy = false;
		fm_companion_count(here.companion, FM_COMPANION_JOB_ENDS);
	}
	fm_companion_count(here.companion, FM_COMPANION_PROCESS_REPLACED);
	uint64_t now = now_ms();
	slot->delay_ms = now - slot->started_ms >= STABLE_MS ? 0 : MIN(MAX(slot->delay_ms * 2, RESTART_MS_MIN), RESTART_MS_MAX);
	slot->due_ms = now + slot->delay_ms;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
		log_line(FERMATA_LOG_WARNING, "process ended pid=%d: its job took too long; it is replaced", (int)slot->pid);
	} else if (WIFSIGNALED(status)) {
		log_line(FERMATA_LOG_WARNING, "process ended pid=%d: killed by signal %d; it is replaced in %d ms", (int)slot->pid,
			WTERMSIG(status), (int)slot->delay_ms);
	} else {
		log_line(FERMATA_LOG_WARNING, "process ended pid=%d: exit code %d; it is replaced in %d ms", (int)slot->pid,
			WEXITSTATUS(status), (int)slot->delay_ms);
	}
	slot->pid = 0;
}

/* Forks a job process. Returns true in the new process. */
static bool fork_one(job_slot *slot, const sigset_t *before, pid_t supervisor)
{
	uint64_t now = now_ms();
	pid_t pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, before, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != supervisor) {
			_exit(0);
		}
		here.busy = slot->busy;
		return true;
	}
	if (pid < 0) {
		log_line(FERMATA_LOG_ERROR, "a process cannot be started: fork: %s", strerror(errno));
		slot->due_ms = now + RESTART_MS_MAX;
	} else {
		slot->pid = pid;
		slot->started_ms = now;
		log_line(FERMATA_LOG_INFO, "process started pid=%d", (int)pid);
	}
	return false;
}

static void end_all(job_slot *slots, uint32_t len)
{
	uint64_t until = now_ms() + END_MS_MAX;
	for (uint32_t left = len; left;) {
		bool late = now_ms() >= until;
		left = 0;
		for (uint32_t i = 0; i < len; i++) {
			if (!slots[i].pid) {
				continue;
			}
			if (late) {
				kill(slots[i].pid, SIGKILL);
			}
			if (waitpid(slots[i].pid, NULL, late ? 0 : WNOHANG) != 0) {
				slots[i].pid = 0;
			} else {
				left++;
			}
		}
		if (left) {
			poll(NULL, 0, 5);
		}
	}
}

/* Returns true in job processes, and false in the supervisor when the server and all job processes have stopped. */
bool fermata_job_supervise(fermata_jobs *jobs, FmCompanion *companion)
{
	here.companion = companion;
	sigset_t chld, before;
	pid_t supervisor = getpid();
	ignore_signals();
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, &before);
	int children = signalfd(-1, &chld, SFD_NONBLOCK | SFD_CLOEXEC);
	job_slot *slots = calloc(jobs->processes, sizeof(job_slot));
	bool *busy = mmap(NULL, jobs->processes * sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (children < 0 || !slots || busy == MAP_FAILED) {
		log_line(FERMATA_LOG_ERROR, "cannot start: %s", strerror(errno));
		return false;
	}
	for (uint32_t i = 0; i < jobs->processes; i++) {
		slots[i].busy = &busy[i];
	}
	for (;;) {
		int timeout_ms = -1;
		uint64_t now = now_ms();
		for (uint32_t i = 0; i < jobs->processes; i++) {
			job_slot *slot = &slots[i];
			if (!slot->pid && slot->due_ms <= now && fork_one(slot, &before, supervisor)) {
				close(children);
				free(slots);
				return true;
			}
			if (!slot->pid) {
				int left_ms = slot->due_ms > now ? (int)(slot->due_ms - now) : 0;
				timeout_ms = timeout_ms < 0 ? left_ms : MIN(timeout_ms, left_ms);
			}
		}
		struct pollfd fds[] = {{.fd = jobs->life[0], .events = POLLIN}, {.fd = children, .events = POLLIN}};
		poll(fds, 2, timeout_ms);
		if (fds[0].revents) {
			end_all(slots, jobs->processes);
			free(slots);
			return false;
		}
		struct signalfd_siginfo info;
		while (read(children, &info, sizeof(info)) > 0) {
		}
		for (uint32_t i = 0; i < jobs->processes; i++) {
			int status;
			if (slots[i].pid && waitpid(slots[i].pid, &status, WNOHANG) > 0) {
				on_end(&slots[i], status);
			}
		}
	}
}

/* A process that runs jobs */

/* Receives the next job and returns the descriptor of its call; -1 when the server has stopped. */
static int take(const fermata_jobs *jobs, fermata_job_head *head)
{
	for (;;) {
		struct pollfd fds[] = {{.fd = jobs->take, .events = POLLIN}, {.fd = jobs->life[0], .events = POLLIN}};
		if (poll(fds, 2, -1) < 0) {
			continue;
		}
		if (fds[1].revents) {
			return -1;
		}
		union {
			struct cmsghdr header;
			char bytes[CMSG_SPACE(sizeof(int))];
		} control;
		struct iovec part = {.iov_base = head, .iov_len = sizeof(*head)};
		struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
		ssize_t len = recvmsg(jobs->take, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		struct cmsghdr *passed = len < 0 ? NULL : CMSG_FIRSTHDR(&message);
		int fd = -1;
		if (passed && passed->cmsg_type == SCM_RIGHTS) {
			memcpy(&fd, CMSG_DATA(passed), sizeof(int));
		}
		if (len == sizeof(*head) && fd >= 0) {
			return fd;
		}
		if (fd >= 0) {
			close(fd);
		}
		/* Length 0: all workers have closed their end. Error: another process received the job. */
		if (len == 0) {
			return -1;
		}
	}
}

/* Returns true if the caller still waits and its time-out has not expired. */
static bool is_awaited(int fd, const fermata_job_head *head)
{
	struct pollfd one = {.fd = fd, .events = 0};
	return fermata_now_ns() < head->due_ns && poll(&one, 1, 0) == 0;
}

static bool receive_all(int fd, char *into, size_t len)
{
	while (len) {
		ssize_t some = recv(fd, into, len, 0);
		if (some > 0) {
			into += some;
			len -= (size_t)some;
		} else if (some == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}

static void send_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t some = send(fd, text, len, MSG_NOSIGNAL);
		if (some > 0) {
			text += some;
			len -= (size_t)some;
		} else if (errno != EINTR) {
			/* The caller no longer waits. */
			return;
		}
	}
}

static void reply(int fd, fermata_job_status status, FmStr text)
{
	fermata_job_reply head = {.status = status, .bytes = (uint32_t)text.len};
	send_all(fd, (const char *)&head, sizeof(head));
	send_all(fd, text.ptr, text.len);
}

/* Sets the timer that kills this process; 0 cancels it. */
static void kill_in(uint64_t ms)
{
	struct itimerval timer = {.it_value = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)}};
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Writes "Class\nClass: message in file:line" and the trace, and clears the exception. */
static void take_exception(smart_str *text)
{
	zend_object *exception = EG(exception);
	if (zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception)) {
		zend_clear_exception();
		if (PG(last_error_message) && PG(last_error_type) & FATAL) {
			/* Some PHP builds report an exhausted memory limit by an unwind exit instead of a longjmp. */
			zend_bailout();
		}
		EG(exit_status) = 0;
		smart_str_appends(text, "exit\nexit() called in a job; return to end it");
	} else {
		GC_ADDREF(exception);
		zend_clear_exception();
		smart_str place = fermata_exception_text(exception, true);
		smart_str_appends(text, ZSTR_VAL(exception->ce->name));
		smart_str_appendc(text, '\n');
		smart_str_append(text, place.s);
		smart_str_free(&place);
		zval trace;
		zend_call_method_with_0_params(exception, exception->ce, NULL, "gettraceasstring", &trace);
		if (Z_TYPE(trace) == IS_STRING && !EG(exception)) {
			smart_str_appendc(text, '\n');
			smart_str_appendl(text, Z_STRVAL(trace), MIN(Z_STRLEN(trace), TRACE_BYTES_MAX));
		}
		zval_ptr_dtor(&trace);
		zend_clear_exception();
		OBJ_RELEASE(exception);
		zend_clear_exception();
	}
	smart_str_0(text);
}

/* Calls the job and writes the reply's content to text. */
fermata_job_status fermata_job_call(const fermata_jobs *jobs, uint32_t job, FmStr given, smart_str *text)
{
	zval arguments, result;
	ZVAL_UNDEF(&result);
	if (fermata_jobs_unserialize(&arguments, given.ptr, given.len) && Z_TYPE(arguments) == IS_ARRAY) {
		zend_fcall_info info = {.size = sizeof(info), .retval = &result, .named_params = Z_ARRVAL(arguments)};
		zend_fcall_info_cache cache = jobs->at[job].call;
		ZVAL_COPY_VALUE(&info.function_name, &jobs->at[job].closure);
		zend_call_function(&info, &cache);
	} else if (!EG(exception)) {
		fermata_misuse("the arguments cannot be unserialised");
	}
	if (!EG(exception) && fermata_jobs_serialize(&result, text) && ZSTR_LEN(text->s) > jobs->bytes_max) {
		fermata_misuse("the result takes %zu bytes; messageBytes of jobs() is %u", ZSTR_LEN(text->s), jobs->bytes_max);
	}
	zval_ptr_dtor(&result);
	zval_ptr_dtor(&arguments);
	if (!EG(exception)) {
		return FERMATA_JOB_DONE;
	}
	smart_str_free(text);
	take_exception(text);
	return FERMATA_JOB_THREW;
}

/* Marks this process as busy and counts the job. If the process exits while busy, the supervisor counts the job as finished. */
static void note_busy(bool busy)
{
	*here.busy = busy;
	fm_companion_count(here.companion, busy ? FM_COMPANION_JOB_BEGINS : FM_COMPANION_JOB_ENDS);
}

static void reply_fatal(int fd, uint32_t bytes_max)
{
	FmStr message = PG(last_error_message) ? fermata_str(PG(last_error_message)) : FERMATA_LITERAL("a fatal error");
	message.len = MIN(message.len, bytes_max);
	reply(fd, FERMATA_JOB_DIED, message);
}

/* Runs one job. A fatal error in the job leaves this function by longjmp. */
static void run(const fermata_jobs *jobs, const fermata_job_head *head, int fd)
{
	uint64_t now = fermata_now_ns();
	if (head->job >= jobs->len || head->bytes > jobs->bytes_max || !is_awaited(fd, head)) {
		return;
	}
	kill_in((head->due_ns - now) / NS_PER_MS + LATE_MS);
	char *given = malloc((size_t)head->bytes + 1);
	if (!given || !receive_all(fd, given, head->bytes)) {
		free(given);
		kill_in(0);
		return;
	}
	smart_str text = {0};
	volatile fermata_job_status status = FERMATA_JOB_DIED;
	zend_try {
		status = fermata_job_call(jobs, head->job, (FmStr){given, head->bytes}, &text);
		reply(fd, status, fermata_str(text.s));
		smart_str_free(&text);
		fermata_fiber_returned();
		fermata_clean_up();
	} zend_catch {
		reply_fatal(fd, jobs->bytes_max);
		FERMATA_EACH_PART(on_fatal, fermata_this_fiber())
		fermata_changes_abandoned();
		free(given);
		shutdown(fd, SHUT_RDWR);
		close(fd);
		zend_bailout();
	} zend_end_try();
	free(given);
	kill_in(0);
}

/* Runs jobs until the server has stopped; then the script finishes as after exit(). */
void fermata_job_work(const fermata_server *server, fermata_jobs *jobs)
{
	fermata_job_head head;
	int fd;
	fermata_run_start(server);
	fermata.worker = NULL;
	fermata_enter_process();
	/* No code waits in this process, but changes of PHP's state are recorded per fiber, so it needs one. */
	static fermata_fiber only;
	fermata_set_fiber(&only);
	fermata_limit_memory(fm_companion_memory_bytes_max(here.companion));
	fermata_changes_start_jobs();
	fermata_keep_standard_streams();
	fermata_standard_error_start(log_text);
	while ((fd = take(jobs, &head)) >= 0) {
		note_busy(true);
		run(jobs, &head, fd);
		note_busy(false);
		/* A process that the job forked may hold the descriptor as well. */
		shutdown(fd, SHUT_RDWR);
		close(fd);
	}
	fermata_standard_error_end();
	fermata_changes_end();
	fermata_set_fiber(NULL);
	EG(exit_status) = 0;
	zend_throw_unwind_exit();
}
