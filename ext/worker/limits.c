/* Fermata\Limits, History, Log, AccessLog and the settings of Tls: readonly values. Each property stores a constructor argument and
 * corresponds to a setting. */
#include "worker/worker.h"
#include "base/optimize_size.h"

#define SETTING(name) {name, sizeof(name) - 1}
/* In the order of the stub's properties. */
static const FmStr limits_settings[] = {
	SETTING("connections_max"), SETTING("connections_per_address_max"), SETTING("header_bytes_max"),
	SETTING("body_bytes_max"), SETTING("queue_bytes_max"), SETTING("event_bytes_max"), SETTING("header_timeout_ms"),
	SETTING("body_timeout_ms"), SETTING("idle_timeout_ms"), SETTING("write_timeout_ms"), SETTING("drain_timeout_ms"),
	SETTING("handlers_max"),
};
static const FmStr history_settings[] = {
	SETTING("history_count_max"), SETTING("history_age_ms_max"), SETTING("history_bytes_max"), SETTING("history_path"),
};
static const FmStr log_settings[] = {SETTING("log_format"), SETTING("log_level")};
static const FmStr access_log_settings[] = {SETTING("access_log"), SETTING("access_log_format"), SETTING("access_log_query")};
static const FmStr tls_settings[] = {
	SETTING("tls_certificate"), SETTING("tls_key"), SETTING("tls_client_ca"), SETTING("tls_client_required"),
	SETTING("tls_version_min"), SETTING("tls_development"),
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Returns the setting of a property; false after the last property. */
bool fermata_property_setting(const zend_class_entry *ce, uint32_t number, FmStr *setting)
{
	const FmStr *settings = limits_settings;
	size_t len = COUNT(limits_settings);
	if (ce == fermata_ce_history) {
		settings = history_settings;
		len = COUNT(history_settings);
	} else if (ce == fermata_ce_log) {
		settings = log_settings;
		len = COUNT(log_settings);
	} else if (ce == fermata_ce_access_log) {
		settings = access_log_settings;
		len = COUNT(access_log_settings);
	} else if (ce == fermata_ce_tls) {
		settings = tls_settings;
		len = COUNT(tls_settings);
	}
	if (number >= len) {
		return false;
	}
	*setting = settings[number];
	return true;
}

static bool constructed_check(zend_object *object)
{
	return Z_ISUNDEF_P(OBJ_PROP_NUM(object, 0)) || fermata_constructed_twice();
}

static void property_long(zend_object *object, uint32_t number, bool is_null, zend_long value)
{
	if (is_null) {
		ZVAL_NULL(OBJ_PROP_NUM(object, number));
	} else {
		ZVAL_LONG(OBJ_PROP_NUM(object, number), value);
	}
}

ZEND_METHOD(Fermata_Limits, __construct)
{
	zend_long value[COUNT(limits_settings)] = {0};
	bool is_null[COUNT(limits_settings)];
	memset(is_null, true, sizeof(is_null));
	ZEND_PARSE_PARAMETERS_START(0, 12)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG_OR_NULL(value[0], is_null[0])
		Z_PARAM_LONG_OR_NULL(value[1], is_null[1])
		Z_PARAM_LONG_OR_NULL(value[2], is_null[2])
		Z_PARAM_LONG_OR_NULL(value[3], is_null[3])
		Z_PARAM_LONG_OR_NULL(value[4], is_null[4])
		Z_PARAM_LONG_OR_NULL(value[5], is_null[5])
		Z_PARAM_LONG_OR_NULL(value[6], is_null[6])
		Z_PARAM_LONG_OR_NULL(value[7], is_null[7])
		Z_PARAM_LONG_OR_NULL(value[8], is_null[8])
		Z_PARAM_LONG_OR_NULL(value[9], is_null[9])
		Z_PARAM_LONG_OR_NULL(value[10], is_null[10])
		Z_PARAM_LONG_OR_NULL(value[11], is_null[11])
	ZEND_PARSE_PARAMETERS_END();
	if (!constructed_check(Z_OBJ_P(ZEND_THIS))) {
		RETURN_THROWS();
	}
	for (uint32_t i = 0; i < COUNT(limits_settings); i++) {
		property_long(Z_OBJ_P(ZEND_THIS), i, is_null[i], value[i]);
	}
}

ZEND_METHOD(Fermata_History, __construct)
{
	zend_long value[3] = {0};
	bool is_null[3] = {true, true, true};
	zend_string *path = NULL;
	ZEND_PARSE_PARAMETERS_START(0, 4)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG_OR_NULL(value[0], is_null[0])
		Z_PARAM_LONG_OR_NULL(value[1], is_null[1])
		Z_PARAM_LONG_OR_NULL(value[2], is_null[2])
		Z_PARAM_PATH_STR_OR_NULL(path)
	ZEND_PARSE_PARAMETERS_END();
	zend_object *object = Z_OBJ_P(ZEND_THIS);
	if (!constructed_check(object)) {
		RETURN_THROWS();
	}
	for (uint32_t i = 0; i < 3; i++) {
		property_long(object, i, is_null[i], value[i]);
	}
	if (path) {
		ZVAL_STR_COPY(OBJ_PROP_NUM(object, 3), path);
	} else {
		ZVAL_NULL(OBJ_PROP_NUM(object, 3));
	}
}

ZEND_METHOD(Fermata_Log, __construct)
{
	zval *value[2] = {NULL, NULL};
	ZEND_PARSE_PARAMETERS_START(0, 2)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(value[0], fermata_ce_log_format)
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(value[1], fermata_ce_log_level)
	ZEND_PARSE_PARAMETERS_END();
	zend_object *object = Z_OBJ_P(ZEND_THIS);
	if (!constructed_check(object)) {
		RETURN_THROWS();
	}
	for (uint32_t i = 0; i < 2; i++) {
		if (value[i]) {
			ZVAL_COPY(OBJ_PROP_NUM(object, i), value[i]);
		} else {
			ZVAL_NULL(OBJ_PROP_NUM(object, i));
		}
	}
}

ZEND_METHOD(Fermata_AccessLog, __construct)
{
	zend_string *path;
	zval *format = NULL;
	bool query = false, query_null = true;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_PATH_STR(path)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(format, fermata_ce_access_log_format)
		Z_PARAM_BOOL_OR_NULL(query, query_null)
	ZEND_PARSE_PARAMETERS_END();
	zend_object *object = Z_OBJ_P(ZEND_THIS);
	if (!constructed_check(object)) {
		RETURN_THROWS();
	}
	ZVAL_STR_COPY(OBJ_PROP_NUM(object, 0), path);
	if (format) {
		ZVAL_COPY(OBJ_PROP_NUM(object, 1), format);
	} else {
		ZVAL_NULL(OBJ_PROP_NUM(object, 1));
	}
	if (query_null) {
		ZVAL_NULL(OBJ_PROP_NUM(object, 2));
	} else {
		ZVAL_BOOL(OBJ_PROP_NUM(object, 2), query);
	}
}
