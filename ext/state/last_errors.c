/* Last errors that extensions store once per process: json_last_error(), preg_last_error(), socket_last_error(),
 * posix_get_last_error(), openssl_error_string(), libxml_get_last_error() and libxml_get_errors().
 *
 * They may contain bytes sent by a client, so each handler has its own. They are saved while the handler waits and cleared when
 * it finishes. The structures of the extensions are private; their first fields are the same in all supported versions. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "state/last_errors.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "ext/json/php_json.h"
#include "ext/pcre/php_pcre.h"
#include "zend_smart_str.h"
#include <dlfcn.h>

/* From libxml2's error.h; its layout is part of the library's ABI. */
typedef struct libxml_error {
	int domain, code;
	char *message;
	int level;
	char *file;
	int line;
	char *texts[3];
	int numbers[2];
	void *context, *node;
} libxml_error;

typedef struct libxml_globals {
	zval stream_context;
	smart_str error_buffer;
	zend_llist *collected; /* NULL = errors are PHP warnings */
} libxml_globals;

#define LAST_NUMBERS 2

/* Saved while the handler waits. */
typedef struct last_errors {
	int json, preg, numbers[LAST_NUMBERS];
	void *openssl;
	void *libxml;          /* a copy; NULL = none */
	zend_llist *collected; /* errors collected by libxml_use_internal_errors(); NULL = none */
} last_errors;

static fermata_part part;
FERMATA_SLOT(last_errors, part)

static const char *const modules_with_numbers[LAST_NUMBERS] = {"sockets", "posix"};

static int none;
static void *no_errors;
static libxml_globals no_libxml;
static libxml_error no_error;

static struct {
	int *numbers[LAST_NUMBERS];
	void **openssl; /* NULL or allocated with malloc() */
	libxml_globals *libxml;
	libxml_error *error;
	int (*copy)(const libxml_error *from, libxml_error *to);
	void (*reset)(libxml_error *error);
} last = {{&none, &none}, &no_errors, &no_libxml, &no_error, NULL, NULL};

static void *globals_of(const char *name)
{
	const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, name, strlen(name));
	if (!module || !module->globals_size) {
		return NULL;
	}
#ifdef ZTS
	return ts_resource(*module->globals_id_ptr);
#else
	return module->globals_ptr;
#endif
}

void fermata_last_errors_start(void)
{
	for (int i = 0; i < LAST_NUMBERS; i++) {
		int *number = globals_of(modules_with_numbers[i]);
		last.numbers[i] = number ? number : &none;
	}
	void **openssl = globals_of("openssl");
	last.openssl = openssl ? openssl : &no_errors;
	libxml_globals *libxml = globals_of("libxml");
	libxml_error *(*error)(void) = (libxml_error *(*)(void))dlsym(RTLD_DEFAULT, "__xmlLastError");
	last.copy = (int (*)(const libxml_error *, libxml_error *))dlsym(RTLD_DEFAULT, "xmlCopyError");
	last.reset = (void (*)(libxml_error *))dlsym(RTLD_DEFAULT, "xmlResetError");
	if (libxml) {
		last.libxml = libxml;
		last.error = error && last.copy && last.reset ? error() : &no_error;
	}
}

static void clean(void)
{
	JSON_G(error_code) = PHP_JSON_ERROR_NONE;
	PCRE_G(error_code) = PHP_PCRE_NO_ERROR;
	for (int i = 0; i < LAST_NUMBERS; i++) {
		*last.numbers[i] = 0;
	}
	if (UNEXPECTED(*last.openssl)) {
		free(*last.openssl);
		*last.openssl = NULL;
	}
	if (UNEXPECTED(last.error->code)) {
		last.reset(last.error);
	}
	if (UNEXPECTED(last.libxml->collected && last.libxml->collected->count)) {
		zend_llist_clean(last.libxml->collected);
	}
}

/* Takes the list and replaces it with an empty one: the extension adds errors without checking that a list exists. */
static zend_llist *take_collected(void)
{
	zend_llist *list = last.libxml->collected;
	if (EXPECTED(!list || !list->count)) {
		return NULL;
	}
	last.libxml->collected = emalloc(sizeof(zend_llist));
	zend_llist_init(last.libxml->collected, list->size, list->dtor, list->persistent);
	return list;
}

static void on_suspend(fermata_fiber *fiber)
{
	last_errors *it = slot(fiber);
	it->json = (int)JSON_G(error_code);
	it->preg = (int)PCRE_G(error_code);
	for (int i = 0; i < LAST_NUMBERS; i++) {
		it->numbers[i] = *last.numbers[i];
	}
	it->openssl = *last.openssl;
	*last.openssl = NULL;
	if (UNEXPECTED(last.error->code)) {
		it->libxml = ecalloc(1, sizeof(libxml_error));
		last.copy(last.error, it->libxml);
	}
	it->collected = take_collected();
	clean();
}

/* Resumed last, because restoring other parts may fail and add libxml errors. */
static void on_resume(fermata_fiber *fiber)
{
	last_errors *it = slot(fiber);
	clean();
	JSON_G(error_code) = it->json;
	PCRE_G(error_code) = it->preg;
	for (int i = 0; i < LAST_NUMBERS; i++) {
		*last.numbers[i] = it->numbers[i];
	}
	*last.openssl = it->openssl;
	if (UNEXPECTED(it->libxml)) {
		last.copy(it->libxml, last.error);
		last.reset(it->libxml);
		efree(it->libxml);
	}
	if (UNEXPECTED(it->collected)) {
		if (last.libxml->collected) {
			zend_llist_destroy(last.libxml->collected);
			efree(last.libxml->collected);
		}
		last.libxml->collected = it->collected;
	}
	*it = (last_errors){0};
}

static bool on_end(fermata_fiber *fiber, bool is_last)
{
	clean();
	return false;
}

static fermata_part part = {.size = sizeof(last_errors), .on_suspend = on_suspend, .on_resume = on_resume, .on_end = on_end};

void fermata_last_errors_init(void)
{
	fermata_part_register(&part);
}
