/* Fermata\Pusher: settings of a Pusher application, and the authorization requests of pages that subscribe. A closure of the
 * application decides on these requests. The core implements the protocol. */
#include "sockets/sockets.h"
#include "zend_interfaces.h"
#include "base/optimize_size.h"

#define STATUS_OK 200
#define STATUS_BAD_REQUEST 400
#define STATUS_FORBIDDEN 403

typedef struct pusher {
	zend_string *settings; /* JSON for the core; NULL before the constructor */
	zend_string *id, *key, *secret;
	fermata_handler authorize, sign_in; /* undefined closure = none */
	zend_string *authorize_path, *sign_in_path;
	zend_object std;
} pusher;

enum { PUSHER_ID, PUSHER_KEY };
enum { WEBHOOK_URL, WEBHOOK_EVENTS, WEBHOOK_TIMEOUT_MS, WEBHOOK_RETRY_S, WEBHOOK_QUEUE_EVENTS_MAX };

/* Setting names of the core, in the order of the constructor's last parameters. */
static const char *const bounds[] = {
	"connections_max", "message_bytes_max", "event_name_chars_max", "event_data_bytes_max", "channels_per_event_max",
	"batch_events_max", "client_events_per_second", "channels_per_connection_max", "presence_members_max", "user_id_bytes_max",
	"user_info_bytes_max", "watchlist_users_max", "clock_window_s",
};
#define BOUNDS (sizeof(bounds) / sizeof(bounds[0]))

static zend_object_handlers pusher_handlers;

#define THIS_PUSHER() FERMATA_FROM(pusher, Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *pusher_create(zend_class_entry *ce)
{
	pusher *created = zend_object_alloc(sizeof(pusher), ce);
	memset(created, 0, XtOffsetOf(pusher, std));
	zend_object_std_init(&created->std, ce);
	object_properties_init(&created->std, ce);
	created->std.handlers = &pusher_handlers;
	return &created->std;
}

static void release(zend_string *string)
{
	if (string) {
		zend_string_release(string);
	}
}

static void pusher_free(zend_object *object)
{
	pusher *freed = FERMATA_FROM(pusher, object);
	release(freed->settings);
	release(freed->id);
	release(freed->key);
	release(freed->secret);
	release(freed->authorize_path);
	release(freed->sign_in_path);
	zval_ptr_dtor(&freed->authorize.closure);
	zval_ptr_dtor(&freed->sign_in.closure);
	zend_object_std_dtor(object);
}

static HashTable *pusher_get_gc(zend_object *object, zval **table, int *len)
{
	pusher *looked_at = FERMATA_FROM(pusher, object);
	zend_get_gc_buffer *buffer = zend_get_gc_buffer_create();
	zend_get_gc_buffer_add_zval(buffer, &looked_at->authorize.closure);
	zend_get_gc_buffer_add_zval(buffer, &looked_at->sign_in.closure);
	zend_get_gc_buffer_use(buffer, table, len);
	return NULL;
}

void fermata_pusher_init(void)
{
	fermata_ce_pusher->create_object = pusher_create;
	memcpy(&pusher_handlers, zend_get_std_object_handlers(), sizeof(pusher_handlers));
	pusher_handlers.offset = XtOffsetOf(pusher, std);
	pusher_handlers.free_obj = pusher_free;
	pusher_handlers.get_gc = pusher_get_gc;
	pusher_handlers.clone_obj = NULL;
	pusher_handlers.compare = zend_objects_not_comparable;
}

/* Settings */

