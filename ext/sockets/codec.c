/* Fermata\WebSocket\Codec and Frame. The stub declares Frame's properties in the order of these numbers. */
#include "sockets/sockets.h"
#include "ext/random/php_random.h"
#include "zend_enum.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

enum {
	FRAME_OPCODE, FRAME_PAYLOAD, FRAME_FIN, FRAME_MASKED, FRAME_RSV1, FRAME_RSV2, FRAME_RSV3,
	FRAME_BYTES_CONSUMED, FRAME_CLOSE_CODE, FRAME_CLOSE_REASON, FRAME_PROPERTIES,
};

#define OPCODES 16
#define OPCODE_TEXT 1
#define OPCODE_CLOSE 8
#define FIN 0x80
#define LEN_SHORT_MAX 125
#define LEN_IN_16_BITS 126
#define RSV1 0x40
#define RSV2 0x20
#define RSV3 0x10
#define CLOSE_CODE_BYTES 2
#define PAYLOAD_BYTES_MAX (16 * 1024 * 1024)
#define KEY_BYTES 4

/* Number of masking keys per system call; one call per frame would cost more than the frame. */
#define KEYS 64

static struct {
	unsigned char bytes[KEYS * KEY_BYTES];
	size_t used; /* SIZE_MAX before the first key, and in a forked child, which must not repeat its parent's keys */
} keys = {.used = SIZE_MAX};

/* Cases of Opcode by number, cached until the script finishes; the enum owns them. */
static zend_object *opcodes[OPCODES];

void fermata_codec_forked(void)
{
	keys.used = SIZE_MAX;
}

void fermata_codec_request_end(void)
{
	memset(opcodes, 0, sizeof(opcodes));
}

/* Returns false with an exception pending. */
static bool draw_key(uint8_t *key)
{
	if (keys.used >= sizeof(keys.bytes)) {
		if (php_random_bytes_throw(keys.bytes, sizeof(keys.bytes)) == FAILURE) {
			return false;
		}
		keys.used = 0;
	}
	memcpy(key, keys.bytes + keys.used, KEY_BYTES);
	keys.used += KEY_BYTES;
	return true;
}

/* Returns the case of a backed enum with this value; NULL if no case has it. */
static zend_object *enum_case(zend_class_entry *ce, zend_long number)
{
	zend_object *found = NULL;
	if (zend_enum_get_case_by_value(&found, ce, number, NULL, true) == FAILURE) {
		return NULL;
	}
	return found;
}

static zend_always_inline zend_object *opcode_case(uint8_t number)
{
	if (UNEXPECTED(!opcodes[number])) {
		opcodes[number] = enum_case(fermata_ce_opcode, number);
	}
	return opcodes[number];
}

static zend_always_inline zend_long case_number(zend_object *object)
{
	return Z_LVAL_P(zend_enum_fetch_case_value(object));
}

static ZEND_COLD void throw_violation(const FmWsFrame *frame, const FmError *error)
{
	char message[sizeof(error->message) + 1];
	fermata_copy(message, sizeof(message), "", (FmStr){error->message, error->len});
	zend_throw_exception(fermata_ce_protocol, message, frame->close_code);
}

/* Encodes a frame. Returns NULL with an exception pending. */
static zend_string *encode(FmWsFrame *frame, FmStr payload)
{
	FmError error;
	error.len = 0;
	if (frame->masked && !draw_key(frame->key)) {
		return NULL;
	}
	zend_string *bytes = zend_string_alloc(fm_ws_frame_bytes(payload.len, frame->masked), 0);
	uint32_t code = fm_ws_encode(frame, payload, ZSTR_VAL(bytes), &error);
	if (UNEXPECTED(code != FM_OK)) {
		zend_string_efree(bytes);
		fermata_throw(code, &error);
		return NULL;
	}
	ZSTR_VAL(bytes)[ZSTR_LEN(bytes)] = '\0';
	return bytes;
}

/* Fast path for a complete unmasked text frame; only the UTF-8 check calls the core. Returns NULL if the slow path must encode the
 * payload or refuse it. */
static zend_string *encode_text(zend_string *payload)
{
	size_t len = ZSTR_LEN(payload);
	if (UNEXPECTED(len > UINT16_MAX) || UNEXPECTED(!fm_ws_is_text(fermata_str(payload)))) {
		return NULL;
	}
	size_t head = len <= LEN_SHORT_MAX ? 2 : 4;
	zend_string *bytes = zend_string_alloc(head + len, 0);
	char *at = ZSTR_VAL(bytes);
	at[0] = (char)(FIN | OPCODE_TEXT);
	if (head == 2) {
		at[1] = (char)len;
	} else {
		at[1] = LEN_IN_16_BITS;
		at[2] = (char)(len >> 8);
		at[3] = (char)len;
	}
	memcpy(at + head, ZSTR_VAL(payload), len + 1); /* with its NUL */
	return bytes;
}

