/* Fermata\UploadedFile, and PHP arrays of the multipart forms that the core has parsed. */
#include "http/http.h"
#include "base/collisions.h"
#include "state/quiet.h"
#include "ext/standard/file.h"
#include "ext/standard/php_filestat.h"
#include "main/fopen_wrappers.h"
#include "main/php_variables.h"
#include "zend_exceptions.h"
#include <sys/stat.h>
#include "base/optimize_size.h"

#define MODE_NEW_FILE 0666

enum { PROPERTY_NAME, PROPERTY_TYPE, PROPERTY_SIZE, PROPERTY_PATH };

typedef struct uploaded_file {
	bool moved;
	zend_object std;
} uploaded_file;

static zend_object_handlers uploaded_file_handlers;

#define THIS_FILE() FERMATA_FROM(uploaded_file, Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *uploaded_file_create(zend_class_entry *ce)
{
	uploaded_file *file = zend_object_alloc(sizeof(uploaded_file), ce);
	file->moved = false;
	zend_object_std_init(&file->std, ce);
	object_properties_init(&file->std, ce);
	file->std.handlers = &uploaded_file_handlers;
	return &file->std;
}

void fermata_uploaded_file_init(void)
{
	fermata_ce_uploaded_file->create_object = uploaded_file_create;
	memcpy(&uploaded_file_handlers, zend_get_std_object_handlers(), sizeof(uploaded_file_handlers));
	uploaded_file_handlers.offset = XtOffsetOf(uploaded_file, std);
	uploaded_file_handlers.clone_obj = NULL;
}

static void uploaded_file_make(zval *to, const FmUploadedFile *from)
{
	zend_object *object = uploaded_file_create(fermata_ce_uploaded_file);
	ZVAL_STRINGL_FAST(OBJ_PROP_NUM(object, PROPERTY_NAME), from->name.ptr, from->name.len);
	if (from->content_type.ptr) {
		ZVAL_STRINGL_FAST(OBJ_PROP_NUM(object, PROPERTY_TYPE), from->content_type.ptr, from->content_type.len);
	} else {
		ZVAL_EMPTY_STRING(OBJ_PROP_NUM(object, PROPERTY_TYPE));
	}
	ZVAL_LONG(OBJ_PROP_NUM(object, PROPERTY_SIZE), (zend_long)from->bytes);
	ZVAL_STRINGL(OBJ_PROP_NUM(object, PROPERTY_PATH), from->path.ptr, from->path.len);
	ZVAL_OBJ(to, object);
}

/* Forms parsed by the core */

/* Returns the form's fields. Names follow PHP's rules: brackets create arrays. The core has already limited the number of fields.
 * After too many colliding names, an exception is pending. */
zend_array *fermata_uploads_fields(uint32_t upload)
{
	FmStr name, value;
	zval array;
	fermata_collisions collisions;
	array_init(&array);
	fermata_collisions_begin(&collisions);
	fermata_quiet_begin();
	for (size_t i = 0; !collisions.is_over && fermata.worker && fm_upload_field_at(fermata.worker, upload, i, &name, &value); i++) {
		/* PHP requires a NUL byte at the end. */
		char *text = estrndup(name.ptr, name.len);
		fermata_collisions_allow_variable(&collisions, Z_ARR(array), text);
		php_register_variable_safe(text, value.len ? value.ptr : "", value.len, &array);
		efree(text);
	}
	fermata_quiet_end();
	if (UNEXPECTED(collisions.is_over && !EG(exception))) {
		fermata_collisions_refuse("there are too many");
	}
	return Z_ARR(array);
}

zend_array *fermata_uploads_files(uint32_t upload)
{
	FmUploadedFile file;
	zval array, value;
	array_init(&array);
	fermata_quiet_begin();
	for (size_t i = 0; fermata.worker && fm_upload_file_at(fermata.worker, upload, i, &file); i++) {
		char *text = estrndup(file.field.ptr, file.field.len);
		uploaded_file_make(&value, &file);
		php_register_variable_ex(text, &value, &array);
		efree(text);
	}
	fermata_quiet_end();
	return Z_ARR(array);
}

/* Returns the path of the body's file; NULL if the body is not in a file. */
zend_string *fermata_uploads_body_path(uint32_t upload)
{
	FmStr path;
	if (!fermata.worker || !fm_upload_body(fermata.worker, upload, &path)) {
		return NULL;
	}
	return zend_string_init(path.ptr, path.len, false);
}

/* Methods */

/* Throws an UploadException. If the application's error handler has thrown an exception for a warning, that becomes the previous
 * exception. */
ZEND_COLD void fermata_upload_failed(const char *what, const zend_string *path)
{
	zend_throw_exception_ex(fermata_ce_upload_failed, 0, "%s (%s): %s", what, ZSTR_VAL(path), strerror(errno));
}

/* Returns false with a MisuseError pending if the file was moved. */
static bool check_here(const uploaded_file *file)
{
	if (file->moved) {
		fermata_misuse("the uploaded file was moved already; use the path that moveTo() was given");
	}
	return !file->moved;
}

/* Renames the file, or copies it if the target is on another file system. */
static bool move(const char *from, const char *to)
{
	if (VCWD_RENAME(from, to) == 0) {
		return true;
	}
	if (errno != EXDEV) {
		return false;
	}
	if (php_copy_file_ex(from, to, STREAM_DISABLE_OPEN_BASEDIR) != SUCCESS) {
		return false;
	}
	VCWD_UNLINK(from);
	return true;
}

ZEND_METHOD(Fermata_UploadedFile, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_UploadedFile, moveTo)
{
	zend_string *to;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_PATH_STR(to)
	ZEND_PARSE_PARAMETERS_END();
	uploaded_file *file = THIS_FILE();
	const zend_string *from = Z_STR_P(OBJ_PROP_NUM(&file->std, PROPERTY_PATH));
	if (!check_here(file)) {
		RETURN_THROWS();
	}
	if (php_check_open_basedir_ex(ZSTR_VAL(to), 0)) {
		fermata_upload_failed("open_basedir does not allow the uploaded file's new place", to);
		RETURN_THROWS();
	}
	if (!move(ZSTR_VAL(from), ZSTR_VAL(to))) {
		fermata_upload_failed("the uploaded file cannot be moved", to);
		RETURN_THROWS();
	}
	file->moved = true;
	/* Temporary files have mode 0600; give this one the mode of a file that PHP creates. */
	mode_t mask = umask(0);
	umask(mask);
	VCWD_CHMOD(ZSTR_VAL(to), MODE_NEW_FILE & ~mask);
	php_clear_stat_cache(false, NULL, 0);
}

ZEND_METHOD(Fermata_UploadedFile, contents)
{
	ZEND_PARSE_PARAMETERS_NONE();
	const uploaded_file *file = THIS_FILE();
	const zend_string *path = Z_STR_P(OBJ_PROP_NUM(&file->std, PROPERTY_PATH));
	if (!check_here(file)) {
		RETURN_THROWS();
	}
	php_stream *stream = php_stream_open_wrapper(ZSTR_VAL(path), "rb", IGNORE_URL | STREAM_DISABLE_OPEN_BASEDIR, NULL);
	if (!stream) {
		fermata_upload_failed("the uploaded file cannot be read, for it lasts as long as its request", path);
		RETURN_THROWS();
	}
	zend_string *contents = php_stream_copy_to_mem(stream, PHP_STREAM_COPY_ALL, false);
	php_stream_close(stream);
	if (contents) {
		RETURN_STR(contents);
	}
	RETURN_EMPTY_STRING();
}
