/* Fermata\Server: settings and run(). Routes are in http/routes.c and sockets/route.c. */
#include "state/sapi_output.h"
#include "sockets/sockets.h"
#include "jobs/jobs.h"
#include "worker/worker.h"
#include "SAPI.h"
#include "php_ini.h"
#include "main/php_output.h"
#include "zend_closures.h"
#include "zend_enum.h"
#include "zend_extensions.h"
#include "zend_fibers.h"
#include "zend_interfaces.h"
#include "zend_smart_str.h"
#include "hooks/process.h"
#include "worker/sapi_name.h"
#include "base/optimize_size.h"
#include "worker/startup_errors.h"

#define INI_NAME_BYTES_MAX 128

static zend_object_handlers server_handlers;

#define THIS_SERVER() FERMATA_FROM(fermata_server, Z_OBJ_P(ZEND_THIS))

/* is_run: the script has called run(). is_to_restart: return value of Runtime::isToRestart(). */
static bool is_run, is_to_restart;

/* Warns about a script that prepared a server and finished without run(). */
void fermata_server_request_end(void)
{
	if (fermata_server_is_prepared() && !is_run && !EG(exit_status) && !fermata.forked && strcmp(sapi_module.name, "cli") == 0) {
		fputs("fermata: this script has prepared a Fermata\\Server and ended without run(), so nothing is served; "
			"write $server->run(); at its end\n", stderr);
	}
	fermata_server_forget_prepared();
	is_run = false;
}

/* Object lifetime */

static zend_object *server_create(zend_class_entry *ce)
{
	fermata_server *server = zend_object_alloc(sizeof(fermata_server), ce);
	memset(server, 0, XtOffsetOf(fermata_server, std));
	zend_object_std_init(&server->std, ce);
	server->std.handlers = &server_handlers;
	return &server->std;
}

static void server_free(zend_object *object)
{
	fermata_server *server = FERMATA_FROM(fermata_server, object);
	for (uint32_t i = 0; i < server->handlers_len; i++) {
		zval_ptr_dtor(&server->handlers[i].closure);
		fermata_route_free(&server->routes[i]);
	}
	if (server->handlers) {
		efree(server->handlers);
		efree(server->routes);
	}
	if (server->middleware) {
		zend_array_release(server->middleware);
	}
	zval_ptr_dtor(&server->not_found.closure);
	zval_ptr_dtor(&server->error.closure);
	zval_ptr_dtor(&server->on_message.closure);
	fermata_jobs_release(server->jobs);
	for (uint32_t i = 0; i < server->socket_routes_len; i++) {
		fermata_socket_route_free(&server->socket_routes[i]);
	}
	if (server->socket_routes) {
		efree(server->socket_routes);
	}
	fermata_trees_free(server);
	if (server->listed) {
		zend_array_release(server->listed);
	}
	fermata_every_free(server->every);
	if (server->core) {
		fm_server_free(server->core);
	}
	zend_object_std_dtor(object);
}

