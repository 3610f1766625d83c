/* Exceptions: what the core's codes become in PHP. */
#include "php_fermata.h"
#include "zend_exceptions.h"

ZEND_COLD void fermata_throw(uint32_t code, const FmError *error)
{
	zend_class_entry *ce;
	switch (code) {
		case FM_CONFIGURATION: ce = fermata_ce_configuration; break;
		case FM_MISUSE: ce = fermata_ce_misuse; break;
		case FM_BACKPRESSURE: ce = fermata_ce_backpressure; break;
		case FM_IO: ce = fermata_ce_connection; break;
		case FM_TIMEOUT: ce = fermata_ce_timeout; break;
		default: ce = zend_ce_error; break;
	}
	if (error->len) {
		char message[sizeof(error->message) + 1];
		fermata_copy(message, sizeof(message), "", (FmStr){error->message, error->len});
		zend_throw_exception(ce, message, 0);
	} else {
		zend_throw_exception_ex(ce, 0, "Fermata's core failed with code %u", code);
	}
}

ZEND_COLD void fermata_misuse(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	zend_string *message = zend_vstrpprintf(0, format, arguments);
	va_end(arguments);
	zend_throw_exception(fermata_ce_misuse, ZSTR_VAL(message), 0);
	zend_string_release(message);
}

/* Objects are immutable, so calling __construct() by hand a second time must not change one. */
ZEND_COLD bool fermata_constructed_twice(void)
{
	fermata_misuse("the object is already constructed; create a new one");
	return false;
}
