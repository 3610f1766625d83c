/* Static methods of Fermata\File, and Fermata\File\Stat. */
#include "files/files.h"
#include "ext/standard/php_filestat.h"
#include "main/php_open_temporary_file.h"
#include "zend_enum.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define MODE_FILE 0666
#define MODE_DIRECTORY 0777
#define BLOCK_BYTES 65536
#define LINE_BYTES_MAX 1048576

enum { STAT_TYPE, STAT_SIZE, STAT_PERMISSIONS, STAT_OWNER, STAT_GROUP, STAT_INODE, STAT_DEVICE, STAT_LINKS, STAT_MODIFIED,
	STAT_ACCESSED, STAT_CHANGED };

zend_class_entry *fermata_ce_file_stat, *fermata_ce_file_type, *fermata_ce_write_mode, *fermata_ce_open_mode;

static zend_always_inline uint32_t case_number(zend_object *object, uint32_t otherwise)
{
	return object ? (uint32_t)Z_LVAL_P(zend_enum_fetch_case_value(object)) : otherwise;
}

/* Clears PHP's stat cache, so that PHP's functions see the change. */
static void changed(void)
{
	php_clear_stat_cache(false, NULL, 0);
}

ZEND_METHOD(Fermata_File, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

/* Reads a file that is in the page cache directly into a string; returns NULL if it is not in the page cache. */
static zend_string *read_cached(const zend_string *path, zend_long offset, zend_long length)
{
	if (UNEXPECTED(fermata_wait_obstacle())) {
		return NULL;
	}
	int64_t len = fm_file_cached(fermata.worker, fermata_str(path), (uint64_t)offset, length);
	if (len < 0) {
		return NULL;
	}
	zend_string *bytes = zend_string_alloc((size_t)len, false);
	if (UNEXPECTED(!fm_file_cached_read(ZSTR_VAL(bytes)))) {
		zend_string_efree(bytes);
		return NULL;
	}
	ZSTR_VAL(bytes)[len] = '\0';
	return bytes;
}

ZEND_METHOD(Fermata_File, read)
{
	zend_string *path;
	zend_long offset = 0, length = 0;
	bool to_end = true;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_PATH_STR(path)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(offset)
		Z_PARAM_LONG_OR_NULL(length, to_end)
	ZEND_PARSE_PARAMETERS_END();
	if (!fermata_file_check_path(path) || !fermata_file_check_count(offset, 0, "the offset")
		|| !fermata_file_check_count(length, 0, "the length")) {
		RETURN_THROWS();
	}
	zend_string *cached = read_cached(path, offset, to_end ? -1 : length);
	if (EXPECTED(cached)) {
		RETURN_STR(cached);
	}
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_READ, .path = fermata_str(path), .offset = (uint64_t)offset, .length = to_end ? -1 : length};
	if (!fermata_file_run(&job, &result)) {
		RETURN_THROWS();
	}
	RETURN_STR(fermata_file_bytes(&result));
}

ZEND_METHOD(Fermata_File, write)
{
	zend_string *path, *data;
	zend_object *mode = NULL;
	bool sync = false;
	zend_long permissions = MODE_FILE;
	ZEND_PARSE_PARAMETERS_START(2, 5)
		Z_PARAM_PATH_STR(path)
		Z_PARAM_STR(data)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJ_OF_CLASS(mode, fermata_ce_write_mode)
		Z_PARAM_BOOL(sync)
		Z_PARAM_LONG(permissions)
	ZEND_PARSE_PARAMETERS_END();
	if (!fermata_file_check_path(path)) {
		RETURN_THROWS();
	}
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_WRITE, .mode = case_number(mode, FM_WRITE_REPLACE), .permissions = (uint32_t)permissions,
		.flag = sync, .path = fermata_str(path), .data = fermata_str(data)};
	if (!fermata_file_run(&job, &result)) {
		RETURN_THROWS();
	}
	changed();
	RETURN_LONG((zend_long)result.count);
}

