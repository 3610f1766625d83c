/* Functions that zend_smart_str.h calls and that older updates of PHP do not define; see versions.h. */
#include "base/base.h"

/* The extension never sets `fallible`: out of memory, PHP ends the request, as smart_str_erealloc() does. */
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
