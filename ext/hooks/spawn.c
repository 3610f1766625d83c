/* proc_open() without a copy of the worker.
 *
 * PHP before 8.3 forks for it. The kernel then copies the tables of all of the worker's memory, and the worker pays for every
 * page that it writes to next: tens of milliseconds in which the loop stands still. So what PHP's child would do, which is
 * close(), dup2(), chdir() and an exec, is collected, and posix_spawn() does it, for which nothing is copied.
 *
 * fork() answers 0 first, as in a child. The calls that PHP makes then come here as well (patch.c) and are written down. At the
 * exec the command is started, and fork() answers a second time, with its number: the stack from fork() up to where PHP's
 * function was called is what it was at the first answer, and so are the registers. Of anything else PHP's child changes
 * `environ` alone. What posix_spawn() refuses is forked for after all, so errors of the child are told as PHP tells them. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include "core/process.h"
#include "core/small.h"

#ifdef FERMATA_PROC_OPEN_FORKS
#include <alloca.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <ucontext.h>
#include <unistd.h>

/* Of the stack: the frame of PHP's function and ours. */
#define SAVED_BYTES_MAX 16384
/* What has to lie between what is put back and the frame of the function that does it. */
#define GAP_BYTES 1024
/* Of the shell it starts; PHP gives three, and the NULL. */
#define ARGUMENTS_MAX 8

static struct {
	zif_handler original;
	zend_internal_function *function;
	bool is_collecting;
	bool is_over;   /* fork() answers for the second time */
	pid_t pid;      /* what it answers then; -1 = it forks */
	char *from;     /* of the stack, what was saved */
	size_t len;
	char **environment;
	posix_spawn_file_actions_t actions;
	int refused;    /* an error number of what was to be collected; 0 = none */
	ucontext_t registers;
	char stack[SAVED_BYTES_MAX];
} spawn;

/* In place of PHP's function. */
static void open_process(INTERNAL_FUNCTION_PARAMETERS)
{
	fermata_fiber *fiber = fermata.handling ? fermata_run.fiber : NULL;
	if (fiber) {
		fiber->opens_process = execute_data;
		fiber->opens_process_until = __builtin_frame_address(0);
		/* What PHP opens for the command it does afterwards: one that has its number already is not copied to it. */
		fermata_files_keep_out();
	}
	spawn.original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (fiber) {
		fiber->opens_process = NULL;
	}
}

/* Whether fork() was called by PHP's proc_open(), whose frame ends at a known place. */
static bool is_known_caller(const char *here)
{
	if (!fermata_hook_is_loop() || !fermata.handling || fermata.forked || spawn.is_collecting) {
		return false;
	}
	const fermata_fiber *fiber = fermata_run.fiber;
	return fiber->opens_process && fiber->opens_process == EG(current_execute_data) && fiber->opens_process_until > here
		&& (size_t)(fiber->opens_process_until - here) < SAVED_BYTES_MAX - GAP_BYTES;
}

static char *stack_pointer(const ucontext_t *registers)
{
#if defined(__x86_64__)
	return (char *)registers->uc_mcontext.gregs[REG_RSP];
#else
	return (char *)registers->uc_mcontext.sp;
#endif
}

static void begin(void)
{
	spawn.from = stack_pointer(&spawn.registers);
	spawn.len = (size_t)(fermata_run.fiber->opens_process_until - spawn.from);
	memcpy(spawn.stack, spawn.from, spawn.len);
	spawn.environment = *fermata_environ;
	spawn.is_collecting = true;
}

static pid_t hooked_fork(void)
{
	if (!is_known_caller(__builtin_frame_address(0)) || posix_spawn_file_actions_init(&spawn.actions) != 0) {
		return fork();
	}
	spawn.is_over = false;
	spawn.refused = 0;
	if (getcontext(&spawn.registers) != 0) {
		posix_spawn_file_actions_destroy(&spawn.actions);
		return fork();
	}
	if (!spawn.is_over) {
		begin();
		return 0;
	}
	return spawn.pid >= 0 ? spawn.pid : fork();
}

/* Called from below what it writes to. */
static ZEND_NORETURN __attribute__((noinline)) void put_back(void)
{
	memcpy(spawn.from, spawn.stack, spawn.len);
	setcontext(&spawn.registers);
	abort();
}

static ZEND_NORETURN void answer_again(void)
{
	const char *here = __builtin_frame_address(0);
	volatile char *gap = alloca((here > spawn.from ? (size_t)(here - spawn.from) : 0) + GAP_BYTES);
	*gap = 0;
	put_back();
}