ZEND_METHOD(Fermata_WebSocket_Codec, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_WebSocket_Codec, acceptKey)
{
	zend_string *key;
	char accept[FM_WS_ACCEPT_BYTES];
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(key)
	ZEND_PARSE_PARAMETERS_END();
	if (!fm_ws_accept(fermata_str(key), accept)) {
		zend_throw_exception(fermata_ce_bad_request, "Sec-WebSocket-Key is malformed; send 16 random bytes in base64", 0);
		RETURN_THROWS();
	}
	RETURN_STRINGL(accept, sizeof(accept));
}

ZEND_METHOD(Fermata_WebSocket_Codec, encode)
{
	zend_string *payload;
	zend_object *opcode = NULL;
	bool masked = false, fin = true, rsv1 = false, rsv2 = false, rsv3 = false;
	ZEND_PARSE_PARAMETERS_START(1, 7)
		Z_PARAM_STR(payload)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJ_OF_CLASS(opcode, fermata_ce_opcode)
		Z_PARAM_BOOL(masked)
		Z_PARAM_BOOL(fin)
		Z_PARAM_BOOL(rsv1)
		Z_PARAM_BOOL(rsv2)
		Z_PARAM_BOOL(rsv3)
	ZEND_PARSE_PARAMETERS_END();
	if (EXPECTED(!opcode && !masked && fin && !rsv1 && !rsv2 && !rsv3)) {
		zend_string *text = encode_text(payload);
		if (EXPECTED(text)) {
			RETURN_NEW_STR(text);
		}
	}
	FmWsFrame frame;
	frame.opcode = opcode ? (uint8_t)case_number(opcode) : OPCODE_TEXT;
	frame.reserved = (rsv1 ? RSV1 : 0) | (rsv2 ? RSV2 : 0) | (rsv3 ? RSV3 : 0);
	frame.fin = fin;
	frame.masked = masked;
	zend_string *bytes = encode(&frame, fermata_str(payload));
	if (UNEXPECTED(!bytes)) {
		RETURN_THROWS();
	}
	RETURN_NEW_STR(bytes);
}

ZEND_METHOD(Fermata_WebSocket_Codec, encodeClose)
{
	zend_object *named = NULL;
	zend_long number = 1000;
	zend_string *reason = NULL;
	bool masked = false;
	ZEND_PARSE_PARAMETERS_START(0, 3)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJ_OF_CLASS_OR_LONG(named, fermata_ce_close_code, number)
		Z_PARAM_STR(reason)
		Z_PARAM_BOOL(masked)
	ZEND_PARSE_PARAMETERS_END();
	char payload[FM_WS_CLOSE_BYTES];
	size_t len;
	FmError error;
	error.len = 0;
	FmStr text = reason ? fermata_str(reason) : FERMATA_LITERAL("");
	uint32_t code = fm_ws_close(named ? case_number(named) : number, text, payload, &len, &error);
	if (UNEXPECTED(code != FM_OK)) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	FmWsFrame frame = {.opcode = OPCODE_CLOSE, .fin = true, .masked = masked};
	zend_string *bytes = encode(&frame, (FmStr){payload, len});
	if (UNEXPECTED(!bytes)) {
		RETURN_THROWS();
	}
	RETURN_NEW_STR(bytes);
}

/* Returns the payload, unmasked and checked; NULL with an exception pending. */
static zend_string *decode_payload(FmWsFrame *frame, const char *payload)
{
	/* Strings of 0 or 1 byte are interned in PHP, but the payload is still checked. */
	char byte;
	FmError error;
	error.len = 0;
	bool small = frame->payload_bytes <= 1;
	zend_string *string = small ? NULL : zend_string_alloc(frame->payload_bytes, 0);
	uint32_t code = fm_ws_payload(frame, payload, small ? &byte : ZSTR_VAL(string), &error);
	if (UNEXPECTED(code != FM_OK)) {
		if (string) {
			zend_string_efree(string);
		}
		if (code == FM_PROTOCOL) {
			throw_violation(frame, &error);
		} else {
			fermata_throw(code, &error);
		}
		return NULL;
	}
	if (small) {
		return frame->payload_bytes ? ZSTR_CHAR((unsigned char)byte) : ZSTR_EMPTY_ALLOC();
	}
	ZSTR_VAL(string)[ZSTR_LEN(string)] = '\0';
	return string;
}

