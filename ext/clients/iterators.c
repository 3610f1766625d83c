/* Guards `foreach` over results. PHP runs such a loop without calling a function that wrap.c could wrap.
 *
 * Iterators of PDOStatement and mysqli_result read rows from the server and free the previous row. A lazy PDO row reads from its
 * statement. Iterators and rows acquire the connection's guard, as functions do. Otherwise execute() or free() in another handler
 * would remove the data that they read. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/guards.h"
#include "zend_interfaces.h"
#include "base/optimize_size.h"

#define KINDS_MAX 2

/* A class and its original iterator. */
typedef struct kind {
	zend_object_iterator_funcs guarded; /* first member: iterators point to it */
	const zend_object_iterator_funcs *original; /* NULL until the first iterator is created */
	zend_object_iterator *(*get)(zend_class_entry *class, zval *object, int by_reference);
} kind;

static kind kinds[KINDS_MAX];
static uint32_t kinds_len;

static const zend_object_iterator_funcs *original_of(const zend_object_iterator *it)
{
	return ((const kind *)it->funcs)->original;
}

static void iterator_free(zend_object_iterator *it)
{
	original_of(it)->dtor(it);
}

static zend_result iterator_valid(zend_object_iterator *it)
{
	return original_of(it)->valid(it);
}

static zval *iterator_data(zend_object_iterator *it)
{
	return original_of(it)->get_current_data(it);
}

static void iterator_key(zend_object_iterator *it, zval *key)
{
	original_of(it)->get_current_key(it, key);
}

static void iterator_next(zend_object_iterator *it)
{
	fermata_guarded call;
	if (EXPECTED(fermata_guarded_enter_object(&call, Z_OBJ(it->data)))) {
		original_of(it)->move_forward(it);
		fermata_guarded_leave(&call, NULL);
	}
}

static void iterator_rewind(zend_object_iterator *it)
{
	fermata_guarded call;
	if (EXPECTED(fermata_guarded_enter_object(&call, Z_OBJ(it->data)))) {
		original_of(it)->rewind(it);
		fermata_guarded_leave(&call, NULL);
	}
}

/* Called in a process without guards, if another process has changed a class in OPcache's shared memory. */
static ZEND_COLD zend_object_iterator *get_unguarded(zend_class_entry *class, zval *object, int by_reference)
{
	const zend_class_entry *root = class;
	while (root->parent) {
		root = root->parent;
	}
	return root->get_iterator(class, object, by_reference);
}

static zend_object_iterator *get(kind *which, zend_class_entry *class, zval *object, int by_reference)
{
	fermata_guarded call;
	if (UNEXPECTED(!which->get)) {
		return get_unguarded(class, object, by_reference);
	}
	/* PDO fetches the first row here. */
	if (UNEXPECTED(!fermata_guarded_enter_object(&call, Z_OBJ_P(object)))) {
		return NULL;
	}
	zend_object_iterator *it = which->get(class, object, by_reference);
	fermata_guarded_leave(&call, NULL);
	if (UNEXPECTED(!it)) {
		return NULL;
	}
	if (UNEXPECTED(!which->original)) {
		which->original = it->funcs;
		which->guarded = *it->funcs;
		which->guarded.dtor = iterator_free;
		which->guarded.valid = iterator_valid;
		which->guarded.get_current_data = iterator_data;
		which->guarded.get_current_key = it->funcs->get_current_key ? iterator_key : NULL;
		which->guarded.move_forward = iterator_next;
		which->guarded.rewind = it->funcs->rewind ? iterator_rewind : NULL;
	}
	it->funcs = &which->guarded;
	return it;
}

static zend_object_iterator *get_first(zend_class_entry *class, zval *object, int by_reference)
{
	return get(&kinds[0], class, object, by_reference);
}

static zend_object_iterator *get_second(zend_class_entry *class, zval *object, int by_reference)
{
	return get(&kinds[1], class, object, by_reference);
}

