/* Redirects standard error of PHP code in a worker to the server's log.
 *
 * A write to a full pipe would block the worker. Text with line breaks would forge log lines or break a JSON log. So error_log()
 * and streams of standard error (STDERR, php://stderr, php://fd/2, /dev/stderr) pass their text to the log writer, which never
 * blocks. A message of error_log() is one line with escaped line breaks. Text of a stream is split at its line breaks. Processes
 * that PHP starts or forks write to the descriptor directly. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "base/base.h"
#include "hooks/standard_error.h"
#include "SAPI.h"
#include "main/streams/php_stream_plain_wrapper.h"

#define LINE_BYTES_MAX (64 * 1024) /* longer text continues in the next line */

static void (*put_line)(FmStr line); /* NULL = PHP writes to standard error itself */

static bool is_on(void)
{
	return put_line && !fermata.forked;
}

static void put(const char *text, size_t len)
{
	while (len > LINE_BYTES_MAX) {
		put_line((FmStr){text, LINE_BYTES_MAX});
		text += LINE_BYTES_MAX;
		len -= LINE_BYTES_MAX;
	}
	if (len) {
		put_line((FmStr){text, len});
	}
}

static void put_lines(const char *text, size_t len)
{
	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t line = end ? (size_t)(end - text) : len;
		put(text, line && text[line - 1] == '\r' ? line - 1 : line);
		line += end != NULL;
		text += line;
		len -= line;
	}
}

/* error_log() and PHP's own messages */

static void (*log_message)(const char *message, int type);

static void log_to_server(const char *message, int type)
{
	if (is_on()) {
		put(message, strlen(message));
	} else if (log_message) {
		log_message(message, type);
	}
}

/* Called when the setting error_log changes. PHP would open the named file for each message, so standard error becomes NULL, PHP's
 * default. */
static ZEND_INI_MH((*change_error_log));
static ZEND_INI_MH(on_error_log)
{
	if (is_on() && new_value && fermata_is_standard_error(ZSTR_VAL(new_value))) {
		new_value = NULL;
	}
	return change_error_log(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
}

static zend_ini_entry *error_log_entry(void)
{
	return zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("error_log"));
}

/* Streams
 *
 * A stream of standard error has a copy of PHP's table of operations with another write function. The other operations run while
 * PHP's own table is set, since the hooks identify streams by their table. */

static php_stream_ops ops;

#define WITH_OWN(type, call) \
	stream->ops = &php_stream_stdio_ops; \
	type result = call; \
	stream->ops = &ops; \
	return result

static ssize_t write_stream(php_stream *stream, const char *text, size_t len)
{
	if (is_on()) {
		put_lines(text, len);
		return (ssize_t)len;
	}
	WITH_OWN(ssize_t, php_stream_stdio_ops.write(stream, text, len));
}

static ssize_t read_stream(php_stream *stream, char *to, size_t len)
{
	WITH_OWN(ssize_t, php_stream_stdio_ops.read(stream, to, len));
}

static int close_stream(php_stream *stream, int close_handle)
{
	stream->ops = &php_stream_stdio_ops;
	return php_stream_stdio_ops.close(stream, close_handle);
}

static int flush_stream(php_stream *stream)
{
	WITH_OWN(int, php_stream_stdio_ops.flush(stream));
}

static int seek_stream(php_stream *stream, zend_off_t offset, int whence, zend_off_t *position)
{
	WITH_OWN(int, php_stream_stdio_ops.seek(stream, offset, whence, position));
}

static int cast_stream(php_stream *stream, int as, void **to)
{
	WITH_OWN(int, php_stream_stdio_ops.cast(stream, as, to));
}

static int stat_stream(php_stream *stream, php_stream_statbuf *to)
{
	WITH_OWN(int, php_stream_stdio_ops.stat(stream, to));
}

static int set_option(php_stream *stream, int option, int value, void *parameter)
{
	WITH_OWN(int, php_stream_stdio_ops.set_option(stream, option, value, parameter));
}

static php_stream *take_over(php_stream *stream, const char *path)
{
	if (stream && stream->ops == &php_stream_stdio_ops && is_on() && fermata_is_standard_error(path)) {
		stream->ops = &ops;
	}
	return stream;
}