/* Handlers often capture the server, so the cycle collector must see them. */
static HashTable *server_get_gc(zend_object *object, zval **table, int *len)
{
	fermata_server *server = FERMATA_FROM(fermata_server, object);
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	for (uint32_t i = 0; i < server->handlers_len; i++) {
		zend_get_gc_buffer_add_zval(buffer, &server->handlers[i].closure);
		if (server->routes[i].group) {
			zend_get_gc_buffer_add_obj(buffer, server->routes[i].group);
		}
		fermata_gc_add_array(buffer, server->routes[i].middleware);
	}
	fermata_gc_add_array(buffer, server->middleware);
	zend_get_gc_buffer_add_zval(buffer, &server->not_found.closure);
	zend_get_gc_buffer_add_zval(buffer, &server->error.closure);
	zend_get_gc_buffer_add_zval(buffer, &server->on_message.closure);
	if (server->jobs) {
		fermata_jobs_gc(server->jobs, buffer);
	}
	for (uint32_t i = 0; i < server->socket_routes_len; i++) {
		fermata_socket_route_gc(&server->socket_routes[i], buffer);
	}
	for (uint32_t i = 0; i < server->trees_len; i++) {
		if (server->trees[i].group) {
			zend_get_gc_buffer_add_obj(buffer, server->trees[i].group);
		}
	}
	fermata_every_gc(server->every, buffer);
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

void fermata_server_init(void)
{
	fermata_ce_server->create_object = server_create;
	memcpy(&server_handlers, zend_get_std_object_handlers(), sizeof(server_handlers));
	server_handlers.offset = XtOffsetOf(fermata_server, std);
	server_handlers.free_obj = server_free;
	server_handlers.get_gc = server_get_gc;
	server_handlers.clone_obj = NULL;
	server_handlers.compare = zend_objects_not_comparable;
}

/* Settings */

/* Returns false with an exception pending. */
static bool set(fermata_server *server, FmStr setting, FmStr value, uint32_t source)
{
	FmError error;
	error.len = 0;
	uint32_t code = fm_server_set(server->core, setting, value, source, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		return false;
	}
	return true;
}

/* Passes a list as comma-separated text, as in the environment. Its elements are already checked to be strings. */
static bool set_list(fermata_server *server, FmStr setting, HashTable *list)
{
	smart_str text = {0};
	zval *element;
	ZEND_HASH_FOREACH_VAL(list, element) {
		if (text.s) {
			smart_str_appendc(&text, ',');
		}
		smart_str_append(&text, Z_STR_P(element));
	} ZEND_HASH_FOREACH_END();
	smart_str_0(&text);
	bool done = set(server, setting, text.s ? fermata_str(text.s) : FERMATA_LITERAL(""), FM_SOURCE_CODE);
	smart_str_free(&text);
	return done;
}

static bool set_zval(fermata_server *server, FmStr setting, zval *value)
{
	if (Z_TYPE_P(value) == IS_NULL || Z_TYPE_P(value) == IS_UNDEF) {
		return true;
	}
	if (Z_TYPE_P(value) == IS_TRUE || Z_TYPE_P(value) == IS_FALSE) {
		return set(server, setting, Z_TYPE_P(value) == IS_TRUE ? FERMATA_LITERAL("on") : FERMATA_LITERAL("off"), FM_SOURCE_CODE);
	}
	if (Z_TYPE_P(value) == IS_ARRAY) {
		return set_list(server, setting, Z_ARRVAL_P(value));
	}
	if (Z_TYPE_P(value) == IS_OBJECT) {
		value = zend_enum_fetch_case_value(Z_OBJ_P(value));
	}
	zend_string *text = zval_get_string(value);
	bool done = set(server, setting, fermata_str(text), FM_SOURCE_CODE);
	zend_string_release(text);
	return done;
}

static bool set_properties(fermata_server *server, zval *object)
{
	FmStr name;
	for (uint32_t i = 0; object && fermata_property_setting(Z_OBJCE_P(object), i, &name); i++) {
		if (!set_zval(server, name, OBJ_PROP_NUM(Z_OBJ_P(object), i))) {
			return false;
		}
	}
	return true;
}

/* Checks php.ini for unknown fermata.* names; the core's error suggests the right one. Returns false with an exception pending. */
static bool check_ini_names(fermata_server *server)
{
	zend_string *name;
	zval *value;
	ZEND_HASH_FOREACH_STR_KEY_VAL(php_ini_get_configuration_hash(), name, value) {
		if (name && zend_string_starts_with_literal(name, "fermata.") && !zend_hash_exists(EG(ini_directives), name)) {
			FmStr setting = {ZSTR_VAL(name) + sizeof("fermata.") - 1, ZSTR_LEN(name) - (sizeof("fermata.") - 1)};
			FmStr text = Z_TYPE_P(value) == IS_STRING ? fermata_str(Z_STR_P(value)) : FERMATA_LITERAL("");
			if (!set(server, setting, text, FM_SOURCE_INI)) {
				return false;
			}
		}
	} ZEND_HASH_FOREACH_END();
	return true;
}

/* Passes the INI settings that differ from the defaults to the core. */
static bool set_ini(fermata_server *server)
{
	FmStr name, fallback, doc;
	for (size_t i = 0; fm_setting_at(i, &name, &fallback, &doc); i++) {
		char ini_name[INI_NAME_BYTES_MAX];
		size_t len = fermata_copy(ini_name, sizeof(ini_name), "fermata.", name);
		zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), ini_name, len);
		if (!entry || !entry->value || zend_string_equals_cstr(entry->value, fallback.ptr, fallback.len)) {
			continue;
		}
		if (!set(server, name, fermata_str(entry->value), FM_SOURCE_INI)) {
			return false;
		}
	}
	return true;
}