/* Replaces the function that creates iterators in a class, and in subclasses, which have inherited it. */
static void exchange_iterator(const char *name)
{
	static void *const by[KINDS_MAX] = {(void *)get_first, (void *)get_second};
	const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), name, strlen(name));
	zend_class_entry *each;
	if (!class || class->type != ZEND_INTERNAL_CLASS || !class->get_iterator) {
		return;
	}
	kind *which = &kinds[kinds_len];
	which->get = class->get_iterator;
	ZEND_HASH_FOREACH_PTR(CG(class_table), each) {
		if (each->get_iterator != which->get) {
			continue;
		}
		if (each->type == ZEND_USER_CLASS) {
			fermata_patch_lasting((void **)&each->get_iterator, by[kinds_len]);
		} else {
			fermata_patch_pointer((void **)&each->get_iterator, by[kinds_len]);
		}
	} ZEND_HASH_FOREACH_END();
	kinds_len++;
}

#ifdef HAVE_PDO_OF_PHP
static struct {
	zend_object_read_property_t read_property;
	zend_object_has_property_t has_property;
	zend_object_read_dimension_t read_dimension;
	zend_object_has_dimension_t has_dimension;
	zend_object_get_properties_t get_properties;
} row;

static bool enter_row(fermata_guarded *call, zend_object *object)
{
	const pdo_row_t *it = fermata_pdo_row(object);
	call->len = 0;
	return !it->stmt || fermata_guarded_enter_object(call, &it->stmt->std);
}

static zval *row_read_property(zend_object *object, zend_string *name, int type, void **slot, zval *value)
{
	fermata_guarded call;
	if (UNEXPECTED(!enter_row(&call, object))) {
		return &EG(uninitialized_zval);
	}
	zval *result = row.read_property(object, name, type, slot, value);
	fermata_guarded_leave(&call, NULL);
	return result;
}

static int row_has_property(zend_object *object, zend_string *name, int check, void **slot)
{
	fermata_guarded call;
	if (UNEXPECTED(!enter_row(&call, object))) {
		return 0;
	}
	int result = row.has_property(object, name, check, slot);
	fermata_guarded_leave(&call, NULL);
	return result;
}

static zval *row_read_dimension(zend_object *object, zval *at, int type, zval *value)
{
	fermata_guarded call;
	if (UNEXPECTED(!enter_row(&call, object))) {
		return &EG(uninitialized_zval);
	}
	zval *result = row.read_dimension(object, at, type, value);
	fermata_guarded_leave(&call, NULL);
	return result;
}

static int row_has_dimension(zend_object *object, zval *at, int check)
{
	fermata_guarded call;
	if (UNEXPECTED(!enter_row(&call, object))) {
		return 0;
	}
	int result = row.has_dimension(object, at, check);
	fermata_guarded_leave(&call, NULL);
	return result;
}

static HashTable *row_get_properties(zend_object *object)
{
	fermata_guarded call;
	if (UNEXPECTED(!enter_row(&call, object))) {
		return (HashTable *)&zend_empty_array;
	}
	HashTable *result = row.get_properties(object);
	fermata_guarded_leave(&call, NULL);
	return result;
}

#define EXCHANGE(handlers, name) \
	row.name = (handlers)->name; \
	fermata_patch_pointer((void **)&(handlers)->name, (void *)row_##name)

static void exchange_row(void)
{
	zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("pdorow"));
	if (!class || class->type != ZEND_INTERNAL_CLASS || !class->create_object) {
		return;
	}
	zend_object *object = class->create_object(class);
	const zend_object_handlers *handlers = object->handlers;
	if (handlers != zend_get_std_object_handlers()) {
		EXCHANGE(handlers, read_property);
		EXCHANGE(handlers, has_property);
		EXCHANGE(handlers, read_dimension);
		EXCHANGE(handlers, has_dimension);
		EXCHANGE(handlers, get_properties);
	}
	OBJ_RELEASE(object);
}
#endif

void fermata_hook_iterators(void)
{
	exchange_iterator("pdostatement");
	exchange_iterator("mysqli_result");
#ifdef HAVE_PDO_OF_PHP
	exchange_row();
#endif
}
