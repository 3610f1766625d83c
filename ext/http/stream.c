/* Sends bodies that are not a string: files, and streams of pieces.
 *
 * The core requests the next piece of a stream when the client has received the previous one, so one piece per stream is in
 * memory. Any fiber may generate a piece, and may wait meanwhile. State that the handler needs after a piece moves to the fiber of
 * the next piece. */
#include "http/http.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "zend_exceptions.h"

#define HEADERS_STACK 32 /* requests with more header lines are copied to the heap */

/* A stream in progress. */
typedef struct stream {
	zval source;                    /* an array, or an object that is iterated */
	zend_object_iterator *iterator; /* NULL for an array */
	HashPosition position;          /* position in an array */
	zend_string *piece;             /* current piece; NULL before the first, and when the core has copied all of the piece */
	size_t taken;                   /* number of bytes of `piece` that the core has copied */
	bool begun;
	fermata_fiber *maker;           /* fiber that generates a piece and may be waiting; NULL = none */
	const fermata_handler *handler; /* handler that returned the stream, for the log */
	fermata_fiber *kept;            /* the handler's state between two pieces; NULL = none yet */
} stream;

typedef struct slot_of_stream {
	FmRequest request; /* request whose body continues when this fiber has finished its handler or piece; 0 = none */
} slot_of_stream;

static fermata_part part;
FERMATA_SLOT(slot_of_stream, part)

/* Streams by request; NULL before the first one. */
static HashTable *streams;

/* Stream lifetime */

static void stream_free(stream *s)
{
	if (s->piece) {
		zend_string_release(s->piece);
	}
	/* The destructor of an iterator runs the generator's `finally` blocks. */
	if (s->iterator) {
		zend_iterator_dtor(s->iterator);
	}
	zval_ptr_dtor(&s->source);
	if (UNEXPECTED(s->kept)) {
		fermata_body_forget(s->kept);
	}
	efree(s);
}

static void stream_dtor(zval *place)
{
	stream_free(Z_PTR_P(place));
}

static void keep(FmRequest request, stream *s)
{
	if (!streams) {
		ALLOC_HASHTABLE(streams);
		zend_hash_init(streams, 8, NULL, stream_dtor, 0);
	}
	zend_hash_index_update_ptr(streams, request, s);
}

static stream *find(FmRequest request)
{
	return streams ? zend_hash_index_find_ptr(streams, request) : NULL;
}

/* Removes the stream from the table and then frees it, so that no destructor finds the stream. */
static void forget(FmRequest request)
{
	stream *s = find(request);
	if (s) {
		zval *place = zend_hash_index_find(streams, request);
		ZVAL_PTR(place, NULL);
		streams->pDestructor = NULL;
		zend_hash_index_del(streams, request);
		streams->pDestructor = stream_dtor;
		stream_free(s);
	}
}

/* Frees the streams that are still open when the worker stops. */
void fermata_streams_release(void)
{
	if (streams) {
		HashTable *all = streams;
		streams = NULL;
		zend_hash_destroy(all);
		FREE_HASHTABLE(all);
	}
}

/* State of a body between two pieces */

static void on_clean_up(fermata_fiber *fiber)
{
	FmRequest request = slot(fiber)->request;
	slot(fiber)->request = 0;
	stream *s = UNEXPECTED(request) ? find(request) : NULL;
	if (s) {
		fermata_body_put_by(&s->kept);
	}
}

/* Marks this fiber, so that its cleanup stores the state for the next piece. */
static void keep_for_next(FmRequest request)
{
	if (UNEXPECTED(fermata_this_fiber()->touched)) {
		slot(fermata_this_fiber())->request = request;
		fermata_touch(fermata_this_fiber(), part);
	}
}

static void take_up(stream *s)
{
	if (UNEXPECTED(s->kept)) {
		fermata_body_take_up(s->kept);
	}
}

/* Pieces */

/* Calls the callable that returns the stream. Returns false with an exception pending. */
static bool call(zval *source, zval *callable)
{
	zend_fcall_info info;
	zend_fcall_info_cache cache;
	if (zend_fcall_info_init(callable, 0, &info, &cache, NULL, NULL) != SUCCESS) {
		zend_type_error("the stream cannot be called from here");
		return false;
	}
	ZVAL_UNDEF(source);
	info.retval = source;
	zend_call_function(&info, &cache);
	return !EG(exception);
}

/* Returns true for [$object, 'method']. A list of strings never starts with an object. */
static bool is_method(zval *given)
{
	zval *first = Z_TYPE_P(given) == IS_ARRAY ? zend_hash_index_find_deref(Z_ARR_P(given), 0) : NULL;
	return first && Z_TYPE_P(first) == IS_OBJECT && zend_is_callable(given, 0, NULL);
}

