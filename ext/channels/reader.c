/* Fermata\ChannelReader: a handler or task reads a channel's events in order, and waits for the next one.
 *
 * The core has the reader's position and copies an event when it is requested. If there is none, the fiber waits until
 * FM_EVENT_CHANNEL wakes it. */
#include "channels/channels.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "state/changes.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"
#include "base/optimize_size.h"

typedef struct channel_reader {
	FmReader core;         /* 0 = not opened by Channel::read() */
	uint32_t run;          /* `runs` when the reader was opened */
	bool has_gap_events;   /* a gap is an event instead of an exception */
	bool is_waiting;
	zend_object std;
} channel_reader;

static zend_object_handlers reader_handlers;

/* Number of workers of this process that have stopped; a test process may start several. The core's numbers of readers are
 * unique within one worker only. */
static uint32_t runs;

/* Fibers that wait for an event, by reader; NULL while there are none. */
static HashTable *waiting;

/* Object lifetime */

static zend_object *reader_create(zend_class_entry *ce)
{
	channel_reader *reader = zend_object_alloc(sizeof(channel_reader), ce);
	memset(reader, 0, XtOffsetOf(channel_reader, std));
	zend_object_std_init(&reader->std, ce);
	reader->std.handlers = &reader_handlers;
	return &reader->std;
}

/* Returns true if the reader's worker runs in this process. In a forked child, the core belongs to the parent. */
static bool has_worker(const channel_reader *reader)
{
	return fermata.worker && !fermata.forked && reader->run == runs;
}

static void reader_free(zend_object *object)
{
	channel_reader *reader = FERMATA_FROM(channel_reader, object);
	if (reader->core && has_worker(reader)) {
		fm_reader_close(fermata.worker, reader->core);
	}
	zend_object_std_dtor(object);
}

static zend_object_iterator *reader_get_iterator(zend_class_entry *ce, zval *object, int by_reference);

static void on_stop(void)
{
	runs++;
}

static fermata_part part = {.on_stop = on_stop};

void fermata_reader_init(void)
{
	fermata_part_register(&part);
	fermata_ce_channel_reader->get_iterator = reader_get_iterator;
	fermata_ce_channel_reader->create_object = reader_create;
	memcpy(&reader_handlers, zend_get_std_object_handlers(), sizeof(reader_handlers));
	reader_handlers.offset = XtOffsetOf(channel_reader, std);
	reader_handlers.free_obj = reader_free;
	reader_handlers.clone_obj = NULL;
	reader_handlers.compare = zend_objects_not_comparable;
}

ZEND_METHOD(Fermata_Channel, read)
{
	zend_string *since = NULL;
	bool from_start = false, has_gap_events = false;
	FmStr name;
	FmReader core;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(0, 3)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(since)
		Z_PARAM_BOOL(from_start)
		Z_PARAM_BOOL(has_gap_events)
	ZEND_PARSE_PARAMETERS_END();
	if (!fermata_channel_name(ZEND_THIS, &name)) {
		RETURN_THROWS();
	}
	if (UNEXPECTED(fermata.forked)) {
		fermata_misuse("a forked process cannot wait for events; read the channel in the worker");
		RETURN_THROWS();
	}
	FmStr after = fermata_str_or_absent(since && ZSTR_LEN(since) ? since : NULL);
	uint32_t code = fm_reader_open(fermata.worker, name, after, from_start, &core, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	object_init_ex(return_value, fermata_ce_channel_reader);
	channel_reader *reader = FERMATA_FROM(channel_reader, Z_OBJ_P(return_value));
	reader->core = core;
	reader->run = runs;
	reader->has_gap_events = has_gap_events;
}

/* Waiting */

/* Waits until there may be an event. Returns false with an exception pending. */
static bool wait_for_event(channel_reader *reader)
{
	if (!fermata_can_wait()) {
		return false;
	}
	if (!waiting) {
		ALLOC_HASHTABLE(waiting);
		zend_hash_init(waiting, 8, NULL, NULL, 0);
	}
	fermata_fiber *fiber = fermata_this_fiber();
	zend_hash_index_add_new_ptr(waiting, reader->core, fiber);
	/* A task that waits for events does not delay the stop of the worker; a handler does, because its client waits. */
	fermata_background(!fermata_has_request(fiber));
	fermata_wait_result result = fermata_wait(FERMATA_NEVER);
	fermata_background(false);
	zend_hash_index_del(waiting, reader->core);
	if (!zend_hash_num_elements(waiting)) {
		zend_hash_destroy(waiting);
		FREE_HASHTABLE(waiting);
		waiting = NULL;
	}
	return result != FERMATA_WAIT_FAILED;
}

void fermata_reader_woken(void)
{
	fermata_fiber *fiber = waiting ? zend_hash_index_find_ptr(waiting, fm_reader_woken(fermata.worker)) : NULL;
	if (fiber) {
		fermata_wake(fiber);
	}
}

/* Reading */

static void gap_event(zval *result, FmStr reason)
{
	zend_string *data = zend_string_concat3(ZEND_STRL("{\"reason\":\""), reason.ptr, reason.len, ZEND_STRL("\"}"));
	FmPast gap = {.name = FERMATA_LITERAL("gap"), .data = fermata_str(data)};
	fermata_event_from_past(result, &gap);
	zend_string_release(data);
}

static ZEND_COLD void throw_gap(FmStr reason)
{
	zend_string *text = zend_string_init(reason.ptr, reason.len, false);
	zend_object *exception = zend_throw_exception_ex(fermata_ce_gap, 0,
		"events before the next one are missing (%s); load the current state, then continue with this reader", ZSTR_VAL(text));
	zend_update_property_str(fermata_ce_gap, exception, ZEND_STRL("reason"), text);
	zend_string_release(text);
}

/* Reads the next event; waits while there is none. Returns false with an exception pending. */
static bool read_event(channel_reader *reader, zval *event)
{
	FmPast past;
	uint32_t what;
	FmError error;
	error.len = 0;
	for (;;) {
		uint32_t code = fm_reader_next(fermata.worker, reader->core, &what, &past, &error);
		if (UNEXPECTED(code != FM_OK)) {
			fermata_throw(code, &error);
			return false;
		}
		if (what == FM_READ_EVENT) {
			fermata_event_from_past(event, &past);
			return true;
		}
		if (what == FM_READ_GAP) {
			if (reader->has_gap_events) {
				gap_event(event, past.data);
				return true;
			}
			throw_gap(past.data);
			return false;
		}
		if (!wait_for_event(reader)) {
			return false;
		}
	}
}

/* Like read_event(), but refuses two fibers that read at the same time: each would receive a part of the events. */
static bool read_alone(channel_reader *reader, zval *event)
{
	if (UNEXPECTED(!reader->core)) {
		fermata_misuse("the reader was made without its constructor; use Channel::read()");
		return false;
	}
	if (UNEXPECTED(!has_worker(reader))) {
		fermata_misuse("the reader belongs to a worker that has stopped, or to the parent of this process; use Channel::read() again");
		return false;
	}
	if (UNEXPECTED(reader->is_waiting)) {
		fermata_misuse("another handler or task waits with this reader; open one with Channel::read() for each of them");
		return false;
	}
	reader->is_waiting = true;
	/* While this fiber waits, another one may release the last reference. */
	GC_ADDREF(&reader->std);
	bool has_read = read_event(reader, event);
	reader->is_waiting = false;
	OBJ_RELEASE(&reader->std);
	return has_read;
}

ZEND_METHOD(Fermata_ChannelReader, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_ChannelReader, receive)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!read_alone(FERMATA_FROM(channel_reader, Z_OBJ_P(ZEND_THIS)), return_value)) {
		RETURN_THROWS();
	}
}

