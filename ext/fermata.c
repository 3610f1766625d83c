/* The PHP module: start, INI settings, classes, and `php --ri fermata`. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "php_fermata.h"
#include "state/quiet.h"
#include "clients/clients.h"
#include "channels/channels.h"
#include "sockets/sockets.h"
#include "jobs/jobs.h"
#include "worker/worker.h"
#include "state/changes.h"
#include "hooks/process.h"
#include "worker/sapi_name.h"
#include "hooks/hooks.h"
#include "state/sapi_output.h"
#include "fibers/callbacks.h"
#include "files/files.h"
#include "state/last_errors.h"
#include "state/php_state.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
#include "SAPI.h"
#include "php_ini.h"
#include "ext/standard/info.h"
#include "ext/json/php_json.h"
#include "ext/spl/spl_exceptions.h"
#include "zend_attributes.h"
#include "zend_enum.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"
#include "zend_observer.h"
#include "worker/startup_errors.h"
#include "fermata_arginfo.h"

#define INI_NAME_BYTES_MAX 128
#define INFO_BYTES_MAX 512

#ifdef ZTS
ZEND_TSRMLS_CACHE_DEFINE()
#endif

void fermata_error_seen(int type, zend_string *file, uint32_t line, zend_string *message);

static void register_exceptions(void)
{
	zend_class_entry *common = register_class_Fermata_Exception_FermataException(zend_ce_throwable);
	zend_class_entry *runtime = spl_ce_RuntimeException;
	fermata_ce_misuse = register_class_Fermata_Exception_MisuseError(zend_ce_error, common);
	fermata_ce_configuration = register_class_Fermata_Exception_ConfigurationException(runtime, common);
	fermata_ce_backpressure = register_class_Fermata_Exception_BackpressureException(runtime, common);
	fermata_ce_bad_request = register_class_Fermata_Exception_BadRequestException(runtime, common);
	fermata_ce_upload_failed = register_class_Fermata_Exception_UploadException(runtime, common);
	fermata_ce_connection_closed = register_class_Fermata_Exception_ConnectionClosedException(runtime, common);
	fermata_ce_connection = register_class_Fermata_Exception_ConnectionException(runtime, common);
	fermata_ce_timeout = register_class_Fermata_Exception_TimeoutException(runtime, common);
	fermata_ce_protocol = register_class_Fermata_Exception_ProtocolException(runtime, common);
	fermata_ce_file_failure = register_class_Fermata_Exception_FileException(runtime, common);
	fermata_ce_cancelled = register_class_Fermata_Exception_CancelledException(runtime, common);
	fermata_ce_client_gone = register_class_Fermata_Exception_ClientGoneException(fermata_ce_cancelled);
	fermata_ce_shared_transaction = register_class_Fermata_Exception_SharedTransactionException(runtime, common);
	fermata_ce_queue_closed = register_class_Fermata_Exception_QueueClosedException(runtime, common);
	fermata_ce_gap = register_class_Fermata_Exception_GapException(runtime, common);
	fermata_ce_job_failed = register_class_Fermata_Exception_JobFailedException(runtime, common);
	fermata_ce_job_crashed = register_class_Fermata_Exception_JobCrashedException(runtime, common);
}

static void register_websocket_classes(void)
{
	fermata_ce_websocket_handler = register_class_Fermata_WebSocketHandler();
	fermata_ce_websocket = register_class_Fermata_WebSocket();
	fermata_websocket_init();
	fermata_ce_upgrade = register_class_Fermata_WebSocket_Upgrade();
	fermata_upgrade_init();
	fermata_ce_message = register_class_Fermata_WebSocket_Message(zend_ce_stringable, php_json_serializable_ce);
	fermata_message_init();
	fermata_ce_queue_policy = register_class_Fermata_WebSocket_QueuePolicy();
	fermata_ce_format = register_class_Fermata_WebSocket_Format();
	fermata_ce_options = register_class_Fermata_WebSocket_Options();
	fermata_ce_compression = register_class_Fermata_WebSocket_Compression();
}

static void register_waiting_classes(void)
{
	fermata_ce_future = register_class_Fermata_Future();
	fermata_tasks_init();
	fermata_ce_cancellation = register_class_Fermata_Cancellation();
	fermata_cancellation_init();
	register_class_Fermata_Context();
	fermata_ce_hook = register_class_Fermata_Hook();
	register_class_Fermata_Runtime();
	fermata_ce_mutex = register_class_Fermata_Sync_Mutex();
	fermata_ce_pool = register_class_Fermata_Pool();
	fermata_pool_init();
	fermata_ce_table = register_class_Fermata_Table(zend_ce_countable, zend_ce_aggregate);
	fermata_ce_table_type = register_class_Fermata_Table_Type();
	fermata_ce_table_column = register_class_Fermata_Table_Column();
	fermata_table_init();
	fermata_ce_semaphore = register_class_Fermata_Sync_Semaphore();
	fermata_sync_init();
	fermata_ce_queue = register_class_Fermata_Sync_Queue(zend_ce_countable, zend_ce_aggregate);
	fermata_queue_init();
	fermata_ce_jobs = register_class_Fermata_Jobs();
	fermata_jobs_init();
	fermata_ce_worker = register_class_Fermata_Worker();
	fermata_ce_engine = register_class_Fermata_Testing_Engine();
	fermata_in_process_init();
	fermata_ce_poll = register_class_Fermata_Poll();
	fermata_poll_init();
}

static void register_file_classes(void)
{
	zend_class_entry *failure = fermata_ce_file_failure;
	fermata_ce_file_not_found = register_class_Fermata_Exception_FileNotFoundException(failure);
	fermata_ce_access_denied = register_class_Fermata_Exception_AccessDeniedException(failure);
	fermata_ce_file_exists = register_class_Fermata_Exception_FileExistsException(failure);
	fermata_ce_disk_full = register_class_Fermata_Exception_DiskFullException(failure);
	fermata_ce_is_directory = register_class_Fermata_Exception_IsDirectoryException(failure);
	fermata_ce_not_directory = register_class_Fermata_Exception_NotDirectoryException(failure);
	fermata_ce_directory_not_empty = register_class_Fermata_Exception_DirectoryNotEmptyException(failure);
	fermata_ce_write_mode = register_class_Fermata_File_WriteMode();
	fermata_ce_open_mode = register_class_Fermata_File_OpenMode();
	fermata_ce_file_type = register_class_Fermata_File_Type();
	fermata_ce_file_stat = register_class_Fermata_File_Stat();
	fermata_ce_pieces = register_class_Fermata_File_Pieces(zend_ce_iterator);
	fermata_pieces_init();
	fermata_ce_file = register_class_Fermata_File();
	fermata_file_handle_init();
}

static void register_classes(void)
{
	register_exceptions();
	register_file_classes();
	fermata_ce_server = register_class_Fermata_Server();
	fermata_server_init();
	fermata_ce_routes = register_class_Fermata_Routes();
	fermata_routes_init();
	fermata_ce_next = register_class_Fermata_Next();
	fermata_middleware_init();
	fermata_ce_uploaded_file = register_class_Fermata_UploadedFile();
	fermata_uploaded_file_init();
	fermata_ce_limits = register_class_Fermata_Limits();
	fermata_ce_history = register_class_Fermata_History();
	fermata_ce_log = register_class_Fermata_Log();
	fermata_ce_access_log = register_class_Fermata_AccessLog();
	fermata_ce_access_log_format = register_class_Fermata_AccessLogFormat();
	fermata_ce_tls = register_class_Fermata_Tls();
	fermata_ce_tls_version = register_class_Fermata_TlsVersion();
	fermata_ce_client_certificate = register_class_Fermata_ClientCertificate();
	fermata_ce_trace = register_class_Fermata_Trace();
	fermata_ce_log_format = register_class_Fermata_LogFormat();
	fermata_ce_log_level = register_class_Fermata_LogLevel();
	fermata_ce_slow_policy = register_class_Fermata_SlowPolicy();
	fermata_ce_ack = register_class_Fermata_Ack();
	fermata_ce_same_site = register_class_Fermata_SameSite();
	fermata_ce_request = register_class_Fermata_Request();
	fermata_request_init();
	fermata_globals_init();
	fermata_ce_response = register_class_Fermata_Response();
	fermata_response_init();
	fermata_ce_event_sink = register_class_Fermata_EventSink();
	fermata_events_init();
	fermata_ce_hold = register_class_Fermata_Hold();
	fermata_hold_init();
	fermata_ce_event = register_class_Fermata_Event();
	fermata_ce_channel = register_class_Fermata_Channel();
	fermata_ce_channel_reader = register_class_Fermata_ChannelReader(zend_ce_aggregate);
	fermata_reader_init();
	fermata_ce_member = register_class_Fermata_Member();
	fermata_ce_publisher = register_class_Fermata_Publisher();
	fermata_publisher_init();
	register_waiting_classes();
	register_websocket_classes();
	fermata_ce_webhook = register_class_Fermata_Pusher_Webhook();
	fermata_ce_webhook_event = register_class_Fermata_Pusher_WebhookEvent();
	fermata_ce_pusher = register_class_Fermata_Pusher();
	fermata_pusher_init();
	fermata_ce_mercure_algorithm = register_class_Fermata_Mercure_Algorithm();
	fermata_ce_mercure = register_class_Fermata_Mercure();
	fermata_mercure_init();
	register_class_Fermata_WebSocket_Codec();
	fermata_ce_client = register_class_Fermata_WebSocket_Client();
	fermata_client_init();
	fermata_ce_frame = register_class_Fermata_WebSocket_Frame();
	fermata_ce_opcode = register_class_Fermata_WebSocket_Opcode();
	fermata_ce_close_code = register_class_Fermata_WebSocket_CloseCode();
}

static zend_string *known(const char *text)
{
	return zend_string_init_interned(text, strlen(text), true);
}

static void register_strings(void)
{
	static const char *const methods[] = {"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"};
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		fermata_known.method[i] = known(methods[i]);
	}
	fermata_known.content_type = known("Content-Type");
	fermata_known.set_cookie = known("Set-Cookie");
	fermata_known.location = known("Location");
	fermata_known.content_disposition = known("Content-Disposition");
	fermata_known.type_binary = known("application/octet-stream");
	fermata_known.type_json = known("application/json");
	fermata_known.type_text = known("text/plain; charset=utf-8");
	fermata_known.type_html = known("text/html; charset=utf-8");
	fermata_known.type_page = known("text/html; charset=UTF-8");
}

/* Registers the core's settings as INI entries. PHP copies names and values. */
static void register_settings(int type, int module_number)
{
	FmStr name, value, doc;
	for (size_t i = 0; fm_setting_at(i, &name, &value, &doc); i++) {
		char ini_name[INI_NAME_BYTES_MAX], ini_value[INI_NAME_BYTES_MAX];
		size_t name_len = fermata_copy(ini_name, sizeof(ini_name), "fermata.", name);
		size_t value_len = fermata_copy(ini_value, sizeof(ini_value), "", value);
		zend_ini_entry_def entry[] = {
			{.name = ini_name, .name_length = name_len, .value = ini_value, .value_length = value_len, .modifiable = PHP_INI_SYSTEM},
			{0},
		};
		zend_register_ini_entries_ex(entry, module_number, type);
	}
}