ZEND_METHOD(Fermata_Pusher_Webhook, __construct)
{
	zend_string *url;
	HashTable *events = NULL;
	zend_long timeout_ms = 5000, retry_s = 300, queue_events_max = 10000;
	zval *event;
	ZEND_PARSE_PARAMETERS_START(1, 5)
		Z_PARAM_STR(url)
		Z_PARAM_OPTIONAL
		Z_PARAM_ARRAY_HT_OR_NULL(events)
		Z_PARAM_LONG(timeout_ms)
		Z_PARAM_LONG(retry_s)
		Z_PARAM_LONG(queue_events_max)
	ZEND_PARSE_PARAMETERS_END();
	zend_object *object = Z_OBJ_P(ZEND_THIS);
	if (!Z_ISUNDEF_P(OBJ_PROP_NUM(object, WEBHOOK_URL)) && !fermata_constructed_twice()) {
		RETURN_THROWS();
	}
	if (events) {
		ZEND_HASH_FOREACH_VAL(events, event) {
			if (Z_TYPE_P(event) != IS_OBJECT || Z_OBJCE_P(event) != fermata_ce_webhook_event) {
				fermata_misuse("events of a webhook are a list of Fermata\\Pusher\\WebhookEvent; %s is none", fermata_type_name(event));
				RETURN_THROWS();
			}
		} ZEND_HASH_FOREACH_END();
		ZVAL_ARR(OBJ_PROP_NUM(object, WEBHOOK_EVENTS), zend_array_dup(events));
	} else {
		ZVAL_NULL(OBJ_PROP_NUM(object, WEBHOOK_EVENTS));
	}
	ZVAL_STR_COPY(OBJ_PROP_NUM(object, WEBHOOK_URL), url);
	ZVAL_LONG(OBJ_PROP_NUM(object, WEBHOOK_TIMEOUT_MS), timeout_ms);
	ZVAL_LONG(OBJ_PROP_NUM(object, WEBHOOK_RETRY_S), retry_s);
	ZVAL_LONG(OBJ_PROP_NUM(object, WEBHOOK_QUEUE_EVENTS_MAX), queue_events_max);
}

static void add_copy(zval *to, const char *key, zval *value)
{
	if (Z_TYPE_P(value) != IS_NULL && Z_TYPE_P(value) != IS_UNDEF) {
		Z_TRY_ADDREF_P(value);
		add_assoc_zval(to, key, value);
	}
}

/* Returns false with a MisuseError pending. */
static bool add_webhooks(zval *to, HashTable *webhooks)
{
	zval list, *webhook;
	array_init(&list);
	ZEND_HASH_FOREACH_VAL(webhooks, webhook) {
		zval entry;
		if (Z_TYPE_P(webhook) != IS_OBJECT || Z_OBJCE_P(webhook) != fermata_ce_webhook
			|| Z_ISUNDEF_P(OBJ_PROP_NUM(Z_OBJ_P(webhook), WEBHOOK_URL))) {
			fermata_misuse("webhooks are a list of Fermata\\Pusher\\Webhook; %s is none", fermata_type_name(webhook));
			zval_ptr_dtor(&list);
			return false;
		}
		array_init(&entry);
		add_copy(&entry, "url", OBJ_PROP_NUM(Z_OBJ_P(webhook), WEBHOOK_URL));
		add_copy(&entry, "events", OBJ_PROP_NUM(Z_OBJ_P(webhook), WEBHOOK_EVENTS));
		add_copy(&entry, "timeout_ms", OBJ_PROP_NUM(Z_OBJ_P(webhook), WEBHOOK_TIMEOUT_MS));
		add_copy(&entry, "retry_s", OBJ_PROP_NUM(Z_OBJ_P(webhook), WEBHOOK_RETRY_S));
		add_copy(&entry, "queue_events_max", OBJ_PROP_NUM(Z_OBJ_P(webhook), WEBHOOK_QUEUE_EVENTS_MAX));
		add_next_index_zval(&list, &entry);
	} ZEND_HASH_FOREACH_END();
	add_assoc_zval(to, "webhook", &list);
	return true;
}

static void add_string(zval *to, const char *key, zend_string *value)
{
	if (value) {
		add_assoc_str(to, key, zend_string_copy(value));
	}
}

/* Stores a callable, if one was passed. Returns false with a MisuseError pending. */
static bool take_callable(fermata_handler *handler, zend_fcall_info *info, const char *what, uint32_t given_len)
{
	static const fermata_given given[] = {FERMATA_GIVEN_OF(fermata_ce_request), {FERMATA_GIVEN_STRING, NULL}};
	if (!ZEND_FCI_INITIALIZED(*info)) {
		return true;
	}
	return fermata_handler_init(handler, &info->function_name) && fermata_handler_takes(handler, what, given, given_len);
}

