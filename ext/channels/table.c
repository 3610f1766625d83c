/* Fermata\Table: rows shared by all processes of a server. The core stores them; this file maps names and types to PHP's. */
#include "channels/channels.h"
#include "fibers/fibers.h"
#include "zend_enum.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"
#include "base/optimize_size.h"

#define COLUMNS_MAX 256
#define NAME_BYTES_MAX 64
#define STRING_BYTES_MAX (1 << 26)
#define ROWS_MAX (1 << 24)
#define KEY_BYTES_MAX 1024
#define NUMBER_BYTES 8

/* In the order of the stub's properties. */
enum { ROWS, COLUMNS, KEY_BYTES, BYTES };
enum { COLUMN_NAME, COLUMN_TYPE, COLUMN_BYTES };

/* Names of column types, by FM_COLUMN_*. */
static const char *const types[] = {"Int", "Float", "String"};

typedef struct table_column {
	zend_string *name; /* owned by the Column in the property `columns` */
	uint32_t kind, bytes_max;
} table_column;

typedef struct fermata_table {
	FmTable *core; /* NULL before the constructor */
	table_column *columns;
	uint32_t columns_len;
	uint32_t forks; /* fermata.forks at the last use; differs in a forked child */
	zend_object std;
} fermata_table;

static zend_object_handlers table_handlers;

/* Object lifetime */

static zend_object *table_create(zend_class_entry *ce)
{
	fermata_table *table = zend_object_alloc(sizeof(fermata_table), ce);
	memset(table, 0, XtOffsetOf(fermata_table, std));
	zend_object_std_init(&table->std, ce);
	object_properties_init(&table->std, ce);
	table->std.handlers = &table_handlers;
	return &table->std;
}

static void table_free(zend_object *object)
{
	fermata_table *table = FERMATA_FROM(fermata_table, object);
	fm_table_free(table->core);
	for (uint32_t i = 0; i < table->columns_len; i++) {
		zend_string_release(table->columns[i].name);
	}
	if (table->columns) {
		efree(table->columns);
	}
	zend_object_std_dtor(object);
}

static zend_object_iterator *table_get_iterator(zend_class_entry *ce, zval *object, int by_reference);

void fermata_table_init(void)
{
	fermata_ce_table->create_object = table_create;
	fermata_ce_table->get_iterator = table_get_iterator;
	memcpy(&table_handlers, zend_get_std_object_handlers(), sizeof(table_handlers));
	table_handlers.offset = XtOffsetOf(fermata_table, std);
	table_handlers.free_obj = table_free;
	table_handlers.clone_obj = NULL;
	table_handlers.compare = zend_objects_not_comparable;
}

/* Columns */

ZEND_METHOD(Fermata_Table_Column, __construct)
{
	ZEND_PARSE_PARAMETERS_NONE();
}

static void new_column(zval *return_value, zend_string *name, uint32_t kind, zend_long bytes)
{
	if (ZSTR_LEN(name) < 1 || ZSTR_LEN(name) > NAME_BYTES_MAX) {
		fermata_misuse("the name of a column has 1 to %d bytes, not %zu", NAME_BYTES_MAX, ZSTR_LEN(name));
		return;
	}
	if (bytes < 1 || bytes > STRING_BYTES_MAX) {
		fermata_misuse("column \"%s\" can have 1 to %d bytes, not " ZEND_LONG_FMT, ZSTR_VAL(name), STRING_BYTES_MAX, bytes);
		return;
	}
	object_init_ex(return_value, fermata_ce_table_column);
	zend_object *column = Z_OBJ_P(return_value);
	ZVAL_STR_COPY(OBJ_PROP_NUM(column, COLUMN_NAME), name);
	ZVAL_OBJ_COPY(OBJ_PROP_NUM(column, COLUMN_TYPE), zend_enum_get_case_cstr(fermata_ce_table_type, types[kind]));
	ZVAL_LONG(OBJ_PROP_NUM(column, COLUMN_BYTES), bytes);
}

static void new_number(INTERNAL_FUNCTION_PARAMETERS, uint32_t kind)
{
	zend_string *name;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(name)
	ZEND_PARSE_PARAMETERS_END();
	new_column(return_value, name, kind, NUMBER_BYTES);
}

ZEND_METHOD(Fermata_Table_Column, int)
{
	new_number(INTERNAL_FUNCTION_PARAM_PASSTHRU, FM_COLUMN_INT);
}