static void forked(void)
{
	fermata.forked = true;
	fermata.forks++;
	fermata_codec_forked();
}

/* Registers all parts with state per handler (handler/parts.h), in the order in which they are suspended and cleaned up. */
static void register_parts(void)
{
	fermata_fibers_init();
	fermata_watches_init();
	fermata_request_init_part();
	fermata_response_init_part();
	fermata_quiet_init();
	/* Resumed last, because resuming the other parts may cause errors. */
	fermata_last_errors_init();
	fermata_changes_init();
	/* Undone after PHP's state and before the changes, which restore the superglobals. */
	fermata_globals_init_part();
	fermata_php_state_init();
	fermata_magic_init();
	fermata_sapi_output_init();
	fermata_sqlite_init();
	fermata_hook_streams_init();
	/* Moves the state of the following parts between two pieces of a body. */
	fermata_streams_init();
	fermata_conversations_init();
	fermata_sync_init_part();
	fermata_turns_init();
	fermata_cursors_init();
	fermata_owners_init();
	fermata_guards_init_part();
	fermata_awaited_init();
	fermata_waits_init();
	fermata_calls_init();
	fermata_spawn_init();
	fermata_callbacks_init();
	/* Parts clean up in this order. The guards start tasks that roll back transactions, so the tasks follow. */
	fermata_tasks_init_part();
	fermata_context_init();
	fermata_middleware_init_part();
	fermata_socket_runner_init();
	fermata_file_jobs_init();
	fermata_publishing_init();
}