/* Runs a job with two paths, such as a rename. */
static void two_paths(INTERNAL_FUNCTION_PARAMETERS, uint32_t kind)
{
	zend_string *from, *to;
	bool overwrite = true;
	ZEND_PARSE_PARAMETERS_START(2, 3)
		Z_PARAM_PATH_STR(from)
		Z_PARAM_PATH_STR(to)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(overwrite)
	ZEND_PARSE_PARAMETERS_END();
	if (!fermata_file_check_path(from) || !fermata_file_check_path(to)) {
		RETURN_THROWS();
	}
	FmFileResult result;
	FmFileJob job = {.kind = kind, .flag = overwrite, .path = fermata_str(from), .other = fermata_str(to)};
	if (!fermata_file_run(&job, &result)) {
		RETURN_THROWS();
	}
	changed();
	if (kind == FM_FILE_COPY) {
		RETURN_LONG((zend_long)result.count);
	}
}

ZEND_METHOD(Fermata_File, copy)
{
	two_paths(INTERNAL_FUNCTION_PARAM_PASSTHRU, FM_FILE_COPY);
}

ZEND_METHOD(Fermata_File, rename)
{
	two_paths(INTERNAL_FUNCTION_PARAM_PASSTHRU, FM_FILE_RENAME);
}

static void make_stat(zval *return_value, const FmFileResult *found)
{
	static const char *const types[] = {"File", "Directory", "Link", "Other"};
	object_init_ex(return_value, fermata_ce_file_stat);
	zend_object *stat = Z_OBJ_P(return_value);
	ZVAL_OBJ_COPY(OBJ_PROP_NUM(stat, STAT_TYPE), zend_enum_get_case_cstr(fermata_ce_file_type, types[found->file_type]));
	ZVAL_LONG(OBJ_PROP_NUM(stat, STAT_SIZE), (zend_long)found->size);
	ZVAL_LONG(OBJ_PROP_NUM(stat, STAT_PERMISSIONS), found->permissions);
	ZVAL_LONG(OBJ_PROP_NUM(stat, STAT_OWNER), found->owner);
	ZVAL_LONG(OBJ_PROP_NUM(stat, STAT_GROUP), found->group);
	ZVAL_LONG(OBJ_PROP_NUM(stat, STAT_INODE), (zend_long)found->inode);
	ZVAL_LONG(OBJ_PROP_NUM(stat, STAT_DEVICE), (zend_long)found->device);
	ZVAL_LONG(OBJ_PROP_NUM(stat, STAT_LINKS), (zend_long)found->links);
	ZVAL_DOUBLE(OBJ_PROP_NUM(stat, STAT_MODIFIED), found->modified_s);
	ZVAL_DOUBLE(OBJ_PROP_NUM(stat, STAT_ACCESSED), found->accessed_s);
	ZVAL_DOUBLE(OBJ_PROP_NUM(stat, STAT_CHANGED), found->changed_s);
}

ZEND_METHOD(Fermata_File, stat)
{
	zend_string *path;
	bool follow_links = true;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_PATH_STR(path)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(follow_links)
	ZEND_PARSE_PARAMETERS_END();
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_STAT, .flag = follow_links, .path = fermata_str(path)};
	if (!fermata_file_check_path(path) || !fermata_file_run(&job, &result)) {
		RETURN_THROWS();
	}
	make_stat(return_value, &result);
}

ZEND_METHOD(Fermata_File, exists)
{
	zend_string *path;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_PATH_STR(path)
	ZEND_PARSE_PARAMETERS_END();
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_STAT, .flag = false, .path = fermata_str(path)};
	if (!fermata_file_check_path(path)) {
		RETURN_THROWS();
	}
	if (fermata_file_run(&job, &result)) {
		RETURN_TRUE;
	}
	if (EG(exception) && instanceof_function(EG(exception)->ce, fermata_ce_file_failure)) {
		zend_clear_exception();
		RETURN_FALSE;
	}
}

ZEND_METHOD(Fermata_File, list)
{
	zend_string *path;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_PATH_STR(path)
	ZEND_PARSE_PARAMETERS_END();
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_LIST, .path = fermata_str(path)};
	if (!fermata_file_check_path(path) || !fermata_file_run(&job, &result)) {
		RETURN_THROWS();
	}
	array_init(return_value);
	const char *name = result.bytes.ptr, *end = name + result.bytes.len;
	while (name < end) {
		size_t len = strlen(name);
		add_next_index_stringl(return_value, name, len);
		name += len + 1;
	}
	fm_file_release();
}

ZEND_METHOD(Fermata_File, remove)
{
	zend_string *path;
	bool recursive = false;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_PATH_STR(path)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(recursive)
	ZEND_PARSE_PARAMETERS_END();
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_REMOVE, .flag = recursive, .path = fermata_str(path)};
	if (!fermata_file_check_path(path) || !fermata_file_run(&job, &result)) {
		RETURN_THROWS();
	}
	changed();
}

