/* Files. jobs.c runs the core's file jobs, file.c contains the static methods of Fermata\File, handle.c its objects, and pieces.c
 * the iterators over lines and blocks. */
#ifndef FERMATA_FILES_H
#define FERMATA_FILES_H

#include "fibers/fibers.h"

typedef struct fermata_file {
	FmOpenFile *open; /* NULL = closed */
	zend_object std;
} fermata_file;

extern zend_class_entry *fermata_ce_file, *fermata_ce_pieces, *fermata_ce_file_failure;
extern zend_class_entry *fermata_ce_file_not_found, *fermata_ce_access_denied, *fermata_ce_file_exists, *fermata_ce_disk_full;
extern zend_class_entry *fermata_ce_is_directory, *fermata_ce_not_directory, *fermata_ce_directory_not_empty;
extern zend_class_entry *fermata_ce_file_stat, *fermata_ce_file_type, *fermata_ce_write_mode, *fermata_ce_open_mode;

void fermata_file_jobs_init(void);
/* jobs.c: returns false with an exception pending. */
bool fermata_file_run(const FmFileJob *job, FmFileResult *result);
bool fermata_file_check_path(const zend_string *path);
bool fermata_file_check_count(zend_long number, zend_long min, const char *what);
bool fermata_file_lock(fermata_file *file, uint32_t lock, bool waits, bool *locked);
zend_string *fermata_file_bytes(const FmFileResult *result);

/* handle.c */
void fermata_file_handle_init(void);
void fermata_file_make(zval *return_value, const FmFileResult *result);
/* Runs a job on an open file. Returns false with an exception pending. */
bool fermata_file_run_on(const fermata_file *file, FmFileJob *job, FmFileResult *result);

/* pieces.c */
void fermata_pieces_init(void);
void fermata_pieces_make(zval *return_value, zval *file, bool lines, zend_long bytes);

#endif