/* Takes over streams that are already open. */
static void take_over_open(void)
{
	const zend_resource *resource;
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		if (resource->type == php_file_le_stream()) {
			php_stream *stream = resource->ptr;
			take_over(stream, stream->orig_path);
		}
	} ZEND_HASH_FOREACH_END();
}

/* Streams that are opened later: php://stderr through PHP's wrapper, /dev/stderr through the wrapper of plain files. */

static const php_stream_wrapper *php_wrapper;
static php_stream_wrapper own_wrapper;
static php_stream_wrapper_ops own_wrapper_ops, file_wrapper_ops;
static const php_stream_wrapper_ops *file_ops;

static php_stream *open_php(php_stream_wrapper *wrapper, const char *path, const char *mode, int options,
	zend_string **opened_path, php_stream_context *context STREAMS_DC)
{
	return take_over(php_wrapper->wops->stream_opener(wrapper, path, mode, options, opened_path, context STREAMS_REL_CC), path);
}

static php_stream *open_file(php_stream_wrapper *wrapper, const char *path, const char *mode, int options,
	zend_string **opened_path, php_stream_context *context STREAMS_DC)
{
	/* On some systems, a pipe or socket cannot be opened again by this path, or open() blocks. */
	if (UNEXPECTED(php_wrapper && is_on() && fermata_is_standard_error(path))) {
		return open_php(&own_wrapper, "php://stderr", mode, options, opened_path, context STREAMS_REL_CC);
	}
	return file_ops->stream_opener(wrapper, path, mode, options, opened_path, context STREAMS_REL_CC);
}

static void exchange_wrapper(HashTable *wrappers, const php_stream_wrapper *from, const php_stream_wrapper *to)
{
	zval *found = zend_hash_str_find(wrappers, ZEND_STRL("php"));
	if (found && Z_PTR_P(found) == from) {
		Z_PTR_P(found) = (void *)to;
	}
}

static void exchange_wrappers(const php_stream_wrapper *from, const php_stream_wrapper *to)
{
	exchange_wrapper(php_stream_get_url_stream_wrappers_hash_global(), from, to);
	exchange_wrapper(php_stream_get_url_stream_wrappers_hash(), from, to);
}

/* Start and end */

void fermata_standard_error_start(void (*to)(FmStr line))
{
	put_line = to;
	log_message = sapi_module.log_message;
	sapi_module.log_message = log_to_server;
	zend_ini_entry *entry = error_log_entry();
	if (entry) {
		change_error_log = entry->on_modify;
		entry->on_modify = on_error_log;
		if (PG(error_log) && fermata_is_standard_error(PG(error_log))) {
			PG(error_log) = NULL;
		}
	}
	ops = php_stream_stdio_ops;
	ops.write = write_stream;
	ops.read = read_stream;
	ops.close = close_stream;
	ops.flush = flush_stream;
	ops.seek = seek_stream;
	ops.cast = cast_stream;
	ops.stat = stat_stream;
	ops.set_option = set_option;
	take_over_open();
	php_wrapper = zend_hash_str_find_ptr(php_stream_get_url_stream_wrappers_hash_global(), "php", sizeof("php") - 1);
	if (php_wrapper) {
		own_wrapper = *php_wrapper;
		own_wrapper_ops = *php_wrapper->wops;
		own_wrapper_ops.stream_opener = open_php;
		own_wrapper.wops = &own_wrapper_ops;
		exchange_wrappers(php_wrapper, &own_wrapper);
	}
	file_ops = php_plain_files_wrapper.wops;
	file_wrapper_ops = *file_ops;
	file_wrapper_ops.stream_opener = open_file;
	php_plain_files_wrapper.wops = &file_wrapper_ops;
}

/* Ends the redirection: PHP writes to standard error itself. Streams that were taken over keep their table, whose write function
 * now calls PHP's. */
void fermata_standard_error_end(void)
{
	if (!put_line) {
		return;
	}
	put_line = NULL;
	sapi_module.log_message = log_message;
	zend_ini_entry *entry = error_log_entry();
	if (entry && entry->on_modify == on_error_log) {
		entry->on_modify = change_error_log;
	}
	if (php_wrapper) {
		exchange_wrappers(&own_wrapper, php_wrapper);
	}
	php_plain_files_wrapper.wops = file_ops;
}
