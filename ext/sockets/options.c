/* Fermata\WebSocket\Options and Compression: readonly values. The stub declares the properties in the order of these numbers. */
#include "sockets/sockets.h"
#include "zend_enum.h"
#include "base/optimize_size.h"

enum {
	OPTION_ORIGINS, OPTION_PROTOCOLS, OPTION_MESSAGE_BYTES, OPTION_FRAME_BYTES, OPTION_QUEUE_BYTES, OPTION_QUEUE_POLICY,
	OPTION_PING_INTERVAL_MS, OPTION_PONG_TIMEOUT_MS, OPTION_IDLE_TIMEOUT_MS, OPTION_COMPRESSION,
};
enum { COMPRESSION_SERVER, COMPRESSION_CLIENT, COMPRESSION_WINDOW_BITS, COMPRESSION_LEVEL, COMPRESSION_MIN_BYTES };

#define WINDOW_BITS_MIN 9
#define WINDOW_BITS_MAX 15
#define LEVEL_MAX 9
#define MIN_BYTES_MAX INT32_MAX
#define SETTING_VALUE (-1) /* use the server's setting */

/* Nullable numbers with their minimum. */
static const struct {
	uint32_t property;
	const char *name;
	zend_long least;
} numbers[] = {
	{OPTION_MESSAGE_BYTES, "messageBytes", 1},
	{OPTION_FRAME_BYTES, "frameBytes", 1},
	{OPTION_QUEUE_BYTES, "queueBytes", 1},
	{OPTION_PING_INTERVAL_MS, "pingIntervalMs", 0},
	{OPTION_PONG_TIMEOUT_MS, "pongTimeoutMs", 0},
	{OPTION_IDLE_TIMEOUT_MS, "idleTimeoutMs", 0},
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static bool constructed_check(zend_object *object)
{
	return Z_ISUNDEF_P(OBJ_PROP_NUM(object, 0)) || fermata_constructed_twice();
}

/* Returns false with a MisuseError pending. */
static bool strings_check(const char *name, zend_array *list)
{
	zval *item;
	ZEND_HASH_FOREACH_VAL(list, item) {
		ZVAL_DEREF(item);
		if (Z_TYPE_P(item) != IS_STRING) {
			fermata_misuse("%s must be a list of strings, %s is among them", name, fermata_type_name(item));
			return false;
		}
	} ZEND_HASH_FOREACH_END();
	return true;
}

static bool range_check(const char *name, zend_long value, zend_long least, zend_long most)
{
	if (value < least || value > most) {
		fermata_misuse("%s must be " ZEND_LONG_FMT " to " ZEND_LONG_FMT ", not " ZEND_LONG_FMT, name, least, most, value);
		return false;
	}
	return true;
}

ZEND_METHOD(Fermata_WebSocket_Options, __construct)
{
	zval *origins = NULL, *protocols = NULL;
	zend_long value[NUMBERS] = {0};
	bool is_null[NUMBERS];
	zend_object *policy = NULL, *compression = NULL;
	memset(is_null, true, sizeof(is_null));
	ZEND_PARSE_PARAMETERS_START(0, 10)
		Z_PARAM_OPTIONAL
		Z_PARAM_ARRAY_OR_NULL(origins)
		Z_PARAM_ARRAY(protocols)
		Z_PARAM_LONG_OR_NULL(value[0], is_null[0])
		Z_PARAM_LONG_OR_NULL(value[1], is_null[1])
		Z_PARAM_LONG_OR_NULL(value[2], is_null[2])
		Z_PARAM_OBJ_OF_CLASS(policy, fermata_ce_queue_policy)
		Z_PARAM_LONG_OR_NULL(value[3], is_null[3])
		Z_PARAM_LONG_OR_NULL(value[4], is_null[4])
		Z_PARAM_LONG_OR_NULL(value[5], is_null[5])
		Z_PARAM_OBJ_OF_CLASS_OR_NULL(compression, fermata_ce_compression)
	ZEND_PARSE_PARAMETERS_END();
	zend_object *object = Z_OBJ_P(ZEND_THIS);
	if (!constructed_check(object)
		|| (origins && !strings_check("origins", Z_ARRVAL_P(origins)))
		|| (protocols && !strings_check("protocols", Z_ARRVAL_P(protocols)))) {
		RETURN_THROWS();
	}
	for (uint32_t i = 0; i < NUMBERS; i++) {
		if (!is_null[i] && value[i] < numbers[i].least) {
			fermata_misuse("%s must be at least " ZEND_LONG_FMT ", not " ZEND_LONG_FMT, numbers[i].name, numbers[i].least, value[i]);
			RETURN_THROWS();
		}
	}
	for (uint32_t i = 0; i < NUMBERS; i++) {
		zval *property = OBJ_PROP_NUM(object, numbers[i].property);
		if (is_null[i]) {
			ZVAL_NULL(property);
		} else {
			ZVAL_LONG(property, value[i]);
		}
	}
	if (origins) {
		ZVAL_COPY(OBJ_PROP_NUM(object, OPTION_ORIGINS), origins);
	} else {
		ZVAL_NULL(OBJ_PROP_NUM(object, OPTION_ORIGINS));
	}
	if (protocols) {
		ZVAL_COPY(OBJ_PROP_NUM(object, OPTION_PROTOCOLS), protocols);
	} else {
		ZVAL_EMPTY_ARRAY(OBJ_PROP_NUM(object, OPTION_PROTOCOLS));
	}
	if (!policy) {
		policy = zend_enum_get_case_cstr(fermata_ce_queue_policy, "Close");
	}
	ZVAL_OBJ_COPY(OBJ_PROP_NUM(object, OPTION_QUEUE_POLICY), policy);
	if (compression) {
		ZVAL_OBJ_COPY(OBJ_PROP_NUM(object, OPTION_COMPRESSION), compression);
	} else {
		ZVAL_NULL(OBJ_PROP_NUM(object, OPTION_COMPRESSION));
	}
}

ZEND_METHOD(Fermata_WebSocket_Compression, __construct)
{
	bool server = false, client = false;
	zend_long window_bits = WINDOW_BITS_MAX, level = 1, min_bytes = 64;
	ZEND_PARSE_PARAMETERS_START(0, 5)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(server)
		Z_PARAM_BOOL(client)
		Z_PARAM_LONG(window_bits)
		Z_PARAM_LONG(level)
		Z_PARAM_LONG(min_bytes)
	ZEND_PARSE_PARAMETERS_END();
	zend_object *object = Z_OBJ_P(ZEND_THIS);
	if (!constructed_check(object)
		|| !range_check("windowBits", window_bits, WINDOW_BITS_MIN, WINDOW_BITS_MAX)
		|| !range_check("level", level, 1, LEVEL_MAX)
		|| !range_check("minBytes", min_bytes, 0, MIN_BYTES_MAX)) {
		RETURN_THROWS();
	}
	ZVAL_BOOL(OBJ_PROP_NUM(object, COMPRESSION_SERVER), server);
	ZVAL_BOOL(OBJ_PROP_NUM(object, COMPRESSION_CLIENT), client);
	ZVAL_LONG(OBJ_PROP_NUM(object, COMPRESSION_WINDOW_BITS), window_bits);
	ZVAL_LONG(OBJ_PROP_NUM(object, COMPRESSION_LEVEL), level);
	ZVAL_LONG(OBJ_PROP_NUM(object, COMPRESSION_MIN_BYTES), min_bytes);
}

/* Conversion for the core */

static FmStr *strings(zend_array *list, size_t *len)
{
	zval *item;
	FmStr *out = safe_emalloc(zend_hash_num_elements(list) + 1, sizeof(FmStr), 0);
	*len = 0;
	ZEND_HASH_FOREACH_VAL(list, item) {
		ZVAL_DEREF(item);
		/* A reference in the list may have changed since the constructor checked it. */
		if (Z_TYPE_P(item) == IS_STRING) {
			out[(*len)++] = fermata_str(Z_STR_P(item));
		}
	} ZEND_HASH_FOREACH_END();
	return out;
}

static int64_t number(zend_object *options, uint32_t property)
{
	zval *value = OBJ_PROP_NUM(options, property);
	return Z_TYPE_P(value) == IS_LONG ? Z_LVAL_P(value) : SETTING_VALUE;
}

static uint32_t policy(zend_object *options)
{
	zval *value = OBJ_PROP_NUM(options, OPTION_QUEUE_POLICY);
	zend_string *name = Z_STR_P(zend_enum_fetch_case_value(Z_OBJ_P(value)));
	return zend_string_equals_literal(name, "refuse") ? FM_WS_REFUSE
		: zend_string_equals_literal(name, "drop-oldest") ? FM_WS_DROP_OLDEST : FM_WS_CLOSE_SLOW;
}

static void fill_compression(FmWsRoute *route, zend_object *compression)
{
	route->compresses = true;
	route->server_takeover = Z_TYPE_P(OBJ_PROP_NUM(compression, COMPRESSION_SERVER)) == IS_TRUE;
	route->client_takeover = Z_TYPE_P(OBJ_PROP_NUM(compression, COMPRESSION_CLIENT)) == IS_TRUE;
	route->window_bits = (uint8_t)Z_LVAL_P(OBJ_PROP_NUM(compression, COMPRESSION_WINDOW_BITS));
	route->level = (uint8_t)Z_LVAL_P(OBJ_PROP_NUM(compression, COMPRESSION_LEVEL));
	route->compress_bytes_min = (uint32_t)Z_LVAL_P(OBJ_PROP_NUM(compression, COMPRESSION_MIN_BYTES));
}

/* Fills the options for the core; NULL = the server's settings. */
void fermata_socket_options_fill(fermata_socket_options *out, zend_object *options)
{
	memset(out, 0, sizeof(*out));
	FmWsRoute *route = &out->route;
	route->message_bytes_max = route->frame_bytes_max = route->queue_bytes_max = SETTING_VALUE;
	route->ping_interval_ms = route->pong_timeout_ms = route->idle_timeout_ms = SETTING_VALUE;
	route->queue_policy = FM_WS_CLOSE_SLOW;
	/* Reflection can create the object without its constructor. */
	if (!options || Z_ISUNDEF_P(OBJ_PROP_NUM(options, 0))) {
		return;
	}
	zval *origins = OBJ_PROP_NUM(options, OPTION_ORIGINS), *compression = OBJ_PROP_NUM(options, OPTION_COMPRESSION);
	if (Z_TYPE_P(origins) == IS_ARRAY) {
		route->origins = out->origins = strings(Z_ARRVAL_P(origins), &route->origins_len);
		for (size_t i = 0; i < route->origins_len; i++) {
			route->any_origin |= route->origins[i].len == 1 && *route->origins[i].ptr == '*';
		}
	}
	route->protocols = out->protocols = strings(Z_ARRVAL_P(OBJ_PROP_NUM(options, OPTION_PROTOCOLS)), &route->protocols_len);
	route->message_bytes_max = number(options, OPTION_MESSAGE_BYTES);
	route->frame_bytes_max = number(options, OPTION_FRAME_BYTES);
	route->queue_bytes_max = number(options, OPTION_QUEUE_BYTES);
	route->ping_interval_ms = number(options, OPTION_PING_INTERVAL_MS);
	route->pong_timeout_ms = number(options, OPTION_PONG_TIMEOUT_MS);
	route->idle_timeout_ms = number(options, OPTION_IDLE_TIMEOUT_MS);
	route->queue_policy = policy(options);
	if (Z_TYPE_P(compression) == IS_OBJECT && !Z_ISUNDEF_P(OBJ_PROP_NUM(Z_OBJ_P(compression), 0))) {
		fill_compression(route, Z_OBJ_P(compression));
	}
}
