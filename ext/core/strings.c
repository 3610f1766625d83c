/* What zend_smart_str.h asks for and not every update of PHP has; see versions.h. */
#include "php_fermata.h"

/* Nothing here asks for a string that may fail: PHP ends the request when there is no memory, as smart_str_erealloc() does. */
ZEND_API bool ZEND_FASTCALL fermata_smart_str_ferealloc(smart_str *str, size_t len, bool fallible)
{
	ZEND_ASSERT(!fallible);
	smart_str_erealloc(str, len);
	return true;
}

ZEND_API bool ZEND_FASTCALL fermata_smart_str_frealloc(smart_str *str, size_t len, bool fallible)
{
	ZEND_ASSERT(!fallible);
	smart_str_realloc(str, len);
	return true;
}
