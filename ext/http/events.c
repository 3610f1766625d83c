/* Response::events() and Response::output(): a callable that sends events, or prints the body, on the handler's fiber.
 *
 * The callable waits while QUEUE_BYTES_MAX bytes are queued for the client. So a slow client uses a limited amount of memory. */
#include "http/http.h"
#include "fibers/fibers.h"
#include "state/php_state.h"
#include "state/sapi_output.h"
#include "zend_exceptions.h"

/* Number of queued bytes of one client at which its handler waits. */
#define QUEUE_BYTES_MAX 65536
/* A handler that sends without a pause waits for its client after this time, so that other handlers run. */
#define FLUSH_AFTER_MS 5
#define STATUS_OK 200
#define KEEP_ALIVE_SECONDS_MAX 3600.0

enum { SINK_LAST_EVENT_ID };

typedef struct sink {
	FmRequest request;      /* 0 = the stream has ended */
	bool gone;             /* the client has left */
	size_t queued;         /* bytes that the client has not received */
	uint64_t queued_ms;    /* time at which `queued` became positive */
	uint64_t sent_ms;      /* time of the last event, comment or output */
	uint64_t keep_alive_ms; /* 0 = never */
	fermata_timer timer;
	fermata_waiters waiters; /* fibers that wait until the client has received all bytes */
	zend_object std;
} sink;

zend_class_entry *fermata_ce_event_sink;
static zend_object_handlers sink_handlers;
static HashTable *sinks; /* open sinks by request; NULL before the first one */

#define THIS_SINK() FERMATA_FROM(sink, Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *sink_create(zend_class_entry *ce)
{
	sink *s = zend_object_alloc(sizeof(sink), ce);
	memset(s, 0, XtOffsetOf(sink, std));
	zend_object_std_init(&s->std, ce);
	object_properties_init(&s->std, ce);
	s->std.handlers = &sink_handlers;
	return &s->std;
}

void fermata_events_init(void)
{
	fermata_ce_event_sink->create_object = sink_create;
	memcpy(&sink_handlers, zend_get_std_object_handlers(), sizeof(sink_handlers));
	sink_handlers.offset = XtOffsetOf(sink, std);
	sink_handlers.clone_obj = NULL;
	sink_handlers.compare = zend_objects_not_comparable;
}

static void wake_all(sink *s)
{
	fermata_waiter *waiter;
	while ((waiter = s->waiters.first)) {
		fermata_waiters_remove(waiter);
		fermata_wake(waiter->fiber);
	}
}

/* Closes the sink and returns its request; 0 if it was already closed. The caller ends or cuts the stream. */
static uint64_t detach(sink *s)
{
	FmRequest request = s->request;
	if (request) {
		s->request = 0;
		fermata_timer_disarm(&s->timer);
		zend_hash_index_del(sinks, request);
		wake_all(s);
	}
	return request;
}

static sink *find(FmRequest request)
{
	return sinks ? zend_hash_index_find_ptr(sinks, request) : NULL;
}

void fermata_events_release(void)
{
	if (sinks) {
		zend_hash_destroy(sinks);
		FREE_HASHTABLE(sinks);
		sinks = NULL;
	}
}

/* Events of the core */

/* Called when the client has received all bytes. Returns false if no sink is open for the request. */
bool fermata_events_taken(const FmEvent *event)
{
	sink *s = find(event->request);
	if (s) {
		s->queued = 0;
		wake_all(s);
	}
	return s != NULL;
}

/* Called when the client has disconnected. Returns false if no sink is open for the request. */
bool fermata_events_ended(const FmEvent *event)
{
	sink *s = find(event->request);
	if (s) {
		FmEvent gone = {.kind = FM_EVENT_GONE, .request = event->request};
		s->gone = true;
		wake_all(s);
		fermata_fibers_gone(&gone);
	}
	return s != NULL;
}