/* Creates a Frame; takes over payload. Sets all properties, so it does not copy the class's defaults first. */
static zend_object *frame_new(const FmWsFrame *frame, zend_string *payload, zend_object *opcode)
{
	zend_object *object = zend_objects_new(fermata_ce_frame);
	zval *at = object->properties_table;
	for (uint32_t i = 0; i < FRAME_PROPERTIES; i++) {
		Z_PROP_FLAG_P(at + i) = 0;
	}
	ZVAL_OBJ_COPY(at + FRAME_OPCODE, opcode);
	ZVAL_STR(at + FRAME_PAYLOAD, payload);
	ZVAL_BOOL(at + FRAME_FIN, frame->fin);
	ZVAL_BOOL(at + FRAME_MASKED, frame->masked);
	ZVAL_BOOL(at + FRAME_RSV1, frame->reserved & RSV1);
	ZVAL_BOOL(at + FRAME_RSV2, frame->reserved & RSV2);
	ZVAL_BOOL(at + FRAME_RSV3, frame->reserved & RSV3);
	ZVAL_LONG(at + FRAME_BYTES_CONSUMED, (zend_long)(frame->header_bytes + frame->payload_bytes));
	ZVAL_NULL(at + FRAME_CLOSE_CODE);
	ZVAL_NULL(at + FRAME_CLOSE_REASON);
	if (frame->opcode == OPCODE_CLOSE) {
		if (frame->close_code) {
			ZVAL_LONG(at + FRAME_CLOSE_CODE, frame->close_code);
			ZVAL_STRINGL(at + FRAME_CLOSE_REASON, ZSTR_VAL(payload) + CLOSE_CODE_BYTES, ZSTR_LEN(payload) - CLOSE_CODE_BYTES);
		} else {
			ZVAL_EMPTY_STRING(at + FRAME_CLOSE_REASON);
		}
	}
	return object;
}

ZEND_METHOD(Fermata_WebSocket_Codec, decode)
{
	zend_string *bytes;
	zend_long offset = 0, payload_bytes_max = PAYLOAD_BYTES_MAX;
	bool masked = false, either = true, rsv1 = false, rsv2 = false, rsv3 = false;
	ZEND_PARSE_PARAMETERS_START(1, 7)
		Z_PARAM_STR(bytes)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(offset)
		Z_PARAM_BOOL_OR_NULL(masked, either)
		Z_PARAM_BOOL(rsv1)
		Z_PARAM_BOOL(rsv2)
		Z_PARAM_BOOL(rsv3)
		Z_PARAM_LONG(payload_bytes_max)
	ZEND_PARSE_PARAMETERS_END();
	if (UNEXPECTED(offset < 0 || (size_t)offset > ZSTR_LEN(bytes))) {
		fermata_misuse("offset " ZEND_LONG_FMT " lies outside the %zu bytes given", offset, ZSTR_LEN(bytes));
		RETURN_THROWS();
	}
	if (UNEXPECTED(payload_bytes_max < 0)) {
		fermata_misuse("payloadBytesMax must not be negative, and " ZEND_LONG_FMT " is", payload_bytes_max);
		RETURN_THROWS();
	}
	const char *start = ZSTR_VAL(bytes) + offset;
	uint32_t masking = either ? FM_WS_MASK_EITHER : masked ? FM_WS_MASK_REQUIRED : FM_WS_MASK_FORBIDDEN;
	uint8_t reserved = (rsv1 ? RSV1 : 0) | (rsv2 ? RSV2 : 0) | (rsv3 ? RSV3 : 0);
	FmWsFrame frame;
	FmError error;
	error.len = 0;
	FmStr input = {start, ZSTR_LEN(bytes) - (size_t)offset};
	uint32_t code = fm_ws_header(input, masking, reserved, (size_t)payload_bytes_max, &frame, &error);
	if (code == FM_PARTIAL) {
		RETURN_NULL();
	}
	if (UNEXPECTED(code != FM_OK)) {
		if (code == FM_PROTOCOL) {
			throw_violation(&frame, &error);
		} else {
			fermata_throw(code, &error);
		}
		RETURN_THROWS();
	}
	zend_object *opcode = opcode_case(frame.opcode);
	if (UNEXPECTED(!opcode)) {
		RETURN_THROWS();
	}
	zend_string *payload = decode_payload(&frame, start + frame.header_bytes);
	if (UNEXPECTED(!payload)) {
		RETURN_THROWS();
	}
	RETURN_OBJ(frame_new(&frame, payload, opcode));
}

ZEND_METHOD(Fermata_WebSocket_Frame, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

/* Application code that throws this exception may omit the code. */
ZEND_METHOD(Fermata_Exception_ProtocolException, closeCode)
{
	zval code_zval;
	ZEND_PARSE_PARAMETERS_NONE();
	zval *code = zend_read_property_ex(Z_OBJCE_P(ZEND_THIS), Z_OBJ_P(ZEND_THIS), ZSTR_KNOWN(ZEND_STR_CODE), true, &code_zval);
	ZVAL_DEREF(code);
	zend_object *found = Z_TYPE_P(code) == IS_LONG ? enum_case(fermata_ce_close_code, Z_LVAL_P(code)) : NULL;
	if (!found) {
		found = enum_case(fermata_ce_close_code, 1002);
	}
	if (UNEXPECTED(!found)) {
		RETURN_THROWS();
	}
	RETURN_OBJ_COPY(found);
}
