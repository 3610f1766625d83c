/* Fermata\File\Pieces: iterates over the lines or blocks of a file. */
#include "files/files.h"
#include "base/optimize_size.h"

typedef struct pieces {
	zval file; /* undefined before the constructor */
	zend_string *piece; /* NULL before the first and after the last */
	zend_long bytes, number;
	bool lines, begun, reads;
	zend_object std;
} pieces;

zend_class_entry *fermata_ce_pieces;
static zend_object_handlers pieces_handlers;

#define THIS_PIECES() FERMATA_FROM(pieces, Z_OBJ_P(ZEND_THIS))

static zend_object *pieces_create(zend_class_entry *ce)
{
	pieces *all = zend_object_alloc(sizeof(pieces), ce);
	memset(all, 0, XtOffsetOf(pieces, std));
	ZVAL_UNDEF(&all->file);
	zend_object_std_init(&all->std, ce);
	all->std.handlers = &pieces_handlers;
	return &all->std;
}

static void pieces_free(zend_object *object)
{
	pieces *all = FERMATA_FROM(pieces, object);
	if (all->piece) {
		zend_string_release(all->piece);
	}
	zval_ptr_dtor(&all->file);
	zend_object_std_dtor(object);
}

void fermata_pieces_init(void)
{
	fermata_ce_pieces->create_object = pieces_create;
	memcpy(&pieces_handlers, zend_get_std_object_handlers(), sizeof(pieces_handlers));
	pieces_handlers.offset = XtOffsetOf(pieces, std);
	pieces_handlers.free_obj = pieces_free;
	pieces_handlers.clone_obj = NULL;
	pieces_handlers.compare = zend_objects_not_comparable;
}

/* Takes over the file. */
void fermata_pieces_make(zval *return_value, zval *file, bool lines, zend_long bytes)
{
	ZVAL_OBJ(return_value, pieces_create(fermata_ce_pieces));
	pieces *all = FERMATA_FROM(pieces, Z_OBJ_P(return_value));
	ZVAL_COPY_VALUE(&all->file, file);
	all->lines = lines;
	all->bytes = bytes;
}

/* Reads the next piece. Releases the current piece first, so that only one piece is in memory. */
static void advance(pieces *all)
{
	if (all->piece) {
		zend_string_release(all->piece);
		all->piece = NULL;
	}
	FmFileResult result;
	FmFileJob job = {.kind = all->lines ? FM_FILE_LINE : FM_FILE_NEXT, .length = all->bytes};
	all->reads = true;
	bool done = fermata_file_run_on(FERMATA_FROM(fermata_file, Z_OBJ(all->file)), &job, &result);
	all->reads = false;
	if (!done) {
		return;
	}
	zend_string *piece = fermata_file_bytes(&result);
	if (piece && !all->lines && !ZSTR_LEN(piece)) {
		zend_string_release(piece);
		piece = NULL;
	}
	all->piece = piece;
}

ZEND_METHOD(Fermata_File_Pieces, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

static void begin(pieces *all)
{
	if (UNEXPECTED(all->reads)) {
		fermata_misuse("another handler or task waits for the next piece already; each needs its own File::lines() or File::blocks()");
	} else if (!all->begun) {
		all->begun = true;
		advance(all);
	}
}

ZEND_METHOD(Fermata_File_Pieces, rewind)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (THIS_PIECES()->number) {
		fermata_misuse("the pieces of a file can be gone through once; call File::lines() or File::blocks() again");
		RETURN_THROWS();
	}
	begin(THIS_PIECES());
}

ZEND_METHOD(Fermata_File_Pieces, valid)
{
	ZEND_PARSE_PARAMETERS_NONE();
	begin(THIS_PIECES());
	RETURN_BOOL(THIS_PIECES()->piece);
}

ZEND_METHOD(Fermata_File_Pieces, current)
{
	ZEND_PARSE_PARAMETERS_NONE();
	begin(THIS_PIECES());
	if (EG(exception)) {
		RETURN_THROWS();
	}
	if (!THIS_PIECES()->piece) {
		fermata_misuse("the file has no more pieces; ask valid() first");
		RETURN_THROWS();
	}
	RETURN_STR_COPY(THIS_PIECES()->piece);
}

ZEND_METHOD(Fermata_File_Pieces, key)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_LONG(THIS_PIECES()->number);
}

ZEND_METHOD(Fermata_File_Pieces, next)
{
	ZEND_PARSE_PARAMETERS_NONE();
	begin(THIS_PIECES());
	if (!EG(exception) && THIS_PIECES()->piece) {
		THIS_PIECES()->number++;
		advance(THIS_PIECES());
	}
}