/* Called when the client has closed its side of the connection while the handler runs. */
void fermata_events_gone(const FmEvent *event)
{
	sink *s = event->request ? find(event->request) : NULL;
	if (s) {
		s->gone = true;
		wake_all(s);
	}
}

/* Sends a keep-alive comment if nothing was sent for keep_alive_ms. */
static void on_due(fermata_timer *timer, uint64_t now_ms)
{
	sink *s = (sink *)((char *)timer - XtOffsetOf(sink, timer));
	uint64_t due_ms = s->sent_ms + s->keep_alive_ms;
	if (due_ms <= now_ms) {
		/* A client that does not read needs no comment: its write timeout is already running. */
		size_t queued = 0;
		if (!s->queued && fm_stream_comment(fermata.worker, s->request, FERMATA_LITERAL(""), &queued, NULL) == FM_OK) {
			s->queued = queued;
			s->queued_ms = now_ms;
		}
		s->sent_ms = now_ms;
		due_ms = now_ms + s->keep_alive_ms;
	}
	fermata_timer_arm(timer, due_ms);
}

/* Sending */

static ZEND_COLD bool throw_gone(void)
{
	zend_throw_exception(fermata_ce_client_gone, "the client has left", 0);
	return false;
}

static bool check_open(const sink *s)
{
	if (UNEXPECTED(!s->request)) {
		zend_throw_exception(fermata_ce_connection_closed, "the stream of events has ended, and nothing can be sent any more", 0);
	} else if (UNEXPECTED(s->gone)) {
		throw_gone();
	}
	return s->request && !s->gone;
}

/* Waits until the client has received all bytes. Returns false with an exception pending. */
static bool wait_for_client(sink *s)
{
	while (s->queued && s->request) {
		if (UNEXPECTED(s->gone)) {
			return throw_gone();
		}
		fermata_waiter waiter = {.fiber = fermata_this_fiber()};
		fermata_waiters_add(&s->waiters, &waiter);
		bool woken = fermata_wait(FERMATA_NEVER) != FERMATA_WAIT_FAILED;
		fermata_waiters_remove(&waiter);
		if (!woken) {
			return false;
		}
	}
	return true;
}

/* Called before bytes are queued: waits while the queue is full. Returns false with an exception pending. */
static bool make_room(sink *s)
{
	if (UNEXPECTED(s->queued >= QUEUE_BYTES_MAX)) {
		return fermata_can_wait() && wait_for_client(s) && check_open(s);
	}
	return true;
}

/* Called after bytes were queued: counts them, and waits if the client reads too slowly. Throws an exception if queueing
 * failed. */
static void note_queued(sink *s, uint32_t code, size_t queued, const FmError *error)
{
	if (UNEXPECTED(code == FM_GONE)) {
		s->gone = true;
		throw_gone();
		return;
	}
	if (UNEXPECTED(code != FM_OK)) {
		fermata_throw(code, error);
		return;
	}
	uint64_t now_ms = fm_worker_now_ms(fermata.worker);
	if (!s->queued) {
		s->queued_ms = now_ms;
	}
	s->queued += queued;
	s->sent_ms = now_ms;
	if ((s->queued >= QUEUE_BYTES_MAX || now_ms - s->queued_ms >= FLUSH_AFTER_MS) && !fermata_wait_obstacle()) {
		wait_for_client(s);
	}
}

ZEND_METHOD(Fermata_EventSink, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_EventSink, send)
{
	zend_string *data = NULL, *event = NULL, *id = NULL;
	zend_long retry = -1;
	bool no_retry = true;
	ZEND_PARSE_PARAMETERS_START(1, 4)
		Z_PARAM_STR_OR_NULL(data)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(event)
		Z_PARAM_STR_OR_NULL(id)
		Z_PARAM_LONG_OR_NULL(retry, no_retry)
	ZEND_PARSE_PARAMETERS_END();
	if (!no_retry && retry < 0) {
		fermata_misuse("retry must be 0 or more milliseconds, not " ZEND_LONG_FMT, retry);
		RETURN_THROWS();
	}
	if (!data && event) {
		fermata_misuse("an event without data is not seen by any client; give it data, '' if need be");
		RETURN_THROWS();
	}
	sink *s = THIS_SINK();
	if (!check_open(s) || !make_room(s)) {
		RETURN_THROWS();
	}
	FmError error;
	size_t queued = 0;
	error.len = 0;
	uint32_t code = fm_stream_push(fermata.worker, s->request, fermata_str_or_absent(data), fermata_str_or_absent(event),
		fermata_str_or_absent(id), no_retry ? -1 : retry, &queued, &error);
	note_queued(s, code, queued, &error);
}