/* Starts the iteration. Returns false with an exception pending; the caller frees `s` in any case. */
static bool begin(stream *s, zval *given)
{
	ZVAL_DEREF(given);
	if (zend_is_iterable(given) && !is_method(given)) {
		ZVAL_COPY(&s->source, given);
	} else if (!call(&s->source, given)) {
		return false;
	}
	zval *source = &s->source;
	if (Z_TYPE_P(source) == IS_ARRAY) {
		zend_hash_internal_pointer_reset_ex(Z_ARR_P(source), &s->position);
		return true;
	}
	if (!zend_is_iterable(source)) {
		zend_type_error("the callable of a stream must return an iterable, %s returned", fermata_type_name(source));
		return false;
	}
	s->iterator = Z_OBJCE_P(source)->get_iterator(Z_OBJCE_P(source), source, 0);
	return s->iterator && !EG(exception);
}

/* Returns the next value; NULL at the end or with an exception pending. */
static zval *next(stream *s)
{
	if (!s->iterator) {
		zval *value = zend_hash_get_current_data_ex(Z_ARR(s->source), &s->position);
		zend_hash_move_forward_ex(Z_ARR(s->source), &s->position);
		return value;
	}
	const zend_object_iterator_funcs *of = s->iterator->funcs;
	if (s->begun) {
		s->iterator->index++;
		of->move_forward(s->iterator);
	} else {
		s->begun = true;
		s->iterator->index = 0;
		if (of->rewind) {
			of->rewind(s->iterator);
		}
	}
	if (EG(exception) || of->valid(s->iterator) != SUCCESS || EG(exception)) {
		return NULL;
	}
	return of->get_current_data(s->iterator);
}

/* Stores the next piece in `s->piece`. Returns false at the end or with an exception pending. */
static bool advance(stream *s)
{
	zval *value = next(s);
	if (!value || EG(exception)) {
		return false;
	}
	ZVAL_DEREF(value);
	if (UNEXPECTED(Z_TYPE_P(value) != IS_STRING)) {
		zend_type_error("a stream must yield strings, %s yielded", fermata_type_name(value));
		return false;
	}
	s->piece = zend_string_copy(Z_STR_P(value));
	s->taken = 0;
	return true;
}

static FmStr rest(const stream *s)
{
	if (!s->piece) {
		return FERMATA_LITERAL("");
	}
	return (FmStr){ZSTR_VAL(s->piece) + s->taken, ZSTR_LEN(s->piece) - s->taken};
}

static void note_taken(stream *s, size_t taken)
{
	s->taken += taken;
	if (s->piece && s->taken == ZSTR_LEN(s->piece)) {
		zend_string_release(s->piece);
		s->piece = NULL;
	}
}

/* Sending the response */

static uint32_t send_head(const fermata_response *response, FmStr first, size_t *taken, FmError *error)
{
	FmHeader some[FERMATA_HEADERS_STACK];
	FmResponse out;
	FmHeader *headers = fermata_response_fill(response, some, &out);
	out.body = first;
	uint32_t code = fm_stream_begin(fermata.worker, fermata_this_request()->event.request, &out,
		response->source->length, taken, error);
	if (UNEXPECTED(headers != some)) {
		efree(headers);
	}
	return code;
}

/* Generates the first piece before the headers are sent, so that an exception still leads to a complete error response. */
static void respond_with_pieces(const fermata_handler *handler, const fermata_response *response)
{
	FmRequest request = fermata_this_request()->event.request;
	stream *s = ecalloc(1, sizeof(stream));
	s->handler = handler;
	size_t taken = 0;
	FmError error;
	error.len = 0;
	ZVAL_UNDEF(&s->source);
	bool has_piece = begin(s, &response->source->value) && advance(s);
	if (UNEXPECTED(fermata.forked)) {
		fermata_leave();
		return;
	}
	if (EG(exception)) {
		stream_free(s);
		return;
	}
	uint32_t code = send_head(response, rest(s), &taken, &error);
	if (code == FM_OK && !has_piece) {
		code = fm_stream_end(fermata.worker, request, &error);
		if (code == FM_MISUSE) {
			FmDetail detail;
			fermata_detail(&detail);
			fm_stream_fail(fermata.worker, request, (FmStr){error.message, error.len}, &detail);
		}
	} else if (code == FM_OK) {
		note_taken(s, taken);
		keep(request, s);
		keep_for_next(request);
		return;
	} else {
		/* A part of the response may already be sent. */
		fermata_this_fiber()->has_failed = true;
		if (code != FM_GONE) {
			fermata_throw(code, &error);
		}
	}
	stream_free(s);
}

static void respond_with_stream(const fermata_handler *handler, const fermata_response *response)
{
	FmRequest request = fermata_this_request()->event.request;
	switch (fm_stream_wanted(fermata.worker, request, response->status)) {
		case FM_STREAM_PIECES: respond_with_pieces(handler, response); break;
		case FM_STREAM_HEAD: send_head(response, FERMATA_LITERAL(""), NULL, NULL); break;
		case FM_STREAM_REFUSAL:
			fermata_refuse(request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("The server is busy; try again.\n"));
			fm_worker_log(fermata.worker, FERMATA_LOG_INFO,
				FERMATA_LITERAL("a stream was refused: there are streams_max of them already"));
			break;
	}
}

