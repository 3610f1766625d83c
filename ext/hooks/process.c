/* Makes the core and the C library see the same environment and working directory as PHP.
 *
 * Environment: PHP loads extensions with RTLD_DEEPBIND, so a symbol resolves first in this library's own dependencies. A program
 * compiled without -fPIC has its own copy of `environ` and stores the variables there. The C library's `environ`, which this
 * library resolves to, then stays NULL, and code that reads it finds no variable.
 *
 * Directory: a thread-safe PHP has a separate working directory for each thread, and chdir() does not change the process's
 * directory. A worker runs PHP in one thread, so chdir() also changes the process's directory here. Relative paths then mean the
 * same in the core and in PHP. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
/* Defines VIRTUAL_DIR in a PHP with threads. */
#include "php.h"
#include "hooks/process.h"
#include <dlfcn.h>
#include <unistd.h>
#include "base/optimize_size.h"

extern char **environ;
char ***fermata_environ = &environ;

void fermata_process_init(void)
{
	/* RTLD_DEFAULT would also search this library's own dependencies first. */
	void *program = dlopen(NULL, RTLD_LAZY);
	char ***of_program = program ? (char ***)dlsym(program, "environ") : NULL;
	if (of_program) {
		fermata_environ = of_program;
	}
	if (program) {
		dlclose(program);
	}
}

void fermata_process_share_environment(void)
{
	environ = *fermata_environ;
}

#ifdef VIRTUAL_DIR
static struct {
	zif_handler original;
	zend_internal_function *function;
} change_directory;

static void changed_directory(INTERNAL_FUNCTION_PARAMETERS)
{
	char path[MAXPATHLEN];
	change_directory.original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (Z_TYPE_P(return_value) == IS_TRUE && VCWD_GETCWD(path, sizeof(path)) && chdir(path) != 0) {
		php_error_docref(NULL, E_WARNING, "%s (errno %d)", strerror(errno), errno);
		RETURN_FALSE;
	}
}

void fermata_process_wrap(void)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("chdir"));
	if (function && function->type == ZEND_INTERNAL_FUNCTION && !change_directory.function) {
		change_directory.function = &function->internal_function;
		change_directory.original = change_directory.function->handler;
		change_directory.function->handler = changed_directory;
	}
}
#else
void fermata_process_wrap(void) {}
#endif
