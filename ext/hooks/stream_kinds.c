/* Kinds of streams whose operations are replaced, and functions that find streams over a socket.
 *
 * PHP has one table of operations for all streams of a kind. streams.c replaces functions in the tables; the original functions
 * are recorded here. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include "main/php_network.h"
#include "base/optimize_size.h"

#define KINDS_MAX 16

static struct {
	fermata_stream_kind at[KINDS_MAX];
	uint32_t len;
} kinds;

bool fermata_stream_kind_add(const php_stream_ops *ops, bool is_connection)
{
	for (uint32_t i = 0; i < kinds.len; i++) {
		if (kinds.at[i].ops == ops) {
			return false;
		}
	}
	if (kinds.len == KINDS_MAX) {
		return false;
	}
	kinds.at[kinds.len++] = (fermata_stream_kind){ops, ops->write, ops->read, ops->seek, ops->set_option, is_connection};
	return true;
}

const fermata_stream_kind *fermata_stream_kind_of(const php_stream *stream)
{
	for (uint32_t i = 0; i < kinds.len; i++) {
		if (EXPECTED(kinds.at[i].ops == stream->ops)) {
			return &kinds.at[i];
		}
	}
	/* This function is called only for streams with a replaced table. */
	ZEND_UNREACHABLE();
}

int fermata_stream_socket(const php_stream *stream)
{
	if (!stream->abstract) {
		return -1;
	}
	for (uint32_t i = 0; i < kinds.len; i++) {
		if (kinds.at[i].ops == stream->ops && kinds.at[i].is_connection) {
			return ((const php_netstream_data_t *)stream->abstract)->socket;
		}
	}
	return -1;
}

/* Returns an open stream over the descriptor; NULL if none exists. */
static ZEND_COLD php_stream *stream_of(int fd)
{
	const zend_resource *resource;
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		if (resource->ptr && (resource->type == php_file_le_stream() || resource->type == php_file_le_pstream())
				&& fermata_stream_socket(resource->ptr) == fd) {
			return resource->ptr;
		}
	} ZEND_HASH_FOREACH_END();
	return NULL;
}

bool fermata_stream_is_unread(int fd)
{
	const php_stream *stream = stream_of(fd);
	return stream && stream->writepos > stream->readpos;
}

void fermata_stream_discard(int fd)
{
	php_stream *stream = stream_of(fd);
	if (stream) {
		stream->readpos = stream->writepos = 0;
	}
}
