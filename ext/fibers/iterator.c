/* Iterator over items that are received once, such as values of a queue and events of a channel. A foreach loop receives items until
 * the source ends; several loops over one object each receive a part of them. */
#include "fibers/fibers.h"

typedef struct item_iterator {
	zend_object_iterator base; /* holds a reference to the object */
	const fermata_item_source *source;
	zval item;                 /* undefined before the first item, at the end, and after an exception */
	zend_ulong received;
	bool waits;
} item_iterator;

static void iterator_drop(zend_object_iterator *base)
{
	item_iterator *iterator = (item_iterator *)base;
	zval item;
	ZVAL_COPY_VALUE(&item, &iterator->item);
	ZVAL_UNDEF(&iterator->item);
	zval_ptr_dtor(&item);
}

static void iterator_free(zend_object_iterator *base)
{
	iterator_drop(base);
	zval_ptr_dtor(&base->data);
}

static zend_result iterator_valid(zend_object_iterator *base)
{
	return Z_ISUNDEF(((item_iterator *)base)->item) ? FAILURE : SUCCESS;
}

/* InternalIterator::current() and key() do not check valid(). */
static zval *iterator_item(zend_object_iterator *base)
{
	zval *item = &((item_iterator *)base)->item;
	return Z_ISUNDEF_P(item) ? NULL : item;
}

static void iterator_key(zend_object_iterator *base, zval *key)
{
	const item_iterator *iterator = (item_iterator *)base;
	if (Z_ISUNDEF(iterator->item)) {
		ZVAL_NULL(key);
	} else {
		iterator->source->key(&iterator->item, iterator->received - 1, key);
	}
}

static void iterator_next(zend_object_iterator *base)
{
	item_iterator *iterator = (item_iterator *)base;
	zval item;
	if (UNEXPECTED(iterator->waits)) {
		fermata_misuse("%s", iterator->source->busy);
		return;
	}
	iterator_drop(base);
	if (UNEXPECTED(EG(exception))) {
		/* Thrown by a destructor. */
		return;
	}
	/* Store the item outside of the iterator, because another fiber may read the iterator's current item during the wait. */
	iterator->waits = true;
	bool has_item = iterator->source->next(Z_OBJ(base->data), &item);
	iterator->waits = false;
	if (has_item) {
		ZVAL_COPY_VALUE(&iterator->item, &item);
		iterator->received++;
	}
}

/* A second foreach over the same iterator continues with its current item. */
static void iterator_rewind(zend_object_iterator *base)
{
	if (Z_ISUNDEF(((item_iterator *)base)->item)) {
		iterator_next(base);
	}
}

static HashTable *iterator_get_gc(zend_object_iterator *base, zval **table, int *len)
{
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	zend_get_gc_buffer_add_zval(buffer, &base->data);
	zend_get_gc_buffer_add_zval(buffer, &((item_iterator *)base)->item);
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

static const zend_object_iterator_funcs iterator_functions = {
	.dtor = iterator_free,
	.valid = iterator_valid,
	.get_current_data = iterator_item,
	.get_current_key = iterator_key,
	.move_forward = iterator_next,
	.rewind = iterator_rewind,
	.get_gc = iterator_get_gc,
};

zend_object_iterator *fermata_item_iterator(const fermata_item_source *source, zval *object, int by_reference)
{
	if (by_reference) {
		fermata_misuse("%s", source->by_reference);
		return NULL;
	}
	item_iterator *iterator = emalloc(sizeof(item_iterator));
	zend_iterator_init(&iterator->base);
	ZVAL_OBJ_COPY(&iterator->base.data, Z_OBJ_P(object));
	iterator->base.funcs = &iterator_functions;
	iterator->source = source;
	ZVAL_UNDEF(&iterator->item);
	iterator->received = 0;
	iterator->waits = false;
	return &iterator->base;
}
