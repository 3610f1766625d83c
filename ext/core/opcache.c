/* OPcache under a server that runs for days: it goes by the time at which PHP has begun the request, which is the server's start.
   To it, each file that was written later is for ever too new to be kept (opcache.file_update_protection), so what a framework
   writes when it is first needed, such as compiled templates, would be compiled again by every request; and what it keeps it
   looks at no second time (opcache.revalidate_freq), so a changed template would be shown as it was. */

#include "php_fermata.h"
#include "SAPI.h"

static struct {
	zend_ini_entry *protection; /* NULL = there is no OPcache, or no protection */
	zend_long seconds;
	time_t told; /* when it was last told; 0 = never */
} opcache;

/* As it is for OPcache: the setting, its text and what handlers change of it stay as they are. */
static void set_silently(zend_ini_entry *entry, zend_long value)
{
	zend_string *text = zend_long_to_str(value);
	entry->on_modify(entry, text, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3, ZEND_INI_STAGE_RUNTIME);
	zend_string_release(text);
}

static void find(void)
{
	zend_ini_entry *revalidate = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("opcache.revalidate_freq"));
	if (revalidate && revalidate->on_modify) {
		/* No value says "again in two seconds" to a clock that stands still: it looks each time, which is a stat() for a file. */
		set_silently(revalidate, 0);
	}
	zend_ini_entry *protection = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("opcache.file_update_protection"));
	opcache.seconds = INI_INT("opcache.file_update_protection");
	opcache.protection = protection && protection->on_modify && opcache.seconds > 0 ? protection : NULL;
}

/* It compares a file's time with its own less the protection, so a protection that is less by the time that has passed, and
   negative after a while, is the protection from now. */
void fermata_opcache_tell_time(time_t now)
{
	if (EXPECTED(now == opcache.told)) {
		return;
	}
	if (!opcache.told) {
		find();
	}
	opcache.told = now;
	if (opcache.protection) {
		zend_long seconds = opcache.seconds - (zend_long)(now - (time_t)sapi_get_request_time());
		/* 0 would be none. */
		set_silently(opcache.protection, seconds ? seconds : 1);
	}
}
