/* Objects of Fermata\File: open files. */
#include "files/files.h"
#include "ext/standard/php_filestat.h"
#include "zend_exceptions.h"
#include "base/optimize_size.h"

#define BLOCK_BYTES 65536
#define LINE_BYTES_MAX 1048576

enum { FILE_PATH };

zend_class_entry *fermata_ce_file;
static zend_object_handlers file_handlers;

#define THIS_FILE() FERMATA_FROM(fermata_file, Z_OBJ_P(ZEND_THIS))

/* Object lifetime */

static zend_object *file_create(zend_class_entry *ce)
{
	fermata_file *file = zend_object_alloc(sizeof(fermata_file), ce);
	memset(file, 0, XtOffsetOf(fermata_file, std));
	zend_object_std_init(&file->std, ce);
	object_properties_init(&file->std, ce);
	file->std.handlers = &file_handlers;
	return &file->std;
}

static void close_file(fermata_file *file)
{
	if (file->open) {
		fm_open_file_close(file->open);
		fm_open_file_free(file->open);
		file->open = NULL;
	}
}

static void file_free(zend_object *object)
{
	close_file(FERMATA_FROM(fermata_file, object));
	zend_object_std_dtor(object);
}

void fermata_file_handle_init(void)
{
	fermata_ce_file->create_object = file_create;
	memcpy(&file_handlers, zend_get_std_object_handlers(), sizeof(file_handlers));
	file_handlers.offset = XtOffsetOf(fermata_file, std);
	file_handlers.free_obj = file_free;
	file_handlers.clone_obj = NULL;
	file_handlers.compare = zend_objects_not_comparable;
}

void fermata_file_make(zval *return_value, const FmFileResult *result)
{
	ZVAL_OBJ(return_value, file_create(fermata_ce_file));
	fermata_file *file = FERMATA_FROM(fermata_file, Z_OBJ_P(return_value));
	file->open = result->file;
	ZVAL_STRINGL(OBJ_PROP_NUM(&file->std, FILE_PATH), result->bytes.ptr, result->bytes.len);
}

/* Methods */

static zend_string *path_of(const fermata_file *file)
{
	return Z_STR_P(OBJ_PROP_NUM(&file->std, FILE_PATH));
}

static bool check_open(const fermata_file *file)
{
	if (UNEXPECTED(!file->open)) {
		fermata_misuse("the file %s is closed; open it again", ZSTR_VAL(path_of(file)));
	}
	return file->open != NULL;
}

/* The caller's frame holds the object while the job is awaited, even if the application drops it. The application may call keep(),
 * which changes the path, during the wait. */
bool fermata_file_run_on(const fermata_file *file, FmFileJob *job, FmFileResult *result)
{
	zend_string *path = zend_string_copy(path_of(file));
	job->file = file->open;
	job->path = fermata_str(path);
	bool done = fermata_file_run(job, result);
	zend_string_release(path);
	return done;
}

static void read_piece(INTERNAL_FUNCTION_PARAMETERS, uint32_t kind, zend_long bytes)
{
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(bytes)
	ZEND_PARSE_PARAMETERS_END();
	FmFileResult result;
	FmFileJob job = {.kind = kind, .length = bytes};
	if (!check_open(THIS_FILE()) || !fermata_file_check_count(bytes, 1, "the number of bytes")
		|| !fermata_file_run_on(THIS_FILE(), &job, &result)) {
		RETURN_THROWS();
	}
	zend_string *piece = fermata_file_bytes(&result);
	if (piece && (kind == FM_FILE_LINE || ZSTR_LEN(piece))) {
		RETURN_STR(piece);
	}
	if (piece) {
		zend_string_release(piece);
	}
	RETURN_NULL();
}

ZEND_METHOD(Fermata_File, readBlock)
{
	read_piece(INTERNAL_FUNCTION_PARAM_PASSTHRU, FM_FILE_NEXT, BLOCK_BYTES);
}

ZEND_METHOD(Fermata_File, readLine)
{
	read_piece(INTERNAL_FUNCTION_PARAM_PASSTHRU, FM_FILE_LINE, LINE_BYTES_MAX);
}