ZEND_METHOD(Fermata_Table_Column, float)
{
	new_number(INTERNAL_FUNCTION_PARAM_PASSTHRU, FM_COLUMN_FLOAT);
}

ZEND_METHOD(Fermata_Table_Column, string)
{
	zend_string *name;
	zend_long bytes;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(name)
		Z_PARAM_LONG(bytes)
	ZEND_PARSE_PARAMETERS_END();
	new_column(return_value, name, FM_COLUMN_STRING, bytes);
}

/* Returns a column's number; -1 with an exception pending. */
static int64_t column_of(const fermata_table *table, const zend_string *name)
{
	for (uint32_t i = 0; i < table->columns_len; i++) {
		if (zend_string_equals(table->columns[i].name, name)) {
			return i;
		}
	}
	fermata_misuse("the table has no column \"%s\"", ZSTR_VAL(name));
	return -1;
}

/* Adds a column from its Column object. Returns false with an exception pending. */
static bool add_column(fermata_table *table, zval *value)
{
	ZVAL_DEREF(value);
	if (Z_TYPE_P(value) != IS_OBJECT || Z_OBJCE_P(value) != fermata_ce_table_column || Z_ISUNDEF_P(OBJ_PROP_NUM(Z_OBJ_P(value), COLUMN_NAME))) {
		zend_argument_type_error(2, "must be a list of Fermata\\Table\\Column, %s given in it", fermata_type_name(value));
		return false;
	}
	zend_string *name = Z_STR_P(OBJ_PROP_NUM(Z_OBJ_P(value), COLUMN_NAME));
	for (uint32_t i = 0; i < table->columns_len; i++) {
		if (zend_string_equals(table->columns[i].name, name)) {
			fermata_misuse("the table has two columns \"%s\"", ZSTR_VAL(name));
			return false;
		}
	}
	table_column *column = &table->columns[table->columns_len++];
	const zend_object *type = Z_OBJ_P(OBJ_PROP_NUM(Z_OBJ_P(value), COLUMN_TYPE));
	column->name = zend_string_copy(name);
	column->bytes_max = (uint32_t)Z_LVAL_P(OBJ_PROP_NUM(Z_OBJ_P(value), COLUMN_BYTES));
	column->kind = 0;
	while (type != zend_enum_get_case_cstr(fermata_ce_table_type, types[column->kind])) {
		column->kind++;
	}
	return true;
}

/* The table */

static bool check_sizes(zend_long rows, const HashTable *columns, zend_long key_bytes)
{
	uint32_t columns_len = zend_hash_num_elements(columns);
	if (fermata.worker || fermata_this_server()) {
		fermata_misuse("a table is made before run(): one that is made in a running server would be known to this process alone");
	} else if (rows < 1 || rows > ROWS_MAX) {
		fermata_misuse("a table has 1 to %d rows, not " ZEND_LONG_FMT, ROWS_MAX, rows);
	} else if (columns_len < 1 || columns_len > COLUMNS_MAX) {
		fermata_misuse("a table has 1 to %d columns, not %u", COLUMNS_MAX, columns_len);
	} else if (key_bytes < 1 || key_bytes > KEY_BYTES_MAX) {
		fermata_misuse("keyBytes is 1 to %d, not " ZEND_LONG_FMT, KEY_BYTES_MAX, key_bytes);
	} else {
		return true;
	}
	return false;
}

/* Returns false with an exception pending. */
static bool make(fermata_table *table, zend_long rows, HashTable *columns, zend_long key_bytes, uint64_t *bytes)
{
	FmError error;
	error.len = 0;
	zval *value;
	table->columns = safe_emalloc(zend_hash_num_elements(columns), sizeof(table_column), 0);
	ZEND_HASH_FOREACH_VAL(columns, value) {
		if (!add_column(table, value)) {
			return false;
		}
	} ZEND_HASH_FOREACH_END();
	FmTable *core = fm_table_new();
	for (uint32_t i = 0; i < table->columns_len; i++) {
		fm_table_column(core, table->columns[i].kind, table->columns[i].bytes_max);
	}
	uint32_t code = fm_table_make(core, (uint32_t)rows, (uint32_t)key_bytes, bytes, &error);
	if (code != FM_OK) {
		fm_table_free(core);
		fermata_throw(code, &error);
		return false;
	}
	table->core = core;
	table->forks = fermata.forks;
	return true;
}

