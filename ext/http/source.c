/* A source is the arguments of a body that is not a string, stored until the body is sent. */
#include "http/http.h"
#include "base/optimize_size.h"

fermata_source *fermata_source_new(const fermata_source_kind *kind, const zval *value)
{
	fermata_source *source = ecalloc(1, sizeof(fermata_source));
	source->kind = kind;
	ZVAL_COPY(&source->value, value);
	return source;
}

void fermata_source_free(fermata_source *source)
{
	if (!source) {
		return;
	}
	zval value;
	ZVAL_COPY_VALUE(&value, &source->value);
	if (source->root) {
		zend_string_release(source->root);
	}
	efree(source);
	zval_ptr_dtor(&value);
}

/* Copies the source of a response. Both responses share the stream, but only one of them can send it. */
fermata_source *fermata_source_copy(const fermata_source *from)
{
	if (!from) {
		return NULL;
	}
	fermata_source *source = emalloc(sizeof(fermata_source));
	*source = *from;
	Z_TRY_ADDREF(source->value);
	if (source->root) {
		zend_string_addref(source->root);
	}
	return source;
}
