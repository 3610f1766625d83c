/* Fermata\Mercure: settings of a Mercure hub, and mercure_publish(). The core implements the protocol. */
#include "channels/channels.h"
#include "sockets/sockets.h"
#include "base/optimize_size.h"

typedef struct mercure {
	zend_string *settings; /* JSON for the core; NULL before the constructor */
	zend_object std;
} mercure;

static zend_object_handlers mercure_handlers;

static zend_object *mercure_create(zend_class_entry *ce)
{
	mercure *created = zend_object_alloc(sizeof(mercure), ce);
	created->settings = NULL;
	zend_object_std_init(&created->std, ce);
	created->std.handlers = &mercure_handlers;
	return &created->std;
}

static void mercure_free(zend_object *object)
{
	mercure *freed = FERMATA_FROM(mercure, object);
	if (freed->settings) {
		zend_string_release(freed->settings);
	}
	zend_object_std_dtor(object);
}

/* Settings */

static void add_string(zval *to, const char *key, zend_string *value)
{
	if (value) {
		add_assoc_str(to, key, zend_string_copy(value));
	}
}

/* Returns false with a TypeError pending. */
static bool add_list(zval *to, const char *key, HashTable *list, uint32_t argument)
{
	zval copy;
	if (!list || !zend_hash_num_elements(list)) {
		return true;
	}
	if (!fermata_strings_check(list, argument)) {
		return false;
	}
	ZVAL_ARR(&copy, zend_array_dup(list));
	add_assoc_zval(to, key, &copy);
	return true;
}

/* Adds a key together with its algorithm. */
static void add_key(zval *to, const char *key_name, zend_string *key, const char *algorithm_name, zval *algorithm)
{
	add_string(to, key_name, key);
	if (key && algorithm) {
		Z_ADDREF_P(algorithm);
		add_assoc_zval(to, algorithm_name, algorithm);
	}
}