ZEND_METHOD(Fermata_EventSink, comment)
{
	zend_string *text = NULL;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR(text)
	ZEND_PARSE_PARAMETERS_END();
	sink *s = THIS_SINK();
	if (!check_open(s) || !make_room(s)) {
		RETURN_THROWS();
	}
	FmError error;
	size_t queued = 0;
	error.len = 0;
	uint32_t code = fm_stream_comment(fermata.worker, s->request, fermata_str_or_empty(text), &queued, &error);
	note_queued(s, code, queued, &error);
}

ZEND_METHOD(Fermata_EventSink, flush)
{
	ZEND_PARSE_PARAMETERS_NONE();
	sink *s = THIS_SINK();
	if (!check_open(s) || (s->queued && (!fermata_can_wait() || !wait_for_client(s)))) {
		RETURN_THROWS();
	}
}

ZEND_METHOD(Fermata_EventSink, close)
{
	ZEND_PARSE_PARAMETERS_NONE();
	sink *s = THIS_SINK();
	bool gone = s->gone;
	FmRequest request = detach(s);
	if (request && !gone) {
		fm_stream_end(fermata.worker, request, NULL);
	}
}

ZEND_METHOD(Fermata_EventSink, isOpen)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(THIS_SINK()->request && !THIS_SINK()->gone);
}

ZEND_METHOD(Fermata_EventSink, isStopping)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(!THIS_SINK()->request || fm_worker_is_draining(fermata.worker));
}

/* Output */

static void write_pieces(sink *s, FmStr bytes)
{
	while (bytes.len && !EG(exception)) {
		if (!check_open(s) || !make_room(s)) {
			return;
		}
		FmStr piece = {bytes.ptr, MIN(bytes.len, QUEUE_BYTES_MAX)};
		FmError error;
		size_t queued = 0;
		error.len = 0;
		uint32_t code = fm_stream_bytes(fermata.worker, s->request, piece, &queued, &error);
		note_queued(s, code, queued, &error);
		bytes.ptr += piece.len;
		bytes.len -= piece.len;
	}
}

/* Writes a large output. The output stays in PHP's memory while the handler waits, so the core counts it as memory of the
 * client. */
static ZEND_COLD void write_held(sink *s, FmStr bytes)
{
	FmRequest request = s->request;
	fm_stream_hold(fermata.worker, request, bytes.len);
	write_pieces(s, bytes);
	fm_stream_hold(fermata.worker, request, 0);
}

/* Queues printed bytes, and waits if the client reads too slowly. Does nothing if an exception is pending. */
static void write_output(void *to, FmStr bytes)
{
	sink *s = to;
	if (UNEXPECTED(bytes.len > QUEUE_BYTES_MAX) && s->request) {
		write_held(s, bytes);
	} else {
		write_pieces(s, bytes);
	}
}

/* flush(): waits until the client has received all bytes, if the handler can wait here. */
static void flush_output(void *to)
{
	sink *s = to;
	if (!EG(exception) && s->request && s->queued && !fermata_wait_obstacle()) {
		wait_for_client(s);
	}
}