ZEND_METHOD(Fermata_Table, __construct)
{
	zend_long rows, key_bytes = 64;
	HashTable *columns;
	uint64_t bytes;
	ZEND_PARSE_PARAMETERS_START(2, 3)
		Z_PARAM_LONG(rows)
		Z_PARAM_ARRAY_HT(columns)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(key_bytes)
	ZEND_PARSE_PARAMETERS_END();
	fermata_table *table = FERMATA_FROM(fermata_table, Z_OBJ_P(ZEND_THIS));
	if (table->columns) {
		fermata_constructed_twice();
		RETURN_THROWS();
	}
	if (!check_sizes(rows, columns, key_bytes) || !make(table, rows, columns, key_bytes, &bytes)) {
		RETURN_THROWS();
	}
	zend_object *object = &table->std;
	zval *list = OBJ_PROP_NUM(object, COLUMNS), *value;
	ZVAL_LONG(OBJ_PROP_NUM(object, ROWS), rows);
	array_init_size(list, table->columns_len);
	ZEND_HASH_FOREACH_VAL(columns, value) {
		ZVAL_DEREF(value);
		Z_ADDREF_P(value);
		add_next_index_zval(list, value);
	} ZEND_HASH_FOREACH_END();
	ZVAL_LONG(OBJ_PROP_NUM(object, KEY_BYTES), key_bytes);
	ZVAL_LONG(OBJ_PROP_NUM(object, BYTES), (zend_long)bytes);
}

/* Returns NULL with an exception pending. */
static fermata_table *opened(zval *this)
{
	fermata_table *table = FERMATA_FROM(fermata_table, Z_OBJ_P(this));
	if (UNEXPECTED(!table->core)) {
		fermata_misuse("the table was not constructed");
		return NULL;
	}
	if (UNEXPECTED(table->forks != fermata.forks)) {
		fm_table_forked(table->core);
		table->forks = fermata.forks;
	}
	return table;
}

/* Returns false with an exception pending. */
static bool succeeded(uint32_t code, const FmError *error)
{
	if (UNEXPECTED(code != FM_OK)) {
		fermata_throw(code, error);
		return false;
	}
	return true;
}

static ZEND_COLD bool refuse_type(const table_column *column, const zval *value)
{
	static const char *const takes[] = {"an int", "a number", "a string"};
	fermata_misuse("column \"%s\" takes %s, not %s", ZSTR_VAL(column->name), takes[column->kind], fermata_type_name(value));
	return false;
}

/* Returns false with an exception pending. */
static bool to_value(const table_column *column, zval *from, FmValue *to)
{
	ZVAL_DEREF(from);
	to->kind = column->kind;
	switch (column->kind) {
		case FM_COLUMN_INT:
			to->number = Z_TYPE_P(from) == IS_LONG ? Z_LVAL_P(from) : 0;
			return Z_TYPE_P(from) == IS_LONG || refuse_type(column, from);
		case FM_COLUMN_FLOAT:
			to->real = Z_TYPE_P(from) == IS_LONG ? (double)Z_LVAL_P(from) : Z_TYPE_P(from) == IS_DOUBLE ? Z_DVAL_P(from) : 0;
			return Z_TYPE_P(from) == IS_LONG || Z_TYPE_P(from) == IS_DOUBLE || refuse_type(column, from);
		default:
			if (Z_TYPE_P(from) != IS_STRING) {
				return refuse_type(column, from);
			}
			if (Z_STRLEN_P(from) > column->bytes_max) {
				fermata_misuse("column \"%s\" takes at most %u bytes, not %zu; declare it with more", ZSTR_VAL(column->name),
					column->bytes_max, Z_STRLEN_P(from));
				return false;
			}
			to->text = fermata_str(Z_STR_P(from));
			return true;
	}
}

static void from_value(zval *to, const FmValue *from)
{
	switch (from->kind) {
		case FM_COLUMN_INT: ZVAL_LONG(to, from->number); break;
		case FM_COLUMN_FLOAT: ZVAL_DOUBLE(to, from->real); break;
		default: ZVAL_STRINGL_FAST(to, from->text.ptr, from->text.len);
	}
}

/* Builds the row that was copied last as an array. */
static void row_of(const fermata_table *table, zval *row)
{
	FmValue value;
	array_init_size(row, table->columns_len);
	for (uint32_t i = 0; i < table->columns_len; i++) {
		zval column;
		fm_table_value(table->core, i, &value);
		from_value(&column, &value);
		/* PHP arrays store the key "7" as the integer 7. */
		zend_symtable_update(Z_ARR_P(row), table->columns[i].name, &column);
	}
}