ZEND_METHOD(Fermata_Mercure, __construct)
{
	zend_string *publisher = NULL, *publisher_file = NULL, *subscriber = NULL, *subscriber_file = NULL, *cookie = NULL, *prefix = NULL;
	zend_string *version = NULL, *resource = NULL, *issuer = NULL, *publisher_url = NULL, *subscriber_url = NULL;
	zval *publisher_algorithm = NULL, *subscriber_algorithm = NULL, settings;
	bool anonymous = false, subscriptions = false, position = true, templates_null = true, subscribers_null = true;
	HashTable *cors = NULL, *origins = NULL;
	zend_long heartbeat_s = 40, stream_s = 0, templates_max = 0, subscribers_max = 0, refresh_s = 3600;
	ZEND_PARSE_PARAMETERS_START(0, 23)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(publisher)
		Z_PARAM_OBJECT_OF_CLASS(publisher_algorithm, fermata_ce_mercure_algorithm)
		Z_PARAM_PATH_STR_OR_NULL(publisher_file)
		Z_PARAM_STR_OR_NULL(subscriber)
		Z_PARAM_OBJECT_OF_CLASS(subscriber_algorithm, fermata_ce_mercure_algorithm)
		Z_PARAM_PATH_STR_OR_NULL(subscriber_file)
		Z_PARAM_BOOL(anonymous)
		Z_PARAM_BOOL(subscriptions)
		Z_PARAM_STR(cookie)
		Z_PARAM_ARRAY_HT(cors)
		Z_PARAM_ARRAY_HT(origins)
		Z_PARAM_LONG(heartbeat_s)
		Z_PARAM_LONG(stream_s)
		Z_PARAM_BOOL(position)
		Z_PARAM_LONG_OR_NULL(templates_max, templates_null)
		Z_PARAM_LONG_OR_NULL(subscribers_max, subscribers_null)
		Z_PARAM_STR_OR_NULL(prefix)
		Z_PARAM_STR(version)
		Z_PARAM_STR_OR_NULL(resource)
		Z_PARAM_STR_OR_NULL(issuer)
		Z_PARAM_STR_OR_NULL(publisher_url)
		Z_PARAM_STR_OR_NULL(subscriber_url)
		Z_PARAM_LONG(refresh_s)
	ZEND_PARSE_PARAMETERS_END();
	mercure *made = FERMATA_FROM(mercure, Z_OBJ_P(ZEND_THIS));
	if (made->settings && !fermata_constructed_twice()) {
		RETURN_THROWS();
	}
	array_init(&settings);
	add_key(&settings, "publisher_key", publisher, "publisher_algorithm", publisher_algorithm);
	add_string(&settings, "publisher_jwks_file", publisher_file);
	add_key(&settings, "subscriber_key", subscriber, "subscriber_algorithm", subscriber_algorithm);
	add_string(&settings, "subscriber_jwks_file", subscriber_file);
	add_string(&settings, "publisher_jwks_url", publisher_url);
	add_string(&settings, "subscriber_jwks_url", subscriber_url);
	add_assoc_long(&settings, "jwks_refresh_s", refresh_s);
	add_assoc_bool(&settings, "anonymous", anonymous);
	add_assoc_bool(&settings, "subscriptions", subscriptions);
	add_string(&settings, "cookie_name", cookie);
	add_assoc_long(&settings, "heartbeat_s", heartbeat_s);
	add_assoc_long(&settings, "stream_s_max", stream_s);
	add_assoc_bool(&settings, "position", position);
	if (!templates_null) {
		add_assoc_long(&settings, "templates_max", templates_max);
	}
	if (!subscribers_null) {
		add_assoc_long(&settings, "subscribers_max", subscribers_max);
	}
	add_string(&settings, "shared_prefix", prefix);
	add_string(&settings, "version", version);
	add_string(&settings, "resource_identifier", resource);
	add_string(&settings, "issuer", issuer);
	if (add_list(&settings, "cors_origins", cors, 10) && add_list(&settings, "publish_origins", origins, 11)) {
		made->settings = fermata_json_encode(&settings);
	}
	zval_ptr_dtor(&settings);
}

ZEND_METHOD(Fermata_Server, mercure)
{
	zval *given;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_OBJECT_OF_CLASS(given, fermata_ce_mercure)
	ZEND_PARSE_PARAMETERS_END();
	fermata_server *server = FERMATA_FROM(fermata_server, Z_OBJ_P(ZEND_THIS));
	const mercure *hub = FERMATA_FROM(mercure, Z_OBJ_P(given));
	if (!fermata_server_check_open(server)) {
		RETURN_THROWS();
	}
	if (!hub->settings) {
		fermata_misuse("the hub was made without its constructor; use new Fermata\\Mercure()");
		RETURN_THROWS();
	}
	uint32_t code = fm_server_mercure(server->core, fermata_str(hub->settings), &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	zend_string *path = zend_string_init(ZEND_STRL("/.well-known/mercure"), false);
	zend_string *shown = zend_string_init(ZEND_STRL("Fermata\\Mercure"), false);
	fermata_server_list(server, "handler", FERMATA_LITERAL(""), path, NULL, shown);
	zend_string_release(path);
	zend_string_release(shown);
	RETURN_OBJ_COPY(Z_OBJ_P(ZEND_THIS));
}

/* mercure_publish() */

/* Without a hub, publishes to channels named after the topics. In a cluster the fiber waits for each publish. */
static void publish_to_channels(zval *return_value, const FmUpdate *update)
{
	fermata_publication publication = {.event = {.name = update->kind, .data = update->data}, .ack = FM_ACK_CLUSTER};
	FmError error;
	error.len = 0;
	FmId id = {0};
	uint32_t code = fm_message_check(&publication.event, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		return;
	}
	for (size_t i = 0; i < update->topics_len; i++) {
		publication.channel = update->topics[i];
		if (!fermata_publish(&publication, &id)) {
			return;
		}
	}
	if (update->id.ptr) {
		RETVAL_STRINGL(update->id.ptr, update->id.len);
	} else {
		RETVAL_STRINGL(id.text, id.len);
	}
}

static void publish(zval *return_value, const FmUpdate *update)
{
	FmError error;
	error.len = 0;
	FmStr id;
	if (!fermata.worker) {
		fermata_misuse("mercure_publish() belongs to a running server; elsewhere publish over HTTP, by Symfony\\Component\\Mercure\\Hub");
		return;
	}
	if (!fm_worker_has_mercure(fermata.worker)) {
		publish_to_channels(return_value, update);
		return;
	}
	uint32_t code = fm_mercure_publish(fermata.worker, update, &id, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		return;
	}
	RETVAL_STRINGL(id.ptr, id.len);
}

/* The signature of FrankenPHP's function. */
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_mercure_publish, 0, 1, IS_STRING, 0)
	ZEND_ARG_TYPE_MASK(0, topics, MAY_BE_STRING | MAY_BE_ARRAY, NULL)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, data, IS_STRING, 0, "''")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, private, _IS_BOOL, 0, "false")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, id, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, type, IS_STRING, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, retry, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

