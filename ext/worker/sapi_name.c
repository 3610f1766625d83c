/* Runtime::setSapiName(): the value of PHP_SAPI and php_sapi_name().
 *
 * Libraries check this value to decide if they print HTML or terminal text. The server is a command-line process, so the value is
 * "cli". Worker scripts and the bridges of frameworks serve HTML, so they set a different name before they load the application.
 *
 * sapi_module.name does not change: PHP's C code checks it for php://stdin and dl().
 *
 * PHP compiles the value of PHP_SAPI into code that uses it. Files compiled before the change would still contain "cli" while
 * php_sapi_name() returns the new name. Two flags of the constant prevent this. Fermata clears CONST_PERSISTENT, so that OPcache does
 * not replace the constant by its value. It sets CONST_DEPRECATED while a file is compiled, so that PHP's compiler does not replace
 * it either. The cost: code that uses PHP_SAPI reads the constant at run time, by a pointer that the function caches. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "base/base.h"
#include "worker/sapi_name.h"
#include "SAPI.h"
#include "php_ini.h"
#include "zend_constants.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define NAME_BYTES_MAX 32

static struct {
	zend_constant *constant;       /* PHP_SAPI; NULL = not found, or before the first request */
	zend_constant *standard_input; /* STDIN while it is hidden; else NULL */
	zval original;                 /* value of PHP_SAPI as PHP registered it */
	zend_string *name;             /* current name; NULL = PHP's own */
	zend_internal_function *function;
	zif_handler function_of_php;
	zend_op_array *(*compile_file)(zend_file_handle *, int);
	zend_op_array *(*compile_string)(zend_string *, const char *, zend_compile_position);
} sapi;

static void set_flags(int flags)
{
	ZEND_CONSTANT_SET_FLAGS(sapi.constant, flags, ZEND_CONSTANT_MODULE_NUMBER(sapi.constant));
}

/* Evaluates `compile` with a flag set that prevents the compiler from replacing the constant by its value. A fatal error in the
 * compiled file leaves the expression by longjmp, so the flag is reset in both cases. */
#define WITHOUT_REPLACING(result, compile) do { \
	if (UNEXPECTED(!sapi.constant)) { \
		return compile; \
	} \
	int flags = (int)ZEND_CONSTANT_FLAGS(sapi.constant); \
	set_flags(flags | CONST_DEPRECATED); \
	zend_try { \
		result = compile; \
	} zend_catch { \
		set_flags(flags); \
		zend_bailout(); \
	} zend_end_try(); \
	set_flags(flags); \
} while (0)

static zend_op_array *compile_file_unreplaced(zend_file_handle *file, int type)
{
	zend_op_array *volatile result = NULL;
	WITHOUT_REPLACING(result, sapi.compile_file(file, type));
	return result;
}

static zend_op_array *compile_string_unreplaced(zend_string *source, const char *filename, zend_compile_position position)
{
	zend_op_array *volatile result = NULL;
	WITHOUT_REPLACING(result, sapi.compile_string(source, filename, position));
	return result;
}

static ZEND_NAMED_FUNCTION(php_sapi_name_here)
{
	if (EXPECTED(!sapi.name)) {
		sapi.function_of_php(INTERNAL_FUNCTION_PARAM_PASSTHRU);
		return;
	}
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_STR(sapi.name);
}

void fermata_sapi_name_start(void)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("php_sapi_name"));
	sapi.constant = zend_hash_str_find_ptr(EG(zend_constants), ZEND_STRL("PHP_SAPI"));
	if (!sapi.constant || !function || function->type != ZEND_INTERNAL_FUNCTION) {
		sapi.constant = NULL;
		return;
	}
	ZVAL_COPY_VALUE(&sapi.original, &sapi.constant->value);
	set_flags((int)ZEND_CONSTANT_FLAGS(sapi.constant) & ~CONST_PERSISTENT);
	if (!sapi.function) {
		/* Otherwise OPcache would call php_sapi_name() when it compiles a file. */
		function->common.fn_flags &= ~ZEND_ACC_COMPILE_TIME_EVAL;
		sapi.function = &function->internal_function;
		sapi.function_of_php = sapi.function->handler;
		sapi.function->handler = php_sapi_name_here;
	}
	if (zend_compile_file != compile_file_unreplaced) {
		sapi.compile_file = zend_compile_file;
		zend_compile_file = compile_file_unreplaced;
		sapi.compile_string = zend_compile_string;
		zend_compile_string = compile_string_unreplaced;
	}
}

