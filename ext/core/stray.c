/* What PHP code does for PHP-FPM and what reaches no client here: output, header(), cookies, sessions; and PHP's own warnings.
 *
 * What would be wrong without a word is said in the server's log, once for each place in the program; sessions, which would
 * show one user the data of another, are refused. */
#include "core/stray.h"
#include "core/changes.h"
#include "SAPI.h"
#include <poll.h>

#define PLACES_MAX 1024        /* places that are remembered; further ones are told of each time */
#define WRITE_BYTES_MAX 4096   /* what a pipe that has room takes without waiting (PIPE_BUF) */
#define LINE_BYTES_MAX 1024

/* Places of which a warning has told. They outlive PHP's memory, as the process does. */
static HashTable places;
static size_t (*write_output)(const char *bytes, size_t len);
static void (*show_error)(int type, zend_string *file, const uint32_t line, zend_string *message);

static bool is_handlers(void)
{
	return fermata.handling && !fermata.forked && fermata_run.worker;
}

/* Warnings */

/* The innermost line of the program; false when there is none. */
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

/* Whether this is the first time that so much is said of the place. */
static bool is_first(const char *what, const FmDetail *detail)
{
	char key[LINE_BYTES_MAX], line[24];
	snprintf(line, sizeof(line), ":%u ", detail->line);
	size_t len = fermata_copy(key, sizeof(key), what, detail->file);
	len += fermata_copy(key + len, sizeof(key) - len, line, FERMATA_LITERAL(""));
	if (zend_hash_num_elements(&places) >= PLACES_MAX) {
		return !zend_hash_str_exists(&places, key, len);
	}
	return zend_hash_str_add_empty_element(&places, key, len) != NULL;
}

/* Once for each place. */
static ZEND_COLD void warn(const char *what, const char *advice)
{
	FmDetail detail;
	char text[LINE_BYTES_MAX];
	fermata_detail(&detail);
	find_place(&detail);
	if (is_first(what, &detail)) {
		size_t len = fermata_copy(text, sizeof(text), what, FERMATA_LITERAL(" in a handler reaches no client: "));
		len += fermata_copy(text + len, sizeof(text) - len, advice, FERMATA_LITERAL(""));
		fm_worker_tell(fermata_run.worker, FERMATA_LOG_WARNING, true, (FmStr){text, len}, &detail);
	}
}

/* Output */

/* Gives standard output what it takes at once: a pipe that nobody reads must not stop the worker. */
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

