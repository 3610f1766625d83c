/* __get(), __set(), __isset() and __unset() of an object that handlers share.
 *
 * While one of these methods runs, PHP marks the property in the object, so that the method itself accesses the real property. If
 * another handler used the property, it would see the mark, too, and get "undefined property" instead of a call. So the marks are
 * removed from the object while the handler waits.
 *
 * PHP stores the marks of each property in a word, and reuses the word for another property once it is 0. So the word also
 * counts the waiting handlers, and has a bit that keeps it from being reused. */
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "fibers/fibers.h"
#include "handler/parts.h"

#define MARKS 0xfu           /* get, set, unset, isset */
#define IN_USE (1u << 4)     /* keeps PHP from reusing the word, since PHP checks this bit together with MARKS */
#define WAITS (1u << 16)     /* one waiting handler; the upper bits are their number */

typedef struct mark {
	uint32_t *word;
	uint32_t marks;
} mark;

typedef struct marks {
	uint32_t len, capacity;
	mark at[];
} marks;

typedef struct magic {
	marks *marks;   /* marks that were removed while the handler waits; NULL = none */
	bool has_frame; /* set by fermata_magic_note() */
} magic;

static fermata_part part;
FERMATA_SLOT(magic, part)

void fermata_magic_note(void)
{
	slot(fermata_run.fiber)->has_frame = true;
}

static void take_out(magic *mine, uint32_t *word)
{
	marks *out = mine->marks;
	if (!(*word & MARKS)) {
		return;
	}
	if (!out || out->len == out->capacity) {
		uint32_t capacity = out ? out->capacity * 2 : 2;
		uint32_t len = out ? out->len : 0;
		mine->marks = out = safe_erealloc(out, capacity, sizeof(mark), sizeof(*out));
		out->len = len;
		out->capacity = capacity;
	}
	out->at[out->len++] = (mark){word, *word & MARKS};
	*word = ((*word & ~MARKS) | IN_USE) + WAITS;
}

/* PHP stores the words in a value after the object's properties: in a string, which is the property's name, or in a table by
 * name. */
static void take_out_of(magic *mine, zend_object *object)
{
	zval *words = object->properties_table + object->ce->default_properties_count;
	if (Z_TYPE_P(words) == IS_STRING) {
		take_out(mine, &FERMATA_GUARD_P(words));
	} else if (Z_TYPE_P(words) == IS_ARRAY) {
		void *word;
		ZEND_HASH_FOREACH_PTR(Z_ARRVAL_P(words), word) {
			take_out(mine, (uint32_t *)((uintptr_t)word & ~(uintptr_t)1));
		} ZEND_HASH_FOREACH_END();
	}
}

static ZEND_COLD void suspend(magic *mine)
{
	const zend_execute_data *frame = EG(current_execute_data), *base = fermata_fibers_frame();
	mine->has_frame = false;
	for (; frame && frame != base; frame = frame->prev_execute_data) {
		if (frame->func && fermata_is_magic(frame)) {
			take_out_of(mine, Z_OBJ(frame->This));
		}
	}
}

static ZEND_COLD void resume(magic *mine)
{
	marks *out = mine->marks;
	mine->marks = NULL;
	for (uint32_t i = 0; i < out->len; i++) {
		uint32_t *word = out->at[i].word;
		*word = (*word - WAITS) | out->at[i].marks;
		if (*word < WAITS) {
			*word &= ~IN_USE;
		}
	}
	efree(out);
}

static void on_suspend(fermata_fiber *fiber)
{
	if (UNEXPECTED(slot(fiber)->has_frame)) {
		suspend(slot(fiber));
	}
}

static void on_resume(fermata_fiber *fiber)
{
	if (UNEXPECTED(slot(fiber)->marks)) {
		resume(slot(fiber));
	}
}

static fermata_part part = {.size = sizeof(magic), .on_suspend = on_suspend, .on_resume = on_resume};

void fermata_magic_init(void)
{
	fermata_part_register(&part);
}
