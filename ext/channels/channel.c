/* Fermata\Event, Channel and Member. The stub declares their properties in the order of these numbers. */
#include "channels/channels.h"
#include "sockets/sockets.h"
#include "ext/json/php_json.h"
#include "zend_enum.h"
#include "fibers/fibers.h"

/* Poll interval while the log has not replied. */
#define HISTORY_LOOK_MS 2

enum { EVENT_DATA, EVENT_NAME, EVENT_ID, EVENT_TIME_MS };
enum { CHANNEL_NAME };
enum { MEMBER_USER, MEMBER_INFO, MEMBER_CONNECTIONS };

/* Event */

/* Fills a message with strings that the event still owns. Returns false with a MisuseError pending: Reflection can create an event
 * without its constructor. */
bool fermata_event_message(zend_object *event, FmMessage *message)
{
	zval *data = OBJ_PROP_NUM(event, EVENT_DATA), *name = OBJ_PROP_NUM(event, EVENT_NAME);
	if (UNEXPECTED(Z_TYPE_P(data) != IS_STRING)) {
		fermata_misuse("the event was made without its constructor; use new Event() or Event::json()");
		return false;
	}
	message->data = fermata_str(Z_STR_P(data));
	message->name = fermata_str_or_absent(Z_TYPE_P(name) == IS_STRING ? Z_STR_P(name) : NULL);
	return true;
}

/* Checks an event when it is created, so that the error contains the line that creates it. Returns false with a MisuseError
 * pending. */
static bool event_check(const zend_string *data, const zend_string *name)
{
	if (name && !ZSTR_LEN(name)) {
		fermata_misuse("an event name must not be empty; leave it out for the browser's \"message\"");
		return false;
	}
	FmError error;
	error.len = 0;
	FmMessage message = {.name = fermata_str_or_absent(name), .data = fermata_str(data)};
	uint32_t code = fm_message_check(&message, &error);
	if (UNEXPECTED(code != FM_OK)) {
		fermata_throw(code, &error);
		return false;
	}
	return true;
}

/* Takes over the reference to data. */
static void event_fill(zend_object *event, zend_string *data, zend_string *name)
{
	ZVAL_STR(OBJ_PROP_NUM(event, EVENT_DATA), data);
	if (name) {
		ZVAL_STR_COPY(OBJ_PROP_NUM(event, EVENT_NAME), name);
	} else {
		ZVAL_NULL(OBJ_PROP_NUM(event, EVENT_NAME));
	}
	ZVAL_NULL(OBJ_PROP_NUM(event, EVENT_ID));
	ZVAL_NULL(OBJ_PROP_NUM(event, EVENT_TIME_MS));
}

ZEND_METHOD(Fermata_Event, __construct)
{
	zend_string *data, *name = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(data)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(name)
	ZEND_PARSE_PARAMETERS_END();
	zend_object *event = Z_OBJ_P(ZEND_THIS);
	if (!Z_ISUNDEF_P(OBJ_PROP_NUM(event, EVENT_DATA)) && !fermata_constructed_twice()) {
		RETURN_THROWS();
	}
	if (!event_check(data, name)) {
		RETURN_THROWS();
	}
	event_fill(event, zend_string_copy(data), name);
}

ZEND_METHOD(Fermata_Event, json)
{
	zval *data;
	zend_string *name = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_ZVAL(data)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(name)
	ZEND_PARSE_PARAMETERS_END();
	zend_string *encoded = fermata_json_encode(data);
	if (!encoded) {
		RETURN_THROWS();
	}
	if (!event_check(encoded, name)) {
		zend_string_release(encoded);
		RETURN_THROWS();
	}
	object_init_ex(return_value, fermata_ce_event);
	event_fill(Z_OBJ_P(return_value), encoded, name);
}

void fermata_event_from_past(zval *result, const FmPast *past)
{
	object_init_ex(result, fermata_ce_event);
	zend_object *event = Z_OBJ_P(result);
	event_fill(event, zend_string_init(past->data.ptr, past->data.len, 0), NULL);
	if (past->name.ptr) {
		ZVAL_STRINGL(OBJ_PROP_NUM(event, EVENT_NAME), past->name.ptr, past->name.len);
	}
	if (past->id.ptr) {
		ZVAL_STRINGL(OBJ_PROP_NUM(event, EVENT_ID), past->id.ptr, past->id.len);
		ZVAL_LONG(OBJ_PROP_NUM(event, EVENT_TIME_MS), (zend_long)past->time_ms);
	}
}

