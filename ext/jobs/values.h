/* Values that travel between processes; see values.c. */
#ifndef FERMATA_JOBS_VALUES_H
#define FERMATA_JOBS_VALUES_H

#include "base/base.h"
#include "zend_smart_str.h"

/* Returns false with an exception pending. The caller frees the text in any case. */
bool fermata_jobs_serialize(zval *value, smart_str *text);
/* Returns false if the text is no serialized value, or with an exception pending. */
bool fermata_jobs_unserialize(zval *value, const char *text, size_t len);

#endif
