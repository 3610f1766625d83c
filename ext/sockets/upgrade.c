/* Fermata\WebSocket\Upgrade: a handler's decision on a WebSocket handshake.
 *
 * The object only records the decision. The runner applies the decision when the handler has returned, so a handler that fails
 * after accept() still causes a 500 response. */
#include "sockets/sockets.h"
#include "base/optimize_size.h"

#define REFUSAL_MIN 300
#define REFUSAL_MAX 599
#define REFUSAL_DEFAULT 403

static zend_object_handlers upgrade_handlers;

#define THIS_UPGRADE() FERMATA_FROM(fermata_upgrade, Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *upgrade_create(zend_class_entry *ce)
{
	fermata_upgrade *upgrade = zend_object_alloc(sizeof(fermata_upgrade), ce);
	memset(upgrade, 0, XtOffsetOf(fermata_upgrade, std));
	upgrade->state = UPGRADE_OVER;
	ZVAL_UNDEF(&upgrade->data);
	zend_object_std_init(&upgrade->std, ce);
	upgrade->std.handlers = &upgrade_handlers;
	return &upgrade->std;
}

fermata_upgrade *fermata_upgrade_new(fermata_request *request)
{
	fermata_upgrade *upgrade = FERMATA_FROM(fermata_upgrade, upgrade_create(fermata_ce_upgrade));
	upgrade->state = UPGRADE_UNDECIDED;
	upgrade->request = request;
	GC_ADDREF(&request->std);
	return upgrade;
}

/* Clears a decision that was applied or is no longer valid. The request can be read while the object exists. */
void fermata_upgrade_end(fermata_upgrade *upgrade)
{
	zval data;
	upgrade->state = UPGRADE_OVER;
	if (upgrade->protocol) {
		zend_string_release(upgrade->protocol);
		upgrade->protocol = NULL;
	}
	fermata_headers_free(upgrade->headers);
	upgrade->headers = NULL;
	if (upgrade->response) {
		OBJ_RELEASE(upgrade->response);
		upgrade->response = NULL;
	}
	ZVAL_COPY_VALUE(&data, &upgrade->data);
	ZVAL_UNDEF(&upgrade->data);
	zval_ptr_dtor(&data);
}

static void upgrade_free(zend_object *object)
{
	fermata_upgrade *upgrade = FERMATA_FROM(fermata_upgrade, object);
	fermata_upgrade_end(upgrade);
	if (upgrade->request) {
		OBJ_RELEASE(&upgrade->request->std);
	}
	zend_object_std_dtor(object);
}

static HashTable *upgrade_get_gc(zend_object *object, zval **table, int *len)
{
	*table = &FERMATA_FROM(fermata_upgrade, object)->data;
	*len = 1;
	return NULL;
}

void fermata_upgrade_init(void)
{
	fermata_ce_upgrade->create_object = upgrade_create;
	memcpy(&upgrade_handlers, zend_get_std_object_handlers(), sizeof(upgrade_handlers));
	upgrade_handlers.offset = XtOffsetOf(fermata_upgrade, std);
	upgrade_handlers.free_obj = upgrade_free;
	upgrade_handlers.get_gc = upgrade_get_gc;
	upgrade_handlers.clone_obj = NULL;
	upgrade_handlers.compare = zend_objects_not_comparable;
}

/* The offered subprotocols */

static bool is_space(char byte)
{
	return byte == ' ' || byte == '\t';
}

/* Removes the next member of a list header (RFC 9110, section 5.6.1) from rest. Returns false at the end. */
static bool next_member(FmStr *rest, FmStr *member)
{
	while (rest->len) {
		const char *comma = memchr(rest->ptr, ',', rest->len);
		size_t len = comma ? (size_t)(comma - rest->ptr) : rest->len, taken = comma ? len + 1 : len;
		const char *first = rest->ptr;
		rest->ptr += taken;
		rest->len -= taken;
		while (len && is_space(*first)) {
			first++;
			len--;
		}
		while (len && is_space(first[len - 1])) {
			len--;
		}
		if (len) {
			*member = (FmStr){first, len};
			return true;
		}
	}
	return false;
}

/* Calls `take` for each offered subprotocol until it returns true. */
static bool any_protocol(const fermata_request *request, bool (*take)(void *context, FmStr protocol), void *context)
{
	FmStr line, member;
	for (size_t nth = 0; fermata_request_header(request, FERMATA_LITERAL("sec-websocket-protocol"), nth, &line); nth++) {
		while (next_member(&line, &member)) {
			if (take(context, member)) {
				return true;
			}
		}
	}
	return false;
}

static bool append_protocol(void *list, FmStr protocol)
{
	add_next_index_stringl(list, protocol.ptr, protocol.len);
	return false;
}

