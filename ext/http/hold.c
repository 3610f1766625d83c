/* Fermata\Hold describes a client that the core holds after its handler has returned. */
#include "http/http.h"
#include "channels/channels.h"
#include "zend_enum.h"

/* The setting keep_alive_ms has the same upper bound. */
#define KEEP_ALIVE_SECONDS_MAX 3600

static zend_object_handlers hold_handlers;

#define THIS_HOLD() FERMATA_FROM(fermata_hold, Z_OBJ_P(ZEND_THIS))
#define RETURN_THIS() RETURN_OBJ_COPY(Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *hold_create(zend_class_entry *ce)
{
	fermata_hold *hold = zend_object_alloc(sizeof(fermata_hold), ce);
	memset(hold, 0, XtOffsetOf(fermata_hold, std));
	hold->keep_alive_ms = -1;
	hold->slow = FM_SLOW_GAP;
	hold->format = FM_FORMAT_EVENT_STREAM;
	zend_object_std_init(&hold->std, ce);
	hold->std.handlers = &hold_handlers;
	return &hold->std;
}

static void release(zend_string **string)
{
	if (*string) {
		zend_string_release(*string);
		*string = NULL;
	}
}

static void hold_free(zend_object *object)
{
	fermata_hold *hold = FERMATA_FROM(fermata_hold, object);
	for (uint32_t i = 0; i < hold->channels_len; i++) {
		zend_string_release(hold->channels[i]);
	}
	for (uint32_t i = 0; i < hold->events_len; i++) {
		zval_ptr_dtor(&hold->events[i]);
	}
	if (hold->channels) {
		efree(hold->channels);
	}
	if (hold->events) {
		efree(hold->events);
	}
	release(&hold->user);
	release(&hold->info);
	release(&hold->since);
	fermata_headers_free(hold->headers);
	zend_object_std_dtor(object);
}

void fermata_hold_init(void)
{
	fermata_ce_hold->create_object = hold_create;
	memcpy(&hold_handlers, zend_get_std_object_handlers(), sizeof(hold_handlers));
	hold_handlers.offset = XtOffsetOf(fermata_hold, std);
	hold_handlers.free_obj = hold_free;
	hold_handlers.clone_obj = NULL;
	hold_handlers.compare = zend_objects_not_comparable;
}

/* Sending */

/* Returns the number of Grip-Last lines, which is the number of channels, at most headers_count_max. Writes their values to
 * `lasts` unless it is NULL. */
static size_t list_lasts(const fermata_request *request, FmStr *lasts)
{
	FmStr name, value;
	size_t len = 0;
	for (size_t i = 0; fermata_request_header_at(request, i, &name, &value); i++) {
		if (fermata_str_equals_ci(name, FERMATA_LITERAL("grip-last"))) {
			if (lasts) {
				lasts[len] = value;
			}
			len++;
		}
	}
	return len;
}

/* Reads the GRIP headers that an edge has added. Returns false if the request was not forwarded by an edge. */
static bool from_edge(const fermata_request *request, FmGrip *grip)
{
	if (!fermata_request_header(request, FERMATA_LITERAL("grip-sig"), 0, &grip->signature)) {
		return false;
	}
	FmStr *lasts = safe_emalloc(list_lasts(request, NULL), sizeof(FmStr), 0);
	grip->lasts_len = list_lasts(request, lasts);
	grip->lasts = lasts;
	grip->target = request->event.target;
	return true;
}

