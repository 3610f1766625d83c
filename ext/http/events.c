/* Response::events(): a stream of events that a handler goes on making, on the fiber that has run it; and Response::output(),
 * whose callable prints the body. */
#include "fibers/fibers.h"
#include "core/stray.h"
#include "zend_exceptions.h"

/* Bytes that wait for one client before its handler does. */
#define QUEUE_BYTES_MAX 65536
/* A handler that makes events in a row lets them out, and others have their turn, when it has been so long. */
#define FLUSH_AFTER_MS 5
#define STATUS_OK 200
#define KEEP_ALIVE_SECONDS_MAX 3600.0

enum { SINK_LAST_EVENT_ID };

typedef struct sink {
	FmRequest request;      /* 0 = it has ended */
	bool gone;             /* its client has left */
	size_t queued;         /* bytes that the client has not taken */
	uint64_t queued_ms;    /* since when there are some */
	uint64_t sent_ms;      /* when something was last sent */
	uint64_t keep_alive_ms; /* 0 = never */
	fermata_timer timer;
	fermata_waiters waiters; /* for the client to take what is queued */
	zend_object std;
} sink;

zend_class_entry *fermata_ce_event_sink;
static zend_object_handlers sink_handlers;
static HashTable *sinks; /* that have not ended, by request; NULL until there is one */

#define THIS_SINK() FERMATA_FROM(sink, Z_OBJ_P(ZEND_THIS))

/* Life of the object */

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

/* Nothing more is sent; what ends it with the client is the caller's. */
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

/* What the core tells */

/* The client has taken everything. False when this is no stream of ours. */
bool fermata_events_taken(const FmEvent *event)
{
	sink *s = find(event->request);
	if (s) {
		s->queued = 0;
		wake_all(s);
	}
	return s != NULL;
}

/* The client has left. False when this is no stream of ours. */
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

/* The client has closed its side while the handler goes on. */
void fermata_events_gone(const FmEvent *event)
{
	sink *s = event->request ? find(event->request) : NULL;
	if (s) {
		s->gone = true;
		wake_all(s);
	}
}