static void respond_with_file(const fermata_handler *handler, const fermata_response *response)
{
	FmHeader some[FERMATA_HEADERS_STACK], some_asked[HEADERS_STACK], *asked = some_asked;
	FmResponse out;
	size_t len = fermata_this_request()->event.headers_len;
	if (UNEXPECTED(len > HEADERS_STACK)) {
		asked = safe_emalloc(len, sizeof(FmHeader), 0);
	}
	size_t asked_len = 0;
	while (asked_len < len
		&& fermata_request_header_at(fermata_this_request(), asked_len, &asked[asked_len].name, &asked[asked_len].value)) {
		asked_len++;
	}
	FmHeader *headers = fermata_response_fill(response, some, &out);
	FmFile file = {
		.path = fermata_str(Z_STR(response->source->value)),
		.root = fermata_str_or_absent(response->source->root),
		.tree = response->source->tree,
		.content_type = out.content_type,
		.status = out.status,
		.headers = out.headers,
		.headers_len = out.headers_len,
		.asked = asked,
		.asked_len = asked_len,
	};
	fm_respond_file(fermata.worker, fermata_this_request()->event.request, &file);
	if (UNEXPECTED(headers != some)) {
		efree(headers);
	}
	if (UNEXPECTED(asked != some_asked)) {
		efree(asked);
	}
}

const fermata_source_kind fermata_source_stream = {"Fermata\\Response::stream(): Argument #3 ($headers)", respond_with_stream};
const fermata_source_kind fermata_source_file = {NULL, respond_with_file};

/* Events */

static void enter(FmRequest request)
{
	fermata_set_stream(request);
	fermata_set_socket(0);
	fermata_this_fiber()->has_failed = false;
	if (UNEXPECTED(fermata_timeout_seconds() > 0)) {
		zend_set_timeout(fermata_timeout_seconds(), false);
	}
	fermata.handling = true;
}

static void leave(void)
{
	if (UNEXPECTED(EG(exception))) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
	fermata_clean_up();
	fermata.handling = false;
	fermata_set_stream(0);
	if (UNEXPECTED(fermata_this_fiber()->touched)) {
		fermata_fiber_clean_up();
	}
}

/* Sends the next piece, or the end of the body. Returns true if the stream continues. */
static bool pull(const fermata_handler *handler, FmRequest request, stream *s)
{
	size_t taken = 0;
	FmError error;
	error.len = 0;
	uint32_t code;
	if (s->piece || advance(s)) {
		code = fm_stream_write(fermata.worker, request, rest(s), &taken, &error);
		note_taken(s, taken);
		if (code == FM_OK) {
			return true;
		}
		fermata_this_fiber()->has_failed = true;
	} else if (EG(exception)) {
		fermata_fail_with_exception(handler);
		return false;
	} else {
		code = fm_stream_end(fermata.worker, request, &error);
	}
	if (code == FM_MISUSE) {
		fermata_fail_at_handler(handler, (FmStr){error.message, error.len});
	}
	return false;
}

void fermata_stream_pull(const FmEvent *event)
{
	FmRequest request = event->request;
	stream *s = find(request);
	if (UNEXPECTED(!s)) {
		return;
	}
	if (UNEXPECTED(fermata_fibers_are_full())) {
		fm_stream_later(fermata.worker, request);
		return;
	}
	enter(request);
	take_up(s);
	s->maker = fermata_this_fiber();
	bool goes_on = pull(s->handler, request, s);
	s->maker = NULL;
	if (UNEXPECTED(fermata.forked)) {
		fermata_leave();
		return;
	}
	if (!goes_on) {
		/* No effect if the error handling has already cut the stream. */
		fm_stream_cut(fermata.worker, request);
		forget(request);
	} else {
		keep_for_next(request);
	}
	leave();
}

/* Called when the client has left during the stream. */
void fermata_stream_ended(const FmEvent *event)
{
	stream *s = find(event->request);
	if (s && s->maker) {
		/* End the wait inside the piece. Then fermata_stream_pull() frees the stream. */
		fermata_client_left(s->maker);
		return;
	}
	enter(event->request);
	/* The `finally` blocks of a generator may wait. No client is left that could end these waits. */
	fermata_this_fiber()->wait.without_client = true;
	if (s) {
		take_up(s);
		fermata_this_fiber()->has_failed = true;
	}
	forget(event->request);
	fermata_this_fiber()->wait.without_client = false;
	leave();
}

static fermata_part part = {.size = sizeof(slot_of_stream), .on_clean_up = on_clean_up};

void fermata_streams_init(void)
{
	fermata_part_register(&part);
}