uint32_t fermata_hold_send(FmWorker *worker, const fermata_request *request, const fermata_hold *hold, FmError *error)
{
	uint32_t headers_len = hold->headers ? hold->headers->len : 0;
	FmStr *channels = safe_emalloc(hold->channels_len, sizeof(FmStr), 0);
	FmMessage *with = safe_emalloc(hold->events_len, sizeof(FmMessage), 0);
	FmHeader *headers = safe_emalloc(headers_len, sizeof(FmHeader), 0);
	for (uint32_t i = 0; i < hold->channels_len; i++) {
		channels[i] = fermata_str(hold->channels[i]);
	}
	for (uint32_t i = 0; i < hold->events_len; i++) {
		fermata_event_message(Z_OBJ(hold->events[i]), &with[i]);
	}
	fermata_headers_fill(hold->headers, headers);
	FmGrip grip;
	bool is_from_edge = fm_worker_has_edges(worker) && from_edge(request, &grip);
	FmHold out = {
		.format = hold->format,
		.channels = channels,
		.channels_len = hold->channels_len,
		.user = fermata_str_or_absent(hold->user),
		.info = fermata_str_or_absent(hold->info),
		.announce = hold->announce,
		.since = fermata_str_or_absent(hold->since),
		.from_start = hold->from_start,
		.keep_alive_ms = hold->keep_alive_ms,
		.slow = hold->slow,
		.with = with,
		.with_len = hold->events_len,
		.headers = headers,
		.headers_len = headers_len,
		.grip = is_from_edge ? &grip : NULL,
	};
	uint32_t code = fm_hold(worker, request->event.request, &out, error);
	if (is_from_edge) {
		efree((void *)grip.lasts);
	}
	efree(channels);
	efree(with);
	efree(headers);
	return code;
}

/* Methods */

