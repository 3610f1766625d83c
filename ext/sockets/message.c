/* Fermata\WebSocket\Message: a view of the core's bytes; the PHP string is created on first use. */
#include "sockets/sockets.h"
#include "zend_exceptions.h"

static zend_object_handlers message_handlers;

#define THIS_MESSAGE() FERMATA_FROM(fermata_message, Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *message_create(zend_class_entry *ce)
{
	fermata_message *message = zend_object_alloc(sizeof(fermata_message), ce);
	memset(message, 0, XtOffsetOf(fermata_message, std));
	zend_object_std_init(&message->std, ce);
	message->std.handlers = &message_handlers;
	return &message->std;
}

fermata_message *fermata_message_new(void)
{
	return FERMATA_FROM(fermata_message, message_create(fermata_ce_message));
}

/* Clears the object for the next message. */
void fermata_message_forget(fermata_message *message)
{
	message->bytes = (FmStr){NULL, 0};
	if (message->string) {
		zend_string_release(message->string);
		message->string = NULL;
	}
}

static void message_free(zend_object *object)
{
	fermata_message_forget(FERMATA_FROM(fermata_message, object));
	zend_object_std_dtor(object);
}

/* Compares with a string by __toString(); two messages are not comparable. */
static int message_compare(zval *a, zval *b)
{
	ZEND_COMPARE_OBJECTS_FALLBACK(a, b);
	return ZEND_UNCOMPARABLE;
}

void fermata_message_init(void)
{
	fermata_ce_message->create_object = message_create;
	memcpy(&message_handlers, zend_get_std_object_handlers(), sizeof(message_handlers));
	message_handlers.offset = XtOffsetOf(fermata_message, std);
	message_handlers.free_obj = message_free;
	message_handlers.clone_obj = NULL;
	message_handlers.compare = message_compare;
}

/* Reading */

static zend_string *string_of(fermata_message *message)
{
	if (!message->string) {
		FmStr bytes = message->bytes;
		/* Strings of 0 or 1 byte are interned in PHP. */
		message->string = bytes.len ? zend_string_init_fast(bytes.ptr, bytes.len) : ZSTR_EMPTY_ALLOC();
		if (!message->binary && !ZSTR_IS_INTERNED(message->string)) {
			/* The core has validated the UTF-8, so PHP's functions can skip the check. */
			GC_ADD_FLAGS(message->string, IS_STR_VALID_UTF8);
		}
	}
	return message->string;
}

/* Copies the bytes, so that the object no longer depends on the core. */
void fermata_message_keep(fermata_message *message)
{
	string_of(message);
	message->bytes = (FmStr){NULL, 0};
}

FmStr fermata_message_bytes(const fermata_message *message)
{
	if (EXPECTED(message->bytes.ptr)) {
		return message->bytes;
	}
	return message->string ? fermata_str(message->string) : FERMATA_LITERAL("");
}

/* Methods */

ZEND_METHOD(Fermata_WebSocket_Message, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_WebSocket_Message, data)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_STR_COPY(string_of(THIS_MESSAGE()));
}

ZEND_METHOD(Fermata_WebSocket_Message, __toString)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_STR_COPY(string_of(THIS_MESSAGE()));
}

ZEND_METHOD(Fermata_WebSocket_Message, jsonSerialize)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_STR_COPY(string_of(THIS_MESSAGE()));
}

ZEND_METHOD(Fermata_WebSocket_Message, isBinary)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(THIS_MESSAGE()->binary);
}

ZEND_METHOD(Fermata_WebSocket_Message, json)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (UNEXPECTED(!fermata_json_decode(return_value, string_of(THIS_MESSAGE())))) {
		zval_ptr_dtor(return_value);
		ZVAL_NULL(return_value);
		/* The pending JsonException becomes the previous exception. */
		if (EG(exception)->ce != fermata_ce_bad_request) {
			zend_throw_exception(fermata_ce_bad_request, "the message is not valid JSON", 0);
		}
	}
}
