/* Wraps the functions of client extensions in guarded calls (guards.c). */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/guards.h"
#include "zend_closures.h"
#include "zend_extensions.h"
#include "base/optimize_size.h"

static struct {
	bool is_on, is_wrapped;
	int place;           /* index of the original handler in a function's reserved pointers, which closures of the function share */
	HashTable originals; /* original handlers by address of the zend_function */
} wrapped;

static zend_always_inline zend_ulong index_of(const void *function)
{
	return (zend_ulong)(uintptr_t)function >> 3;
}

static ZEND_NAMED_FUNCTION(guarded)
{
	zif_handler original = (zif_handler)execute_data->func->internal_function.reserved[wrapped.place];
	/* Hooks are off, or another process has guarded this class in OPcache's shared memory. */
	if (!wrapped.is_on) {
		original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	} else {
		fermata_guarded_call(original, INTERNAL_FUNCTION_PARAM_PASSTHRU);
	}
}

static bool is_unguarded(const zend_function *function)
{
	return function->type == ZEND_INTERNAL_FUNCTION && function->internal_function.handler
		&& function->internal_function.handler != guarded;
}

static void guard(zend_function *function)
{
	if (is_unguarded(function)) {
		zend_hash_index_update_ptr(&wrapped.originals, index_of(function), (void *)function->internal_function.handler);
		function->internal_function.reserved[wrapped.place] = (void *)function->internal_function.handler;
		function->internal_function.handler = guarded;
	}
}

static bool is_guarded_module(const zend_module_entry *module)
{
	static const char *const names[] = {"curl", "ftp", "mysqli", "PDO", "pdo_mysql", "pdo_pgsql", "pdo_sqlite", "pgsql", "redis", "sqlite3"};
	/* Functions of one module are adjacent, so the last result is cached. */
	static const zend_module_entry *last;
	static bool is_last;
	if (module != last) {
		last = module;
		is_last = false;
		for (size_t i = 0; module && i < sizeof(names) / sizeof(*names); i++) {
			is_last |= strcmp(module->name, names[i]) == 0;
		}
	}
	return is_last;
}

/* Guards the methods of a class, including subclasses of PDO in PDO drivers. Methods of such a subclass are copies that belong to
 * the module PDO, although the class belongs to the driver. */
static void guard_methods(zend_class_entry *class)
{
	zend_function *method;
	ZEND_HASH_FOREACH_PTR(&class->function_table, method) {
		if (is_unguarded(method) && is_guarded_module(method->internal_function.module)) {
			guard(method);
		}
	} ZEND_HASH_FOREACH_END();
}

/* Guards the functions that a userland class has inherited. PHP copied them when the class was declared, and frees the copies with
 * the script, so these changes are not restored. */
static void guard_copies(zend_class_entry *class)
{
	zend_function *copy;
	ZEND_HASH_FOREACH_PTR(&class->function_table, copy) {
		if (is_unguarded(copy) && is_guarded_module(copy->internal_function.module)) {
			fermata_patch_lasting(&copy->internal_function.reserved[wrapped.place], (void *)copy->internal_function.handler);
			fermata_patch_lasting((void **)&copy->internal_function.handler, (void *)guarded);
		}
	} ZEND_HASH_FOREACH_END();
}

/* PHP's private structure, whose first members are the same in all versions. PHP calls the original function through a handler
 * that then releases the closure. */
typedef struct closure {
	zend_object object;
	zend_function function;
	zval this;
	zend_class_entry *called;
	zif_handler original;
} closure;

/* Guards the copies of such functions in closures that were created earlier, for example by `$pdo->query(...)`. */
static void guard_closures(void)
{
	for (uint32_t i = 1; i < EG(objects_store).top; i++) {
		zend_object *object = EG(objects_store).object_buckets[i];
		if (!IS_OBJ_VALID(object) || object->ce != zend_ce_closure) {
			continue;
		}
		zend_function *copy = (zend_function *)zend_get_closure_method_def(object);
		if (copy->type != ZEND_INTERNAL_FUNCTION || !is_guarded_module(copy->internal_function.module)) {
			continue;
		}
		const HashTable *functions = copy->common.scope ? &copy->common.scope->function_table : CG(function_table);
		zend_string *name = zend_string_tolower(copy->common.function_name);
		const zend_function *original = zend_hash_find_ptr(functions, name);
		zend_string_release(name);
		if (original && original->type == ZEND_INTERNAL_FUNCTION && original->internal_function.handler == guarded) {
			closure *self = (closure *)object;
			if ((void *)self->original == original->internal_function.reserved[wrapped.place]) {
				copy->internal_function.reserved[wrapped.place] = (void *)self->original;
				self->original = guarded;
			}
		}
	}
}

void fermata_guards_init(void)
{
	wrapped.place = zend_get_resource_handle("fermata");
}

void fermata_guards_wrap(void)
{
	zend_class_entry *class;
	zend_function *function;
	if (UNEXPECTED(wrapped.place < 0)) {
		return;
	}
	if (!wrapped.is_wrapped) {
		zend_hash_init(&wrapped.originals, 0, NULL, NULL, true);
		wrapped.is_wrapped = true;
	}
	ZEND_HASH_FOREACH_PTR(CG(function_table), function) {
		if (function->type == ZEND_INTERNAL_FUNCTION && is_guarded_module(function->internal_function.module)) {
			guard(function);
		}
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
		if (class->type == ZEND_INTERNAL_CLASS) {
			guard_methods(class);
		}
	} ZEND_HASH_FOREACH_END();
}

bool fermata_hook_guards(void)
{
	zend_class_entry *class;
	if (wrapped.is_on) {
		return true;
	}
	if (UNEXPECTED(wrapped.place < 0)) {
		return false;
	}
	wrapped.is_on = true;
	/* Callers that queue wait like hooked calls. */
	fermata_hooks_init();
	fermata_guards_start();
	/* Wrap the extensions that were loaded since the first call. */
	fermata_guards_wrap();
	ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
		if (class->type == ZEND_USER_CLASS) {
			guard_copies(class);
		}
	} ZEND_HASH_FOREACH_END();
	guard_closures();
	fermata_hook_iterators();
	return true;
}

/* Restores PHP's functions: PHP frees its function table after it has unloaded the extension. */
void fermata_guards_undo(void)
{
	zend_ulong index;
	void *original;
	if (!wrapped.is_wrapped) {
		return;
	}
	ZEND_HASH_FOREACH_NUM_KEY_PTR(&wrapped.originals, index, original) {
		((zend_function *)(uintptr_t)(index << 3))->internal_function.handler = (zif_handler)original;
	} ZEND_HASH_FOREACH_END();
	zend_hash_destroy(&wrapped.originals);
	wrapped.is_wrapped = false;
	if (!wrapped.is_on) {
		return;
	}
	fermata_guards_stop();
	wrapped.is_on = false;
}
