/* Server::fastcgi(): routes that the core forwards to PHP-FPM without running PHP in this process. */
#include "http/http.h"
#include "main/fopen_wrappers.h"

/* Clamps a number to uint32_t. If the result is out of range, the core reports that. */
static uint32_t number(zend_long given)
{
	return given < 0 ? 0 : given > UINT32_MAX ? UINT32_MAX : (uint32_t)given;
}

ZEND_METHOD(Fermata_Server, fastcgi)
{
	zend_string *prefix, *socket, *root, *index = NULL;
	zend_long connections = 16, queue = 256, body_bytes = 0;
	bool no_body_bytes = true;
	FmFastCgi given = {.timeout_s = 60, .has_files = true};
	FmError error;
	error.len = 0;
	given.index = FERMATA_LITERAL("index.php");
	ZEND_PARSE_PARAMETERS_START(3, 11)
		Z_PARAM_STR(prefix)
		Z_PARAM_PATH_STR(socket)
		Z_PARAM_PATH_STR(root)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(index)
		Z_PARAM_BOOL(given.has_files)
		Z_PARAM_LONG(connections)
		Z_PARAM_LONG(queue)
		Z_PARAM_DOUBLE(given.timeout_s)
		Z_PARAM_DOUBLE(given.keep_s)
		Z_PARAM_LONG_OR_NULL(body_bytes, no_body_bytes)
		Z_PARAM_BOOL(given.streams_body)
	ZEND_PARSE_PARAMETERS_END();
	fermata_server *server = FERMATA_FROM(fermata_server, Z_OBJ_P(ZEND_THIS));
	if (!fermata_server_check_open(server)) {
		RETURN_THROWS();
	}
	if (!no_body_bytes && body_bytes < 0) {
		fermata_misuse("fastcgi(): bodyBytes is " ZEND_LONG_FMT ": give the bytes that a body may have", body_bytes);
		RETURN_THROWS();
	}
	if (given.has_files && php_check_open_basedir_ex(ZSTR_VAL(root), 0)) {
		fermata_misuse("fastcgi(): root is \"%s\", outside of open_basedir; add it there, or give files: false", ZSTR_VAL(root));
		RETURN_THROWS();
	}
	if (ZEND_NUM_ARGS() > 3) {
		given.index = index ? fermata_str(index) : (FmStr){NULL, 0};
	}
	given.prefix = fermata_str(prefix);
	given.socket = fermata_str(socket);
	given.root = fermata_str(root);
	given.connections_max = number(connections);
	given.queue_max = number(queue);
	given.body_bytes_max = no_body_bytes ? -1 : body_bytes;
	uint32_t code = fm_server_fastcgi(server->core, &given, &error);
	if (code != FM_OK) {
		fermata_throw(code, &error);
		RETURN_THROWS();
	}
	zend_string *shown = zend_strpprintf(0, "FastCGI %s", ZSTR_VAL(socket));
	fermata_server_list(server, "handler", FERMATA_LITERAL(""), prefix, NULL, shown);
	zend_string_release(shown);
	server->has_fastcgi = true;
	RETURN_OBJ_COPY(Z_OBJ_P(ZEND_THIS));
}