/* Calls the callable and sends its output to the client. */
static void print(zend_fcall_info *info, zend_fcall_info_cache *call, sink *s)
{
	static const fermata_output output = {write_output, flush_output};
	int level = php_output_get_level();
	fermata_output_divert(&output, s);
	zend_call_function(info, call);
	if (UNEXPECTED(fermata.forked)) {
		return;
	}
	/* exit() ends the body normally, as it ends a script. */
	if (EG(exception) && zend_is_unwind_exit(EG(exception)) && !fermata_has_fatal()) {
		zend_clear_exception();
		EG(exit_status) = 0;
	}
	fermata_output_end(level);
	fermata_output_divert(NULL, NULL);
}

/* Sending the response */

static uint32_t send_head(const fermata_response *response)
{
	FmHeader some[FERMATA_HEADERS_STACK];
	FmResponse out;
	FmHeader *headers = fermata_response_fill(response, some, &out);
	out.body = FERMATA_LITERAL("");
	uint32_t code = fm_stream_begin(fermata.worker, fermata_this_request()->event.request, &out, -1, NULL, NULL);
	if (UNEXPECTED(headers != some)) {
		efree(headers);
	}
	return code;
}

static sink *sink_new(FmRequest request, const fermata_source *source)
{
	sink *s = FERMATA_FROM(sink, sink_create(fermata_ce_event_sink));
	FmStr last;
	zval *place = OBJ_PROP_NUM(&s->std, SINK_LAST_EVENT_ID);
	if (fermata_request_header(fermata_this_request(), FERMATA_LITERAL("last-event-id"), 0, &last) && last.len) {
		ZVAL_STRINGL(place, last.ptr, last.len);
	} else {
		ZVAL_NULL(place);
	}
	s->request = request;
	s->timer.on_due = on_due;
	s->keep_alive_ms = source->keep_alive_ms < 0 ? fm_worker_keep_alive_ms(fermata.worker) : (uint64_t)source->keep_alive_ms;
	s->sent_ms = fm_worker_now_ms(fermata.worker);
	if (s->keep_alive_ms) {
		fermata_timer_arm(&s->timer, s->sent_ms + s->keep_alive_ms);
	}
	if (!sinks) {
		ALLOC_HASHTABLE(sinks);
		zend_hash_init(sinks, 8, NULL, NULL, 0);
	}
	zend_hash_index_update_ptr(sinks, request, s);
	return s;
}

/* Ends the stream after the callable has returned, or cuts it if an exception is pending. */
static void finish(const fermata_handler *handler, sink *s)
{
	bool gone = s->gone;
	FmRequest request = detach(s);
	if (EG(exception)) {
		/* The headers were already sent, so the only possible reaction is to cut the stream. */
		uint64_t before = fermata_this_stream();
		fermata_set_stream(request ? request : fermata_this_request()->event.request);
		fermata_fail_with_exception(handler);
		fermata_set_stream(before);
	} else if (request && !gone) {
		fm_stream_end(fermata.worker, request, NULL);
		return;
	}
	if (request) {
		fm_stream_cut(fermata.worker, request);
	}
}

static const fermata_source_kind output_kind;

static bool is_output(const fermata_response *response)
{
	return response->source->kind == &output_kind;
}

static void run(const fermata_handler *handler, const fermata_response *response)
{
	FmRequest request = fermata_this_request()->event.request;
	zend_fcall_info info;
	zend_fcall_info_cache call;
	zval callable, argument, result;
	if (zend_fcall_info_init(&response->source->value, 0, &info, &call, NULL, NULL) != SUCCESS) {
		zend_type_error("the callable of the %s cannot be called from here", is_output(response) ? "output" : "events");
		return;
	}
	sink *s = sink_new(request, response->source);
	if (send_head(response) != FM_OK) {
		detach(s);
		OBJ_RELEASE(&s->std);
		return;
	}
	fm_stream_watch(fermata.worker, request);
	/* Hold a reference to the callable, since the response may be freed while the callable runs. */
	ZVAL_COPY(&callable, &response->source->value);
	ZVAL_OBJ(&argument, &s->std);
	ZVAL_UNDEF(&result);
	info.retval = &result;
	info.params = &argument;
	if (is_output(response)) {
		info.param_count = 0;
		print(&info, &call, s);
	} else {
		info.param_count = 1;
		zend_call_function(&info, &call);
	}
	zval_ptr_dtor(&result);
	if (UNEXPECTED(fermata.forked)) {
		fermata_leave();
		return;
	}
	finish(handler, s);
	zval_ptr_dtor(&callable);
	OBJ_RELEASE(&s->std);
}

