/* What PHP code does for PHP-FPM and what reaches no client here: output, header(), cookies, sessions; and PHP's own warnings.
 *
 * What would be wrong without a word is said in the server's log, once for each place in the program; sessions, which would
 * show one user the data of another, are refused. */
#include "core/stray.h"
#include "core/changes.h"
#include "fibers/fibers.h"
#include "SAPI.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include <poll.h>

#define PLACES_MAX 1024        /* places that are remembered; further ones are told of each time */
#define WRITE_BYTES_MAX 4096   /* what a pipe that has room takes without waiting (PIPE_BUF) */
#define LINE_BYTES_MAX 1024

/* Places of which a warning has told. They outlive PHP's memory, as the process does. */
static HashTable places;
static size_t (*write_output)(const char *bytes, size_t len);
static void (*flush_output)(void *context);
static int (*take_header)(sapi_header_struct *header, sapi_header_op_enum op, sapi_headers_struct *headers);
static bool had_no_headers;
static void (*show_error)(int type, zend_string *file, const uint32_t line, zend_string *message);

static bool is_handlers(void)
{
	return fermata.handling && !fermata.forked && fermata_run.worker;
}

/* Whether a handler runs that is shown its request as PHP-FPM would: http/globals.c. */
static bool has_globals(void)
{
	return fermata_run.fiber && fermata_run.fiber->has_globals;
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
static ZEND_COLD void warn_at(const FmDetail *detail, const char *what, const char *advice)
{
	char text[LINE_BYTES_MAX];
	if (is_first(what, detail)) {
		size_t len = fermata_copy(text, sizeof(text), what, FERMATA_LITERAL(" in a handler reaches no client: "));
		len += fermata_copy(text + len, sizeof(text) - len, advice, FERMATA_LITERAL(""));
		fm_worker_tell(fermata_run.worker, FERMATA_LOG_WARNING, true, (FmStr){text, len}, detail);
	}
}

static ZEND_COLD void warn(const char *what, const char *advice)
{
	FmDetail detail;
	fermata_detail(&detail);
	find_place(&detail);
	warn_at(&detail, what, advice);
}

/* Output */

#define PRINTED "what is printed"
#define PRINTED_ADVICE "it goes to standard output; return a Response, or write to the log with error_log()"

/* By the handler that has the globals, into no buffer: exit() answers with it. PHP's memory limit bounds it. */
static struct printed {
	smart_str text;
	zend_string *file; /* where the first of it was printed; NULL = not known */
	uint32_t line;
} printed;

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

/* Whether the handler has the globals, and has printed something or left a buffer open. */
bool fermata_printed_something(void)
{
	return has_globals() && (printed.text.s || OG(active) != fermata_run.output_active);
}

/* What the handler has printed so far is taken out; it is the caller's. Buffers that it has left open end before, whose own
 * code may leave an exception. */
zend_string *fermata_printed_take(void)
{
	fermata_output_end(fermata_run.output_level);
	forget_place();
	return smart_str_extract(&printed.text);
}

/* The handler has ended, and what it has printed since answers nothing. */
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

static size_t write_stray(const char *bytes, size_t len)
{
	if (!is_handlers()) {
		return write_output(bytes, len);
	}
	if (fermata_run.fiber && fermata_run.fiber->output_to) {
		fermata_output_write(fermata_run.fiber->output_to, (FmStr){bytes, len});
	} else if (has_globals()) {
		keep_printed(bytes, len);
	} else {
		warn(PRINTED, PRINTED_ADVICE);
		write_at_once(bytes, len);
	}
	/* No head was sent by PHP. */
	SG(headers_sent) = 0;
	if (OG(output_start_filename)) {
		zend_string_release(OG(output_start_filename));
		OG(output_start_filename) = NULL;
	}
	return len;
}

static void flush_stray(void *context)
{
	if (!is_handlers()) {
		flush_output(context);
	} else if (fermata_run.fiber && fermata_run.fiber->output_to) {
		fermata_output_flush(fermata_run.fiber->output_to);
	}
}

/* PHP's command line keeps no headers. */
static int keep_header(sapi_header_struct *header, sapi_header_op_enum op, sapi_headers_struct *headers)
{
	return has_globals() ? SAPI_HEADER_ADD : take_header ? take_header(header, op, headers) : 0;
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
		if (is_handlers() && !has_globals()) { \
			warn(#name "()", advice); \
			RETURN_FALSE; \
		} \
		original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
	}
WITHOUT_EFFECT(DEFINE_WITHOUT_EFFECT)

static zif_handler original_response_code;
static ZEND_NAMED_FUNCTION(stray_response_code)
{
	if (is_handlers() && !has_globals()) {
		if (ZEND_NUM_ARGS()) {
			warn("http_response_code()", "return a Response with that status, or $response->withStatus()");
		}
		RETURN_FALSE;
	}
	original_response_code(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Sessions
 *
 * PHP has one for a process: what one user's handler has opened, the next user's would read and write. A handler that is
 * alone and is shown its request by fillGlobals() may open one, which is closed with the handler. */

/* What functions of sessions change without ini_set(). */
static const char *const session_settings[] = {"session.save_handler", "session.save_path", "session.name", "session.cache_limiter",
	"session.cache_expire", "session.cookie_lifetime", "session.cookie_path", "session.cookie_domain", "session.cookie_secure",
	"session.cookie_httponly", "session.cookie_samesite", "session.use_cookies", "session.use_only_cookies",
	"session.use_strict_mode", "session.use_trans_sid", "session.referer_check", "session.gc_probability", "session.gc_divisor",
	"session.gc_maxlifetime", "session.serialize_handler", "session.lazy_write", "session.sid_length",
	"session.sid_bits_per_character", "session.trans_sid_tags", "session.trans_sid_hosts"};

#define SESSION_SETTINGS (sizeof(session_settings) / sizeof(session_settings[0]))
static zend_string *session_values[SESSION_SETTINGS]; /* as the handler has found them; NULL = as at the start of PHP */
static const fermata_fiber *session_owner; /* whose handler may have a session open; NULL = no handler */

static zend_ini_entry *session_setting(size_t index)
{
	return zend_hash_str_find_ptr(EG(ini_directives), session_settings[index], strlen(session_settings[index]));
}

/* They stay while the handler waits: PHP changes none of them while a session is open, and nobody else can open one. False when
 * there is none for this handler. */
bool fermata_session_begin(void)
{
	if (has_globals() && !fermata_run.fiber->has_session) {
		fermata_run.fiber->has_session = true;
		session_owner = fermata_run.fiber;
		for (size_t i = 0; i < SESSION_SETTINGS; i++) {
			const zend_ini_entry *entry = session_setting(i);
			session_values[i] = entry && entry->modified && entry->value ? zend_string_copy(entry->value) : NULL;
		}
	}
	return has_globals();
}

static void restore_session_settings(void)
{
	for (size_t i = 0; i < SESSION_SETTINGS; i++) {
		zend_ini_entry *entry = session_setting(i);
		zend_string *before = session_values[i];
		session_values[i] = NULL;
		if (!entry || !entry->modified || (before && entry->value && zend_string_equals(before, entry->value))) {
			/* As it was. */
		} else if (before) {
			zend_alter_ini_entry(entry->name, before, PHP_INI_USER, PHP_INI_STAGE_RUNTIME);
		} else {
			zend_restore_ini_entry(entry->name, PHP_INI_STAGE_RUNTIME);
		}
		if (before) {
			zend_string_release(before);
		}
	}
}

/* Does with the session what PHP does at the end of a request: it is written and closed, and the next finds none. */
void fermata_session_end(fermata_fiber *fiber)
{
	if (!fiber->has_session) {
		return;
	}
	fiber->has_session = false;
	const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("session"));
	if (module) {
		module->request_shutdown_func(module->type, module->module_number);
		restore_session_settings();
		module->request_startup_func(module->type, module->module_number);
	}
	session_owner = NULL;
	if (EG(exception)) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
}

static bool is_unlocked; /* the session that is being opened */

void fermata_session_unlocked(void)
{
	is_unlocked = true;
}

/* PHP goes on without the lock, and would write over what its owner writes. */
static void drop_unlocked_session(void)
{
	zend_function *abort = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("session_abort"));
	if (EXPECTED(!is_unlocked)) {
		return;
	}
	is_unlocked = false;
	zval result;
	ZVAL_UNDEF(&result);
	zend_exception_save();
	if (abort) {
		zend_call_known_function(abort, NULL, NULL, &result, 0, NULL, NULL);
	}
	zval_ptr_dtor(&result);
	zend_exception_restore();
}

/* Whether the session is that of a handler that waits while this code runs. */
static bool is_anothers_session(void)
{
	return session_owner && session_owner != fermata_run.fiber;
}

/* With what opens or changes a session; all of them are refused while a session is another's. */
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
	with(session_cache_expire, ZEND_NUM_ARGS()) \
	with(session_abort, false) \
	with(session_commit, false) \
	with(session_create_id, false) \
	with(session_destroy, false) \
	with(session_encode, false) \
	with(session_gc, false) \
	with(session_reset, false) \
	with(session_unset, false) \
	with(session_write_close, false)

#define DEFINE_REFUSED(name, changes_something) \
	static zif_handler original_##name; \
	static ZEND_NAMED_FUNCTION(refused_##name) \
	{ \
		if (is_handlers() && ((changes_something) ? !fermata_session_begin() : is_anothers_session())) { \
			fermata_misuse(#name "() in a handler: PHP has one session for a process, and all users of this worker would share" \
				" it; keep an id in a cookie (Request::cookie(), Response::withCookie()) and the data in a database or cache"); \
			RETURN_THROWS(); \
		} \
		original_##name(INTERNAL_FUNCTION_PARAM_PASSTHRU); \
		drop_unlocked_session(); \
	}
REFUSED(DEFINE_REFUSED)

#define SESSION_NONE 1
#define SESSION_ACTIVE 2

static zif_handler original_session_status;
static ZEND_NAMED_FUNCTION(stray_session_status)
{
	if (is_handlers() && is_anothers_session()) {
		RETURN_LONG(SESSION_NONE);
	}
	original_session_status(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* False after a MisuseError: the workers would inherit the session. */
bool fermata_session_check(void)
{
	zval status;
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("session_status"));
	if (!function) {
		return true;
	}
	zend_call_known_function(function, NULL, NULL, &status, 0, NULL, NULL);
	if (Z_TYPE(status) == IS_LONG && Z_LVAL(status) == SESSION_ACTIVE) {
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
	PG(log_errors) = log && fermata_has_error_log();
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
	fermata_wrap(CG(function_table), "session_status", stray_session_status, &original_session_status);
	fermata_wrap(CG(function_table), "http_response_code", stray_response_code, &original_response_code);
}

/* In a worker. */
void fermata_stray_start(void)
{
	zend_hash_init(&places, 8, NULL, NULL, true);
	write_output = sapi_module.ub_write;
	sapi_module.ub_write = write_stray;
	flush_output = sapi_module.flush;
	sapi_module.flush = flush_stray;
	take_header = sapi_module.header_handler;
	sapi_module.header_handler = keep_header;
	/* A client that is printed to is waited for when its queue is full, or by flush(). */
	php_output_set_implicit_flush(0);
	show_error = zend_error_cb;
	zend_error_cb = tell_error;
	/* What the script has printed before it ran the server was no response, nor do headers leave with what is printed. */
	SG(headers_sent) = 0;
	had_no_headers = SG(request_info).no_headers;
	SG(request_info).no_headers = true;
}

/* When the worker ends, in whatever way. */
void fermata_stray_end(void)
{
	/* Of a handler that has failed with its worker; PHP frees it. */
	if (printed.text.s) {
		write_at_once(ZSTR_VAL(printed.text.s), ZSTR_LEN(printed.text.s));
		printed = (struct printed){0};
	}
	sapi_module.ub_write = write_output;
	sapi_module.flush = flush_output;
	sapi_module.header_handler = take_header;
	SG(request_info).no_headers = had_no_headers;
	zend_error_cb = show_error;
	zend_hash_destroy(&places);
}
