/* A bound for what names of a client cost.
 *
 * PHP's hash functions have no secret: a client can send names that all lie in one chain of a table, and each is then compared
 * with all before it. The comparisons of one text are counted and bounded. Names of honest texts have chains of a few. */
#include "core/collisions.h"
#include "zend_exceptions.h"
#include <ctype.h>
#include "core/small.h"

#define COUNTED_FROM 64             /* smaller tables cannot cost much */
#define COMPARISONS_MAX 2000000     /* of one text, besides */
#define COMPARISONS_PER_MEMBER 16

static uint64_t comparisons_left;
static uint32_t variables_len;      /* of this text, as far as they matter */

void fermata_collisions_begin(void)
{
	comparisons_left = COMPARISONS_MAX;
	variables_len = 0;
}

/* How many members a new one is compared with. */
static uint32_t chain_len(const HashTable *table, const zend_string *name)
{
	zend_ulong hash;
	uint32_t len = 0;
	if (HT_IS_PACKED(table)) {
		return 0;
	}
	if (!ZEND_HANDLE_NUMERIC_STR(ZSTR_VAL(name), ZSTR_LEN(name), hash)) {
		hash = zend_string_hash_val((zend_string *)name);
	}
	const Bucket *buckets = table->arData;
	for (uint32_t at = HT_HASH_EX(buckets, (uint32_t)hash | table->nTableMask); at != HT_INVALID_IDX; at = Z_NEXT(buckets[at].val)) {
		len++;
	}
	return len;
}

bool fermata_collisions_allow(const HashTable *table, const zend_string *name)
{
	if (EXPECTED(zend_hash_num_elements(table) < COUNTED_FROM)) {
		return true;
	}
	uint32_t len = chain_len(table, name);
	comparisons_left += COMPARISONS_PER_MEMBER;
	if (UNEXPECTED(len > comparisons_left)) {
		comparisons_left = 0;
		return false;
	}
	comparisons_left -= len;
	return true;
}

/* As PHP writes the first part of a name, to which a bracket belongs that is not closed. */
static void replace_marks(zend_string *part)
{
	for (char *at = ZSTR_VAL(part); *at; at++) {
		if (*at == ' ' || *at == '.' || *at == '[') {
			*at = '_';
		}
	}
}

/* Takes names apart as php_register_variable_ex() does, through arrays that are there. */
bool fermata_collisions_allow_variable(zend_array *variables, const char *name)
{
	if (EXPECTED(variables_len < COUNTED_FROM)) {
		variables_len++;
		return true;
	}
	while (*name == ' ') {
		name++;
	}
	const char *part = name, *open = strchr(name, '[');
	size_t len = open ? (size_t)(open - name) : strlen(name);
	zend_array *table = variables;
	for (;;) {
		const char *close = open ? strchr(open, ']') : NULL;
		bool is_first = part == name;
		if (is_first && open && !close) {
			len = strlen(part);
		}
		zend_string *key = zend_string_init(part, len, false);
		if (is_first) {
			replace_marks(key);
		}
		bool is_allowed = fermata_collisions_allow(table, key);
		zval *found = is_allowed && close ? zend_symtable_find(table, key) : NULL;
		zend_string_release(key);
		if (!is_allowed) {
			return false;
		}
		if (!found || Z_TYPE_P(found) != IS_ARRAY) {
			return true;
		}
		table = Z_ARRVAL_P(found);
		part = open + 1;
		len = (size_t)(close - part);
		if (len == 0 || (len == 1 && isspace((unsigned char)*part))) {
			/* Appended, without a name. */
			return true;
		}
		open = close[1] == '[' ? close + 1 : NULL;
	}
}

ZEND_COLD void fermata_collisions_refuse(const char *what)
{
	zend_throw_exception_ex(fermata_ce_bad_request, 0, "%s names that PHP stores in one place", what);
}
