/* Sending bodies that are not a string: files, and streams whose pieces the core asks for as the client takes them. */
#include "core/runner.h"
#include "fibers/fibers.h"
#include "zend_exceptions.h"

#define HEADERS_STACK 32 /* requests with more header lines are copied to the heap */

/* A stream that is being sent. */
typedef struct stream {
	zval source;                    /* an array, or the object that the iterator is of */
	zend_object_iterator *iterator; /* NULL for an array */
	HashPosition position;          /* in an array */
	zend_string *piece;             /* the last one; NULL before the first and when the core has all of it */
	size_t taken;                   /* what the core has of it */
	bool begun;
	fermata_fiber *maker;           /* makes a piece, and may wait meanwhile; NULL = none does */
	const fermata_handler *handler; /* that has answered by it, for the log */
	fermata_fiber *kept;            /* has what it is in the middle of while no piece is made; NULL = nothing yet */
} stream;

/* By the request they answer; NULL until there is one. */
static HashTable *streams;

/* Life of a stream */

static void stream_free(stream *s)
{
	if (s->piece) {
		zend_string_release(s->piece);
	}
	/* Runs the generator's finally blocks. */
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

/* Takes it out first: what is run when it is freed may not find it. */
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

/* At the end of the worker: what the core has not told the end of. */
void fermata_streams_release(void)
{
	if (streams) {
		HashTable *all = streams;
		streams = NULL;
		zend_hash_destroy(all);
		FREE_HASHTABLE(all);
	}
}

/* What it is in the middle of, between two pieces */

void fermata_stream_put_by(FmRequest request)
{
	stream *s = find(request);
	if (s) {
		fermata_body_put_by(&s->kept);
	}
}

/* For the end of this piece. */
static void keep_for_next(FmRequest request)
{
	if (UNEXPECTED(fermata_run.fiber->touched)) {
		fermata_run.fiber->body_of = request;
	}
}

static void take_up(stream *s)
{
	if (UNEXPECTED(s->kept)) {
		fermata_body_take_up(s->kept);
	}
}

/* Pieces */

/* What a callable returns is the stream. False after an exception. */
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

/* [$object, 'method']: no list of strings has an object first. */
static bool is_method(zval *given)
{
	zval *first = Z_TYPE_P(given) == IS_ARRAY ? zend_hash_index_find_deref(Z_ARR_P(given), 0) : NULL;
	return first && Z_TYPE_P(first) == IS_OBJECT && zend_is_callable(given, 0, NULL);
}

/* False after an exception; s is then to be freed all the same. */
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

/* The next value; NULL at the end or after an exception. */
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

/* Puts the next piece into s->piece. False at the end or after an exception. */
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

/* Answering */

static uint32_t send_head(const fermata_response *response, FmStr first, size_t *taken, FmError *error)
{
	FmHeader some[FERMATA_HEADERS_STACK];
	FmResponse out;
	FmHeader *headers = fermata_response_fill(response, some, &out);
	out.body = first;
	uint32_t code = fm_stream_begin(fermata_run.worker, fermata_run.request->event.request, &out,
		response->source->length, taken, error);
	if (UNEXPECTED(headers != some)) {
		efree(headers);
	}
	return code;
}

/* Makes the first piece before the head is sent: until then an exception is answered like that of any handler. */
static void respond_with_pieces(const fermata_handler *handler, const fermata_response *response)
{
	FmRequest request = fermata_run.request->event.request;
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
		code = fm_stream_end(fermata_run.worker, request, &error);
		if (code == FM_MISUSE) {
			FmDetail detail;
			fermata_detail(&detail);
			fm_stream_fail(fermata_run.worker, request, (FmStr){error.message, error.len}, &detail);
		}
	} else if (code == FM_OK) {
		note_taken(s, taken);
		keep(request, s);
		keep_for_next(request);
		return;
	} else {
		/* Its state is unknown: it may be half written. */
		fermata_run.fiber->has_failed = true;
		if (code != FM_GONE) {
			fermata_throw(code, &error);
		}
	}
	stream_free(s);
}

