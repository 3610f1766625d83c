/* Fermata\Tls and ClientCertificate: readonly values. limits.c maps the properties of Tls to settings. */
#include "base/base.h"
#include "base/optimize_size.h"

/* In the order of the stub's properties. */
enum { CERTIFICATE, KEY, CLIENT_CA, CLIENT_REQUIRED, MIN_VERSION, DEVELOPMENT };

static void property_paths(zend_object *object, uint32_t number, zend_string *path, HashTable *paths)
{
	if (path) {
		ZVAL_STR_COPY(OBJ_PROP_NUM(object, number), path);
	} else {
		ZVAL_ARR(OBJ_PROP_NUM(object, number), zend_array_dup(paths));
	}
}

ZEND_METHOD(Fermata_Tls, __construct)
{
	zend_string *certificate = NULL, *key = NULL, *client_ca = NULL;
	HashTable *certificates = NULL, *keys = NULL;
	bool client_required = true, client_required_null = true;
	zval *min_version = NULL;
	ZEND_PARSE_PARAMETERS_START(2, 5)
		Z_PARAM_ARRAY_HT_OR_STR(certificates, certificate)
		Z_PARAM_ARRAY_HT_OR_STR(keys, key)
		Z_PARAM_OPTIONAL
		Z_PARAM_PATH_STR_OR_NULL(client_ca)
		Z_PARAM_BOOL_OR_NULL(client_required, client_required_null)
		Z_PARAM_OBJECT_OF_CLASS_OR_NULL(min_version, fermata_ce_tls_version)
	ZEND_PARSE_PARAMETERS_END();
	zend_object *object = Z_OBJ_P(ZEND_THIS);
	if ((certificates && !fermata_strings_check(certificates, 1)) || (keys && !fermata_strings_check(keys, 2))) {
		RETURN_THROWS();
	}
	if (!client_required_null && client_required && !client_ca) {
		fermata_misuse("clientRequired needs clientCa: a PEM file with the authorities whose certificates are accepted");
		RETURN_THROWS();
	}
	if (!Z_ISUNDEF_P(OBJ_PROP_NUM(object, CERTIFICATE)) && !fermata_constructed_twice()) {
		RETURN_THROWS();
	}
	property_paths(object, CERTIFICATE, certificate, certificates);
	property_paths(object, KEY, key, keys);
	if (client_ca) {
		ZVAL_STR_COPY(OBJ_PROP_NUM(object, CLIENT_CA), client_ca);
	} else {
		ZVAL_NULL(OBJ_PROP_NUM(object, CLIENT_CA));
	}
	if (client_required_null) {
		ZVAL_NULL(OBJ_PROP_NUM(object, CLIENT_REQUIRED));
	} else {
		ZVAL_BOOL(OBJ_PROP_NUM(object, CLIENT_REQUIRED), client_required);
	}
	if (min_version) {
		ZVAL_COPY(OBJ_PROP_NUM(object, MIN_VERSION), min_version);
	} else {
		ZVAL_NULL(OBJ_PROP_NUM(object, MIN_VERSION));
	}
	ZVAL_NULL(OBJ_PROP_NUM(object, DEVELOPMENT));
}

ZEND_METHOD(Fermata_Tls, development)
{
	ZEND_PARSE_PARAMETERS_NONE();
	object_init_ex(return_value, fermata_ce_tls);
	for (uint32_t i = CERTIFICATE; i < DEVELOPMENT; i++) {
		ZVAL_NULL(OBJ_PROP_NUM(Z_OBJ_P(return_value), i));
	}
	ZVAL_TRUE(OBJ_PROP_NUM(Z_OBJ_P(return_value), DEVELOPMENT));
}

ZEND_METHOD(Fermata_ClientCertificate, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}
