/* Handles functions that affect the response under PHP-FPM, but reach no client here: output, header(), cookies. Also redirects
 * PHP's own warnings to the server's log.
 *
 * A call without an effect logs a warning, once for each source location. */
#include "state/sapi_output.h"
#include "state/changes.h"
#include "fibers/fibers.h"
#include "handler/parts.h"
#include "state/php_state.h"
#include "SAPI.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include <poll.h>

#define LOCATIONS_MAX 1024     /* source locations whose warning is logged once; beyond this every warning is logged */
#define WRITE_BYTES_MAX 4096   /* bytes that a writable pipe accepts without blocking (PIPE_BUF) */
#define LINE_BYTES_MAX 1024

/* Source locations with a logged warning. Allocated outside of PHP's request memory, like the process. */
static HashTable locations;
static size_t (*write_output)(const char *bytes, size_t len);
static void (*flush_output)(void *context);
static int (*take_header)(sapi_header_struct *header, sapi_header_op_enum op, sapi_headers_struct *headers);
static bool had_no_headers;
static void (*show_error)(int type, zend_string *file, const uint32_t line, zend_string *message);

typedef struct diversion {
	const fermata_output *output; /* NULL = the handler's output is not diverted */
	void *to;
} diversion;

static fermata_part part;
FERMATA_SLOT(diversion, part)

/* Warnings */

/* Finds the innermost line of PHP code; returns false if no PHP code is running. */
static bool find_place(FmDetail *detail)
{
	const zend_execute_data *frame = EG(current_execute_data);
	while (frame && !(frame->func && ZEND_USER_CODE(frame->func->common.type))) {
		frame = frame->prev_execute_data;
	}
	if (!frame) {
		return false;
	}
	detail->file = fermata_str_or_empty(frame->func->op_array.filename);
	detail->line = frame->opline->lineno;
	return true;
}

/* Returns true if this warning was not logged for the location yet. */
static bool is_first(const char *what, const FmDetail *detail)
{
	char key[LINE_BYTES_MAX], line[24];
	snprintf(line, sizeof(line), ":%u ", detail->line);
	size_t len = fermata_copy(key, sizeof(key), what, detail->file);
	len += fermata_copy(key + len, sizeof(key) - len, line, FERMATA_LITERAL(""));
	if (zend_hash_num_elements(&locations) >= LOCATIONS_MAX) {
		return !zend_hash_str_exists(&locations, key, len);
	}
	return zend_hash_str_add_empty_element(&locations, key, len) != NULL;
}

/* Logs the warning once for each location. */
static ZEND_COLD void warn_at(const FmDetail *detail, const char *what, const char *advice)
{
	char text[LINE_BYTES_MAX];
	if (is_first(what, detail)) {
		size_t len = fermata_copy(text, sizeof(text), what, FERMATA_LITERAL(" in a handler reaches no client: "));
		len += fermata_copy(text + len, sizeof(text) - len, advice, FERMATA_LITERAL(""));
		fm_worker_log_at(fermata.worker, FERMATA_LOG_WARNING, true, (FmStr){text, len}, detail);
	}
}

static ZEND_COLD void warn(const char *what, const char *advice)
{
	FmDetail detail;
	fermata_detail(&detail);
	find_place(&detail);
	warn_at(&detail, what, advice);
}

void fermata_warn_once(const char *text)
{
	FmDetail detail;
	fermata_detail(&detail);
	find_place(&detail);
	if (is_first(text, &detail)) {
		fm_worker_log_at(fermata.worker, FERMATA_LOG_WARNING, true, (FmStr){text, strlen(text)}, &detail);
	}
}

/* Output */

#define PRINTED "what is printed"
#define PRINTED_ADVICE "it goes to standard output; return a Response, or write to the log with error_log()"

/* Unbuffered output of the handler that has its request in PHP's globals. It becomes the response if the handler calls exit().
 * Its size is bounded by PHP's memory limit. */
static struct printed {
	smart_str text;
	zend_string *file; /* file of the first output; NULL = unknown */
	uint32_t line;
} printed;

/* Writes to standard output without blocking and drops the rest: a pipe without a reader must not block the worker. */
static void write_at_once(const char *bytes, size_t len)
{
	while (len) {
		struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
		if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT)) {
			return;
		}
		ssize_t written = write(STDOUT_FILENO, bytes, MIN(len, WRITE_BYTES_MAX));
		if (written <= 0) {
			return;
		}
		bytes += written;
		len -= (size_t)written;
	}
}

static void keep_printed(const char *bytes, size_t len)
{
	FmDetail detail = {0};
	if (!printed.text.s && find_place(&detail)) {
		printed.file = zend_string_init(detail.file.ptr, detail.file.len, false);
		printed.line = detail.line;
	}
	smart_str_appendl(&printed.text, bytes, len);
}

