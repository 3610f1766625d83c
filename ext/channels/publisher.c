/* Fermata\Publisher: publishes from other processes over the control socket. */
#include "channels/channels.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define TIMEOUT_MS_DEFAULT 2000
#define TIMEOUT_MS_MAX 3600000

typedef struct fermata_publisher {
	zend_string *control; /* NULL before the constructor */
	uint32_t timeout_ms;
	zend_object std;
} fermata_publisher;

static zend_object_handlers publisher_handlers;

#define THIS_PUBLISHER() FERMATA_FROM(fermata_publisher, Z_OBJ_P(ZEND_THIS))

static zend_object *publisher_create(zend_class_entry *ce)
{
	fermata_publisher *publisher = zend_object_alloc(sizeof(fermata_publisher), ce);
	publisher->control = NULL;
	publisher->timeout_ms = TIMEOUT_MS_DEFAULT;
	zend_object_std_init(&publisher->std, ce);
	publisher->std.handlers = &publisher_handlers;
	return &publisher->std;
}

static void publisher_free(zend_object *object)
{
	fermata_publisher *publisher = FERMATA_FROM(fermata_publisher, object);
	if (publisher->control) {
		zend_string_release(publisher->control);
	}
	zend_object_std_dtor(object);
}

void fermata_publisher_init(void)
{
	fermata_ce_publisher->create_object = publisher_create;
	memcpy(&publisher_handlers, zend_get_std_object_handlers(), sizeof(publisher_handlers));
	publisher_handlers.offset = XtOffsetOf(fermata_publisher, std);
	publisher_handlers.free_obj = publisher_free;
	publisher_handlers.clone_obj = NULL;
	publisher_handlers.compare = zend_objects_not_comparable;
}

ZEND_METHOD(Fermata_Publisher, __construct)
{
	static const char scheme[] = "unix:";
	zend_string *control = NULL;
	zend_long timeout_ms = TIMEOUT_MS_DEFAULT;
	ZEND_PARSE_PARAMETERS_START(0, 2)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(control)
		Z_PARAM_LONG(timeout_ms)
	ZEND_PARSE_PARAMETERS_END();

	fermata_publisher *publisher = THIS_PUBLISHER();
	if (UNEXPECTED(publisher->control) && !fermata_constructed_twice()) {
		RETURN_THROWS();
	}
	const char *environment = control ? NULL : getenv("FERMATA_CONTROL");
	if (!control && (!environment || !*environment)) {
		zend_throw_exception(fermata_ce_configuration, "no control socket is named; pass control: \"unix:/path.sock\" as the "
			"server does, or set FERMATA_CONTROL", 0);
		RETURN_THROWS();
	}
	if (timeout_ms < 1 || timeout_ms > TIMEOUT_MS_MAX) {
		zend_throw_exception_ex(fermata_ce_configuration, 0, "timeoutMs must be 1 to %d milliseconds, not " ZEND_LONG_FMT,
			TIMEOUT_MS_MAX, timeout_ms);
		RETURN_THROWS();
	}
	zend_string *address = control ? zend_string_copy(control) : zend_string_init(environment, strlen(environment), 0);
	if (strncmp(ZSTR_VAL(address), scheme, sizeof(scheme) - 1) != 0 || ZSTR_LEN(address) == sizeof(scheme) - 1
		|| strlen(ZSTR_VAL(address)) != ZSTR_LEN(address)) {
		zend_string_release(address);
		zend_throw_exception(fermata_ce_configuration, "control must be a Unix socket, written \"unix:/path.sock\"", 0);
		RETURN_THROWS();
	}
	publisher->control = address;
	publisher->timeout_ms = (uint32_t)timeout_ms;
}

ZEND_METHOD(Fermata_Publisher, publish)
{
	zend_string *channel;
	zval *event;
	FmMessage message;
	FmId id;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(channel)
		Z_PARAM_OBJECT_OF_CLASS(event, fermata_ce_event)
	ZEND_PARSE_PARAMETERS_END();

	fermata_publisher *publisher = THIS_PUBLISHER();
	uint32_t code = fm_channel_name_check(fermata_str(channel), &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	if (!fermata_event_message(Z_OBJ_P(event), &message)) {
		RETURN_THROWS();
	}
	code = fm_publisher_publish(fermata_str(publisher->control), publisher->timeout_ms, fermata_str(channel), &message, &id, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	RETURN_STRINGL(id.text, id.len);
}