void fermata_event_id(zval *result, zend_object *event)
{
	ZVAL_COPY(result, OBJ_PROP_NUM(event, EVENT_ID));
}

/* Member */

ZEND_METHOD(Fermata_Member, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

static void member_info(zval *result, FmStr info)
{
	ZVAL_NULL(result);
	if (!info.ptr) {
		return;
	}
	/* The decoder needs a terminating NUL. Text that as() encoded always decodes. */
	zend_string *text = zend_string_init(info.ptr, info.len, 0);
	php_json_decode_ex(result, ZSTR_VAL(text), ZSTR_LEN(text), PHP_JSON_OBJECT_AS_ARRAY, PHP_JSON_PARSER_DEFAULT_DEPTH);
	zend_string_release(text);
	if (UNEXPECTED(Z_TYPE_P(result) != IS_ARRAY)) {
		zval_ptr_dtor(result);
		ZVAL_NULL(result);
	}
}

static void member_fill(zval *result, const FmMember *member)
{
	object_init_ex(result, fermata_ce_member);
	zend_object *object = Z_OBJ_P(result);
	ZVAL_STRINGL(OBJ_PROP_NUM(object, MEMBER_USER), member->user.ptr, member->user.len);
	member_info(OBJ_PROP_NUM(object, MEMBER_INFO), member->info);
	ZVAL_LONG(OBJ_PROP_NUM(object, MEMBER_CONNECTIONS), member->connections);
}

/* Channel */

ZEND_METHOD(Fermata_Channel, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

static bool worker_check(void)
{
	if (UNEXPECTED(!fermata.worker)) {
		fermata_misuse("channels belong to a running server; elsewhere publish with Fermata\\Publisher over its control socket");
		return false;
	}
	return true;
}

bool fermata_channel_name(zval *this, FmStr *name)
{
	zval *value = OBJ_PROP_NUM(Z_OBJ_P(this), CHANNEL_NAME);
	if (!worker_check()) {
		return false;
	}
	if (UNEXPECTED(Z_TYPE_P(value) != IS_STRING)) {
		fermata_misuse("the channel was made without its constructor; use Channel::get()");
		return false;
	}
	*name = fermata_str(Z_STR_P(value));
	return true;
}

ZEND_METHOD(Fermata_Channel, get)
{
	zend_string *name;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(name)
	ZEND_PARSE_PARAMETERS_END();
	if (!worker_check()) {
		RETURN_THROWS();
	}
	uint32_t code = fm_channel_name_check(fermata_str(name), &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	object_init_ex(return_value, fermata_ce_channel);
	ZVAL_STR_COPY(OBJ_PROP_NUM(Z_OBJ_P(return_value), CHANNEL_NAME), name);
}

ZEND_METHOD(Fermata_Channel, publish)
{
	zend_object *event = NULL, *except = NULL, *ack = NULL;
	zend_string *text = NULL;
	FmStr name;
	FmMessage message = {.name = {NULL, 0}};
	FmId id;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_OBJ_OR_STR(event, text)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJ_OF_CLASS_OR_NULL(except, fermata_ce_websocket)
		Z_PARAM_OBJ_OF_CLASS(ack, fermata_ce_ack)
	ZEND_PARSE_PARAMETERS_END();
	if (event && event->ce != fermata_ce_event && event->ce != fermata_ce_message) {
		zend_argument_type_error(1, "must be of type Fermata\\Event|Fermata\\WebSocket\\Message|string, %s given", ZSTR_VAL(event->ce->name));
		RETURN_THROWS();
	}
	if (!fermata_channel_name(ZEND_THIS, &name)) {
		RETURN_THROWS();
	}
	if (event && event->ce == fermata_ce_event) {
		if (!fermata_event_message(event, &message)) {
			RETURN_THROWS();
		}
	} else {
		message.data = event ? fermata_message_bytes(FERMATA_FROM(fermata_message, event)) : fermata_str(text);
		if (fm_message_check(&message, &error) != FM_OK) {
			fermata_throw(FM_MISUSE, &error);
			RETURN_THROWS();
		}
	}
	fermata_publication publication = {
		.channel = name,
		.message = event && event->ce == fermata_ce_message ? event : NULL,
		.event = message,
		.except = except ? FERMATA_FROM(fermata_websocket, except)->handle : 0,
		.ack = ack && zend_string_equals_literal(Z_STR_P(zend_enum_fetch_case_value(ack)), "local") ? FM_ACK_LOCAL : FM_ACK_CLUSTER,
	};
	if (!fermata_publish(&publication, &id)) {
		RETURN_THROWS();
	}
	RETURN_STRINGL(id.text, id.len);
}

ZEND_METHOD(Fermata_Channel, publishExcept)
{
	zend_object *event;
	zend_string *socket_id;
	FmStr name;
	FmMessage message = {.name = {NULL, 0}};
	FmId id;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_OBJ_OF_CLASS(event, fermata_ce_event)
		Z_PARAM_STR(socket_id)
	ZEND_PARSE_PARAMETERS_END();
	if (!fermata_channel_name(ZEND_THIS, &name) || !fermata_event_message(event, &message)) {
		RETURN_THROWS();
	}
	uint32_t code = fm_publish_except(fermata.worker, name, &message, fermata_str(socket_id), &id, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	RETURN_STRINGL(id.text, id.len);
}

ZEND_METHOD(Fermata_Channel, members)
{
	FmStr name;
	FmError error;
	error.len = 0;
	const FmMember *members;
	size_t members_len;
	zend_long limit = 0;
	bool all = true;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG_OR_NULL(limit, all)
	ZEND_PARSE_PARAMETERS_END();
	if (!all && limit < 1) {
		fermata_misuse("members() takes a positive limit, not " ZEND_LONG_FMT "; null means all", limit);
		RETURN_THROWS();
	}
	if (!fermata_channel_name(ZEND_THIS, &name)) {
		RETURN_THROWS();
	}
	uint32_t code = fm_members(fermata.worker, name, all ? SIZE_MAX : (size_t)limit, &members, &members_len, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	array_init_size(return_value, members_len);
	for (size_t i = 0; i < members_len; i++) {
		zval member;
		member_fill(&member, &members[i]);
		add_next_index_zval(return_value, &member);
	}
}

ZEND_METHOD(Fermata_Channel, memberCount)
{
	FmStr name;
	FmError error;
	error.len = 0;
	size_t count;
	ZEND_PARSE_PARAMETERS_NONE();
	if (!fermata_channel_name(ZEND_THIS, &name)) {
		RETURN_THROWS();
	}
	uint32_t code = fm_member_count(fermata.worker, name, &count, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	RETURN_LONG((zend_long)count);
}

/* Reads history. In a cluster the fiber waits for events that only the log has; where PHP cannot wait, the core blocks. Returns
 * FM_GONE with an exception pending. */
static uint32_t history_read(FmStr name, FmStr since, size_t count, const FmPast **past, size_t *len, FmError *error)
{
	if (!fm_publish_waits(fermata.worker) || fermata_wait_obstacle()) {
		return fm_history(fermata.worker, name, since, count, NULL, past, len, error);
	}
	FmReading reading;
	uint32_t code = fm_history(fermata.worker, name, since, count, &reading, past, len, error);
	bool over = code != FM_OK || !reading;
	while (!over) {
		if (fermata_wait_shielded(fm_worker_now_ms(fermata.worker) + HISTORY_LOOK_MS) == FERMATA_WAIT_FAILED) {
			fm_history_forget(fermata.worker, reading);
			return FM_GONE;
		}
		code = fm_history_next(fermata.worker, reading, &over, past, len, error);
		over |= code != FM_OK;
	}
	return code;
}

ZEND_METHOD(Fermata_Channel, history)
{
	zend_string *since = NULL;
	zend_long count = 0;
	bool all = true;
	FmStr name;
	FmError error;
	error.len = 0;
	const FmPast *past;
	size_t past_len;
	ZEND_PARSE_PARAMETERS_START(0, 2)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(since)
		Z_PARAM_LONG_OR_NULL(count, all)
	ZEND_PARSE_PARAMETERS_END();
	if (!all && count < 1) {
		fermata_misuse("history() takes a positive count, not " ZEND_LONG_FMT "; null means all", count);
		RETURN_THROWS();
	}
	if (!fermata_channel_name(ZEND_THIS, &name)) {
		RETURN_THROWS();
	}
	FmStr after = fermata_str_or_absent(since && ZSTR_LEN(since) ? since : NULL);
	uint32_t code = history_read(name, after, all ? SIZE_MAX : (size_t)count, &past, &past_len, &error);
	if (code != FM_OK) {
		if (!EG(exception)) {
			fermata_throw(code, &error);
		}
		RETURN_THROWS();
	}
	array_init_size(return_value, past_len);
	for (size_t i = 0; i < past_len; i++) {
		zval event;
		fermata_event_from_past(&event, &past[i]);
		add_next_index_zval(return_value, &event);
	}
}