PHP_MINIT_FUNCTION(fermata)
{
#ifdef ZTS
	if (strcmp(sapi_module.name, "cli") != 0) {
		zend_error(E_CORE_WARNING,
			"Fermata: this PHP has threads (ZTS) and runs as %s, where the extension would mix up requests, as it keeps one state "
			"per process; it works for the command line only: take \"extension=fermata\" out of the php.ini that %s reads",
			sapi_module.name, sapi_module.name);
		return FAILURE;
	}
	ZEND_TSRMLS_CACHE_UPDATE();
#endif
	if (strcmp(sapi_module.name, "cli") == 0) {
		/* Before PHP opens the script. */
		fermata_fill_standard_streams();
	}
	register_settings(type, module_number);
	register_strings();
	register_parts();
	register_classes();
	fermata_guards_init();
	fermata_process_init();
	zend_observer_error_register(fermata_error_seen);
	pthread_atfork(NULL, NULL, forked);
	return SUCCESS;
}

PHP_MSHUTDOWN_FUNCTION(fermata)
{
	UNREGISTER_INI_ENTRIES();
	fermata_sapi_name_shutdown();
	fermata_mercure_shutdown();
	return PHP_MSHUTDOWN(fermata_hooks)(SHUTDOWN_FUNC_ARGS_PASSTHRU);
}