/* Hides STDIN: libraries treat a process with this constant as a command-line program. Removes it only from the table, because
 * functions that have read it cache a pointer to it. */
static void hide_standard_input(void)
{
	HashTable *table = EG(zend_constants);
	dtor_func_t destructor = table->pDestructor;
	if (!sapi.standard_input) {
		sapi.standard_input = zend_hash_str_find_ptr(table, ZEND_STRL("STDIN"));
		table->pDestructor = NULL;
		zend_hash_str_del(table, ZEND_STRL("STDIN"));
		table->pDestructor = destructor;
	}
}

static void show_standard_input(void)
{
	zend_constant *constant = sapi.standard_input;
	sapi.standard_input = NULL;
	/* The application may have defined a STDIN of its own. */
	if (constant && !zend_hash_add_ptr(EG(zend_constants), constant->name, constant)) {
		EG(zend_constants)->pDestructor(&(zval){.value.ptr = constant});
	}
}

static void set_value(const zval *value)
{
	/* This does not change the constant's flags, which are in another part of the zval. */
	ZVAL_COPY_VALUE(&sapi.constant->value, value);
}

static void set_name(const char *name, size_t len)
{
	zval value;
	if (!sapi.constant || (sapi.name && zend_string_equals_cstr(sapi.name, name, len))) {
		return;
	}
	if (len == strlen(sapi_module.name) && memcmp(name, sapi_module.name, len) == 0) {
		sapi.name = NULL;
		set_value(&sapi.original);
		show_standard_input();
		return;
	}
	/* Never freed: values of the application refer to the string, and an application sets few names. */
	sapi.name = zend_string_init(name, len, true);
	zend_string_hash_val(sapi.name);
	GC_ADD_FLAGS(sapi.name, IS_STR_INTERNED | IS_STR_PERMANENT);
	ZVAL_INTERNED_STR(&value, sapi.name);
	set_value(&value);
	hide_standard_input();
}

void fermata_sapi_name_end(void)
{
	if (!sapi.constant) {
		return;
	}
	set_name(sapi_module.name, strlen(sapi_module.name));
	set_value(&sapi.original);
	set_flags((int)ZEND_CONSTANT_FLAGS(sapi.constant) | CONST_PERSISTENT);
	sapi.constant = NULL;
}

void fermata_sapi_name_shutdown(void)
{
	if (sapi.function) {
		sapi.function->handler = sapi.function_of_php;
		sapi.function = NULL;
	}
	if (zend_compile_file == compile_file_unreplaced) {
		zend_compile_file = sapi.compile_file;
	}
	if (zend_compile_string == compile_string_unreplaced) {
		zend_compile_string = sapi.compile_string;
	}
}

/* Returns the configured name; NULL if it is not configured. */
static const char *configured(void)
{
	const char *name = getenv("FERMATA_SAPI_NAME");
	name = name && *name ? name : INI_STR("fermata.sapi_name");
	return name && *name ? name : NULL;
}

static bool is_name(const char *name, size_t len)
{
	return len && len <= NAME_BYTES_MAX
		&& strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == len;
}

bool fermata_sapi_name_configure(void)
{
	const char *name = configured();
	if (UNEXPECTED(name)) {
		if (!is_name(name, strlen(name))) {
			zend_throw_exception_ex(fermata_ce_configuration, 0, "sapi_name has other characters than letters, digits, \"-\" and \"_\", "
				"or more than %d; set a name such as frankenphp", NAME_BYTES_MAX);
			return false;
		}
		set_name(name, strlen(name));
	}
	return true;
}

ZEND_METHOD(Fermata_Runtime, setSapiName)
{
	zend_string *name;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(name)
	ZEND_PARSE_PARAMETERS_END();

	if (UNEXPECTED(fermata.worker)) {
		fermata_misuse("the name is that of all workers; call Runtime::setSapiName() before run()");
		RETURN_THROWS();
	}
	if (UNEXPECTED(!is_name(ZSTR_VAL(name), ZSTR_LEN(name)))) {
		zend_argument_value_error(1, "must have 1 to %d letters, digits, \"-\" and \"_\"", NAME_BYTES_MAX);
		RETURN_THROWS();
	}
	const char *set = configured();
	if (UNEXPECTED(set && is_name(set, strlen(set)))) {
		set_name(set, strlen(set));
	} else {
		set_name(ZSTR_VAL(name), ZSTR_LEN(name));
	}
}
