/* Fermata\Runtime and Fermata\Hook turn on hooks, which make PHP's blocking functions wait in a fiber. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "clients/clients.h"
#include "ext/standard/info.h"
#include "zend_enum.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define OBJECTS_MAX 4

/* Calls to replace, and the objects that make these calls. Objects that are not loaded are skipped. */
typedef struct exchange {
	const fermata_replacement *calls;
	const size_t *len;
	const char *objects[OBJECTS_MAX];
} exchange;

#define EXCHANGES_MAX 5
#define PREPARES_MAX 2
#define CALLS(name) fermata_calls_##name, &fermata_calls_##name##_len

typedef struct hook {
	const char *name; /* name of the enum case */
	const char *extensions[2]; /* at least one must be loaded; NULL = PHP itself */
	bool (*prepare[PREPARES_MAX])(void); /* called in this order; each returns false if the hook cannot work */
	exchange exchanges[EXCHANGES_MAX];
} hook;

static const hook hooks[FERMATA_HOOKS_LEN] = {
	[FERMATA_HOOK_SLEEP] = {"Sleep", {NULL}, {NULL}, {{CALLS(sleep), {"php", "redis.so", "pgsql.so"}}}},
	[FERMATA_HOOK_STREAMS] = {"Streams", {NULL}, {fermata_hook_streams}, {
		{CALLS(poll), {"php", "openssl.so", "ftp.so", "redis.so"}},
		{CALLS(sockets), {"php", "openssl.so", "ftp.so"}},
		{CALLS(close), {"php", "openssl.so", "ftp.so"}},
	}},
	[FERMATA_HOOK_STREAM_SELECT] = {"StreamSelect", {NULL}, {NULL}, {{CALLS(select), {"php", "mysqlnd.so"}}, {CALLS(close), {"php"}}}},
	[FERMATA_HOOK_SOCKETS] = {"Sockets", {"sockets"}, {NULL}, {
		{CALLS(sockets), {"sockets.so"}},
		{CALLS(sockets_write), {"sockets.so"}},
		{CALLS(select), {"sockets.so"}},
		{CALLS(close), {"sockets.so"}},
	}},
	[FERMATA_HOOK_DNS] = {"Dns", {NULL}, {fermata_hook_names}, {{CALLS(dns), {"php", "sockets.so", "libpq.so"}}}},
	[FERMATA_HOOK_PROCESSES] = {"Processes", {NULL}, {fermata_hook_streams, fermata_spawn_start}, {
		{CALLS(processes), {"php"}},
		{CALLS(spawn), {"php"}},
		{CALLS(descriptors), {"php"}},
		{CALLS(close), {"php"}},
	}},
	[FERMATA_HOOK_FILES] = {"Files", {NULL}, {fermata_hook_streams, fermata_hook_files}, {
		{CALLS(files), {"php"}},
		{CALLS(descriptors), {"php"}},
		{CALLS(close), {"php"}},
	}},
	[FERMATA_HOOK_CURL] = {"Curl", {"curl"}, {NULL}, {{CALLS(poll_curl), {"libcurl"}}}},
	[FERMATA_HOOK_POSTGRESQL] = {"PostgreSql", {"pgsql", "pdo_pgsql"}, {fermata_hook_libpq}, {
		{CALLS(libpq), {"libpq.so", "pdo_pgsql.so"}},
	}},
	[FERMATA_HOOK_SQLITE] = {"Sqlite", {"pdo_sqlite", "sqlite3"}, {fermata_hook_sqlite}, {
		{CALLS(sqlite), {"pdo_sqlite.so", "sqlite3.so"}},
		{CALLS(sqlite_sync), {"libsqlite3.so"}},
	}},
};

static uint32_t changed[FERMATA_HOOKS_LEN];

static bool is_extension(const char *name, size_t len)
{
	return zend_hash_str_exists(&module_registry, name, len);
}

static bool is_needed(const hook *it)
{
	bool needed = !it->extensions[0];
	for (int i = 0; i < 2 && it->extensions[i]; i++) {
		needed |= is_extension(it->extensions[i], strlen(it->extensions[i]));
	}
	return needed;
}

/* Replaces the calls made by `object`. An extension or library may also be linked into PHP's own object. */
static uint32_t patch(const hook *it, const char *object, const exchange *what, uint32_t *failed)
{
	if (!fermata_patch_has(object)) {
		const char *dot = strchr(object, '.');
		bool is_inside = dot ? is_extension(object, (size_t)(dot - object)) : it->extensions[0] != NULL;
		/* The replacements for libcurl and libpq must not be used for PHP's own connections. */
		if (!is_inside || what->calls == fermata_calls_poll_curl || what->calls == fermata_calls_libpq) {
			return 0;
		}
		object = "php";
	}
	return fermata_patch(object, what->calls, *what->len, failed);
}

