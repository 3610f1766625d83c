/* PHP's sessions.
 *
 * PHP has one session per process. If one user's handler opened it, the next user's handler would read and write it. So sessions
 * are refused, except in a handler that runs without concurrent handlers and has its request in PHP's superglobals (fillGlobals()).
 * Its session is closed when it finishes.
 *
 * PHP's session functions leave some work to the end of the request's process, which a worker does not reach. With an exception
 * pending, PHP writes only the data it could serialize and does not call a userland close(). The session would lose data and
 * stay locked. So each call of a session function does that work immediately. */
#include "state/changes.h"
#include "state/quiet.h"
#include "state/sapi_output.h"
#include "fibers/fibers.h"
#include "zend_exceptions.h"
#if __has_include("ext/session/php_session.h")
# include "ext/session/php_session.h"
# define HAS_SESSIONS
#endif

/* Attempts to close a handler's session at its end: destructors of save handlers may open another. */
#define CLOSINGS_MAX 8

/* Settings that session functions change without ini_set(). */
static const char *const session_settings[] = {"session.save_handler", "session.save_path", "session.name", "session.cache_limiter",
	"session.cache_expire", "session.cookie_lifetime", "session.cookie_path", "session.cookie_domain", "session.cookie_secure",
	"session.cookie_httponly", "session.cookie_samesite", "session.use_cookies", "session.use_only_cookies",
	"session.use_strict_mode", "session.use_trans_sid", "session.referer_check", "session.gc_probability", "session.gc_divisor",
	"session.gc_maxlifetime", "session.serialize_handler", "session.lazy_write", "session.sid_length",
	"session.sid_bits_per_character", "session.trans_sid_tags", "session.trans_sid_hosts"};

#define SESSION_SETTINGS (sizeof(session_settings) / sizeof(session_settings[0]))
static zend_string *session_values[SESSION_SETTINGS]; /* values before the handler; NULL = as when PHP started */
static const fermata_fiber *session_owner; /* fiber whose handler may have a session open; NULL = none */

static bool is_closed_for_good; /* the handler that is finishing may not open another session */

static zend_ini_entry *session_setting(size_t index)
{
	return zend_hash_str_find_ptr(EG(ini_directives), session_settings[index], strlen(session_settings[index]));
}

static const zend_module_entry *session_module(void)
{
	return zend_hash_str_find_ptr(&module_registry, ZEND_STRL("session"));
}

/* PHP's session module */

#ifdef HAS_SESSIONS
/* Number of functions of a userland save handler, which PHP stores in a union or a struct. */
#define FUNCTIONS (sizeof(((php_ps_globals *)NULL)->mod_user_names) / sizeof(zval))

static zval *functions_of(php_ps_globals *session)
{
	return (zval *)&session->mod_user_names;
}

/* Save handler before the handler ran, as set by the script before it started the server. */
static struct found {
	const ps_module *module, *default_module;
	zval functions[FUNCTIONS]; /* undefined = not set */
	zend_string *class_name; /* NULL = none */
} found;

/* Returns NULL if this PHP has no sessions, or if the layout of its structure differs from the headers. */
static php_ps_globals *session_globals(void)
{
	const zend_module_entry *module = session_module();
	if (!module || module->globals_size != sizeof(php_ps_globals)) {
		return NULL;
	}
# ifdef ZTS
	return ts_resource(*module->globals_id_ptr);
# else
	return module->globals_ptr;
# endif
}

static void find_save_handler(void)
{
	php_ps_globals *session = session_globals();
	if (!session) {
		return;
	}
	found.module = session->mod;
	found.default_module = session->default_mod;
	found.class_name = session->mod_user_class_name ? zend_string_copy(session->mod_user_class_name) : NULL;
	for (size_t i = 0; i < FUNCTIONS; i++) {
		ZVAL_COPY(&found.functions[i], &functions_of(session)[i]);
	}
}

static void put_back_save_handler(void)
{
	php_ps_globals *session = session_globals();
	if (!session) {
		return;
	}
	if (session->mod_user_class_name) {
		zend_string_release(session->mod_user_class_name);
	}
	session->mod = found.module;
	session->default_mod = found.default_module;
	session->mod_user_class_name = found.class_name;
	memcpy(functions_of(session), found.functions, sizeof(found.functions));
	found = (struct found){0};
}

/* Calls of session functions
 *
 * During such a call, PHP calls these functions instead of the save handler's. Only one handler has the session, and nested
 * calls of the save handler use the same functions, so one record suffices. */

static struct guard {
	const ps_module *module; /* the save handler; NULL = no session function is running */
	const ps_serializer *serializer;
	bool is_abandoned; /* the data could not be serialized */
	bool is_unopened;  /* open() of the save handler threw an exception, so there is nothing to close */
} guard;
static ps_module guarded_module;
static ps_serializer guarded_serializer;

static zend_string *guarded_encode(PS_SERIALIZER_ENCODE_ARGS)
{
	zend_string *text = guard.serializer->encode();
	if (UNEXPECTED(EG(exception))) {
		guard.is_abandoned = true;
		if (text) {
			zend_string_release(text);
		}
		return NULL;
	}
	return text;
}

