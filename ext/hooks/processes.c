/* Commands started by PHP: their pipes and their exit. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/process.h"
#include "hooks/hooks.h"
#include "ext/standard/file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/optimize_size.h"

/* A process that no caller waits for. It is reaped when it exits. */
typedef struct orphan {
	fermata_watcher watcher;
	int pidfd;
} orphan;

/* A command started by popen(). */
typedef struct command {
	struct command *next;
	FILE *file;
	pid_t pid;
} command;

static command *commands;

static int open_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
	return (int)syscall(SYS_pidfd_open, pid, 0);
#else
	errno = ENOSYS;
	return -1;
#endif
}

static void bury(fermata_watcher *watcher, short happened)
{
	orphan *it = (orphan *)watcher;
	siginfo_t info;
	/* Wait by descriptor, since after another waitpid() the process number may belong to another process. */
	waitid(P_PIDFD, (id_t)it->pidfd, &info, WEXITED | WNOHANG);
	close(it->pidfd);
	pefree(it, true);
}

/* Reaps the process when it exits and discards its status. Takes ownership of `pidfd`. */
static ZEND_COLD void adopt(int pidfd)
{
	short why;
	orphan *it = pecalloc(1, sizeof(orphan), true);
	it->pidfd = pidfd;
	it->watcher.ready = bury;
	if (!fermata_watch(&it->watcher, pidfd, POLLIN, &why)) {
		close(pidfd);
		pefree(it, true);
	}
}

/* Waits until the descriptor is ready. Returns false if the wait ended earlier. */
static bool wait_for(fermata_hook_place place, struct pollfd *one)
{
	switch (place) {
		case FERMATA_PLACE_WAITS: return fermata_hook_wait_fds(one, 1, FERMATA_NEVER) != FERMATA_WAIT_FAILED;
		case FERMATA_PLACE_HOLDS: return fermata_hook_hold_fds(one, 1, FERMATA_NEVER) != FERMATA_WAIT_FAILED;
		case FERMATA_PLACE_BOUNDED: return fermata_hook_poll_bounded(one, 1, -1) != 0;
		case FERMATA_PLACE_CUT:
		case FERMATA_PLACE_FREE: break;
	}
	return false;
}

/* Waits until the process exits. If `is_last`, the caller drops the process number even if the wait fails. */
static pid_t wait_for_end(pid_t pid, int *status, bool is_last)
{
	fermata_hook_place place = fermata_hook_where();
	if (place == FERMATA_PLACE_FREE) {
		return waitpid(pid, status, 0);
	}
	for (;;) {
		pid_t ended = waitpid(pid, status, WNOHANG);
		if (ended != 0) {
			return ended;
		}
		int pidfd = open_pidfd(pid);
		if (pidfd < 0) {
			return waitpid(pid, status, 0);
		}
		struct pollfd one = {.fd = pidfd, .events = POLLIN};
		if (!wait_for(place, &one)) {
			if (is_last) {
				adopt(pidfd);
			} else {
				close(pidfd);
			}
			errno = ECANCELED;
			return -1;
		}
		close(pidfd);
	}
}

/* Returns true if PHP calls waitpid(WNOHANG) because it frees a resource of proc_open(). PHP then drops the process number even if
 * the process is still running. */
static bool is_released(void)
{
	const zend_execute_data *frame = EG(current_execute_data);
	const zend_module_entry *module = frame && frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION
		? frame->func->internal_function.module : NULL;
	return fermata_hook_is_loop() && fermata.worker && !fermata.forked && !fermata_is_stopped()
		&& !(module && strcmp(module->name, "pcntl") == 0);
}

static pid_t leave(pid_t pid, int *status)
{
	pid_t ended = waitpid(pid, status, WNOHANG);
	int pidfd = ended == 0 ? open_pidfd(pid) : -1;
	if (pidfd >= 0) {
		adopt(pidfd);
	}
	return ended;
}

static pid_t hooked_waitpid(pid_t pid, int *status, int options)
{
	if (options == WNOHANG && pid > 0 && is_released()) {
		return leave(pid, status);
	}
	if (options != 0 || pid <= 0) {
		return waitpid(pid, status, options);
	}
	/* proc_close() sets this flag. */
	return wait_for_end(pid, status, FG(pclose_wait) != 0);
}

/* Returns true for a pipe or socket, except a duplicate of one of the process's standard streams, such as the descriptor of
 * php://stderr. All handlers may write to those. */
static bool is_pipe(const struct stat *found)
{
	struct stat own;
	if (!fermata_hook_is_on(FERMATA_HOOK_PROCESSES) || !(S_ISFIFO(found->st_mode) || S_ISSOCK(found->st_mode))) {
		return false;
	}
	for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++) {
		if (fstat(number, &own) == 0 && own.st_ino == found->st_ino && own.st_dev == found->st_dev) {
			return false;
		}
	}
	return true;
}

/* Reads without blocking, on kernels that support it. Another process may have emptied the pipe since it was polled. */
static ssize_t read_now(int fd, void *buf, size_t len)
{
#ifdef RWF_NOWAIT
	struct iovec all = {buf, len};
	ssize_t got = preadv2(fd, &all, 1, -1, RWF_NOWAIT);
	if (got >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS && errno != ESPIPE)) {
		return got;
	}
#endif
	return read(fd, buf, len);
}

static bool is_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	return flags >= 0 && !(flags & O_NONBLOCK);
}

