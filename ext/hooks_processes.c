/* Commands: their pipes, and their end. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The end of a process that nobody waits for any more. */
typedef struct orphan {
	fermata_watcher watcher;
	pid_t pid;
	int pidfd;
} orphan;

/* What popen() of ours has begun. */
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
	waitpid(it->pid, NULL, WNOHANG);
	close(it->pidfd);
	pefree(it, true);
}

/* Nobody asks for its status any more, but its entry in the kernel's table has to go. Takes `pidfd`. */
static ZEND_COLD void adopt(pid_t pid, int pidfd)
{
	short why;
	orphan *it = pecalloc(1, sizeof(orphan), true);
	it->pid = pid;
	it->pidfd = pidfd;
	it->watcher.ready = bury;
	if (!fermata_watch(&it->watcher, pidfd, POLLIN, &why)) {
		close(pidfd);
		pefree(it, true);
	}
}

static pid_t hooked_waitpid(pid_t pid, int *status, int options)
{
	bool is_cut = fermata_hook_is_cut();
	if (options != 0 || pid <= 0 || (!is_cut && !fermata_hook_may_wait())) {
		return waitpid(pid, status, options);
	}
	pid_t ended = waitpid(pid, status, WNOHANG);
	if (ended != 0) {
		return ended;
	}
	int pidfd = open_pidfd(pid);
	if (pidfd < 0) {
		return waitpid(pid, status, options);
	}
	if (is_cut || fermata_hook_wait_fd(pidfd, POLLIN, FERMATA_NEVER) == FERMATA_WAIT_FAILED) {
		adopt(pid, pidfd);
		errno = ECANCELED;
		return -1;
	}
	close(pidfd);
	return waitpid(pid, status, options);
}

static bool is_pipe(int fd)
{
	struct stat stat;
	return fstat(fd, &stat) == 0 && (S_ISFIFO(stat.st_mode) || S_ISSOCK(stat.st_mode));
}

static bool is_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	return flags >= 0 && !(flags & O_NONBLOCK);
}

static ssize_t hooked_read(int fd, void *buf, size_t len)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	bool is_cut = fermata_hook_is_cut();
	if (fd <= STDERR_FILENO || (!is_cut && !fermata_hook_may_wait()) || !is_pipe(fd) || poll(&one, 1, 0) != 0 || !is_blocking(fd)) {
		return read(fd, buf, len);
	}
	if (is_cut || fermata_hook_wait_fd(fd, POLLIN, FERMATA_NEVER) == FERMATA_WAIT_FAILED) {
		errno = EAGAIN;
		return -1;
	}
	return read(fd, buf, len);
}

static ssize_t hooked_read_chk(int fd, void *buf, size_t len, size_t size)
{
	return hooked_read(fd, buf, len);
}

/* A pipe that can be written to takes PIPE_BUF bytes without blocking; a blocking write takes all. */
static ssize_t hooked_write(int fd, const void *buf, size_t len)
{
	bool is_cut = fermata_hook_is_cut();
	if (fd <= STDERR_FILENO || (!is_cut && !fermata_hook_may_wait()) || !is_pipe(fd) || !is_blocking(fd)) {
		return write(fd, buf, len);
	}
	size_t written = 0;
	do {
		struct pollfd one = {.fd = fd, .events = POLLOUT};
		if (poll(&one, 1, 0) == 0 && (is_cut || fermata_hook_wait_fd(fd, POLLOUT, FERMATA_NEVER) == FERMATA_WAIT_FAILED)) {
			errno = EAGAIN;
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
	/* On the same number dup2() would leave the end to be closed; both ends are over those of the standard streams. */
	int error = posix_spawn_file_actions_adddup2(&actions, child_end, number);
	if (!error) {
		error = posix_spawn(&pid, "/bin/sh", &actions, NULL, arguments, environ);
	}
	posix_spawn_file_actions_destroy(&actions);
	errno = error;
	return error ? -1 : pid;
}

/* As popen(), whose number of the process nobody can ask for. */
static FILE *hooked_popen(const char *text, const char *mode)
{
	int fds[2];
	bool reads = mode[0] == 'r';
	if ((!reads && mode[0] != 'w') || !fermata_hook_may_wait()) {
		return popen(text, mode);
	}
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
		ended = hooked_waitpid(pid, &status, 0);
	} while (ended < 0 && errno == EINTR);
	return ended == pid ? status : -1;
}

const fermata_replacement fermata_calls_processes[] = {
	{"waitpid", hooked_waitpid},
	{"read", hooked_read},
	{"__read_chk", hooked_read_chk},
	{"write", hooked_write},
	{"popen", hooked_popen},
	{"pclose", hooked_pclose},
};
const size_t fermata_calls_processes_len = sizeof(fermata_calls_processes) / sizeof(fermata_replacement);
