/* Bodies that are read while they arrive: Request::read(), and the PHP stream of Request::bodyStream().
 *
 * The core reads from the client only the bytes that PHP requests. If none have arrived, the handler's fiber waits until
 * FM_EVENT_BODY wakes it. */
#include "http/http.h"
#include "fibers/fibers.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"

/* Fibers that wait for more bytes of a body, by request; NULL while there are none. */
static HashTable *readers;

/* Waits until bytes arrive or the body ends. Returns false with an exception pending. */
static bool wait_for_more(uint64_t id)
{
	if (!fermata_can_wait()) {
		return false;
	}
	if (readers && zend_hash_index_exists(readers, id)) {
		fermata_misuse("another task waits for this body already; let one of them read it");
		return false;
	}
	return fermata_wait_keyed(&readers, id) != FERMATA_WAIT_FAILED;
}

void fermata_body_arrived(const FmEvent *event)
{
	fermata_wake_keyed(readers, event->request);
}

/* Returns up to `bytes_max` further bytes of the body. Returns an empty string at its end, NULL with an exception pending. */
zend_string *fermata_body_read(fermata_request *request, size_t bytes_max)
{
	while (!request->body_ended) {
		FmStr piece = FERMATA_LITERAL("");
		uint32_t status = 0, code = FM_GONE;
		FmError error;
		error.len = 0;
		if (fermata.worker && !fermata.forked) {
			code = fm_body_read(fermata.worker, request->event.request, bytes_max, &piece, &request->body_ended, &status, &error);
		}
		switch (code) {
			case FM_OK:
				if (!piece.len) {
					return ZSTR_EMPTY_ALLOC();
				}
				request->body_read += piece.len;
				return zend_string_init(piece.ptr, piece.len, false);
			case FM_PARTIAL:
				if (!wait_for_more(request->event.request)) {
					return NULL;
				}
				break;
			case FM_GONE:
				zend_throw_exception(fermata_ce_client_gone, "the client has left before its body had arrived, or was answered", 0);
				return NULL;
			case FM_PROTOCOL: {
				zend_string *message = zend_string_init(error.message, error.len, false);
				zend_throw_exception(fermata_ce_bad_request, ZSTR_VAL(message), status);
				zend_string_release(message);
				return NULL;
			}
			default:
				fermata_throw(code, &error);
				return NULL;
		}
	}
	return ZSTR_EMPTY_ALLOC();
}

/* Returns the rest of the body; NULL with an exception pending. */
zend_string *fermata_body_read_all(fermata_request *request)
{
	smart_str body = {0};
	if (request->body_read) {
		fermata_misuse("a part of the body was read already; read on until read() returns null");
		return NULL;
	}
	while (!request->body_ended) {
		zend_string *piece = fermata_body_read(request, SIZE_MAX);
		if (!piece) {
			smart_str_free(&body);
			return NULL;
		}
		smart_str_append(&body, piece);
		zend_string_release(piece);
	}
	request->body_read = 0;
	return smart_str_extract(&body);
}

/* The body as a PHP stream */

static ssize_t stream_read(php_stream *stream, char *to, size_t bytes_max)
{
	fermata_request *request = stream->abstract;
	zend_string *piece = fermata_body_read(request, bytes_max);
	if (!piece) {
		stream->eof = 1;
		return -1;
	}
	size_t len = ZSTR_LEN(piece);
	memcpy(to, ZSTR_VAL(piece), len);
	zend_string_release(piece);
	stream->eof = request->body_ended;
	return (ssize_t)len;
}

static ssize_t stream_write(php_stream *stream, const char *from, size_t len)
{
	return -1;
}

static int stream_close(php_stream *stream, int close_handle)
{
	fermata_request *request = stream->abstract;
	OBJ_RELEASE(&request->std);
	return 0;
}

static int stream_flush(php_stream *stream)
{
	return 0;
}

const php_stream_ops fermata_body_stream_ops = {
	.write = stream_write,
	.read = stream_read,
	.close = stream_close,
	.flush = stream_flush,
	.label = "fermata body",
};

php_stream *fermata_body_stream(fermata_request *request)
{
	php_stream *stream = php_stream_alloc(&fermata_body_stream_ops, request, NULL, "rb");
	GC_ADDREF(&request->std);
	/* The bytes are not stored, so they can be read only once. */
	stream->flags |= PHP_STREAM_FLAG_NO_SEEK;
	return stream;
}