ZEND_METHOD(Fermata_Table, set)
{
	zend_string *key, *name;
	HashTable *row;
	zval *from;
	zend_ulong number;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(key)
		Z_PARAM_ARRAY_HT(row)
	ZEND_PARSE_PARAMETERS_END();
	fermata_table *table = opened(ZEND_THIS);
	if (!table) {
		RETURN_THROWS();
	}
	fm_table_begin(table->core);
	ZEND_HASH_FOREACH_KEY_VAL(row, number, name, from) {
		FmValue value;
		zend_string *column_name = name ? zend_string_copy(name) : zend_long_to_str((zend_long)number);
		int64_t column = column_of(table, column_name);
		zend_string_release(column_name);
		if (column < 0 || !to_value(&table->columns[column], from, &value)
			|| !succeeded(fm_table_put(table->core, (uint32_t)column, &value, &error), &error)) {
			RETURN_THROWS();
		}
	} ZEND_HASH_FOREACH_END();
	if (!succeeded(fm_table_set(table->core, fermata_str(key), &error), &error)) {
		RETURN_THROWS();
	}
}

/* Copies a row. Returns false if the row does not exist, or with an exception pending. */
static bool read_row(const fermata_table *table, const zend_string *key)
{
	bool is_there = false;
	FmError error;
	error.len = 0;
	return succeeded(fm_table_get(table->core, fermata_str(key), &is_there, &error), &error) && is_there;
}

ZEND_METHOD(Fermata_Table, get)
{
	zend_string *key;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(key)
	ZEND_PARSE_PARAMETERS_END();
	fermata_table *table = opened(ZEND_THIS);
	if (table && read_row(table, key)) {
		row_of(table, return_value);
	}
}

ZEND_METHOD(Fermata_Table, value)
{
	zend_string *key, *name;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(key)
		Z_PARAM_STR(name)
	ZEND_PARSE_PARAMETERS_END();
	fermata_table *table = opened(ZEND_THIS);
	int64_t column = table ? column_of(table, name) : -1;
	if (column >= 0 && read_row(table, key)) {
		FmValue value;
		fm_table_value(table->core, (uint32_t)column, &value);
		from_value(return_value, &value);
	}
}

ZEND_METHOD(Fermata_Table, exists)
{
	zend_string *key;
	bool is_there = false;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(key)
	ZEND_PARSE_PARAMETERS_END();
	fermata_table *table = opened(ZEND_THIS);
	if (!table || !succeeded(fm_table_contains(table->core, fermata_str(key), &is_there, &error), &error)) {
		RETURN_THROWS();
	}
	RETURN_BOOL(is_there);
}

/* Converts the amount of an increment, negated for a decrement. Returns false with an exception pending. */
static bool amount(const table_column *column, zval *by, bool subtracts, FmValue *value)
{
	zval one;
	if (column->kind == FM_COLUMN_STRING) {
		fermata_misuse("column \"%s\" has strings, which nothing can be added to", ZSTR_VAL(column->name));
		return false;
	}
	ZVAL_LONG(&one, 1);
	if (!to_value(column, by ? by : &one, value)) {
		return false;
	}
	if (subtracts && column->kind == FM_COLUMN_INT && value->number == ZEND_LONG_MIN) {
		fermata_misuse("the opposite of PHP_INT_MIN is no int");
		return false;
	}
	if (subtracts) {
		value->number = column->kind == FM_COLUMN_INT ? -value->number : 0;
		value->real = column->kind == FM_COLUMN_FLOAT ? -value->real : 0;
	}
	return true;
}

static void add(INTERNAL_FUNCTION_PARAMETERS, bool subtracts)
{
	zend_string *key, *name;
	zval *by = NULL;
	FmValue value = {0}, sum;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(2, 3)
		Z_PARAM_STR(key)
		Z_PARAM_STR(name)
		Z_PARAM_OPTIONAL
		Z_PARAM_NUMBER(by)
	ZEND_PARSE_PARAMETERS_END();
	fermata_table *table = opened(ZEND_THIS);
	int64_t column = table ? column_of(table, name) : -1;
	if (column < 0 || !amount(&table->columns[column], by, subtracts, &value)
		|| !succeeded(fm_table_add(table->core, fermata_str(key), (uint32_t)column, &value, &sum, &error), &error)) {
		RETURN_THROWS();
	}
	from_value(return_value, &sum);
}

