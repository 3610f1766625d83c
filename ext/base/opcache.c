/* Adapts OPcache to a process that runs for days.
 *
 * OPcache uses PHP's request time as its clock, which in a server is the time of the start. Without the functions here, a file
 * written after the start would always be too new to be cached (opcache.file_update_protection), so every request would compile it.
 * A cached file would never be checked again (opcache.revalidate_freq), so changes would have no effect. */

#include "base/base.h"
#include "SAPI.h"

static struct {
	zend_ini_entry *protection; /* NULL = no OPcache, or no protection */
	zend_long seconds;
	time_t set_at; /* time of the last update; 0 = none */
} opcache;

/* Changes the value only inside OPcache. The INI entry, its text, and changes by handlers are not affected. */
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
		/* With a stopped clock no interval works, so OPcache checks a file at each use, which takes one stat(). */
		set_silently(revalidate, 0);
	}
	zend_ini_entry *protection = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("opcache.file_update_protection"));
	opcache.seconds = INI_INT("opcache.file_update_protection");
	opcache.protection = protection && protection->on_modify && opcache.seconds > 0 ? protection : NULL;
}

/* Adapts opcache.file_update_protection to the current time. OPcache compares a file's time with its clock minus this value, and
 * the clock stands still. Subtracting the time since the start from the value, which may become negative, has the effect of a
 * running clock. */
void fermata_opcache_set_time(time_t now)
{
	if (EXPECTED(now == opcache.set_at)) {
		return;
	}
	if (!opcache.set_at) {
		find();
	}
	opcache.set_at = now;
	if (opcache.protection) {
		zend_long seconds = opcache.seconds - (zend_long)(now - (time_t)sapi_get_request_time());
		/* 0 would disable the protection. */
		set_silently(opcache.protection, seconds ? seconds : 1);
	}
}