static zend_result guarded_open(PS_OPEN_ARGS)
{
	zend_result result = guard.module->s_open(mod_data, save_path, session_name);
	guard.is_unopened = EG(exception);
	return result;
}

static zend_result guarded_write(PS_WRITE_ARGS)
{
	return EXPECTED(!guard.is_abandoned && !EG(exception)) ? guard.module->s_write(mod_data, key, val, maxlifetime) : FAILURE;
}

/* Closes the session while the exception is set aside; otherwise PHP would not call the userland function. */
static zend_result guarded_close(PS_CLOSE_ARGS)
{
	if (EXPECTED(!EG(exception)) || guard.is_unopened) {
		return guard.module->s_close(mod_data);
	}
	zend_exception_save();
	zend_result result = guard.module->s_close(mod_data);
	zend_exception_restore();
	return result;
}

static void begin_guard(php_ps_globals *session)
{
	guard = (struct guard){.module = session->mod, .serializer = session->serializer};
	guarded_module = *session->mod;
	guarded_module.s_open = guarded_open;
	guarded_module.s_write = guarded_write;
	guarded_module.s_close = guarded_close;
	session->mod = &guarded_module;
	if (guard.serializer) {
		guarded_serializer = *guard.serializer;
		guarded_serializer.encode = guarded_encode;
		session->serializer = &guarded_serializer;
	}
}

static void end_guard(php_ps_globals *session)
{
	if (session->mod == &guarded_module) {
		session->mod = guard.module;
	}
	if (session->default_mod == &guarded_module) {
		session->default_mod = guard.module;
	}
	if (session->serializer == &guarded_serializer) {
		session->serializer = guard.serializer;
	}
	guard = (struct guard){0};
}

/* Closes PHP's own save handler if a userland handler opened it and did not close it. It may hold a lock or a connection. */
static void close_rest(php_ps_globals *session)
{
	const ps_module *module = session->mod_user_is_open ? session->default_mod : session->mod;
	if (EXPECTED(session->session_status == php_session_active || !session->mod_data || !module)) {
		return;
	}
	zend_exception_save();
	module->s_close(&session->mod_data);
	zend_exception_restore();
	session->mod_data = NULL;
	session->mod_user_is_open = false;
}

static void call_session_function(zif_handler function, bool sets_handler, INTERNAL_FUNCTION_PARAMETERS)
{
	php_ps_globals *session = session_globals();
	bool is_outermost = session && session->mod && !guard.module;
	/* session_set_save_handler() and session_module_name() compare the current save handler, so the guard must not replace it.
	 * No session is open then. */
	if (is_outermost && !sets_handler) {
		begin_guard(session);
	}
	function(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (is_outermost) {
		end_guard(session);
		close_rest(session);
	}
}

/* Returns true if no session state is left. */
static bool is_closed(php_ps_globals *session)
{
	for (size_t i = 0; i < FUNCTIONS; i++) {
		if (!Z_ISUNDEF(functions_of(session)[i])) {
			return false;
		}
	}
	return session->session_status != php_session_active && !session->mod_data && !session->mod_user_implemented && !session->id;
}

/* Releases the functions of the userland save handler. Moves them out first, because their destructors may set others. */
static void release_save_handler(php_ps_globals *session)
{
	zval functions[FUNCTIONS];
	memcpy(functions, functions_of(session), sizeof(functions));
	for (size_t i = 0; i < FUNCTIONS; i++) {
		ZVAL_UNDEF(&functions_of(session)[i]);
	}
	for (size_t i = 0; i < FUNCTIONS; i++) {
		zval_ptr_dtor(&functions[i]);
	}
}

static void log_exceptions(void)
{
	if (EG(exception)) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
}

/* Writes and closes the session as PHP does at the end of a request. */
static void write_and_close(php_ps_globals *session)
{
	zend_function *write_close = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("session_write_close"));
	if (session->session_status == php_session_active && write_close) {
		zval result;
		ZVAL_UNDEF(&result);
		zend_call_known_function(write_close, NULL, NULL, &result, 0, NULL, NULL);
		zval_ptr_dtor(&result);
		log_exceptions();
	}
	if (session->mod_user_implemented && session->mod) {
		session->mod->s_close(&session->mod_data);
		log_exceptions();
	}
	close_rest(session);
	log_exceptions();
}

/* Closes the handler's session, and sessions that its save handler opens during the close. */
static void close_session(const zend_module_entry *module)
{
	php_ps_globals *session = session_globals();
	for (uint32_t i = 0; session && (i == 0 || !is_closed(session)) && i <= CLOSINGS_MAX; i++) {
		is_closed_for_good = i == CLOSINGS_MAX;
		write_and_close(session);
		release_save_handler(session);
		log_exceptions();
		module->request_shutdown_func(module->type, module->module_number);
		log_exceptions();
	}
	is_closed_for_good = false;
}
#else
static void find_save_handler(void)
{
}