ZEND_METHOD(Fermata_Table, increment)
{
	add(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

ZEND_METHOD(Fermata_Table, decrement)
{
	add(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

ZEND_METHOD(Fermata_Table, delete)
{
	zend_string *key;
	bool was_there = false;
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(key)
	ZEND_PARSE_PARAMETERS_END();
	fermata_table *table = opened(ZEND_THIS);
	if (!table || !succeeded(fm_table_delete(table->core, fermata_str(key), &was_there, &error), &error)) {
		RETURN_THROWS();
	}
	RETURN_BOOL(was_there);
}

ZEND_METHOD(Fermata_Table, clear)
{
	FmError error;
	error.len = 0;
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_table *table = opened(ZEND_THIS);
	if (!table || !succeeded(fm_table_clear(table->core, &error), &error)) {
		RETURN_THROWS();
	}
}

ZEND_METHOD(Fermata_Table, count)
{
	ZEND_PARSE_PARAMETERS_NONE();
	fermata_table *table = opened(ZEND_THIS);
	if (!table) {
		RETURN_THROWS();
	}
	RETURN_LONG(fm_table_len(table->core));
}

/* foreach */

typedef struct table_iterator {
	zend_object_iterator base; /* owns a reference to the table */
	uint32_t place;
	zval key, row; /* undefined at the end */
} table_iterator;

static void iterator_drop(zend_object_iterator *base)
{
	table_iterator *iterator = (table_iterator *)base;
	zval_ptr_dtor(&iterator->key);
	zval_ptr_dtor(&iterator->row);
	ZVAL_UNDEF(&iterator->key);
	ZVAL_UNDEF(&iterator->row);
}

static void iterator_free(zend_object_iterator *base)
{
	iterator_drop(base);
	zval_ptr_dtor(&base->data);
}

static zend_result iterator_valid(zend_object_iterator *base)
{
	return Z_ISUNDEF(((table_iterator *)base)->row) ? FAILURE : SUCCESS;
}

static zval *iterator_row(zend_object_iterator *base)
{
	return &((table_iterator *)base)->row;
}

static void iterator_key(zend_object_iterator *base, zval *key)
{
	ZVAL_COPY(key, &((table_iterator *)base)->key);
}

static void iterator_next(zend_object_iterator *base)
{
	table_iterator *iterator = (table_iterator *)base;
	bool is_there = false;
	FmError error;
	error.len = 0;
	iterator_drop(base);
	fermata_table *table = opened(&base->data);
	if (table && succeeded(fm_table_next(table->core, &iterator->place, &is_there, &error), &error) && is_there) {
		FmStr key = fm_table_key(table->core);
		ZVAL_STRINGL_FAST(&iterator->key, key.ptr, key.len);
		row_of(table, &iterator->row);
	}
}

static void iterator_rewind(zend_object_iterator *base)
{
	((table_iterator *)base)->place = 0;
	iterator_next(base);
}

static HashTable *iterator_get_gc(zend_object_iterator *base, zval **table, int *len)
{
	*table = &base->data;
	*len = 1;
	return NULL;
}

static const zend_object_iterator_funcs iterator_functions = {
	.dtor = iterator_free,
	.valid = iterator_valid,
	.get_current_data = iterator_row,
	.get_current_key = iterator_key,
	.move_forward = iterator_next,
	.rewind = iterator_rewind,
	.get_gc = iterator_get_gc,
};

static zend_object_iterator *table_get_iterator(zend_class_entry *ce, zval *object, int by_reference)
{
	if (by_reference) {
		fermata_misuse("foreach gives copies of rows, so not by reference; set() changes one");
		return NULL;
	}
	table_iterator *iterator = emalloc(sizeof(table_iterator));
	zend_iterator_init(&iterator->base);
	ZVAL_OBJ_COPY(&iterator->base.data, Z_OBJ_P(object));
	iterator->base.funcs = &iterator_functions;
	iterator->place = 0;
	ZVAL_UNDEF(&iterator->key);
	ZVAL_UNDEF(&iterator->row);
	return &iterator->base;
}

ZEND_METHOD(Fermata_Table, getIterator)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_create_internal_iterator_zval(return_value, ZEND_THIS);
}