PHP_RINIT_FUNCTION(fermata)
{
	if (strcmp(sapi_module.name, "cli") == 0) {
		fermata_sapi_name_start();
		fermata_process_wrap();
		fermata_changes_wrap();
		fermata_sapi_output_wrap();
		fermata_sessions_wrap();
		fermata_cursors_wrap();
		fermata_input_wrap();
		fermata_guards_wrap();
		fermata_startup_errors_start();
	}
	return SUCCESS;
}

PHP_RSHUTDOWN_FUNCTION(fermata)
{
	fermata_server_request_end();
	fermata_sapi_name_end();
	fermata_startup_errors_end();
	fermata_codec_request_end();
	fermata_globals_request_end();
	fermata_websocket_release_all();
	fermata_runner_request_end();
	return SUCCESS;
}

/* Returns the value that a server would use without a constructor argument, and its source. */
static const char *effective(FmStr name, const char **source)
{
	char text[INI_NAME_BYTES_MAX];
	size_t len = fermata_copy(text, sizeof(text), "FERMATA_", name);
	zend_str_toupper(text, len);
	const char *environment = getenv(text);
	if (environment) {
		*source = "environment";
		return environment;
	}
	len = fermata_copy(text, sizeof(text), "fermata.", name);
	zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), text, len);
	if (!entry || !entry->value) {
		return NULL;
	}
	return ZSTR_VAL(entry->value);
}

static void print_row(FmStr name, const char *value, const char *source)
{
	char column[INI_NAME_BYTES_MAX];
	fermata_copy(column, sizeof(column), "", name);
	if (source) {
		php_info_print_table_row(3, column, value, source);
	} else {
		php_info_print_table_row(2, column, value);
	}
}

/* Prints the core's rows of kernel features. The rows after them are settings; print_settings() prints these with their source. */
static void print_features(void)
{
	FmStr name, value, setting, fallback, doc;
	char text[INFO_BYTES_MAX];
	bool any = fm_setting_at(0, &setting, &fallback, &doc);
	for (size_t i = 0; fm_info_at(i, &name, &value); i++) {
		if (any && name.len == setting.len && memcmp(name.ptr, setting.ptr, name.len) == 0) {
			return;
		}
		fermata_copy(text, sizeof(text), "", value);
		print_row(name, text, NULL);
	}
}