static ssize_t hooked_read(int fd, void *buf, size_t len)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	struct stat found;
	ssize_t result;
	fermata_hook_place place = fermata_hook_where();
	if (fd <= STDERR_FILENO || place == FERMATA_PLACE_FREE || fstat(fd, &found) != 0) {
		return read(fd, buf, len);
	}
	if (place == FERMATA_PLACE_WAITS && fermata_hook_reads_file(fd, &found, buf, len, &result)) {
		return result;
	}
	if (!is_pipe(&found) || !is_blocking(fd)) {
		return read(fd, buf, len);
	}
	if (S_ISSOCK(found.st_mode)) {
		return fermata_hook_recv(fd, buf, len);
	}
	for (;;) {
		if (poll(&one, 1, 0) > 0) {
			ssize_t got = read_now(fd, buf, len);
			if (got >= 0 || errno != EAGAIN) {
				return got;
			}
		}
		one.revents = 0;
		if (!wait_for(place, &one)) {
			errno = EAGAIN;
			return -1;
		}
		if (UNEXPECTED(one.revents & POLLNVAL)) {
			errno = EBADF;
			return -1;
		}
	}
}

static ssize_t hooked_read_chk(int fd, void *buf, size_t len, size_t size)
{
	return hooked_read(fd, buf, len);
}

/* A pipe that poll() reports as writable accepts PIPE_BUF bytes without blocking. Like a blocking write(), this writes all
 * bytes. */
static ssize_t hooked_write(int fd, const void *buf, size_t len)
{
	struct stat found;
	ssize_t result;
	if (fd <= STDERR_FILENO || !fermata_hook_is_loop() || !fermata.handling || fstat(fd, &found) != 0) {
		return write(fd, buf, len);
	}
	if (fermata_hook_writes_file(fd, &found, buf, len, &result)) {
		return result;
	}
	fermata_hook_place place = fermata_hook_where();
	if (!is_pipe(&found) || place == FERMATA_PLACE_FREE || !is_blocking(fd)) {
		return write(fd, buf, len);
	}
	if (S_ISSOCK(found.st_mode)) {
		return fermata_hook_send(fd, buf, len);
	}
	size_t written = 0;
	do {
		struct pollfd one = {.fd = fd, .events = POLLOUT};
		if (poll(&one, 1, 0) == 0 && !wait_for(place, &one)) {
			errno = EAGAIN;
			return written ? (ssize_t)written : -1;
		}
		if (UNEXPECTED(one.revents & POLLNVAL)) {
			errno = EBADF;
			return written ? (ssize_t)written : -1;
		}
		ssize_t part = write(fd, (const char *)buf + written, MIN(len - written, PIPE_BUF));
		if (part <= 0) {
			return written ? (ssize_t)written : part;
		}
		written += (size_t)part;
	} while (written < len);
	return (ssize_t)written;
}

static pid_t spawn_shell(const char *text, int child_end, int number)
{
	char *arguments[] = {"sh", "-c", (char *)text, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	if ((errno = posix_spawn_file_actions_init(&actions)) != 0) {
		return -1;
	}
	/* dup2() to its own number would not clear close-on-exec. That cannot happen here: both ends are above the standard
	 * streams. */
	int error = posix_spawn_file_actions_adddup2(&actions, child_end, number);
	if (!error) {
		error = posix_spawn(&pid, "/bin/sh", &actions, NULL, arguments, *fermata_environ);
	}
	posix_spawn_file_actions_destroy(&actions);
	errno = error;
	return error ? -1 : pid;
}

/* Replacement for popen(). PHP does not receive the process number. */
static FILE *hooked_popen(const char *text, const char *mode)
{
	int fds[2];
	bool reads = mode[0] == 'r';
	if ((!reads && mode[0] != 'w') || fermata_hook_where() == FERMATA_PLACE_FREE) {
		return popen(text, mode);
	}
	fermata_files_keep_out();
	if (pipe2(fds, O_CLOEXEC) != 0) {
		return NULL;
	}
	int ours = fds[reads ? 0 : 1], theirs = fds[reads ? 1 : 0];
	if (ours <= STDERR_FILENO || theirs <= STDERR_FILENO) {
		close(ours);
		close(theirs);
		return popen(text, mode);
	}
	FILE *file = fdopen(ours, reads ? "r" : "w");
	pid_t pid = file ? spawn_shell(text, theirs, reads ? STDOUT_FILENO : STDIN_FILENO) : -1;
	int error = errno;
	close(theirs);
	if (pid < 0) {
		if (file) {
			fclose(file);
		} else {
			close(ours);
		}
		errno = error;
		return NULL;
	}
	command *it = pecalloc(1, sizeof(command), true);
	*it = (command){commands, file, pid};
	commands = it;
	return file;
}

static int hooked_pclose(FILE *file)
{
	command **place = &commands;
	while (*place && (*place)->file != file) {
		place = &(*place)->next;
	}
	command *it = *place;
	if (!it) {
		return pclose(file);
	}
	pid_t pid = it->pid;
	*place = it->next;
	pefree(it, true);
	fermata_watch_closing(fileno(file));
	fclose(file);
	int status = -1;
	pid_t ended;
	do {
		ended = wait_for_end(pid, &status, true);
	} while (ended < 0 && errno == EINTR);
	return ended == pid ? status : -1;
}

const fermata_replacement fermata_calls_processes[] = {
	{"waitpid", hooked_waitpid},
	{"popen", hooked_popen},
	{"pclose", hooked_pclose},
};
const size_t fermata_calls_processes_len = sizeof(fermata_calls_processes) / sizeof(fermata_replacement);

const fermata_replacement fermata_calls_descriptors[] = {
	{"read", hooked_read},
	{"__read_chk", hooked_read_chk},
	{"write", hooked_write},
};
const size_t fermata_calls_descriptors_len = sizeof(fermata_calls_descriptors) / sizeof(fermata_replacement);
