/* Fermata\Sync\Queue: a bounded FIFO queue of values between handlers and tasks. */
#include "fibers/fibers.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"
#include "base/optimize_size.h"

#define ITEMS_CAPACITY_MIN 8
#define CAPACITY_MAX 16777216

typedef struct fermata_queue {
	zval *items;               /* a ring buffer */
	uint32_t first, len, allocated;
	uint32_t capacity;         /* 0 before the constructor */
	bool is_closed;
	fermata_waiters givers;    /* fibers that wait while the queue is full; each has its value */
	fermata_waiters takers;    /* fibers that wait while the queue is empty */
	zend_object std;
} fermata_queue;

static zend_object_handlers queue_handlers;

#define THIS_QUEUE() FERMATA_FROM(fermata_queue, Z_OBJ_P(ZEND_THIS))

/* Object lifecycle */

static zend_object *queue_create(zend_class_entry *ce)
{
	fermata_queue *queue = zend_object_alloc(sizeof(fermata_queue), ce);
	memset(queue, 0, XtOffsetOf(fermata_queue, std));
	zend_object_std_init(&queue->std, ce);
	queue->std.handlers = &queue_handlers;
	return &queue->std;
}

static zend_always_inline zval *item_at(const fermata_queue *queue, uint32_t index)
{
	uint32_t at = queue->first + index;
	return &queue->items[at < queue->allocated ? at : at - queue->allocated];
}

static void queue_free(zend_object *object)
{
	fermata_queue *queue = FERMATA_FROM(fermata_queue, object);
	for (uint32_t i = 0; i < queue->len; i++) {
		zval_ptr_dtor(item_at(queue, i));
	}
	if (queue->items) {
		efree(queue->items);
	}
	zend_object_std_dtor(object);
}

static HashTable *queue_get_gc(zend_object *object, zval **table, int *len)
{
	fermata_queue *queue = FERMATA_FROM(fermata_queue, object);
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	for (uint32_t i = 0; i < queue->len; i++) {
		zend_get_gc_buffer_add_zval(buffer, item_at(queue, i));
	}
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

static zend_object_iterator *queue_get_iterator(zend_class_entry *ce, zval *object, int by_reference);

void fermata_queue_init(void)
{
	fermata_ce_queue->get_iterator = queue_get_iterator;
	fermata_ce_queue->create_object = queue_create;
	memcpy(&queue_handlers, zend_get_std_object_handlers(), sizeof(queue_handlers));
	queue_handlers.offset = XtOffsetOf(fermata_queue, std);
	queue_handlers.free_obj = queue_free;
	queue_handlers.get_gc = queue_get_gc;
	queue_handlers.clone_obj = NULL;
	queue_handlers.compare = zend_objects_not_comparable;
}

/* Values */

static void grow(fermata_queue *queue)
{
	uint32_t allocated = queue->allocated ? queue->allocated * 2 : ITEMS_CAPACITY_MIN;
	zval *items = safe_emalloc(allocated, sizeof(zval), 0);
	for (uint32_t i = 0; i < queue->len; i++) {
		ZVAL_COPY_VALUE(&items[i], item_at(queue, i));
	}
	if (queue->items) {
		efree(queue->items);
	}
	queue->items = items;
	queue->allocated = allocated;
	queue->first = 0;
}

/* Takes ownership of the reference. */
static void append(fermata_queue *queue, zval *item)
{
	if (queue->len == queue->allocated) {
		grow(queue);
	}
	ZVAL_COPY_VALUE(item_at(queue, queue->len), item);
	queue->len++;
}

static void shift(fermata_queue *queue, zval *item)
{
	ZVAL_COPY_VALUE(item, item_at(queue, 0));
	queue->first = queue->first + 1 < queue->allocated ? queue->first + 1 : 0;
	queue->len--;
}

static ZEND_COLD void throw_closed(void)
{
	zend_throw_exception(fermata_ce_queue_closed, "the queue is closed", 0);
}

/* Adds a value without waiting. Returns false if the queue is full. */
static bool give(fermata_queue *queue, zval *item)
{
	fermata_waiter *taker = queue->takers.first;
	if (taker) {
		fermata_waiters_remove(taker);
		ZVAL_COPY(&taker->item, item);
		fermata_wake(taker->fiber);
		return true;
	}
	if (queue->len >= queue->capacity) {
		return false;
	}
	Z_TRY_ADDREF_P(item);
	append(queue, item);
	return true;
}

/* Removes a value without waiting. Returns false if the queue is empty. */
static bool take(fermata_queue *queue, zval *item)
{
	if (!queue->len) {
		return false;
	}
	shift(queue, item);
	fermata_waiter *giver = queue->givers.first;
	if (giver) {
		fermata_waiters_remove(giver);
		append(queue, &giver->item);
		ZVAL_UNDEF(&giver->item);
		fermata_wake(giver->fiber);
	}
	return true;
}

/* Methods */

ZEND_METHOD(Fermata_Sync_Queue, __construct)
{
	zend_long capacity = 1;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(capacity)
	ZEND_PARSE_PARAMETERS_END();
	fermata_queue *queue = THIS_QUEUE();
	if (queue->capacity) {
		fermata_constructed_twice();
		RETURN_THROWS();
	}
	if (capacity < 1 || capacity > CAPACITY_MAX) {
		fermata_misuse("the capacity of a queue is 1 to %d items, not " ZEND_LONG_FMT, CAPACITY_MAX, capacity);
		RETURN_THROWS();
	}
	queue->capacity = (uint32_t)capacity;
}

ZEND_METHOD(Fermata_Sync_Queue, push)
{
	zval *item;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_ZVAL(item)
	ZEND_PARSE_PARAMETERS_END();
	fermata_queue *queue = THIS_QUEUE();
	if (UNEXPECTED(queue->is_closed)) {
		throw_closed();
		RETURN_THROWS();
	}
	if (give(queue, item)) {
		return;
	}
	if (!fermata_can_wait()) {
		RETURN_THROWS();
	}
	fermata_waiter waiter = {.fiber = fermata_run.fiber};
	ZVAL_COPY(&waiter.item, item);
	fermata_waiters_add(&queue->givers, &waiter);
	fermata_wait_result waited = fermata_wait_for_others();
	fermata_waiters_remove(&waiter);
	if (!Z_ISUNDEF(waiter.item)) {
		zval_ptr_dtor(&waiter.item);
		if (waited != FERMATA_WAIT_FAILED) {
			throw_closed();
		}
	}
}

ZEND_METHOD(Fermata_Sync_Queue, tryPush)
{
	zval *item;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_ZVAL(item)
	ZEND_PARSE_PARAMETERS_END();
	if (UNEXPECTED(THIS_QUEUE()->is_closed)) {
		throw_closed();
		RETURN_THROWS();
	}
	RETURN_BOOL(give(THIS_QUEUE(), item));
}

/* Removes a value; waits while the queue is empty. Returns false if the queue is closed and empty, or with an exception
 * pending. */
static bool take_waiting(fermata_queue *queue, zval *item)
{
	if (take(queue, item)) {
		return true;
	}
	if (queue->is_closed || !fermata_can_wait()) {
		return false;
	}
	fermata_waiter waiter = {.fiber = fermata_run.fiber};
	ZVAL_UNDEF(&waiter.item);
	fermata_waiters_add(&queue->takers, &waiter);
	fermata_wait_for_others();
	fermata_waiters_remove(&waiter);
	if (Z_ISUNDEF(waiter.item)) {
		return false;
	}
	ZVAL_COPY_VALUE(item, &waiter.item);
	return true;
}

ZEND_METHOD(Fermata_Sync_Queue, pop)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!take_waiting(THIS_QUEUE(), return_value) && !EG(exception)) {
		throw_closed();
	}
}

