/* The module: start-up, settings, `php --ri fermata`. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "php_fermata.h"
#include "php_ini.h"
#include "ext/standard/info.h"
#include "ext/spl/spl_exceptions.h"
#include "zend_enum.h"
#include "zend_exceptions.h"
#include "zend_observer.h"
#include "fermata_arginfo.h"

#define INI_NAME_BYTES_MAX 128

fermata_state fermata;
fermata_strings fermata_known;

zend_class_entry *fermata_ce_server, *fermata_ce_limits, *fermata_ce_history, *fermata_ce_log;
zend_class_entry *fermata_ce_log_format, *fermata_ce_log_level, *fermata_ce_slow_policy, *fermata_ce_same_site;
zend_class_entry *fermata_ce_request, *fermata_ce_response, *fermata_ce_hold;
zend_class_entry *fermata_ce_event, *fermata_ce_channel, *fermata_ce_member, *fermata_ce_publisher;
zend_class_entry *fermata_ce_misuse, *fermata_ce_configuration, *fermata_ce_backpressure;
zend_class_entry *fermata_ce_bad_request, *fermata_ce_connection, *fermata_ce_timeout;

void fermata_error_seen(int type, zend_string *file, uint32_t line, zend_string *message);

static void register_exceptions(void)
{
	zend_class_entry *common = register_class_Fermata_Exception_FermataException(zend_ce_throwable);
	zend_class_entry *runtime = spl_ce_RuntimeException;
	fermata_ce_misuse = register_class_Fermata_Exception_MisuseError(zend_ce_error, common);
	fermata_ce_configuration = register_class_Fermata_Exception_ConfigurationException(runtime, common);
	fermata_ce_backpressure = register_class_Fermata_Exception_BackpressureException(runtime, common);
	fermata_ce_bad_request = register_class_Fermata_Exception_BadRequestException(runtime, common);
	fermata_ce_connection = register_class_Fermata_Exception_ConnectionException(runtime, common);
	fermata_ce_timeout = register_class_Fermata_Exception_TimeoutException(runtime, common);
}

static void register_classes(void)
{
	register_exceptions();
	fermata_ce_server = register_class_Fermata_Server();
	fermata_server_init();
	fermata_ce_limits = register_class_Fermata_Limits();
	fermata_ce_history = register_class_Fermata_History();
	fermata_ce_log = register_class_Fermata_Log();
	fermata_ce_log_format = register_class_Fermata_LogFormat();
	fermata_ce_log_level = register_class_Fermata_LogLevel();
	fermata_ce_slow_policy = register_class_Fermata_SlowPolicy();
	fermata_ce_same_site = register_class_Fermata_SameSite();
	fermata_ce_request = register_class_Fermata_Request();
	fermata_request_init();
	fermata_ce_response = register_class_Fermata_Response();
	fermata_response_init();
	fermata_ce_hold = register_class_Fermata_Hold();
	fermata_hold_init();
	fermata_ce_event = register_class_Fermata_Event();
	fermata_ce_channel = register_class_Fermata_Channel();
	fermata_ce_member = register_class_Fermata_Member();
	fermata_ce_publisher = register_class_Fermata_Publisher();
	fermata_publisher_init();
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
	fermata_known.type_json = known("application/json");
	fermata_known.type_text = known("text/plain; charset=utf-8");
	fermata_known.type_html = known("text/html; charset=utf-8");
}

/* The settings are declared in the core, once for all surfaces; PHP copies names and values. */
static void register_settings(int type, int module_number)
{
	FmStr name, value, doc;
	for (size_t i = 0; fm_setting_at(i, &name, &value, &doc); i++) {
		char ini_name[INI_NAME_BYTES_MAX], ini_value[INI_NAME_BYTES_MAX];
		int name_len = snprintf(ini_name, sizeof(ini_name), "fermata.%.*s", (int)name.len, name.ptr);
		int value_len = snprintf(ini_value, sizeof(ini_value), "%.*s", (int)value.len, value.ptr);
		zend_ini_entry_def entry[] = {
			{.name = ini_name, .name_length = name_len, .value = ini_value, .value_length = value_len, .modifiable = PHP_INI_SYSTEM},
			{0},
		};
		zend_register_ini_entries_ex(entry, module_number, type);
	}
}

PHP_MINIT_FUNCTION(fermata)
{
	register_settings(type, module_number);
	register_strings();
	register_classes();
	zend_observer_error_register(fermata_error_seen);
	return SUCCESS;
}

PHP_MSHUTDOWN_FUNCTION(fermata)
{
	UNREGISTER_INI_ENTRIES();
	return SUCCESS;
}

PHP_MINFO_FUNCTION(fermata)
{
	FmStr name, value;
	char column[2][512];
	php_info_print_table_start();
	php_info_print_table_row(2, "Fermata", PHP_FERMATA_VERSION);
	for (size_t i = 0; fm_info_at(i, &name, &value); i++) {
		snprintf(column[0], sizeof(column[0]), "%.*s", (int)name.len, name.ptr);
		snprintf(column[1], sizeof(column[1]), "%.*s", (int)value.len, value.ptr);
		php_info_print_table_row(2, column[0], column[1]);
	}
	php_info_print_table_end();
	DISPLAY_INI_ENTRIES();
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
	NULL,
	PHP_MINIT(fermata),
	PHP_MSHUTDOWN(fermata),
	NULL,
	NULL,
	PHP_MINFO(fermata),
	PHP_FERMATA_VERSION,
	STANDARD_MODULE_PROPERTIES,
};

#ifdef COMPILE_DL_FERMATA
ZEND_GET_MODULE(fermata)
#endif