ZEND_METHOD(Fermata_Pusher, __construct)
{
	zend_string *id, *key, *secret, *prefix = NULL, *authorize_path = NULL, *sign_in_path = NULL;
	zend_fcall_info authorize = empty_fcall_info, sign_in = empty_fcall_info;
	zend_fcall_info_cache authorize_call, sign_in_call;
	HashTable *origins = NULL, *webhooks = NULL;
	bool client_events = true, counts = false, is_null[BOUNDS];
	zend_long bound[BOUNDS] = {0};
	memset(is_null, true, sizeof(is_null));
	ZEND_PARSE_PARAMETERS_START(3, 25)
		Z_PARAM_STR(id)
		Z_PARAM_STR(key)
		Z_PARAM_STR(secret)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(prefix)
		Z_PARAM_FUNC_OR_NULL(authorize, authorize_call)
		Z_PARAM_STR(authorize_path)
		Z_PARAM_FUNC_OR_NULL(sign_in, sign_in_call)
		Z_PARAM_STR(sign_in_path)
		Z_PARAM_ARRAY_HT_OR_NULL(origins)
		Z_PARAM_BOOL(client_events)
		Z_PARAM_BOOL(counts)
		Z_PARAM_ARRAY_HT(webhooks)
		Z_PARAM_LONG_OR_NULL(bound[0], is_null[0])
		Z_PARAM_LONG_OR_NULL(bound[1], is_null[1])
		Z_PARAM_LONG_OR_NULL(bound[2], is_null[2])
		Z_PARAM_LONG_OR_NULL(bound[3], is_null[3])
		Z_PARAM_LONG_OR_NULL(bound[4], is_null[4])
		Z_PARAM_LONG_OR_NULL(bound[5], is_null[5])
		Z_PARAM_LONG_OR_NULL(bound[6], is_null[6])
		Z_PARAM_LONG_OR_NULL(bound[7], is_null[7])
		Z_PARAM_LONG_OR_NULL(bound[8], is_null[8])
		Z_PARAM_LONG_OR_NULL(bound[9], is_null[9])
		Z_PARAM_LONG_OR_NULL(bound[10], is_null[10])
		Z_PARAM_LONG_OR_NULL(bound[11], is_null[11])
		Z_PARAM_LONG_OR_NULL(bound[12], is_null[12])
	ZEND_PARSE_PARAMETERS_END();
	pusher *made = THIS_PUSHER();
	if (made->settings && !fermata_constructed_twice()) {
		RETURN_THROWS();
	}
	if (origins && !fermata_strings_check(origins, 9)) {
		RETURN_THROWS();
	}
	if (!take_callable(&made->authorize, &authorize, "authorize", 2) || !take_callable(&made->sign_in, &sign_in, "signIn", 1)) {
		RETURN_THROWS();
	}
	zval settings;
	array_init(&settings);
	add_string(&settings, "id", id);
	add_string(&settings, "key", key);
	add_string(&settings, "secret", secret);
	add_string(&settings, "shared_prefix", prefix);
	if (origins) {
		zval list;
		ZVAL_ARR(&list, zend_array_dup(origins));
		add_assoc_zval(&settings, "allowed_origins", &list);
	}
	add_assoc_bool(&settings, "client_events", client_events);
	add_assoc_bool(&settings, "subscription_counts", counts);
	for (size_t i = 0; i < BOUNDS; i++) {
		if (!is_null[i]) {
			add_assoc_long(&settings, bounds[i], bound[i]);
		}
	}
	if (!webhooks || add_webhooks(&settings, webhooks)) {
		made->settings = fermata_json_encode(&settings);
	}
	zval_ptr_dtor(&settings);
	if (!made->settings) {
		RETURN_THROWS();
	}
	made->id = zend_string_copy(id);
	made->key = zend_string_copy(key);
	made->secret = zend_string_copy(secret);
	made->authorize_path = authorize_path ? zend_string_copy(authorize_path) : zend_string_init(ZEND_STRL("/broadcasting/auth"), false);
	made->sign_in_path = sign_in_path ? zend_string_copy(sign_in_path) : zend_string_init(ZEND_STRL("/broadcasting/user-auth"), false);
	ZVAL_STR_COPY(OBJ_PROP_NUM(&made->std, PUSHER_ID), id);
	ZVAL_STR_COPY(OBJ_PROP_NUM(&made->std, PUSHER_KEY), key);
}

/* Routes */