ZEND_METHOD(Fermata_Server, __construct)
{
	zend_string *listen = NULL, *control = NULL, *metrics = NULL, *grip_url = NULL, *cluster = NULL;
	HashTable *listens = NULL, *proxies = NULL, *proxy_headers = NULL;
	zend_long workers = 0;
	bool workers_null = true;
	zval *limits = NULL, *history = NULL, *log = NULL, *tls = NULL, *access_log = NULL, count;
	ZEND_PARSE_PARAMETERS_START(0, 13)
		Z_PARAM_OPTIONAL
		Z_PARAM_ARRAY_HT_OR_STR_OR_NULL(listens, listen)
		Z_PARAM_LONG_OR_NULL(workers, workers_null)
		Z_PARAM_STR_OR_NULL(control)
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(limits, fermata_ce_limits)
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(history, fermata_ce_history)
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(log, fermata_ce_log)
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(tls, fermata_ce_tls)
		Z_PARAM_ARRAY_HT_OR_NULL(proxies)
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(access_log, fermata_ce_access_log)
		Z_PARAM_STR_OR_NULL(metrics)
		Z_PARAM_STR_OR_NULL(grip_url)
		Z_PARAM_ARRAY_HT_OR_NULL(proxy_headers)
		Z_PARAM_STR_OR_NULL(cluster)
	ZEND_PARSE_PARAMETERS_END();
	fermata_fill_standard_streams();
	if ((listens && !fermata_strings_check(listens, 1)) || (proxies && zend_hash_num_elements(proxies) && !fermata_strings_check(proxies, 8))
		|| (proxy_headers && !fermata_strings_check(proxy_headers, 12))) {
		RETURN_THROWS();
	}

	fermata_server *server = THIS_SERVER();
	if (server->constructed && !fermata_constructed_twice()) {
		RETURN_THROWS();
	}
	server->constructed = true;
	server->core = fm_server_new();
	if (!server->core) {
		zend_throw_error(NULL, "Fermata's core could not be started");
		RETURN_THROWS();
	}
	ZVAL_LONG(&count, workers);
	if (!check_ini_names(server) || !set_ini(server)
		|| (listen && !set(server, FERMATA_LITERAL("listen"), fermata_str(listen), FM_SOURCE_CODE))
		|| (listens && !set_list(server, FERMATA_LITERAL("listen"), listens))
		|| (!workers_null && !set_zval(server, FERMATA_LITERAL("workers"), &count))
		|| (control && !set(server, FERMATA_LITERAL("control"), fermata_str(control), FM_SOURCE_CODE))
		|| (proxies && !set_list(server, FERMATA_LITERAL("trusted_proxies"), proxies))
		|| (proxy_headers && !set_list(server, FERMATA_LITERAL("proxy_headers"), proxy_headers))
		|| !set_properties(server, limits)
		|| !set_properties(server, history)
		|| !set_properties(server, log)
		|| !set_properties(server, access_log)
		|| (metrics && !set(server, FERMATA_LITERAL("metrics_listen"), fermata_str(metrics), FM_SOURCE_CODE))
		|| (grip_url && !set(server, FERMATA_LITERAL("grip_url"), fermata_str(grip_url), FM_SOURCE_CODE))
		|| (cluster && !set(server, FERMATA_LITERAL("cluster"), fermata_str(cluster), FM_SOURCE_CODE))
		|| !set_properties(server, tls)
		|| !fermata_sapi_name_configure()) {
		RETURN_THROWS();
	}
}

/* Routes */

/* Running */

/* Returns false with a MisuseError pending. */
static bool run_check(const fermata_server *server)
{
	if (!fermata_server_check_open(server)) {
		return false;
	}
	if (strcmp(sapi_module.name, "cli") != 0) {
		fermata_misuse("run() needs the command line, php server.php; this is PHP's %s", sapi_module.name);
		return false;
	}
	if (EG(active_fiber)) {
		fermata_misuse("run() must be called outside of a Fiber; handlers may use Fibers as they like");
		return false;
	}
	if (fermata.worker) {
		fermata_misuse(fermata_is_in_process() ? "another server runs in this process for a test; stop that one first"
			: "a worker of one server cannot run another; start it in its own process");
		return false;
	}
	return true;
}

/* Passes the layout of PHP's frames, with which the master finds the current line of a handler that blocks its worker's loop. */
static void set_frames(FmServer *core)
{
	FmFrames frames = {
		.current = (uintptr_t)&EG(current_execute_data),
		.frame_function = XtOffsetOf(zend_execute_data, func),
		.frame_instruction = XtOffsetOf(zend_execute_data, opline),
		.frame_caller = XtOffsetOf(zend_execute_data, prev_execute_data),
		.function_kind = XtOffsetOf(zend_function, type),
		.kind_native = ZEND_INTERNAL_FUNCTION,
		.function_name = XtOffsetOf(zend_function, common.function_name),
		.function_class = XtOffsetOf(zend_function, common.scope),
		.function_file = XtOffsetOf(zend_function, op_array.filename),
		.function_first_line = XtOffsetOf(zend_function, op_array.line_start),
		.function_last_line = XtOffsetOf(zend_function, op_array.line_end),
		.class_name = XtOffsetOf(zend_class_entry, name),
		.instruction_line = XtOffsetOf(zend_op, lineno),
		.string_length = XtOffsetOf(zend_string, len),
		.string_bytes = XtOffsetOf(zend_string, val),
	};
	fm_server_frames(core, &frames);
}