static void turn_on(fermata_hook which)
{
	const hook *it = &hooks[which];
	if (fermata_hook_is_on(which) || !is_needed(it) || !fermata_patch_is_possible() || !fermata_hook_guards()) {
		return;
	}
	uint32_t before = fermata_patch_len(), failed = 0;
	fermata_hook_set_on(which, true);
	for (int i = 0; i < PREPARES_MAX && it->prepare[i]; i++) {
		if (UNEXPECTED(!it->prepare[i]())) {
			return;
		}
	}
	for (int i = 0; i < EXCHANGES_MAX && it->exchanges[i].calls; i++) {
		const exchange *what = &it->exchanges[i];
		for (int object = 0; object < OBJECTS_MAX && what->objects[object]; object++) {
			changed[which] += patch(it, what->objects[object], what, &failed);
		}
	}
	if (UNEXPECTED(failed)) {
		/* Undo all changes: a partly installed hook would be worse than none. */
		fermata_patch_undo(before);
		changed[which] = 0;
	}
}

/* Checks that the hook is installed. Returns false with an exception pending. */
static bool check(fermata_hook which)
{
	if (UNEXPECTED(!fermata_patch_is_possible())) {
		zend_throw_exception(fermata_ce_configuration, "hooks need Linux on a 64-bit x86 or ARM processor", 0);
		return false;
	}
	if (UNEXPECTED(!fermata_hook_guards())) {
		zend_throw_exception(fermata_ce_configuration, "hooks cannot guard connections: other extensions have reserved all that PHP "
			"gives to extensions in a function; load fewer of those that are for debugging and profiling", 0);
		return false;
	}
	if (UNEXPECTED(fermata_hook_is_on(which) && !changed[which])) {
		fermata_hook_set_on(which, false);
		zend_throw_exception_ex(fermata_ce_configuration, 0, "Hook::%s cannot work: this PHP does not call the C library by way of "
			"the dynamic linker, or the system forbids to change its tables (no /proc, or a policy); use a PHP that is not linked "
			"statically, and mount /proc", hooks[which].name);
		return false;
	}
	return true;
}

/* Turns the hook on. Returns false with an exception pending. */
static bool turn_on_checked(fermata_hook which)
{
	turn_on(which);
	return check(which);
}

ZEND_METHOD(Fermata_Runtime, hook)
{
	zval *cases;
	uint32_t cases_len;
	ZEND_PARSE_PARAMETERS_START(0, -1)
		Z_PARAM_VARIADIC('*', cases, cases_len)
	ZEND_PARSE_PARAMETERS_END();

	if (UNEXPECTED(fermata.worker)) {
		fermata_misuse("hooks are for all workers; call Runtime::hook() before run()");
		RETURN_THROWS();
	}
	for (uint32_t i = 0; i < cases_len; i++) {
		if (UNEXPECTED(Z_TYPE(cases[i]) != IS_OBJECT || Z_OBJCE(cases[i]) != fermata_ce_hook)) {
			zend_argument_type_error(i + 1, "must be of type Fermata\\Hook, %s given", fermata_type_name(&cases[i]));
			RETURN_THROWS();
		}
	}
	for (uint32_t i = 0; i < cases_len; i++) {
		const char *name = Z_STRVAL_P(zend_enum_fetch_case_name(Z_OBJ(cases[i])));
		for (fermata_hook which = 0; which < FERMATA_HOOKS_LEN; which++) {
			if (strcmp(name, hooks[which].name) == 0) {
				if (UNEXPECTED(!turn_on_checked(which))) {
					RETURN_THROWS();
				}
			}
		}
	}
	/* Without an argument, turn on all hooks. */
	for (fermata_hook which = 0; !cases_len && which < FERMATA_HOOKS_LEN; which++) {
		if (UNEXPECTED(!turn_on_checked(which))) {
			RETURN_THROWS();
		}
	}
}

ZEND_METHOD(Fermata_Runtime, hooks)
{
	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	for (fermata_hook which = 0; which < FERMATA_HOOKS_LEN; which++) {
		if (fermata_hook_is_on(which)) {
			zval one;
			ZVAL_OBJ_COPY(&one, zend_enum_get_case_cstr(fermata_ce_hook, hooks[which].name));
			add_next_index_zval(return_value, &one);
		}
	}
}

/* Undoes all changes: after PHP has unloaded the extension, it continues to call the C library. */
PHP_MSHUTDOWN_FUNCTION(fermata_hooks)
{
	fermata_patch_undo(0);
	fermata_guards_undo();
	fermata_spawn_end();
	fermata_hook_streams_end();
	fermata_hook_files_end();
	fermata_hook_sqlite_end();
	return SUCCESS;
}

PHP_MINFO_FUNCTION(fermata_hooks)
{
	php_info_print_table_start();
	php_info_print_table_header(2, "Hook (Fermata\\Runtime::hook)", "State");
	for (fermata_hook which = 0; which < FERMATA_HOOKS_LEN; which++) {
		const char *state = "can be turned on";
		if (fermata_hook_is_on(which)) {
			state = "on";
		} else if (!fermata_patch_is_possible()) {
			state = "not on this processor";
		} else if (!is_needed(&hooks[which])) {
			state = "not needed: its extension is not loaded";
		}
		php_info_print_table_row(2, hooks[which].name, state);
	}
	php_info_print_table_end();
}