static ZEND_NORETURN void start(const char *file, char *const *arguments, char *const *environment, bool is_searched)
{
	int error = spawn.refused;
	if (!error) {
		error = is_searched ? posix_spawnp(&spawn.pid, file, &spawn.actions, NULL, arguments, environment)
			: posix_spawn(&spawn.pid, file, &spawn.actions, NULL, arguments, environment);
	}
	if (error) {
		spawn.pid = -1;
	}
	posix_spawn_file_actions_destroy(&spawn.actions);
	*fermata_environ = spawn.environment;
	spawn.is_collecting = false;
	spawn.is_over = true;
	answer_again();
}

static void note(int error)
{
	if (error) {
		spawn.refused = error;
	}
}

bool fermata_spawn_closes(int fd)
{
	if (EXPECTED(!spawn.is_collecting)) {
		return false;
	}
	note(posix_spawn_file_actions_addclose(&spawn.actions, fd));
	return true;
}

static int hooked_dup2(int from, int to)
{
	if (!spawn.is_collecting) {
		return dup2(from, to);
	}
	note(posix_spawn_file_actions_adddup2(&spawn.actions, from, to));
	return to;
}

static int hooked_chdir(const char *path)
{
	if (!spawn.is_collecting) {
		return chdir(path);
	}
	note(posix_spawn_file_actions_addchdir_np(&spawn.actions, path));
	return 0;
}

static int hooked_execvp(const char *file, char *const *arguments)
{
	if (!spawn.is_collecting) {
		return execvp(file, arguments);
	}
	start(file, arguments, *fermata_environ, true);
}

/* Those up to the NULL. False when there are more than PHP gives. */
static bool take_arguments(char **arguments, const char *first, va_list *rest)
{
	size_t len = 0;
	for (char *next = (char *)first; len < ARGUMENTS_MAX; next = va_arg(*rest, char *)) {
		arguments[len++] = next;
		if (!next) {
			return true;
		}
	}
	errno = E2BIG;
	return false;
}

static int execute(const char *path, char *const *arguments, char *const *environment)
{
	if (!spawn.is_collecting) {
		return execve(path, arguments, environment);
	}
	start(path, arguments, environment, false);
}

static int hooked_execl(const char *path, const char *first, ...)
{
	char *arguments[ARGUMENTS_MAX];
	va_list rest;
	va_start(rest, first);
	bool fits = take_arguments(arguments, first, &rest);
	va_end(rest);
	return fits ? execute(path, arguments, *fermata_environ) : -1;
}

static int hooked_execle(const char *path, const char *first, ...)
{
	char *arguments[ARGUMENTS_MAX], **environment = NULL;
	va_list rest;
	va_start(rest, first);
	bool fits = take_arguments(arguments, first, &rest);
	if (fits) {
		environment = va_arg(rest, char **);
	}
	va_end(rest);
	return fits ? execute(path, arguments, environment) : -1;
}

const fermata_replacement fermata_calls_spawn[] = {
	{"fork", hooked_fork},
	{"dup2", hooked_dup2},
	{"chdir", hooked_chdir},
	{"execvp", hooked_execvp},
	{"execl", hooked_execl},
	{"execle", hooked_execle},
};
const size_t fermata_calls_spawn_len = sizeof(fermata_calls_spawn) / sizeof(fermata_replacement);
#else
static struct {
	zif_handler original;
	zend_internal_function *function;
} spawn;

/* In place of PHP's function, which calls posix_spawn() by itself. What it opens for the command it does afterwards. */
static void open_process(INTERNAL_FUNCTION_PARAMETERS)
{
	if (fermata.handling) {
		fermata_files_keep_out();
	}
	spawn.original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

const fermata_replacement fermata_calls_spawn[] = {{NULL, NULL}};
const size_t fermata_calls_spawn_len = 0;

bool fermata_spawn_closes(int fd)
{
	return false;
}
#endif

void fermata_spawn_start(void)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("proc_open"));
	if (function && function->type == ZEND_INTERNAL_FUNCTION && !spawn.function) {
		spawn.function = &function->internal_function;
		spawn.original = spawn.function->handler;
		spawn.function->handler = open_process;
	}
}

/* PHP frees its functions after it has unloaded us. */
void fermata_spawn_end(void)
{
	if (spawn.function) {
		spawn.function->handler = spawn.original;
		spawn.function = NULL;
	}
}