/* Sets the banner's text about PHP, and warns if OPcache is loaded but disabled. */
static void set_program(FmServer *core)
{
	char name[128];
	bool loaded = zend_get_extension("Zend OPcache") != NULL;
	bool on = loaded && INI_BOOL("opcache.enable") && INI_BOOL("opcache.enable_cli");
	const char *jit = on ? INI_STR("opcache.jit") : NULL;
	const char *size = on ? INI_STR("opcache.jit_buffer_size") : NULL;
	bool jits = jit && size && *size && *size != '0' && *jit && *jit != '0' && strcasecmp(jit, "off") && strcasecmp(jit, "disable");
	int len = snprintf(name, sizeof(name), "PHP %s, opcache %s, JIT %s", PHP_VERSION, on ? "on" : "off", jits ? "on" : "off");
	fm_server_program(core, (FmStr){name, MIN((size_t)len, sizeof(name) - 1)});
	if (loaded && !on) {
		fm_server_warn(core, FERMATA_LITERAL("opcache is loaded but off here; set opcache.enable_cli=1 to run handlers optimised"));
	}
}

ZEND_METHOD(Fermata_Server, routes)
{
	ZEND_PARSE_PARAMETERS_NONE();
	/* A tool that lists routes does not call run(), so suppress the warning that run() was not called. */
	fermata_server_forget_prepared();
	fermata_server *server = THIS_SERVER();
	if (!server->listed) {
		RETURN_EMPTY_ARRAY();
	}
	RETURN_ARR(zend_array_dup(server->listed));
}

/* Calls the development tool before the server binds: the file in FERMATA_DEVELOPMENT returns a function, which receives the
 * server. Returns false with an exception pending. */
static bool call_tool(fermata_server *server)
{
	const char *path = getenv("FERMATA_DEVELOPMENT");
	if (!path || !*path) {
		return true;
	}
	zend_file_handle file;
	zval tool, argument, result;
	ZVAL_UNDEF(&tool);
	zend_stream_init_filename(&file, path);
	zend_result done = zend_execute_scripts(ZEND_REQUIRE, &tool, 1, &file);
	zend_destroy_file_handle(&file);
	if (done == SUCCESS && !EG(exception)) {
		ZVAL_OBJ(&argument, &server->std);
		ZVAL_UNDEF(&result);
		if (!zend_is_callable(&tool, 0, NULL)) {
			fermata_misuse("%s: the file that FERMATA_DEVELOPMENT names returns no function; fermata dev sets it", path);
		} else {
			call_user_function(NULL, NULL, &tool, &result, 1, &argument);
			zval_ptr_dtor(&result);
		}
	}
	zval_ptr_dtor(&tool);
	return !EG(exception);
}

FmServer *fermata_server_take(fermata_server *server)
{
	is_run = true;
	if (!run_check(server) || !fermata_session_check() || !fermata_middleware_compose(server)) {
		return NULL;
	}
	FmServer *core = server->core;
	server->core = NULL;
	fermata_process_share_environment();
	return core;
}

ZEND_METHOD(Fermata_Server, run)
{
	FmStart start = {0};
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_server *server = THIS_SERVER();
	is_run = true;
	if (!run_check(server) || !fermata_session_check() || !call_tool(server) || !fermata_middleware_compose(server)) {
		RETURN_THROWS();
	}
	/* Write buffered output now; otherwise every forked worker would write it again. */
	php_output_flush_all();
	fflush(NULL);
	fermata_fill_standard_streams();

	FmServer *core = server->core;
	server->core = NULL;
	set_frames(core);
	set_program(core);
	if (!fermata_jobs_open(server, core) || !fermata_peers_open(server, fm_server_workers(core))) {
		fm_server_free(core);
		fermata_jobs_end(server, 0);
		RETURN_THROWS();
	}
	fermata_process_share_environment();
	uint32_t code = fm_server_start(core, &start, &error);
	if (start.worker || start.companion) {
		fermata_startup_errors_drop();
	}
	if (start.worker) {
		fermata_run_worker(server, &start);
		return;
	}
	fermata_peers_close();
	if (start.companion) {
		fermata_jobs_supervise(server, start.companion);
		return;
	}
	fermata_jobs_end(server, start.companion_pid);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	EG(exit_status) = start.exit_code;
	is_to_restart = start.is_to_restart;
}

ZEND_METHOD(Fermata_Runtime, replaceWorker)
{
	ZEND_PARSE_PARAMETERS_NONE();

	if (UNEXPECTED(!fermata.worker)) {
		fermata_misuse("Runtime::replaceWorker() replaces a worker of a server, and this process is none");
		RETURN_THROWS();
	}
	if (!fermata_is_retired() && !fermata_is_stopped()) {
		fm_worker_replace(fermata.worker);
	}
}

ZEND_METHOD(Fermata_Runtime, isToRestart)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(is_to_restart);
}
