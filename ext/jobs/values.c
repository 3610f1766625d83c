/* Values that travel between processes: arguments and results of jobs, and messages between workers. */
#include "jobs/values.h"
#include "ext/standard/php_var.h"
#include "base/optimize_size.h"

bool fermata_jobs_serialize(zval *value, smart_str *text)
{
	php_serialize_data_t data;
	PHP_VAR_SERIALIZE_INIT(data);
	php_var_serialize(text, value, &data);
	PHP_VAR_SERIALIZE_DESTROY(data);
	smart_str_0(text);
	return !EG(exception);
}

bool fermata_jobs_unserialize(zval *value, const char *text, size_t len)
{
	const unsigned char *at = (const unsigned char *)text;
	php_unserialize_data_t data;
	ZVAL_UNDEF(value);
	PHP_VAR_UNSERIALIZE_INIT(data);
	bool done = php_var_unserialize(value, &at, at + len, &data);
	PHP_VAR_UNSERIALIZE_DESTROY(data);
	if (!done || EG(exception)) {
		zval_ptr_dtor(value);
		ZVAL_UNDEF(value);
		return false;
	}
	return true;
}