ZEND_METHOD(Fermata_Sync_Queue, tryPop)
{
	zval *fallback = NULL;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_ZVAL(fallback)
	ZEND_PARSE_PARAMETERS_END();
	if (!take(THIS_QUEUE(), return_value) && fallback) {
		RETURN_COPY(fallback);
	}
}

static void wake_all(fermata_waiters *list)
{
	fermata_waiter *waiter;
	while ((waiter = list->first)) {
		fermata_waiters_remove(waiter);
		fermata_wake(waiter->fiber);
	}
}

ZEND_METHOD(Fermata_Sync_Queue, close)
{
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_queue *queue = THIS_QUEUE();
	queue->is_closed = true;
	wake_all(&queue->takers);
	wake_all(&queue->givers);
}

ZEND_METHOD(Fermata_Sync_Queue, isClosed)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(THIS_QUEUE()->is_closed);
}

ZEND_METHOD(Fermata_Sync_Queue, count)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_LONG(THIS_QUEUE()->len);
}

/* foreach over a queue removes values until the queue is closed and empty. Several loops may iterate over one queue; each value
 * goes to one of them. */

static bool next_item(zend_object *object, zval *item)
{
	return take_waiting(FERMATA_FROM(fermata_queue, object), item);
}

static void item_key(const zval *item, zend_ulong count, zval *key)
{
	ZVAL_LONG(key, (zend_long)count);
}

static zend_object_iterator *queue_get_iterator(zend_class_entry *ce, zval *object, int by_reference)
{
	static const fermata_item_source source = {
		.next = next_item,
		.key = item_key,
		.busy = "another handler or task waits with this iterator already; a foreach of its own takes values as well",
		.by_reference = "foreach cannot take values of a queue by reference",
	};
	return fermata_item_iterator(&source, object, by_reference);
}

ZEND_METHOD(Fermata_Sync_Queue, getIterator)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_create_internal_iterator_zval(return_value, ZEND_THIS);
}
