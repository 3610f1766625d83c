/* JSON in and out, with the options that Fermata's methods promise. */
#include "php_fermata.h"
#include "zend_exceptions.h"
#include "zend_smart_str.h"
#include "ext/json/php_json.h"

#define FERMATA_JSON_OPTIONS (PHP_JSON_UNESCAPED_SLASHES | PHP_JSON_UNESCAPED_UNICODE)

/* Throws what json_encode() would throw. The message texts are private to ext/json; json_last_error_msg() has them. */
static ZEND_COLD void throw_json_error(void)
{
	zval name, message;
	zend_class_entry *ce = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("jsonexception"));
	ZVAL_STRING(&name, "json_last_error_msg");
	ZVAL_UNDEF(&message);
	call_user_function(NULL, NULL, &name, &message, 0, NULL);
	zval_ptr_dtor(&name);
	zend_throw_exception(ce ? ce : zend_ce_exception,
		Z_TYPE(message) == IS_STRING ? Z_STRVAL(message) : "JSON error", (zend_long)JSON_G(error_code));
	zval_ptr_dtor(&message);
}

/* NULL after an exception. The string comes straight out of the encoder's buffer, without a copy. */
zend_string *fermata_json_encode(zval *data)
{
	smart_str buffer = {0};
	zend_result result = php_json_encode_ex(&buffer, data, FERMATA_JSON_OPTIONS, PHP_JSON_PARSER_DEFAULT_DEPTH);
	/* For INF and NAN the encoder writes 0 and succeeds: only the code tells. */
	if (EXPECTED(result == SUCCESS && JSON_G(error_code) == PHP_JSON_ERROR_NONE && !EG(exception))) {
		smart_str_0(&buffer);
		return buffer.s ? buffer.s : ZSTR_EMPTY_ALLOC();
	}
	smart_str_free(&buffer);
	if (!EG(exception)) {
		throw_json_error();
	}
	return NULL;
}

/* Objects become arrays. False after a JsonException. */
bool fermata_json_decode(zval *result, const zend_string *text)
{
	return php_json_decode_ex(result, ZSTR_VAL(text), ZSTR_LEN(text), PHP_JSON_OBJECT_AS_ARRAY | PHP_JSON_THROW_ON_ERROR,
		PHP_JSON_PARSER_DEFAULT_DEPTH) == SUCCESS && !EG(exception);
}