/* foreach. Each loop over a reader continues after the last event that was read. */

typedef struct reader_iterator {
	zend_object_iterator base; /* holds a reference to the reader */
	zval event;                /* undefined before the first event, and after an exception */
} reader_iterator;

static void iterator_drop(zend_object_iterator *base)
{
	reader_iterator *iterator = (reader_iterator *)base;
	zval event;
	ZVAL_COPY_VALUE(&event, &iterator->event);
	ZVAL_UNDEF(&iterator->event);
	zval_ptr_dtor(&event);
}

static void iterator_free(zend_object_iterator *base)
{
	iterator_drop(base);
	zval_ptr_dtor(&base->data);
}

static zend_result iterator_valid(zend_object_iterator *base)
{
	return Z_ISUNDEF(((reader_iterator *)base)->event) ? FAILURE : SUCCESS;
}

static zval *iterator_event(zend_object_iterator *base)
{
	zval *event = &((reader_iterator *)base)->event;
	return Z_ISUNDEF_P(event) ? NULL : event;
}

static void iterator_key(zend_object_iterator *base, zval *key)
{
	const zval *event = &((reader_iterator *)base)->event;
	/* Undefined after an exception; InternalIterator::key() does not check valid(). */
	if (Z_ISUNDEF_P(event)) {
		ZVAL_NULL(key);
		return;
	}
	fermata_event_id(key, Z_OBJ_P(event));
}

static void iterator_next(zend_object_iterator *base)
{
	zval event;
	iterator_drop(base);
	if (UNEXPECTED(EG(exception))) {
		/* Thrown by a destructor. */
		return;
	}
	/* Store the event outside of the iterator: another fiber may read the iterator's current value during the wait. */
	if (read_alone(FERMATA_FROM(channel_reader, Z_OBJ(base->data)), &event)) {
		ZVAL_COPY_VALUE(&((reader_iterator *)base)->event, &event);
	}
}

/* A second foreach over the same iterator continues with its current event. */
static void iterator_rewind(zend_object_iterator *base)
{
	if (Z_ISUNDEF(((reader_iterator *)base)->event)) {
		iterator_next(base);
	}
}

static HashTable *iterator_get_gc(zend_object_iterator *base, zval **table, int *len)
{
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	zend_get_gc_buffer_add_zval(buffer, &base->data);
	zend_get_gc_buffer_add_zval(buffer, &((reader_iterator *)base)->event);
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

static const zend_object_iterator_funcs iterator_functions = {
	.dtor = iterator_free,
	.valid = iterator_valid,
	.get_current_data = iterator_event,
	.get_current_key = iterator_key,
	.move_forward = iterator_next,
	.rewind = iterator_rewind,
	.get_gc = iterator_get_gc,
};

static zend_object_iterator *reader_get_iterator(zend_class_entry *ce, zval *object, int by_reference)
{
	if (by_reference) {
		fermata_misuse("foreach cannot read events by reference");
		return NULL;
	}
	reader_iterator *iterator = emalloc(sizeof(reader_iterator));
	zend_iterator_init(&iterator->base);
	ZVAL_OBJ_COPY(&iterator->base.data, Z_OBJ_P(object));
	iterator->base.funcs = &iterator_functions;
	ZVAL_UNDEF(&iterator->event);
	return &iterator->base;
}

ZEND_METHOD(Fermata_ChannelReader, getIterator)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_create_internal_iterator_zval(return_value, ZEND_THIS);
}