static void forget_place(void)
{
	if (printed.file) {
		zend_string_release(printed.file);
		printed.file = NULL;
	}
}

/* Returns true if the handler has the globals, and has printed something or left a buffer open. */
bool fermata_printed_something(void)
{
	return fermata_has_globals() && (printed.text.s || fermata_has_buffers());
}

/* Returns the output so far; the caller owns it. First ends buffers that were left open. Their callbacks may leave an exception
 * pending. */
zend_string *fermata_printed_take(void)
{
	fermata_end_buffers();
	forget_place();
	return smart_str_extract(&printed.text);
}

/* The handler has finished: output after its response is logged and written to standard output. */
void fermata_printed_end(void)
{
	if (printed.text.s) {
		FmDetail detail;
		fermata_detail(&detail);
		detail.file = fermata_str_or_empty(printed.file);
		detail.line = printed.line;
		warn_at(&detail, PRINTED, PRINTED_ADVICE);
		write_at_once(ZSTR_VAL(printed.text.s), ZSTR_LEN(printed.text.s));
		smart_str_free(&printed.text);
		forget_place();
	}
}

void fermata_output_divert(const fermata_output *output, void *to)
{
	*slot(fermata_this_fiber()) = (diversion){output, to};
}

/* Returns NULL if the output is not diverted. */
static const diversion *diverted(void)
{
	return fermata_this_fiber() && slot(fermata_this_fiber())->output ? slot(fermata_this_fiber()) : NULL;
}

static size_t write_sapi_output(const char *bytes, size_t len)
{
	if (!fermata_is_handlers()) {
		return write_output(bytes, len);
	}
	const diversion *mine = diverted();
	if (mine) {
		mine->output->write(mine->to, (FmStr){bytes, len});
	} else if (fermata_has_globals()) {
		keep_printed(bytes, len);
	} else {
		warn(PRINTED, PRINTED_ADVICE);
		write_at_once(bytes, len);
	}
	/* PHP's output layer sets this flag before it writes. No headers were sent, so reset it; otherwise header() fails. */
	SG(headers_sent) = 0;
	if (OG(output_start_filename)) {
		zend_string_release(OG(output_start_filename));
		OG(output_start_filename) = NULL;
	}
	return len;
}

static void flush_sapi_output(void *context)
{
	const diversion *mine = diverted();
	if (!fermata_is_handlers()) {
		flush_output(context);
	} else if (mine) {
		mine->output->flush(mine->to);
	}
}

/* PHP's command line discards headers. */
static int keep_header(sapi_header_struct *header, sapi_header_op_enum op, sapi_headers_struct *headers)
{
	bool is_line = op == SAPI_HEADER_ADD || op == SAPI_HEADER_REPLACE;
	if (UNEXPECTED(is_line && fermata_has_globals() && header->header_len && !memchr(header->header, ':', header->header_len))) {
		fermata_warn_once("header() was given a line without a colon, which is sent as a header without a value");
	}
	return fermata_has_globals() ? SAPI_HEADER_ADD : take_header ? take_header(header, op, headers) : 0;
}

/* Functions without an effect */

#define WITHOUT_EFFECT(with) \
	with(header, "return a Response with headers, or $response->withHeader()") \
	with(header_remove, "a Response has the headers it is given, and no others") \
	with(header_register_callback, "change the Response in a middleware, Server::use()") \
	with(setcookie, "return $response->withCookie()") \
	with(setrawcookie, "return $response->withCookie()")

