/* What the core and the C library see of the process otherwise than PHP does.
 *
 * The environment: PHP loads extensions with RTLD_DEEPBIND, so a name means what this library's own libraries have. A program that
 * was linked with a copy of `environ` (what compilers make of it without -fPIC) keeps the variables there, and `environ` of the C
 * library, which is ours then, stays NULL: what reads it finds no variable.
 *
 * The directory: a PHP with threads has one of its own for each, which chdir() changes, and that of the process stays where it
 * was. Here one thread runs, so the process follows, and paths of the core mean what those of PHP's functions mean. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "php_fermata.h"
#include "core/process.h"
#include <dlfcn.h>
#include <unistd.h>
#include "core/small.h"

extern char **environ;
char ***fermata_environ = &environ;

void fermata_process_init(void)
{
	/* RTLD_DEFAULT looks at this library's own libraries first, too. */
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
