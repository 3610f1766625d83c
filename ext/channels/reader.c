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

#define READER_BUSY "another handler or task waits with this reader; open one with Channel::read() for each of them"

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
	/* A task that waits for events does not delay the stop of the worker; a handler does, because its client waits. */
	fermata_background(!fermata_has_request(fermata_this_fiber()));
	fermata_wait_result result = fermata_wait_keyed(&waiting, reader->core);
	fermata_background(false);
	return result != FERMATA_WAIT_FAILED;
}

void fermata_reader_woken(void)
{
	fermata_wake_keyed(waiting, fm_reader_woken(fermata.worker));
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
		fermata_misuse("%s", READER_BUSY);
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

static bool next_event(zend_object *object, zval *event)
{
	return read_alone(FERMATA_FROM(channel_reader, object), event);
}

static void event_key(const zval *event, zend_ulong count, zval *key)
{
	fermata_event_id(key, Z_OBJ_P(event));
}

static zend_object_iterator *reader_get_iterator(zend_class_entry *ce, zval *object, int by_reference)
{
	static const fermata_item_source source = {
		.next = next_event,
		.key = event_key,
		.busy = READER_BUSY,
		.by_reference = "foreach cannot read events by reference",
	};
	return fermata_item_iterator(&source, object, by_reference);
}

ZEND_METHOD(Fermata_ChannelReader, getIterator)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_create_internal_iterator_zval(return_value, ZEND_THIS);
}