static ZEND_FUNCTION(mercure_publish)
{
	zend_string *topic = NULL, *data = NULL, *id = NULL, *kind = NULL;
	HashTable *topics = NULL;
	bool is_private = false, retry_null = true;
	zend_long retry = 0;
	zval *value;
	ZEND_PARSE_PARAMETERS_START(1, 6)
		Z_PARAM_ARRAY_HT_OR_STR(topics, topic)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR(data)
		Z_PARAM_BOOL(is_private)
		Z_PARAM_STR_OR_NULL(id)
		Z_PARAM_STR_OR_NULL(kind)
		Z_PARAM_LONG_OR_NULL(retry, retry_null)
	ZEND_PARSE_PARAMETERS_END();
	if (topics && !fermata_strings_check(topics, 1)) {
		RETURN_THROWS();
	}
	FmStr one, *all = &one;
	size_t len = topics ? zend_hash_num_elements(topics) : 1;
	if (topics) {
		all = safe_emalloc(len, sizeof(FmStr), 0);
		len = 0;
		ZEND_HASH_FOREACH_VAL(topics, value) {
			all[len++] = fermata_str(Z_STR_P(value));
		} ZEND_HASH_FOREACH_END();
	} else {
		one = fermata_str(topic);
	}
	FmUpdate update = {
		.topics = all,
		.topics_len = len,
		.data = data ? fermata_str(data) : FERMATA_LITERAL(""),
		.id = fermata_str_or_absent(id),
		.kind = fermata_str_or_absent(kind && ZSTR_LEN(kind) ? kind : NULL),
		.retry_ms = retry_null ? -1 : retry,
		.is_private = is_private,
	};
	publish(return_value, &update);
	if (topics) {
		efree(all);
	}
}

static bool is_registered;

static const zend_function_entry functions[] = {
	ZEND_FE(mercure_publish, arginfo_mercure_publish)
	ZEND_FE_END
};

void fermata_mercure_init(void)
{
	fermata_ce_mercure->create_object = mercure_create;
	memcpy(&mercure_handlers, zend_get_std_object_handlers(), sizeof(mercure_handlers));
	mercure_handlers.offset = XtOffsetOf(mercure, std);
	mercure_handlers.free_obj = mercure_free;
	mercure_handlers.clone_obj = NULL;
	mercure_handlers.compare = zend_objects_not_comparable;
	/* FrankenPHP defines its own function. */
	is_registered = !zend_hash_str_exists(CG(function_table), ZEND_STRL("mercure_publish"))
		&& zend_register_functions(NULL, functions, NULL, MODULE_PERSISTENT) == SUCCESS;
}

void fermata_mercure_shutdown(void)
{
	if (is_registered) {
		zend_unregister_functions(functions, -1, NULL);
	}
}