ZEND_METHOD(Fermata_File, makeDirectory)
{
	zend_string *path;
	bool recursive = true;
	zend_long permissions = MODE_DIRECTORY;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_PATH_STR(path)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(recursive)
		Z_PARAM_LONG(permissions)
	ZEND_PARSE_PARAMETERS_END();
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_MAKE_DIRECTORY, .flag = recursive, .permissions = (uint32_t)permissions, .path = fermata_str(path)};
	if (!fermata_file_check_path(path) || !fermata_file_run(&job, &result)) {
		RETURN_THROWS();
	}
	changed();
}

/* Returns false with an exception pending. */
static bool open_file(zval *file, zend_string *path, uint32_t mode, zend_long permissions)
{
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_OPEN, .mode = mode, .permissions = (uint32_t)permissions, .path = fermata_str(path)};
	if (!fermata_file_check_path(path) || !fermata_file_run(&job, &result)) {
		return false;
	}
	fermata_file_make(file, &result);
	return true;
}

ZEND_METHOD(Fermata_File, open)
{
	zend_string *path;
	zend_object *mode = NULL;
	zend_long permissions = MODE_FILE;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_PATH_STR(path)
		Z_PARAM_OPTIONAL
		Z_PARAM_OBJ_OF_CLASS(mode, fermata_ce_open_mode)
		Z_PARAM_LONG(permissions)
	ZEND_PARSE_PARAMETERS_END();
	if (!open_file(return_value, path, case_number(mode, FM_OPEN_READ), permissions)) {
		RETURN_THROWS();
	}
}

ZEND_METHOD(Fermata_File, temporary)
{
	zend_string *directory = NULL, *prefix = NULL;
	ZEND_PARSE_PARAMETERS_START(0, 2)
		Z_PARAM_OPTIONAL
		Z_PARAM_PATH_STR_OR_NULL(directory)
		Z_PARAM_PATH_STR(prefix)
	ZEND_PARSE_PARAMETERS_END();
	if (prefix && memchr(ZSTR_VAL(prefix), '/', ZSTR_LEN(prefix))) {
		fermata_misuse("the prefix of a temporary file must not contain a /; name a directory instead");
		RETURN_THROWS();
	}
	const char *fallback = php_get_temporary_directory();
	directory = directory ? zend_string_copy(directory) : zend_string_init(fallback, strlen(fallback), false);
	FmFileResult result;
	FmFileJob job = {
		.kind = FM_FILE_TEMPORARY,
		.path = fermata_str(directory),
		.other = prefix ? fermata_str(prefix) : FERMATA_LITERAL("fermata-"),
	};
	if (fermata_file_check_path(directory) && fermata_file_run(&job, &result)) {
		fermata_file_make(return_value, &result);
	}
	zend_string_release(directory);
}

static void pieces(INTERNAL_FUNCTION_PARAMETERS, bool lines, zend_long bytes)
{
	zend_string *path;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_PATH_STR(path)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(bytes)
	ZEND_PARSE_PARAMETERS_END();
	zval file;
	if (!fermata_file_check_count(bytes, 1, "the number of bytes") || !open_file(&file, path, FM_OPEN_READ, 0)) {
		RETURN_THROWS();
	}
	fermata_pieces_make(return_value, &file, lines, bytes);
}

ZEND_METHOD(Fermata_File, lines)
{
	pieces(INTERNAL_FUNCTION_PARAM_PASSTHRU, true, LINE_BYTES_MAX);
}

ZEND_METHOD(Fermata_File, blocks)
{
	pieces(INTERNAL_FUNCTION_PARAM_PASSTHRU, false, BLOCK_BYTES);
}

/* Stat */

static bool is_type(const zval *this, const char *name)
{
	return Z_OBJ_P(OBJ_PROP_NUM(Z_OBJ_P(this), STAT_TYPE)) == zend_enum_get_case_cstr(fermata_ce_file_type, name);
}

ZEND_METHOD(Fermata_File_Stat, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

ZEND_METHOD(Fermata_File_Stat, isFile)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(is_type(ZEND_THIS, "File"));
}

ZEND_METHOD(Fermata_File_Stat, isDirectory)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(is_type(ZEND_THIS, "Directory"));
}