ZEND_METHOD(Fermata_File, writeBlock)
{
	zend_string *data;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(data)
	ZEND_PARSE_PARAMETERS_END();
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_PUT, .data = fermata_str(data)};
	if (!check_open(THIS_FILE()) || !fermata_file_run_on(THIS_FILE(), &job, &result)) {
		RETURN_THROWS();
	}
	RETURN_LONG((zend_long)result.count);
}

static void go_to(INTERNAL_FUNCTION_PARAMETERS, uint32_t kind)
{
	zend_long offset;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_LONG(offset)
	ZEND_PARSE_PARAMETERS_END();
	FmFileResult result;
	FmFileJob job = {.kind = kind, .offset = (uint64_t)offset};
	if (!check_open(THIS_FILE()) || !fermata_file_check_count(offset, 0, kind == FM_FILE_SEEK ? "the position" : "the size")
		|| !fermata_file_run_on(THIS_FILE(), &job, &result)) {
		RETURN_THROWS();
	}
}

ZEND_METHOD(Fermata_File, seek)
{
	go_to(INTERNAL_FUNCTION_PARAM_PASSTHRU, FM_FILE_SEEK);
}

ZEND_METHOD(Fermata_File, truncate)
{
	go_to(INTERNAL_FUNCTION_PARAM_PASSTHRU, FM_FILE_TRUNCATE);
}

ZEND_METHOD(Fermata_File, position)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!check_open(THIS_FILE())) {
		RETURN_THROWS();
	}
	RETURN_LONG((zend_long)fm_open_file_position(THIS_FILE()->open));
}

ZEND_METHOD(Fermata_File, size)
{
	ZEND_PARSE_PARAMETERS_NONE();
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_SIZE};
	if (!check_open(THIS_FILE()) || !fermata_file_run_on(THIS_FILE(), &job, &result)) {
		RETURN_THROWS();
	}
	RETURN_LONG((zend_long)result.size);
}

ZEND_METHOD(Fermata_File, sync)
{
	ZEND_PARSE_PARAMETERS_NONE();
	FmFileResult result;
	FmFileJob job = {.kind = FM_FILE_SYNC};
	if (!check_open(THIS_FILE()) || !fermata_file_run_on(THIS_FILE(), &job, &result)) {
		RETURN_THROWS();
	}
}

static bool lock(INTERNAL_FUNCTION_PARAMETERS, bool waits)
{
	bool exclusive = true, locked = false;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(exclusive)
	ZEND_PARSE_PARAMETERS_END_EX(return false);
	return check_open(THIS_FILE())
		&& fermata_file_lock(THIS_FILE(), exclusive ? FM_LOCK_EXCLUSIVE : FM_LOCK_SHARED, waits, &locked) && locked;
}

ZEND_METHOD(Fermata_File, lock)
{
	lock(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

ZEND_METHOD(Fermata_File, tryLock)
{
	bool locked = lock(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
	RETURN_BOOL(locked);
}

ZEND_METHOD(Fermata_File, unlock)
{
	ZEND_PARSE_PARAMETERS_NONE();
	bool unlocked;
	if (!check_open(THIS_FILE()) || !fermata_file_lock(THIS_FILE(), FM_LOCK_NONE, false, &unlocked)) {
		RETURN_THROWS();
	}
}

ZEND_METHOD(Fermata_File, keep)
{
	zend_string *path;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_PATH_STR(path)
	ZEND_PARSE_PARAMETERS_END();
	fermata_file *file = THIS_FILE();
	if (!check_open(file) || !fermata_file_check_path(path)) {
		RETURN_THROWS();
	}
	if (!fm_open_file_is_temporary(file->open)) {
		fermata_misuse("%s is no temporary file; use File::rename()", ZSTR_VAL(path_of(file)));
		RETURN_THROWS();
	}
	FmFileResult result;
	/* If the waiting fiber is cancelled, the job still completes and the file is kept. */
	FmFileJob job = {.kind = FM_FILE_KEEP, .other = fermata_str(path)};
	if (!fermata_file_run_on(file, &job, &result)) {
		RETURN_THROWS();
	}
	php_clear_stat_cache(false, NULL, 0);
	zval *place = OBJ_PROP_NUM(&file->std, FILE_PATH);
	zend_string *before = Z_STR_P(place);
	ZVAL_STR_COPY(place, path);
	zend_string_release(before);
}

ZEND_METHOD(Fermata_File, close)
{
	ZEND_PARSE_PARAMETERS_NONE();
	close_file(THIS_FILE());
}
