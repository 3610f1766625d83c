/* Standard input, output and error: descriptors 0 to 2. */
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#include "base/optimize_size.h"

void fermata_fill_standard_streams(void)
{
	for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++) {
		/* open() returns the lowest free number, which is this one. Without O_CLOEXEC, child commands inherit it. */
		if (UNEXPECTED(fcntl(number, F_GETFD) < 0 && errno == EBADF) && open("/dev/null", O_RDWR) < 0) {
			return;
		}
	}
}

void fermata_keep_standard_streams(void)
{
	const zend_resource *resource;
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		if (resource->type != php_file_le_stream()) {
			continue;
		}
		php_stream *stream = resource->ptr;
		/* Close no other kinds of stream: they may belong to the application. Standard output may be a socket under systemd. */
		bool has_descriptor = stream->ops == &php_stream_stdio_ops || strcmp(stream->ops->label, "generic_socket") == 0;
		int number = -1;
		if (has_descriptor && php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void *)&number, 0) == SUCCESS
				&& number >= STDIN_FILENO && number <= STDERR_FILENO) {
			stream->flags |= PHP_STREAM_FLAG_NO_CLOSE;
		}
	} ZEND_HASH_FOREACH_END();
}

bool fermata_is_standard_error(const char *path)
{
	static const char *const names[] = {"php://stderr", "php://fd/2", "/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"};
	for (size_t i = 0; path && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcasecmp(path, names[i]) == 0) {
			return true;
		}
	}
	return false;
}