/* Returns false with an exception pending. */
static bool add_route(zval *server, zval *application, zend_string *path, const char *method, HashTable *middleware)
{
	zval post, arguments[3], result;
	array_init_size(&arguments[1], 2);
	Z_ADDREF_P(application);
	add_next_index_zval(&arguments[1], application);
	add_next_index_string(&arguments[1], method);
	ZVAL_STR_COPY(&arguments[0], path);
	if (middleware) {
		ZVAL_ARR(&arguments[2], zend_array_dup(middleware));
	} else {
		ZVAL_EMPTY_ARRAY(&arguments[2]);
	}
	ZVAL_UNDEF(&result);
	ZVAL_STRING(&post, "post");
	call_user_function(NULL, server, &post, &result, 3, arguments);
	zval_ptr_dtor(&post);
	zval_ptr_dtor(&result);
	for (uint32_t i = 0; i < 3; i++) {
		zval_ptr_dtor(&arguments[i]);
	}
	return !EG(exception);
}

ZEND_METHOD(Fermata_Server, pusher)
{
	zval *given;
	zend_string *path = NULL;
	HashTable *middleware = NULL;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_OBJECT_OF_CLASS(given, fermata_ce_pusher)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR(path)
		Z_PARAM_ARRAY_HT(middleware)
	ZEND_PARSE_PARAMETERS_END();
	fermata_server *server = FERMATA_FROM(fermata_server, Z_OBJ_P(ZEND_THIS));
	const pusher *application = FERMATA_FROM(pusher, Z_OBJ_P(given));
	if (!fermata_server_check_open(server)) {
		RETURN_THROWS();
	}
	if (!application->settings) {
		fermata_misuse("the application was made without its constructor; use new Fermata\\Pusher()");
		RETURN_THROWS();
	}
	FmStr prefix = path ? fermata_str(path) : FERMATA_LITERAL("");
	uint32_t code = fm_server_pusher(server->core, fermata_str(application->settings), prefix, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	bool asks = !Z_ISUNDEF(application->authorize.closure), signs_in = !Z_ISUNDEF(application->sign_in.closure);
	if ((asks && !add_route(ZEND_THIS, given, application->authorize_path, "answerAuthorization", middleware))
		|| (signs_in && !add_route(ZEND_THIS, given, application->sign_in_path, "answerSignIn", middleware))) {
		RETURN_THROWS();
	}
	zend_string *pattern = zend_strpprintf(0, "%s/app/{key}", path ? ZSTR_VAL(path) : "");
	zend_string *shown = zend_strpprintf(0, "Fermata\\Pusher %s", ZSTR_VAL(application->id));
	fermata_server_list(server, "websocket", FERMATA_LITERAL("GET"), pattern, NULL, shown);
	zend_string_release(pattern);
	zend_string_release(shown);
	RETURN_OBJ_COPY(Z_OBJ_P(ZEND_THIS));
}

/* Authorization requests */

static void answer_text(zval *return_value, uint32_t status, const char *text, size_t len)
{
	zend_string *line = zend_string_alloc(len + 1, false);
	memcpy(ZSTR_VAL(line), text, len);
	ZSTR_VAL(line)[len] = '\n';
	ZSTR_VAL(line)[len + 1] = '\0';
	RETURN_OBJ(&fermata_response_plain(status, line)->std);
}

/* Takes over the array. */
static void answer_json(zval *return_value, zval *data)
{
	zend_string *body = fermata_json_encode(data);
	zval_ptr_dtor(data);
	if (!body) {
		RETURN_THROWS();
	}
	fermata_response *response = fermata_response_plain(STATUS_OK, body);
	zend_string_release(response->content_type);
	response->content_type = fermata_known.type_json;
	RETURN_OBJ(&response->std);
}

/* Returns a field of the form; NULL if the form does not contain it. */
static zend_string *field(HashTable *form, const char *name)
{
	zval *value = zend_hash_str_find(form, name, strlen(name));
	return value && Z_TYPE_P(value) == IS_STRING ? Z_STR_P(value) : NULL;
}

/* Calls the closure; its exception stays pending. */
static void ask(const fermata_handler *handler, zval *arguments, uint32_t len, zval *result)
{
	zend_fcall_info info = {.size = sizeof(info), .retval = result, .params = arguments, .param_count = len};
	zend_fcall_info_cache call = handler->call;
	ZVAL_UNDEF(result);
	ZVAL_COPY_VALUE(&info.function_name, &handler->closure);
	zend_call_function(&info, &call);
}

/* Returns a user id as a string, the type that clients expect. Returns NULL with a MisuseError pending. */
static zend_string *user_id(zval *of, const char *key, const char *what)
{
	zval *id = zend_hash_str_find(Z_ARRVAL_P(of), key, strlen(key));
	if (id) {
		ZVAL_DEREF(id);
	}
	if (id && Z_TYPE_P(id) == IS_LONG) {
		return zend_long_to_str(Z_LVAL_P(id));
	}
	if (id && Z_TYPE_P(id) == IS_STRING && Z_STRLEN_P(id)) {
		return zend_string_copy(Z_STR_P(id));
	}
	fermata_misuse("%s has returned an array without %s, a string or int", what, key);
	return NULL;
}

/* Handles a closure's result that is a refusal or a Response. Returns false if the closure allowed the request. */
static bool is_final(zval *return_value, zval *result, const char *what)
{
	if (Z_TYPE_P(result) == IS_OBJECT && Z_OBJCE_P(result) == fermata_ce_response) {
		RETVAL_COPY(result);
		return true;
	}
	/* An empty array is a refusal: as in Laravel, only truthy results allow. */
	bool is_empty = Z_TYPE_P(result) == IS_ARRAY && !zend_hash_num_elements(Z_ARRVAL_P(result));
	if (Z_TYPE_P(result) == IS_FALSE || Z_TYPE_P(result) == IS_NULL || is_empty) {
		answer_text(return_value, STATUS_FORBIDDEN, ZEND_STRL("Forbidden"));
		return true;
	}
	if (Z_TYPE_P(result) != IS_TRUE && Z_TYPE_P(result) != IS_ARRAY) {
		fermata_misuse("%s has to return bool, array or Fermata\\Response, %s returned", what, fermata_type_name(result));
		return true;
	}
	return false;
}

/* Signs the authorization. Returns false after a refusal, or with an exception pending. */
static bool sign(zval *return_value, const FmAuthOf *of, FmAuth *auth)
{
	FmError error;
	error.len = 0;
	uint32_t code = fm_pusher_sign(of, auth, &error);
	if (code == FM_PROTOCOL) {
		answer_text(return_value, STATUS_BAD_REQUEST, error.message, error.len);
	} else if (code != FM_OK) {
		fermata_throw(code, &error);
	}
	return code == FM_OK;
}

/* Reads the fields to sign from the request. Returns false after a refusal, or with an exception pending. */
static bool begin(zval *return_value, const pusher *application, const fermata_handler *closure, zval *request, bool has_channel,
	FmAuthOf *of)
{
	if (!application->settings || Z_ISUNDEF(closure->closure)) {
		fermata_misuse("the application has no closure for this; give Fermata\\Pusher %s", has_channel ? "authorize" : "signIn");
		return false;
	}
	zend_array *form = fermata_request_forms(FERMATA_FROM(fermata_request, Z_OBJ_P(request)));
	if (!form || EG(exception)) {
		return false;
	}
	zend_string *socket = field(form, "socket_id"), *channel = has_channel ? field(form, "channel_name") : NULL;
	if (!socket || (has_channel && !channel)) {
		answer_text(return_value, STATUS_BAD_REQUEST, ZEND_STRL("socket_id or channel_name is missing"));
		return false;
	}
	*of = (FmAuthOf){
		.key = fermata_str(application->key),
		.secret = fermata_str(application->secret),
		.socket_id = fermata_str(socket),
		.channel = fermata_str_or_absent(channel),
		.data = fermata_str_or_absent(NULL),
	};
	/* Try to sign first: the closure is not called for a request that cannot be signed. */
	FmAuth auth;
	return sign(return_value, of, &auth);
}

/* Returns the JSON of a presence channel member; NULL with an exception pending. */
static zend_string *channel_data(zval *result)
{
	zval data, *info;
	if (Z_TYPE_P(result) != IS_ARRAY) {
		fermata_misuse("authorize has to return array{user_id, user_info} for a presence channel, %s returned", fermata_type_name(result));
		return NULL;
	}
	zend_string *id = user_id(result, "user_id", "authorize");
	if (!id) {
		return NULL;
	}
	array_init_size(&data, 2);
	add_assoc_str(&data, "user_id", id);
	info = zend_hash_str_find(Z_ARRVAL_P(result), ZEND_STRL("user_info"));
	if (info) {
		Z_TRY_ADDREF_P(info);
		add_assoc_zval(&data, "user_info", info);
	}
	zend_string *text = fermata_json_encode(&data);
	zval_ptr_dtor(&data);
	return text;
}

static void answer_allowed(zval *return_value, FmAuthOf *of, zval *result)
{
	FmAuth auth;
	zval answer, *secret;
	zend_string *data = NULL;
	if (fm_pusher_has_members(of->channel)) {
		data = channel_data(result);
		if (!data) {
			return;
		}
		of->data = fermata_str(data);
	}
	if (sign(return_value, of, &auth)) {
		array_init_size(&answer, 3);
		add_assoc_stringl(&answer, "auth", auth.text, auth.len);
		if (data) {
			add_assoc_str(&answer, "channel_data", zend_string_copy(data));
		}
		/* The server forwards the shared secret of an encrypted channel, and never stores it. */
		secret = Z_TYPE_P(result) == IS_ARRAY ? zend_hash_str_find(Z_ARRVAL_P(result), ZEND_STRL("shared_secret")) : NULL;
		if (secret) {
			add_copy(&answer, "shared_secret", secret);
		}
		answer_json(return_value, &answer);
	}
	release(data);
}

ZEND_METHOD(Fermata_Pusher, answerAuthorization)
{
	zval *request, result, arguments[2];
	FmAuthOf of;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_OBJECT_OF_CLASS(request, fermata_ce_request)
	ZEND_PARSE_PARAMETERS_END();
	const pusher *application = THIS_PUSHER();
	if (!begin(return_value, application, &application->authorize, request, true, &of)) {
		return;
	}
	/* Copy the socket id: the closure may wait, and the request's form may be freed during the wait. */
	zend_string *socket = zend_string_init(of.socket_id.ptr, of.socket_id.len, false);
	of.socket_id = fermata_str(socket);
	ZVAL_COPY_VALUE(&arguments[0], request);
	ZVAL_STRINGL(&arguments[1], of.channel.ptr, of.channel.len);
	of.channel = fermata_str(Z_STR(arguments[1]));
	ask(&application->authorize, arguments, 2, &result);
	if (!EG(exception) && !is_final(return_value, &result, "authorize")) {
		answer_allowed(return_value, &of, &result);
	}
	zval_ptr_dtor(&result);
	zval_ptr_dtor(&arguments[1]);
	zend_string_release(socket);
}

ZEND_METHOD(Fermata_Pusher, answerSignIn)
{
	zval *request, result, answer;
	FmAuthOf of;
	FmAuth auth;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_OBJECT_OF_CLASS(request, fermata_ce_request)
	ZEND_PARSE_PARAMETERS_END();
	const pusher *application = THIS_PUSHER();
	if (!begin(return_value, application, &application->sign_in, request, false, &of)) {
		return;
	}
	zend_string *socket = zend_string_init(of.socket_id.ptr, of.socket_id.len, false);
	of.socket_id = fermata_str(socket);
	ask(&application->sign_in, request, 1, &result);
	if (!EG(exception) && !is_final(return_value, &result, "signIn")) {
		zend_string *id = NULL, *data = NULL;
		if (Z_TYPE(result) != IS_ARRAY) {
			fermata_misuse("signIn has to return array{id, user_info, watchlist}, %s returned", fermata_type_name(&result));
		} else {
			id = user_id(&result, "id", "signIn");
		}
		if (id) {
			SEPARATE_ARRAY(&result);
			add_assoc_str(&result, "id", id);
			data = fermata_json_encode(&result);
		}
		if (data) {
			of.data = fermata_str(data);
			if (sign(return_value, &of, &auth)) {
				array_init_size(&answer, 2);
				add_assoc_stringl(&answer, "auth", auth.text, auth.len);
				add_assoc_str(&answer, "user_data", zend_string_copy(data));
				answer_json(return_value, &answer);
			}
			zend_string_release(data);
		}
	}
	zval_ptr_dtor(&result);
	zend_string_release(socket);
}
