/* Limits the processor time that hash collisions in a client's names can cost.
 *
 * PHP's hash functions have no secret. A client can send names that share one chain of a hash table; each new name is then compared
 * with all earlier ones. These functions count the comparisons per text, and refuse the text above a limit. Ordinary names produce
 * chains of a few entries. */
#include "base/collisions.h"
#include "zend_exceptions.h"
#include <ctype.h>
#include "base/optimize_size.h"

#define COUNTED_FROM 64             /* smaller tables cost little */
#define COMPARISONS_MAX 2000000     /* per text, in addition to the following */
#define COMPARISONS_PER_MEMBER 16

void fermata_collisions_begin(fermata_collisions *it)
{
	*it = (fermata_collisions){.comparisons_left = COMPARISONS_MAX};
}

/* Returns the number of entries that a new name is compared with. */
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

bool fermata_collisions_allow(fermata_collisions *it, const HashTable *table, const zend_string *name)
{
	if (EXPECTED(zend_hash_num_elements(table) < COUNTED_FROM)) {
		return true;
	}
	uint32_t len = chain_len(table, name);
	it->comparisons_left += COMPARISONS_PER_MEMBER;
	if (UNEXPECTED(len > it->comparisons_left)) {
		it->is_over = true;
	}
	if (UNEXPECTED(it->is_over)) {
		return false;
	}
	it->comparisons_left -= len;
	return true;
}

/* Replaces the characters that PHP replaces in the first part of a name, including a bracket that is never closed. */
static void replace_marks(zend_string *part)
{
	for (char *at = ZSTR_VAL(part); *at; at++) {
		if (*at == ' ' || *at == '.' || *at == '[') {
			*at = '_';
		}
	}
}

/* Parses a name as php_register_variable_ex() does and follows it through existing arrays. */
bool fermata_collisions_allow_variable(fermata_collisions *it, zend_array *variables, const char *name)
{
	if (EXPECTED(it->variables_len < COUNTED_FROM)) {
		it->variables_len++;
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
		bool is_allowed = fermata_collisions_allow(it, table, key);
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
			/* `[]` appends without a name. */
			return true;
		}
		open = close[1] == '[' ? close + 1 : NULL;
	}
}

ZEND_COLD void fermata_collisions_refuse(const char *what)
{
	zend_throw_exception_ex(fermata_ce_bad_request, 0, "%s names that PHP stores in one place", what);
}