/* Time for a comment, unless something was sent meanwhile. */
void fermata_events_due(fermata_timer *timer, uint64_t now_ms)
{
	sink *s = (sink *)((char *)timer - XtOffsetOf(sink, timer));
	uint64_t due_ms = s->sent_ms + s->keep_alive_ms;
	if (due_ms <= now_ms) {
		/* A client that takes nothing needs none, and the time-out for writing is running. */
		size_t queued = 0;
		if (!s->queued && fm_stream_comment(fermata_run.worker, s->request, FERMATA_LITERAL(""), &queued, NULL) == FM_OK) {
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

/* Until the client has taken everything. False after an exception. */
static bool wait_for_client(sink *s)
{
	while (s->queued && s->request) {
		if (UNEXPECTED(s->gone)) {
			return throw_gone();
		}
		fermata_waiter waiter = {.fiber = fermata_run.fiber};
		fermata_waiters_add(&s->waiters, &waiter);
		bool woken = fermata_wait(FERMATA_NEVER) != FERMATA_WAIT_FAILED;
		fermata_waiters_remove(&waiter);
		if (!woken) {
			return false;
		}
	}
	return true;
}

/* Before something is queued. False after an exception. */
static bool make_room(sink *s)
{
	if (UNEXPECTED(s->queued >= QUEUE_BYTES_MAX)) {
		return fermata_can_wait() && wait_for_client(s) && check_open(s);
	}
	return true;
}

/* After something was queued. */
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
	uint64_t now_ms = fm_worker_now_ms(fermata_run.worker);
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
	uint32_t code = fm_stream_push(fermata_run.worker, s->request, fermata_str_or_absent(data), fermata_str_or_absent(event),
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
	uint32_t code = fm_stream_comment(fermata_run.worker, s->request, fermata_str_or_empty(text), &queued, &error);
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
		fm_stream_end(fermata_run.worker, request, NULL);
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
	RETURN_BOOL(!THIS_SINK()->request || fm_worker_is_draining(fermata_run.worker));
}

/* Output */

/* Queues what is printed, and waits where its client takes less. Does nothing when an exception is on its way. */
void fermata_output_write(void *to, FmStr bytes)
{
	sink *s = to;
	while (bytes.len && !EG(exception)) {
		if (!check_open(s) || !make_room(s)) {
			return;
		}
		FmStr piece = {bytes.ptr, MIN(bytes.len, QUEUE_BYTES_MAX)};
		FmError error;
		size_t queued = 0;
		error.len = 0;
		uint32_t code = fm_stream_bytes(fermata_run.worker, s->request, piece, &queued, &error);
		note_queued(s, code, queued, &error);
		bytes.ptr += piece.len;
		bytes.len -= piece.len;
	}
}

/* flush(): waits until its client has taken everything, where it can. */
void fermata_output_flush(void *to)
{
	sink *s = to;
	if (!EG(exception) && s->request && s->queued && !fermata_wait_obstacle()) {
		wait_for_client(s);
	}
}

/* What is printed goes to the client until the callable has returned. */
static void print(zend_fcall_info *info, zend_fcall_info_cache *call, sink *s)
{
	fermata_fiber *fiber = fermata_run.fiber;
	int level = php_output_get_level();
	fiber->output_to = s;
	zend_call_function(info, call);
	if (UNEXPECTED(fermata.forked)) {
		return;
	}
	/* As at the end of a script: exit() ends the body. */
	if (EG(exception) && zend_is_unwind_exit(EG(exception)) && !fermata_run.fatal_seen) {
		zend_clear_exception();
		EG(exit_status) = 0;
	}
	fermata_output_end(level);
	fiber->output_to = NULL;
}

/* Answering */

static uint32_t send_head(const fermata_response *response)
{
	FmHeader some[FERMATA_HEADERS_STACK];
	FmResponse out;
	FmHeader *headers = fermata_response_fill(response, some, &out);
	out.body = FERMATA_LITERAL("");
	uint32_t code = fm_stream_begin(fermata_run.worker, fermata_run.request->event.request, &out, -1, NULL, NULL);
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
	if (fermata_request_header(fermata_run.request, FERMATA_LITERAL("last-event-id"), 0, &last) && last.len) {
		ZVAL_STRINGL(place, last.ptr, last.len);
	} else {
		ZVAL_NULL(place);
	}
	s->request = request;
	s->timer.kind = FERMATA_TIMER_EVENTS;
	s->keep_alive_ms = source->keep_alive_ms < 0 ? fm_worker_keep_alive_ms(fermata_run.worker) : (uint64_t)source->keep_alive_ms;
	s->sent_ms = fm_worker_now_ms(fermata_run.worker);
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

/* After the callable: an exception is pending, or the stream ends well. */
static void finish(const fermata_handler *handler, sink *s)
{
	bool gone = s->gone;
	FmRequest request = detach(s);
	if (EG(exception)) {
		/* The head has gone out already. */
		uint64_t before = fermata_run.stream;
		fermata_run.stream = request ? request : fermata_run.request->event.request;
		fermata_fail_with_exception(handler);
		fermata_run.stream = before;
	} else if (request && !gone) {
		fm_stream_end(fermata_run.worker, request, NULL);
		return;
	}
	if (request) {
		fm_stream_cut(fermata_run.worker, request);
	}
}

static const fermata_source_kind output_kind;

static bool is_output(const fermata_response *response)
{
	return response->source->kind == &output_kind;
}

static void run(const fermata_handler *handler, const fermata_response *response)
{
	FmRequest request = fermata_run.request->event.request;
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
	fm_stream_watch(fermata_run.worker, request);
	/* A response that is dropped meanwhile must not take the callable with it. */
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
	FmRequest request = fermata_run.request->event.request;
	switch (fm_stream_wanted(fermata_run.worker, request, response->status)) {
		case FM_STREAM_PIECES: run(handler, response); break;
		case FM_STREAM_HEAD: send_head(response); break;
		case FM_STREAM_REFUSAL:
			fermata_refuse(request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("The server is busy; try again.\n"));
			fm_worker_log(fermata_run.worker, FERMATA_LOG_INFO,
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
	/* A proxy that collects what it passes on would keep events back. */
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
	/* Without keep-alives: a comment between two pieces would be a part of what is printed. */
	fermata_source *source = fermata_source_new(&output_kind, &info.function_name);
	fermata_response_with_source(return_value, source, status, fermata_known.type_text, headers);
}
