/* Client objects of PHP extensions: guarded classes, guard keys, and the queries that are passed to calls. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/objects.h"
#include "base/optimize_size.h"

static struct {
	bool is_on;
	const fermata_root *roots;
	size_t len;
	const zend_class_entry *classes[FERMATA_ROOTS_MAX]; /* by index in `roots`; NULL = the class is not loaded */
} objects;

static const fermata_root *root_of(const zend_object *object)
{
	const zend_class_entry *class = object->ce;
	while (class->parent) {
		class = class->parent;
	}
	for (size_t i = 0; i < objects.len; i++) {
		if (objects.classes[i] == class) {
			return &objects.roots[i];
		}
	}
	return NULL;
}

uintptr_t fermata_guard_key_of(const fermata_root *root, zend_object *object)
{
	uintptr_t key = root->key ? root->key(object) : 0;
	return key ? key : (uintptr_t)object;
}

const fermata_root *fermata_guard_root(const zend_object *object)
{
	return objects.is_on ? root_of(object) : NULL;
}

uintptr_t fermata_guard_key(zend_object *object)
{
	const fermata_root *root = fermata_guard_root(object);
	return root ? fermata_guard_key_of(root, object) : 0;
}

zend_object *fermata_guard_find_object(uintptr_t key)
{
	zend_object *found = NULL;
	for (uint32_t i = 1; i < EG(objects_store).top; i++) {
		zend_object *object = EG(objects_store).object_buckets[i];
		const fermata_root *root = IS_OBJ_VALID(object) && !(OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED) ? root_of(object) : NULL;
		if (root && fermata_guard_key_of(root, object) == key) {
			found = object;
			if (root->kind == FERMATA_ROOT_CONNECTION) {
				break;
			}
		}
	}
	return found;
}

FmStr fermata_guard_first_string(zend_execute_data *frame)
{
	for (uint32_t i = 1; i <= MIN(ZEND_CALL_NUM_ARGS(frame), 2); i++) {
		const zval *argument = ZEND_CALL_ARG(frame, i);
		ZVAL_DEREF(argument);
		if (Z_TYPE_P(argument) == IS_STRING) {
			return fermata_str(Z_STR_P(argument));
		}
	}
	return (FmStr){NULL, 0};
}

FmStr fermata_guard_text(zend_execute_data *frame)
{
#ifdef HAVE_PDO_OF_PHP
	if (Z_TYPE(frame->This) == IS_OBJECT && strcasecmp(ZSTR_VAL(frame->func->common.function_name), "execute") == 0
			&& frame->func->common.scope && strcmp(ZSTR_VAL(frame->func->common.scope->name), "PDOStatement") == 0) {
		const zend_string *text = php_pdo_stmt_fetch_object(Z_OBJ(frame->This))->query_string;
		return text ? fermata_str(text) : (FmStr){NULL, 0};
	}
#endif
	const char *name = ZSTR_VAL(frame->func->common.function_name);
	return strcasestr(name, "query") || strcasestr(name, "exec") || strcasestr(name, "prepare") ? fermata_guard_first_string(frame)
		: (FmStr){NULL, 0};
}

void fermata_guard_roots_start(const fermata_root *roots, size_t len)
{
	objects.is_on = true;
	objects.roots = roots;
	objects.len = len;
	for (size_t i = 0; i < objects.len; i++) {
		const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), roots[i].name, strlen(roots[i].name));
		objects.classes[i] = class && class->type == ZEND_INTERNAL_CLASS ? class : NULL;
	}
}

void fermata_guard_roots_end(void)
{
	objects.is_on = false;
}