static void respond_with_stream(const fermata_handler *handler, const fermata_response *response)
{
	FmRequest request = fermata_run.request->event.request;
	switch (fm_stream_wanted(fermata_run.worker, request, response->status)) {
		case FM_STREAM_PIECES: respond_with_pieces(handler, response); break;
		case FM_STREAM_HEAD: send_head(response, FERMATA_LITERAL(""), NULL, NULL); break;
		case FM_STREAM_REFUSAL:
			fermata_refuse(request, FERMATA_STATUS_UNAVAILABLE, FERMATA_LITERAL("The server is busy; try again.\n"));
			fm_worker_log(fermata_run.worker, FERMATA_LOG_INFO,
				FERMATA_LITERAL("a stream was refused: there are streams_max of them already"));
			break;
	}
}

static void respond_with_file(const fermata_handler *handler, const fermata_response *response)
{
	FmHeader some[FERMATA_HEADERS_STACK], some_asked[HEADERS_STACK], *asked = some_asked;
	FmResponse out;
	size_t len = fermata_run.request->event.headers_len;
	if (UNEXPECTED(len > HEADERS_STACK)) {
		asked = safe_emalloc(len, sizeof(FmHeader), 0);
	}
	size_t asked_len = 0;
	while (asked_len < len
		&& fermata_request_header_at(fermata_run.request, asked_len, &asked[asked_len].name, &asked[asked_len].value)) {
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
	fm_respond_file(fermata_run.worker, fermata_run.request->event.request, &file);
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
	fermata_run.stream = request;
	fermata_run.socket = 0;
	fermata_run.fiber->has_failed = false;
	if (UNEXPECTED(fermata_run.timeout_seconds > 0)) {
		zend_set_timeout(fermata_run.timeout_seconds, false);
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
	fermata_run.stream = 0;
	if (UNEXPECTED(fermata_run.fiber->touched)) {
		fermata_fiber_settle();
	}
}

/* Gives the core what it wants. True when the stream goes on. */
static bool pull(const fermata_handler *handler, FmRequest request, stream *s)
{
	size_t taken = 0;
	FmError error;
	error.len = 0;
	uint32_t code;
	if (s->piece || advance(s)) {
		code = fm_stream_write(fermata_run.worker, request, rest(s), &taken, &error);
		note_taken(s, taken);
		if (code == FM_OK) {
			return true;
		}
		fermata_run.fiber->has_failed = true;
	} else if (EG(exception)) {
		fermata_fail_with_exception(handler);
		return false;
	} else {
		code = fm_stream_end(fermata_run.worker, request, &error);
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
		fm_stream_later(fermata_run.worker, request);
		return;
	}
	enter(request);
	take_up(s);
	s->maker = fermata_run.fiber;
	bool goes_on = pull(s->handler, request, s);
	s->maker = NULL;
	if (UNEXPECTED(fermata.forked)) {
		fermata_leave();
		return;
	}
	if (!goes_on) {
		/* Where the failure has not done it already. */
		fm_stream_cut(fermata_run.worker, request);
		forget(request);
	} else {
		keep_for_next(request);
	}
	leave();
}

/* The client has left. */
void fermata_stream_ended(const FmEvent *event)
{
	stream *s = find(event->request);
	if (s && s->maker) {
		/* It waits in the middle of a piece: that wait ends, and it is freed where it is made. */
		if (s->maker->client) {
			s->maker->client->gone = true;
		}
		fermata_interrupt(s->maker);
		return;
	}
	enter(event->request);
	/* Its finally blocks may wait: nobody is there any more who could leave. */
	fermata_run.fiber->without_client = true;
	if (s) {
		take_up(s);
		fermata_run.fiber->has_failed = true;
	}
	forget(event->request);
	fermata_run.fiber->without_client = false;
	leave();
}