static void put_back_save_handler(void)
{
}

static void call_session_function(zif_handler function, bool sets_handler, INTERNAL_FUNCTION_PARAMETERS)
{
	function(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void close_session(const zend_module_entry *module)
{
	module->request_shutdown_func(module->type, module->module_number);
}
#endif

/* Sessions of handlers */

/* The settings stay while the handler waits: PHP changes none while a session is open, and no other handler can open one.
 * Returns false if this handler may not have a session. */
static bool session_begin(void)
{
	if (UNEXPECTED(!fermata_has_globals() || is_closed_for_good)) {
		return false;
	}
	if (session_owner != fermata_this_fiber()) {
		session_owner = fermata_this_fiber();
		find_save_handler();
		for (size_t i = 0; i < SESSION_SETTINGS; i++) {
			const zend_ini_entry *entry = session_setting(i);
			session_values[i] = entry && entry->modified && entry->value ? zend_string_copy(entry->value) : NULL;
		}
	}
	return true;
}

/* Restores the settings without messages, which no handler should receive. */
static void restore_session_settings(void)
{
#ifdef HAS_SESSIONS
	php_ps_globals *session = session_globals();
	/* Without this flag, PHP refuses the name of a userland save handler. */
	if (session) {
		session->set_handler = true;
	}
#endif
	fermata_quiet_begin();
	for (size_t i = 0; i < SESSION_SETTINGS; i++) {
		zend_ini_entry *entry = session_setting(i);
		zend_string *before = session_values[i];
		session_values[i] = NULL;
		if (!entry || !entry->modified || (before && entry->value && zend_string_equals(before, entry->value))) {
			/* Unchanged. */
		} else if (before) {
			zend_alter_ini_entry(entry->name, before, PHP_INI_USER, PHP_INI_STAGE_RUNTIME);
		} else {
			zend_restore_ini_entry(entry->name, PHP_INI_STAGE_RUNTIME);
		}
		if (before) {
			zend_string_release(before);
		}
	}
	fermata_quiet_end_logged("putting back settings of sessions: ");
}

/* Writes and closes the session as PHP does at the end of a request, so that the next handler finds none. */
void fermata_session_end(void)
{
	const zend_module_entry *module = session_module();
	if (session_owner != fermata_this_fiber()) {
		return;
	}
	if (module) {
		close_session(module);
		restore_session_settings();
		module->request_startup_func(module->type, module->module_number);
		put_back_save_handler();
	}
	session_owner = NULL;
	if (EG(exception)) {
		fermata_log_exception(FERMATA_LOG_ERROR);
	}
}

static bool is_unlocked; /* an exception has ended the wait for the lock of the session that is being opened */

void fermata_session_unlocked(void)
{
	is_unlocked = true;
}

/* Aborts a session whose wait for the lock was interrupted. PHP would continue without the lock, and overwrite the data of the
 * lock's owner. */
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

/* Returns true if the session belongs to another handler, which waits while this code runs. */
static bool is_anothers_session(void)
{
	return session_owner && session_owner != fermata_this_fiber();
}

/* Returns true between two handlers, where the garbage collector may run destructors. A session opened there would stay open. */
static bool is_between_handlers(void)
{
	return fermata.worker && !fermata.handling && !fermata.forked && !fermata_is_stopped();
}

/* Function, and condition under which it opens or changes a session. All of them are refused while another handler has the session.
   */
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
		bool opens = strcmp(#name, "session_start") == 0; \
		if (fermata_is_handlers() ? ((changes_something) ? !session_begin() : is_anothers_session()) \
			: opens && is_between_handlers()) { \
			fermata_misuse(#name "() in a handler: PHP has one session for a process, and all users of this worker would share" \
				" it; keep an id in a cookie (Request::cookie(), Response::withCookie()) and the data in a database or cache"); \
			RETURN_THROWS(); \
		} \
		bool sets_handler = strcmp(#name, "session_set_save_handler") == 0 || strcmp(#name, "session_module_name") == 0; \
		call_session_function(original_##name, sets_handler, INTERNAL_FUNCTION_PARAM_PASSTHRU); \
		drop_unlocked_session(); \
	}
REFUSED(DEFINE_REFUSED)

#define SESSION_NONE 1
#define SESSION_ACTIVE 2

static zif_handler original_session_status;
static ZEND_NAMED_FUNCTION(wrapped_session_status)
{
	if (fermata_is_handlers() && is_anothers_session()) {
		RETURN_LONG(SESSION_NONE);
	}
	original_session_status(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Returns false with a MisuseError pending if the script has a session, which the workers would inherit. */
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

/* Must run before a script is compiled; see changes.c. */
void fermata_sessions_wrap(void)
{
#define WRAP_REFUSED(name, changes_something) fermata_wrap(CG(function_table), #name, refused_##name, &original_##name);
	REFUSED(WRAP_REFUSED)
#undef WRAP_REFUSED
	fermata_wrap(CG(function_table), "session_status", wrapped_session_status, &original_session_status);
	fermata_changes_wrap_session_settings(session_begin);
}
