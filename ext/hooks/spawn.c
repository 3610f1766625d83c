/* Runs the commands of proc_open() without copying the worker.
 *
 * PHP before 8.3 calls fork(). The kernel then copies the page tables of the worker's memory, and the worker takes a page fault at
 * its next write to each page. That stops the loop for tens of milliseconds. PHP's child only calls close(), dup2(), chdir() and
 * an exec function. These calls are collected and passed to posix_spawn(), which copies nothing.
 *
 * The replacement of fork() first returns 0, as in a child. The calls that PHP then makes are recorded (patch.c). The replacement
 * of the exec function starts the command with posix_spawn(). Then fork() returns a second time, with the process number. For
 * that, the registers are restored, and the stack between fork() and the frame of PHP's function. The only other variable that
 * PHP's child changes is `environ`. If posix_spawn() rejects the actions, the real fork() runs after all, so PHP reports errors of
 * the child as usual.
 *
 * In all versions, a command inherits no files of the worker: fermata_files_keep_out() runs before each start. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include "hooks/process.h"
#include <sys/syscall.h>
#include <unistd.h>
#include "base/optimize_size.h"

/* From linux/close_range.h, which not all systems have. */
#define CLOSE_ON_EXEC (1U << 2)

/* PHP opens files without close-on-exec. proc_open() passes descriptors to the command by duplicating them, and a duplicate does
 * not have the flag. */
void fermata_files_keep_out(void)
{
#ifdef SYS_close_range
	/* Kernels before 5.11 do not support the flag. */
	syscall(SYS_close_range, STDERR_FILENO + 1U, ~0U, CLOSE_ON_EXEC);
#endif
}

#ifdef FERMATA_PROC_OPEN_FORKS
#include <alloca.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <ucontext.h>

/* Saved stack: the frames of PHP's function and of the replacement. */
#define SAVED_BYTES_MAX 16384
/* Minimum distance between the restored part of the stack and the frame of the function that restores it. */
#define GAP_BYTES 1024
/* Arguments of the shell that PHP starts; three and the NULL are used. */
#define ARGUMENTS_MAX 8

static struct {
	zif_handler original;
	zend_internal_function *function;
	bool is_collecting;
	bool is_over;   /* fork() is returning for the second time */
	pid_t pid;      /* second return value of fork(); -1 = call the real fork() */
	char *from;     /* start of the saved stack */
	size_t len;
	char **environment;
	posix_spawn_file_actions_t actions;
	int refused;    /* errno of an action that could not be collected; 0 = none */
	ucontext_t registers;
	char stack[SAVED_BYTES_MAX];
} spawn;

/* The running call of proc_open() in a fiber. */
typedef struct opening {
	const zend_execute_data *call; /* NULL = none */
	const char *until;             /* end of the C stack of that call */
} opening;

static fermata_part part = {.size = sizeof(opening)};
FERMATA_SLOT(opening, part)

void fermata_spawn_init(void)
{
	fermata_part_register(&part);
}

/* Replacement for PHP's proc_open(). */
static void open_process(INTERNAL_FUNCTION_PARAMETERS)
{
	fermata_fiber *fiber = fermata.handling ? fermata_this_fiber() : NULL;
	if (fiber) {
		slot(fiber)->call = execute_data;
		slot(fiber)->until = __builtin_frame_address(0);
		/* Call this before PHP opens the command's pipes: a pipe whose descriptor already has the target number is not
		 * duplicated. */
		fermata_files_keep_out();
	}
	spawn.original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (fiber) {
		slot(fiber)->call = NULL;
	}
}

/* Returns true if fork() was called by PHP's proc_open(), and the end of its frame is known. */
static bool is_known_caller(const char *here)
{
	if (!fermata_hook_is_loop() || !fermata.handling || fermata.forked || spawn.is_collecting) {
		return false;
	}
	const fermata_fiber *fiber = fermata_this_fiber();
	return slot(fiber)->call && slot(fiber)->call == EG(current_execute_data) && slot(fiber)->until > here
		&& (size_t)(slot(fiber)->until - here) < SAVED_BYTES_MAX - GAP_BYTES;
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
	spawn.len = (size_t)(slot(fermata_this_fiber())->until - spawn.from);
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

/* Restores the stack. The frame of this function must be below the restored part. */
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

/* Collects arguments up to NULL. Returns false if there are more than ARGUMENTS_MAX. */
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

/* Replacement for PHP's proc_open(), which calls posix_spawn() itself. PHP opens the command's pipes after
 * fermata_files_keep_out(). */
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

void fermata_spawn_init(void)
{
}
#endif

bool fermata_spawn_start(void)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("proc_open"));
	if (function && function->type == ZEND_INTERNAL_FUNCTION && !spawn.function) {
		spawn.function = &function->internal_function;
		spawn.original = spawn.function->handler;
		spawn.function->handler = open_process;
	}
	return true;
}

/* Restores PHP's function: PHP frees its function table after it has unloaded the extension. */
void fermata_spawn_end(void)
{
	if (spawn.function) {
		spawn.function->handler = spawn.original;
		spawn.function = NULL;
	}
}