static size_t write_stray(const char *bytes, size_t len)
{
	if (!is_handlers()) {
		return write_output(bytes, len);
	}
	warn("what is printed", "it goes to standard output; return a Response, or write to the log with error_log()");
	write_at_once(bytes, len);
	/* Nothing was sent to anybody. */
	SG(headers_sent) = 0;
	if (OG(output_start_filename)) {
		zend_string_release(OG(output_start_filename));
		OG(output_start_filename) = NULL;
	}
	return len;
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
	static ZEND_NAMED_FUNCTION(stray_##name) \
	{ \
		if (is_handlers()) { \
			warn(#name "()", advice); \
			RETURN_FALSE; \
		} \
		original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
	}
WITHOUT_EFFECT(DEFINE_WITHOUT_EFFECT)

static zif_handler original_response_code;
static ZEND_NAMED_FUNCTION(stray_response_code)
{
	if (is_handlers()) {
		if (ZEND_NUM_ARGS()) {
			warn("http_response_code()", "return a Response with that status, or $response->withStatus()");
		}
		RETURN_FALSE;
	}
	original_response_code(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Sessions
 *
 * PHP has one for a process: what one user's handler has opened, the next user's would read and write. */

#define REFUSED(with) \
	with(session_start, true) \
	with(session_regenerate_id, true) \
	with(session_decode, true) \
	with(session_set_save_handler, true) \
	with(session_set_cookie_params, true) \
	with(session_id, ZEND_NUM_ARGS()) \
	with(session_name, ZEND_NUM_ARGS()) \
	with(session_save_path, ZEND_NUM_ARGS()) \
	with(session_module_name, ZEND_NUM_ARGS()) \
	with(session_cache_limiter, ZEND_NUM_ARGS()) \
	with(session_cache_expire, ZEND_NUM_ARGS())

#define DEFINE_REFUSED(name, changes_something) \
	static zif_handler original_##name; \
	static ZEND_NAMED_FUNCTION(refused_##name) \
	{ \
		if (is_handlers() && (changes_something)) { \
			fermata_misuse(#name "() in a handler: PHP has one session for a process, and all users of this worker would share" \
				" it; keep an id in a cookie (Request::cookie(), Response::withCookie()) and the data in a database or cache"); \
			RETURN_THROWS(); \
		} \
		original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
	}
REFUSED(DEFINE_REFUSED)

/* False after a MisuseError: the workers would inherit the session. */
bool fermata_session_check(void)
{
	zval status;
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("session_status"));
	if (!function) {
		return true;
	}
	zend_call_known_function(function, NULL, NULL, &status, 0, NULL, NULL);
	/* PHP_SESSION_ACTIVE */
	if (Z_TYPE(status) == IS_LONG && Z_LVAL(status) == 2) {
		fermata_misuse("a session of PHP's is open, which all requests would share; set session.auto_start=0, and call"
			" session_write_close() before run() where the script has opened it");
		return false;
	}
	return !EG(exception);
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

/* In a handler, what PHP would show or log goes to the server's log, with the request; PHP remembers it as ever. */
static void tell_error(int type, zend_string *file, const uint32_t line, zend_string *message)
{
	const char *name = name_of(type & E_ALL);
	if (!is_handlers() || !name) {
		show_error(type, file, line, message);
		return;
	}
	bool is_told = (EG(error_reporting) & type & E_ALL) && (PG(display_errors) || PG(log_errors)) && EG(error_handling) == EH_NORMAL;
	uint8_t display = PG(display_errors);
	bool log = PG(log_errors);
	PG(display_errors) = 0;
	/* A file of the user's still gets it. */
	PG(log_errors) = log && PG(error_log);
	show_error(type, file, line, message);
	PG(display_errors) = display;
	PG(log_errors) = log;
	if (is_told) {
		FmDetail detail;
		char text[LINE_BYTES_MAX];
		fermata_detail(&detail);
		detail.file = fermata_str_or_empty(file);
		detail.line = line;
		fm_worker_tell(fermata_run.worker, FERMATA_LOG_WARNING, true,
			(FmStr){text, fermata_copy(text, sizeof(text), name, fermata_str(message))}, &detail);
	}
}

/* Beginning */

/* Before a script is compiled; see changes.c. */
void fermata_stray_wrap(void)
{
#define WRAP_STRAY(name, advice) fermata_wrap(CG(function_table), #name, stray_##name, &original_##name);
	WITHOUT_EFFECT(WRAP_STRAY)
#undef WRAP_STRAY
#define WRAP_REFUSED(name, changes_something) fermata_wrap(CG(function_table), #name, refused_##name, &original_##name);
	REFUSED(WRAP_REFUSED)
#undef WRAP_REFUSED
	fermata_wrap(CG(function_table), "http_response_code", stray_response_code, &original_response_code);
}

/* In a worker. */
void fermata_stray_start(void)
{
	zend_hash_init(&places, 8, NULL, NULL, true);
	write_output = sapi_module.ub_write;
	sapi_module.ub_write = write_stray;
	show_error = zend_error_cb;
	zend_error_cb = tell_error;
	/* What the script has printed before it ran the server was no response. */
	SG(headers_sent) = 0;
}

/* When the worker ends, in whatever way. */
void fermata_stray_end(void)
{
	sapi_module.ub_write = write_output;
	zend_error_cb = show_error;
	zend_hash_destroy(&places);
}