/* Returns the value with its secrets masked, since phpinfo() may be public. The caller frees it. */
static char *masked(const char *value)
{
	FmStr text = {value, strlen(value)};
	size_t len = fm_mask_secrets(text, NULL, 0);
	char *copy = emalloc(len + 1);
	fm_mask_secrets(text, copy, len);
	copy[len] = 0;
	return copy;
}

/* Returns true for settings whose entire value is a secret. */
static bool is_secret(FmStr name)
{
	static const char ending[] = "_password";
	const size_t len = sizeof(ending) - 1;
	return name.len > len && memcmp(name.ptr + name.len - len, ending, len) == 0;
}

static void print_settings(void)
{
	FmStr name, fallback, doc;
	for (size_t i = 0; fm_setting_at(i, &name, &fallback, &doc); i++) {
		const char *source = NULL, *value = effective(name, &source);
		if (!source) {
			bool is_default = !value || (strlen(value) == fallback.len && memcmp(value, fallback.ptr, fallback.len) == 0);
			source = is_default ? "default" : "ini";
		}
		bool is_given = value && *value;
		char *shown = is_given && is_secret(name) ? estrdup("***") : masked(is_given ? value : "(none)");
		print_row(name, shown, source);
		efree(shown);
	}
	if (getenv("PORT") && !getenv("FERMATA_LISTEN")) {
		print_row(FERMATA_LITERAL("listen (port)"), getenv("PORT"), "environment");
	}
}

PHP_MINFO_FUNCTION(fermata)
{
	php_info_print_table_start();
	php_info_print_table_row(2, "Fermata", PHP_FERMATA_VERSION);
	print_features();
	php_info_print_table_end();
	php_info_print_table_start();
	php_info_print_table_header(3, "Setting (INI: fermata.*)", "Effective value", "From");
	print_settings();
	php_info_print_table_end();
	PHP_MINFO(fermata_hooks)(ZEND_MODULE_INFO_FUNC_ARGS_PASSTHRU);
}

static const zend_module_dep dependencies[] = {
	ZEND_MOD_REQUIRED("json")
	ZEND_MOD_REQUIRED("random")
	ZEND_MOD_REQUIRED("spl")
	ZEND_MOD_REQUIRED("standard")
	ZEND_MOD_END
};

zend_module_entry fermata_module_entry = {
	STANDARD_MODULE_HEADER_EX,
	NULL,
	dependencies,
	"fermata",
	ext_functions,
	PHP_MINIT(fermata),
	PHP_MSHUTDOWN(fermata),
	PHP_RINIT(fermata),
	PHP_RSHUTDOWN(fermata),
	PHP_MINFO(fermata),
	PHP_FERMATA_VERSION,
	STANDARD_MODULE_PROPERTIES,
};

#ifdef COMPILE_DL_FERMATA
/* Explains PHP's warning "module already loaded": logs the name of the file in use. Of two extensions with the same name PHP keeps
 * the first, and does not report its file. */
static void warn_other(const zend_module_entry *first)
{
	Dl_info used, unused;
	if (!dladdr((void *)(uintptr_t)first->module_startup_func, &used) || !dladdr((void *)(uintptr_t)zm_startup_fermata, &unused)) {
		return;
	}
	if (strcmp(used.dli_fname, unused.dli_fname) == 0) {
		zend_error(E_CORE_WARNING, "%s is named twice, in php.ini or its folder and on the command line; remove one", used.dli_fname);
	} else {
		zend_error(E_CORE_WARNING, "%s is used, and %s is not, because it comes second; remove one from php.ini, its folder or the "
			"command line", used.dli_fname, unused.dli_fname);
	}
}

ZEND_DLEXPORT zend_module_entry *get_module(void)
{
	const zend_module_entry *first = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("fermata"));
	if (first) {
		warn_other(first);
	}
	return &fermata_module_entry;
}
#endif