ZEND_METHOD(Fermata_Hold, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

static bool channel_check(zend_string *channel)
{
	FmError error;
	error.len = 0;
	uint32_t code = fm_channel_name_check(fermata_str(channel), &error);
	if (UNEXPECTED(code != FM_OK)) {
		fermata_throw(code, &error);
		return false;
	}
	return true;
}

ZEND_METHOD(Fermata_Hold, sse)
{
	zend_string *channel;
	zval *more;
	uint32_t more_len;
	ZEND_PARSE_PARAMETERS_START(1, -1)
		Z_PARAM_STR(channel)
		Z_PARAM_VARIADIC('*', more, more_len)
	ZEND_PARSE_PARAMETERS_END();

	fermata_hold *hold = FERMATA_FROM(fermata_hold, hold_create(fermata_ce_hold));
	ZVAL_OBJ(return_value, &hold->std);
	hold->channels = safe_emalloc(more_len + 1, sizeof(zend_string *), 0);
	if (!channel_check(channel)) {
		RETURN_THROWS();
	}
	hold->channels[hold->channels_len++] = zend_string_copy(channel);
	for (uint32_t i = 0; i < more_len; i++) {
		zend_string *name;
		if (!zend_parse_arg_str(&more[i], &name, false, i + 2)) {
			zend_wrong_parameter_error(ZPP_ERROR_WRONG_ARG, i + 2, NULL, Z_EXPECTED_STRING, &more[i]);
			RETURN_THROWS();
		}
		if (!channel_check(name)) {
			RETURN_THROWS();
		}
		hold->channels[hold->channels_len++] = zend_string_copy(name);
	}
}

ZEND_METHOD(Fermata_Hold, as)
{
	zend_string *user;
	zval *info = NULL;
	bool announce = true;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_STR(user)
		Z_PARAM_OPTIONAL
		Z_PARAM_ARRAY_OR_NULL(info)
		Z_PARAM_BOOL(announce)
	ZEND_PARSE_PARAMETERS_END();
	if (!ZSTR_LEN(user)) {
		fermata_misuse("a present user needs a name; leave as() out to hold a client that is not counted");
		RETURN_THROWS();
	}
	zend_string *encoded = NULL;
	if (info && !(encoded = fermata_json_encode(info))) {
		RETURN_THROWS();
	}
	fermata_hold *hold = THIS_HOLD();
	release(&hold->user);
	release(&hold->info);
	hold->user = zend_string_copy(user);
	hold->info = encoded;
	hold->announce = announce;
	RETURN_THIS();
}

ZEND_METHOD(Fermata_Hold, since)
{
	zend_string *id = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR_OR_NULL(id)
	ZEND_PARSE_PARAMETERS_END();
	fermata_hold *hold = THIS_HOLD();
	release(&hold->since);
	hold->since = id && ZSTR_LEN(id) ? zend_string_copy(id) : NULL;
	RETURN_THIS();
}

static void set_from_start(zval *hold, bool from_start)
{
	FERMATA_FROM(fermata_hold, Z_OBJ_P(hold))->from_start = from_start;
}

ZEND_METHOD(Fermata_Hold, fromStart)
{
	ZEND_PARSE_PARAMETERS_NONE();
	set_from_start(ZEND_THIS, true);
	RETURN_THIS();
}

ZEND_METHOD(Fermata_Hold, fromNow)
{
	ZEND_PARSE_PARAMETERS_NONE();
	set_from_start(ZEND_THIS, false);
	RETURN_THIS();
}

ZEND_METHOD(Fermata_Hold, keepAlive)
{
	zend_long seconds;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_LONG(seconds)
	ZEND_PARSE_PARAMETERS_END();
	if (seconds < 0 || seconds > KEEP_ALIVE_SECONDS_MAX) {
		fermata_misuse("keepAlive() takes 1 to %d seconds, or 0 for off, not " ZEND_LONG_FMT, KEEP_ALIVE_SECONDS_MAX, seconds);
		RETURN_THROWS();
	}
	THIS_HOLD()->keep_alive_ms = (int64_t)seconds * 1000;
	RETURN_THIS();
}

ZEND_METHOD(Fermata_Hold, with)
{
	zval *events;
	uint32_t events_len;
	ZEND_PARSE_PARAMETERS_START(0, -1)
		Z_PARAM_VARIADIC('*', events, events_len)
	ZEND_PARSE_PARAMETERS_END();
	FmMessage message;
	for (uint32_t i = 0; i < events_len; i++) {
		if (Z_TYPE(events[i]) != IS_OBJECT || Z_OBJCE(events[i]) != fermata_ce_event) {
			zend_argument_type_error(i + 1, "must be of type Fermata\\Event, %s given", fermata_type_name(&events[i]));
			RETURN_THROWS();
		}
		if (!fermata_event_message(Z_OBJ(events[i]), &message)) {
			RETURN_THROWS();
		}
	}
	fermata_hold *hold = THIS_HOLD();
	hold->events = safe_erealloc(hold->events, hold->events_len + events_len, sizeof(zval), 0);
	for (uint32_t i = 0; i < events_len; i++) {
		ZVAL_COPY(&hold->events[hold->events_len++], &events[i]);
	}
	RETURN_THIS();
}

ZEND_METHOD(Fermata_Hold, slow)
{
	zval *policy;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_OBJECT_OF_CLASS(policy, fermata_ce_slow_policy)
	ZEND_PARSE_PARAMETERS_END();
	zend_string *value = Z_STR_P(zend_enum_fetch_case_value(Z_OBJ_P(policy)));
	THIS_HOLD()->slow = zend_string_equals_literal(value, "close") ? FM_SLOW_CLOSE : FM_SLOW_GAP;
	RETURN_THIS();
}

static void add_header(INTERNAL_FUNCTION_PARAMETERS, bool replaces)
{
	zend_string *name, *value;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(name)
		Z_PARAM_STR(value)
	ZEND_PARSE_PARAMETERS_END();
	if (!fermata_header_check(name, value)) {
		RETURN_THROWS();
	}
	if (zend_string_equals_ci(name, fermata_known.content_type)) {
		fermata_misuse("the Content-Type of held clients is text/event-stream; leave it out");
		RETURN_THROWS();
	}
	fermata_hold *hold = THIS_HOLD();
	if (replaces) {
		fermata_headers_remove(hold->headers, name);
	}
	fermata_headers_add(&hold->headers, name, value);
	RETURN_THIS();
}

ZEND_METHOD(Fermata_Hold, withHeader)
{
	add_header(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

ZEND_METHOD(Fermata_Hold, withAddedHeader)
{
	add_header(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}