#define DEFINE_WITHOUT_EFFECT(name, advice) \
	static zif_handler original_##name; \
	static ZEND_NAMED_FUNCTION(wrapped_##name) \
	{ \
		if (fermata_is_handlers() && !fermata_has_globals()) { \
			warn(#name "()", advice); \
			RETURN_FALSE; \
		} \
		original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
	}
WITHOUT_EFFECT(DEFINE_WITHOUT_EFFECT)

static zif_handler original_response_code;
static ZEND_NAMED_FUNCTION(wrapped_response_code)
{
	if (fermata_is_handlers() && !fermata_has_globals()) {
		if (ZEND_NUM_ARGS()) {
			warn("http_response_code()", "return a Response with that status, or $response->withStatus()");
		}
		RETURN_FALSE;
	}
	original_response_code(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* PHP's messages */

static const char *name_of(int type)
{
	switch (type) {
		case E_WARNING: case E_USER_WARNING: case E_CORE_WARNING: case E_COMPILE_WARNING: return "PHP warning: ";
		case E_NOTICE: case E_USER_NOTICE: return "PHP notice: ";
		case E_DEPRECATED: case E_USER_DEPRECATED: return "PHP deprecated: ";
		default: return NULL;
	}
}

/* In a handler, messages that PHP would display or log go to the server's log with the request. PHP still stores the last error. */
static void log_error(int type, zend_string *file, const uint32_t line, zend_string *message)
{
	const char *name = name_of(type & E_ALL);
	if (!fermata_is_handlers() || !name) {
		show_error(type, file, line, message);
		return;
	}
	bool is_logged = (EG(error_reporting) & type & E_ALL) && (PG(display_errors) || PG(log_errors)) && EG(error_handling) == EH_NORMAL;
	uint8_t display = PG(display_errors);
	bool log = PG(log_errors);
	PG(display_errors) = 0;
	/* A log file that the user has configured still receives the message. */
	PG(log_errors) = log && fermata_has_error_log();
	show_error(type, file, line, message);
	PG(display_errors) = display;
	PG(log_errors) = log;
	if (is_logged) {
		FmDetail detail;
		char text[LINE_BYTES_MAX];
		fermata_detail(&detail);
		detail.file = fermata_str_or_empty(file);
		detail.line = line;
		fm_worker_log_at(fermata.worker, FERMATA_LOG_WARNING, true,
			(FmStr){text, fermata_copy(text, sizeof(text), name, fermata_str(message))}, &detail);
	}
}

/* Output buffers that the script opened before it started the server. If a handler ended them, they would end for all handlers.
 * Output printed into them would appear only when the worker stops. */

static struct {
	php_output_handler **at;
	int len;
} put_by;

void fermata_put_by_output(void)
{
	put_by.len = php_output_get_level();
	if (EXPECTED(!put_by.len)) {
		return;
	}
	put_by.at = safe_emalloc(put_by.len, sizeof(*put_by.at), 0);
	memcpy(put_by.at, zend_stack_base(&OG(handlers)), put_by.len * sizeof(*put_by.at));
	OG(handlers).top = 0;
	OG(active) = NULL;
}

static void take_up_output(void)
{
	if (EXPECTED(!put_by.len)) {
		return;
	}
	if (EXPECTED(!fermata_is_retired())) {
		fermata_output_end(0);
	}
	if (EXPECTED(!php_output_get_level())) {
		for (int i = 0; i < put_by.len; i++) {
			zend_stack_push(&OG(handlers), &put_by.at[i]);
		}
		OG(active) = put_by.at[put_by.len - 1];
	}
	efree(put_by.at);
	put_by.len = 0;
}

/* Start */

/* Must run before a script is compiled; see changes.c. */
void fermata_sapi_output_wrap(void)
{
#define WRAP_SAPI(name, advice) fermata_wrap(CG(function_table), #name, wrapped_##name, &original_##name);
	WITHOUT_EFFECT(WRAP_SAPI)
#undef WRAP_SAPI
	fermata_wrap(CG(function_table), "http_response_code", wrapped_response_code, &original_response_code);
}

/* Called in a worker. */
void fermata_sapi_output_start(void)
{
	zend_hash_init(&locations, 8, NULL, NULL, true);
	write_output = sapi_module.ub_write;
	sapi_module.ub_write = write_sapi_output;
	flush_output = sapi_module.flush;
	sapi_module.flush = flush_sapi_output;
	take_header = sapi_module.header_handler;
	sapi_module.header_handler = keep_header;
	/* Output to a client blocks only when its queue is full, or at flush(). */
	php_output_set_implicit_flush(0);
	show_error = zend_error_cb;
	zend_error_cb = log_error;
	/* Output that the script wrote before it started the server was not a response, so headers count as not sent. */
	SG(headers_sent) = 0;
	had_no_headers = SG(request_info).no_headers;
	SG(request_info).no_headers = true;
}

static size_t drop_output(const char *bytes, size_t len)
{
	return len;
}

/* Drops all further output of the process. Called after a fatal error: PHP still calls shutdown functions, in which frameworks
 * print an error page, but the client already has its response. */
void fermata_sapi_output_drop(void)
{
	sapi_module.ub_write = drop_output;
}

/* Called whenever the worker stops, also after a fatal error. */
void fermata_sapi_output_end(void)
{
	/* Output of a handler that failed together with its worker; PHP frees the memory. */
	if (printed.text.s) {
		write_at_once(ZSTR_VAL(printed.text.s), ZSTR_LEN(printed.text.s));
		printed = (struct printed){0};
	}
	take_up_output();
	sapi_module.ub_write = write_output;
	sapi_module.flush = flush_output;
	sapi_module.header_handler = take_header;
	SG(request_info).no_headers = had_no_headers;
	zend_error_cb = show_error;
	zend_hash_destroy(&locations);
}

static fermata_part part = {.size = sizeof(diversion)};

void fermata_sapi_output_init(void)
{
	fermata_part_register(&part);
}
