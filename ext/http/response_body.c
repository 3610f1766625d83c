/* Response::stream() and Response::file() create responses whose body is not a string. stream.c sends them. */
#include "http/http.h"
#include "main/fopen_wrappers.h"
#include "ext/standard/url.h"
#include "zend_smart_str.h"
#include "base/optimize_size.h"

#define STATUS_OK 200

/* Streams */

ZEND_METHOD(Fermata_Response, stream)
{
	zval *body;
	zend_long status = STATUS_OK, length = 0;
	zend_array *headers = NULL;
	bool no_length = true;
	ZEND_PARSE_PARAMETERS_START(1, 4)
		Z_PARAM_ZVAL(body)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(status)
		Z_PARAM_ARRAY_HT(headers)
		Z_PARAM_LONG_OR_NULL(length, no_length)
	ZEND_PARSE_PARAMETERS_END();
	if (!zend_is_iterable(body) && !zend_is_callable(body, 0, NULL)) {
		zend_argument_type_error(1, "must be of type Traversable|callable|array, %s given", fermata_type_name(body));
		RETURN_THROWS();
	}
	if (!no_length && length < 0) {
		fermata_misuse("the length of a stream must not be negative; leave it out when it is not known");
		RETURN_THROWS();
	}
	fermata_source *source = fermata_source_new(&fermata_source_stream, body);
	source->length = no_length ? -1 : length;
	fermata_response_with_source(return_value, source, status, fermata_known.type_binary, headers);
}

/* Files */

/* Appends a name inside a quoted string of a header. Quotes, backslashes, `%`, `/`, control and non-ASCII characters become
 * `_`. */
static void append_plain(smart_str *line, const zend_string *name)
{
	for (size_t i = 0; i < ZSTR_LEN(name); i++) {
		unsigned char byte = (unsigned char)ZSTR_VAL(name)[i];
		bool bad = byte < 0x20 || byte > 0x7e || strchr("\"\\%/", byte);
		/* Append one underscore per UTF-8 character. */
		if (!bad || (byte & 0xC0) != 0x80) {
			smart_str_appendc(line, bad ? '_' : (char)byte);
		}
	}
}

/* Builds Content-Disposition with the file name in both forms (RFC 6266): filename, and filename* for clients that support RFC
 * 8187. */
static zend_string *disposition(const zend_string *name)
{
	smart_str line = {0};
	smart_str_appends(&line, "attachment; filename=\"");
	append_plain(&line, name);
	smart_str_appends(&line, "\"; filename*=UTF-8''");
	zend_string *encoded = php_raw_url_encode(ZSTR_VAL(name), ZSTR_LEN(name));
	smart_str_append(&line, encoded);
	zend_string_release(encoded);
	return smart_str_extract(&line);
}

static bool file_check(const zend_string *path, const zend_string *root, const zend_string *download)
{
	if (!ZSTR_LEN(path) || (root && !ZSTR_LEN(root))) {
		fermata_misuse("the path of a file must not be empty");
		return false;
	}
	if (root && ZSTR_VAL(path)[0] == '/') {
		fermata_misuse("with a root the path of a file is relative to it and does not start with /");
		return false;
	}
	if (download && !ZSTR_LEN(download)) {
		fermata_misuse("the name of a download must not be empty; leave it out to show the file in the browser");
		return false;
	}
	/* If there is a root, open_basedir applies to the root only. */
	if (php_check_open_basedir_ex(ZSTR_VAL(root ? root : path), 0)) {
		fermata_misuse("open_basedir does not allow %s", ZSTR_VAL(root ? root : path));
		return false;
	}
	return true;
}

ZEND_METHOD(Fermata_Response, file)
{
	zend_string *path, *root = NULL, *download = NULL, *content_type = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 4)
		Z_PARAM_PATH_STR(path)
		Z_PARAM_OPTIONAL
		Z_PARAM_PATH_STR_OR_NULL(root)
		Z_PARAM_STR_OR_NULL(download)
		Z_PARAM_STR_OR_NULL(content_type)
	ZEND_PARSE_PARAMETERS_END();
	if (!file_check(path, root, download)
		|| (content_type && !fermata_header_check(fermata_known.content_type, content_type))) {
		RETURN_THROWS();
	}
	zval value;
	ZVAL_STR(&value, path);
	fermata_source *source = fermata_source_new(&fermata_source_file, &value);
	source->tree = FM_NO_HANDLER;
	source->root = root ? zend_string_copy(root) : NULL;
	fermata_response_with_source(return_value, source, STATUS_OK, content_type, NULL);
	if (download) {
		zend_string *line = disposition(download);
		fermata_response *response = FERMATA_FROM(fermata_response, Z_OBJ_P(return_value));
		fermata_headers_add(&response->headers, fermata_known.content_disposition, line);
		zend_string_release(line);
	}
}