static void respond_events(const fermata_handler *handler, const fermata_response *response)
{
	FmRequest request = fermata_this_request()->event.request;
	switch (fm_stream_wanted(fermata.worker, request, response->status)) {
		case FM_STREAM_PIECES: run(handler, response); break;
		case FM_STREAM_HEAD: send_head(response); break;
		case FM_STREAM_REFUSAL:
			fermata_refuse(request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("The server is busy; try again.\n"));
			fm_worker_log(fermata.worker, FERMATA_LOG_INFO,
				FERMATA_LITERAL("a stream of events was refused: there are streams_max streams already"));
			break;
	}
}

static const fermata_source_kind events_kind = {"Fermata\\Response::events(): Argument #3 ($headers)", respond_events};
static const fermata_source_kind output_kind = {"Fermata\\Response::output(): Argument #3 ($headers)", respond_events};

static void add_default(fermata_response *response, const char *name, const char *value)
{
	for (uint32_t i = 0; response->headers && i < response->headers->len; i++) {
		if (zend_binary_strcasecmp(ZSTR_VAL(response->headers->at[i].name), ZSTR_LEN(response->headers->at[i].name), name, strlen(name)) == 0) {
			return;
		}
	}
	zend_string *line[] = {zend_string_init(name, strlen(name), false), zend_string_init(value, strlen(value), false)};
	fermata_headers_add(&response->headers, line[0], line[1]);
	zend_string_release(line[0]);
	zend_string_release(line[1]);
}

ZEND_METHOD(Fermata_Response, events)
{
	zend_fcall_info info;
	zend_fcall_info_cache call;
	zend_long status = STATUS_OK;
	zend_array *headers = NULL;
	double keep_alive = 0;
	bool default_keep_alive = true;
	ZEND_PARSE_PARAMETERS_START(1, 4)
		Z_PARAM_FUNC(info, call)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(status)
		Z_PARAM_ARRAY_HT(headers)
		Z_PARAM_DOUBLE_OR_NULL(keep_alive, default_keep_alive)
	ZEND_PARSE_PARAMETERS_END();
	if (!(keep_alive >= 0 && keep_alive <= KEEP_ALIVE_SECONDS_MAX)) {
		fermata_misuse("keepAlive must be 0 to %g seconds, not %g", KEEP_ALIVE_SECONDS_MAX, keep_alive);
		RETURN_THROWS();
	}
	fermata_source *source = fermata_source_new(&events_kind, &info.function_name);
	source->keep_alive_ms = default_keep_alive ? -1 : (int64_t)(keep_alive * 1000);
	fermata_response_with_source(return_value, source, status, NULL, headers);
	fermata_response *response = FERMATA_FROM(fermata_response, Z_OBJ_P(return_value));
	if (!response->content_type) {
		response->content_type = zend_string_init(ZEND_STRL("text/event-stream"), false);
	}
	add_default(response, "Cache-Control", "no-store");
	/* A proxy that buffers responses would delay the events. */
	add_default(response, "X-Accel-Buffering", "no");
}

ZEND_METHOD(Fermata_Response, output)
{
	zend_fcall_info info;
	zend_fcall_info_cache call;
	zend_long status = STATUS_OK;
	zend_array *headers = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_FUNC(info, call)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(status)
		Z_PARAM_ARRAY_HT(headers)
	ZEND_PARSE_PARAMETERS_END();
	/* Without keep-alive, since a comment would become a part of the body. */
	fermata_source *source = fermata_source_new(&output_kind, &info.function_name);
	fermata_response_with_source(return_value, source, status, fermata_known.type_text, headers);
}