static bool is_protocol(void *wanted, FmStr protocol)
{
	return zend_string_equals_cstr(wanted, protocol.ptr, protocol.len);
}

/* Methods */

ZEND_METHOD(Fermata_WebSocket_Upgrade, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_WebSocket_Upgrade, request)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_OBJ_COPY(&THIS_UPGRADE()->request->std);
}

ZEND_METHOD(Fermata_WebSocket_Upgrade, protocols)
{
	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	any_protocol(THIS_UPGRADE()->request, append_protocol, return_value);
}

ZEND_METHOD(Fermata_WebSocket_Upgrade, origin)
{
	FmStr origin;
	ZEND_PARSE_PARAMETERS_NONE();
	if (fermata_request_header(THIS_UPGRADE()->request, FERMATA_LITERAL("origin"), 0, &origin)) {
		RETURN_STRINGL(origin.ptr, origin.len);
	}
}

/* Returns false with a MisuseError pending. */
static bool undecided_check(const fermata_upgrade *upgrade)
{
	switch (upgrade->state) {
		case UPGRADE_UNDECIDED:
			return true;
		case UPGRADE_OVER:
			fermata_misuse("upgrade() has returned and the client is answered");
			return false;
		default:
			fermata_misuse("the upgrade is %s already", upgrade->state == UPGRADE_ACCEPTED ? "accepted" : "refused");
			return false;
	}
}

static bool add_header(void *headers, zend_string *name, zend_string *value)
{
	static const char own[] = "sec-websocket-";
	if (!fermata_header_check(name, value)) {
		return false;
	}
	if (ZSTR_LEN(name) >= sizeof(own) - 1 && zend_binary_strcasecmp(ZSTR_VAL(name), sizeof(own) - 1, own, sizeof(own) - 1) == 0) {
		fermata_misuse("header \"%s\" belongs to the handshake and is the server's to send; a subprotocol is an argument of accept()",
			ZSTR_VAL(name));
		return false;
	}
	fermata_headers_add(headers, name, value);
	return true;
}

ZEND_METHOD(Fermata_WebSocket_Upgrade, accept)
{
	zend_string *protocol = NULL;
	zend_array *given = NULL;
	fermata_headers *headers = NULL;
	ZEND_PARSE_PARAMETERS_START(0, 2)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(protocol)
		Z_PARAM_ARRAY_HT(given)
	ZEND_PARSE_PARAMETERS_END();
	fermata_upgrade *upgrade = THIS_UPGRADE();
	if (!undecided_check(upgrade)) {
		RETURN_THROWS();
	}
	if (protocol && !any_protocol(upgrade->request, is_protocol, protocol)) {
		fermata_misuse("the client does not offer the subprotocol \"%s\"; accept one of protocols(), or null", ZSTR_VAL(protocol));
		RETURN_THROWS();
	}
	if (given && !fermata_headers_given("Fermata\\WebSocket\\Upgrade::accept(): Argument #2 ($headers)", given, add_header, &headers)) {
		fermata_headers_free(headers);
		RETURN_THROWS();
	}
	upgrade->protocol = protocol ? zend_string_copy(protocol) : NULL;
	upgrade->headers = headers;
	upgrade->state = UPGRADE_ACCEPTED;
}

ZEND_METHOD(Fermata_WebSocket_Upgrade, refuse)
{
	zend_object *response = NULL;
	zend_long status = REFUSAL_DEFAULT;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJ_OF_CLASS_OR_LONG(response, fermata_ce_response, status)
	ZEND_PARSE_PARAMETERS_END();
	fermata_upgrade *upgrade = THIS_UPGRADE();
	if (!undecided_check(upgrade)) {
		RETURN_THROWS();
	}
	if (status < REFUSAL_MIN || status > REFUSAL_MAX) {
		fermata_misuse("refuse() takes a status from %d to %d, or a Response, not " ZEND_LONG_FMT, REFUSAL_MIN, REFUSAL_MAX, status);
		RETURN_THROWS();
	}
	if (response) {
		GC_ADDREF(response);
		upgrade->response = response;
	}
	upgrade->status = (uint32_t)status;
	upgrade->state = UPGRADE_REFUSED;
}

ZEND_METHOD(Fermata_WebSocket_Upgrade, setData)
{
	zval *data, old;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_ZVAL(data)
	ZEND_PARSE_PARAMETERS_END();
	fermata_upgrade *upgrade = THIS_UPGRADE();
	if (upgrade->state == UPGRADE_OVER) {
		undecided_check(upgrade);
		RETURN_THROWS();
	}
	ZVAL_COPY_VALUE(&old, &upgrade->data);
	ZVAL_COPY(&upgrade->data, data);
	zval_ptr_dtor(&old);
}
