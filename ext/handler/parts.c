/* The registry of fiber parts: one array per hook, filled at MINIT. */
#include "handler/parts.h"

fermata_hooks fermata_parts;
static uint32_t parts_len, slots_bytes;

#define ADD(hook) \
	if (part->hook) { \
		fermata_parts.hook.at[fermata_parts.hook.len++] = part->hook; \
	}

/* For hooks called in reverse order. */
#define ADD_FIRST(hook) \
	if (part->hook) { \
		memmove(&fermata_parts.hook.at[1], &fermata_parts.hook.at[0], fermata_parts.hook.len++ * sizeof(fermata_parts.hook.at[0])); \
		fermata_parts.hook.at[0] = part->hook; \
	}

void fermata_part_register(fermata_part *part)
{
	uint32_t slot_bytes = ZEND_MM_ALIGNED_SIZE_EX(part->size, sizeof(void *));
	if (UNEXPECTED(slots_bytes + slot_bytes > FERMATA_SLOTS_BYTES || parts_len == FERMATA_PARTS_MAX)) {
		zend_error_noreturn(E_CORE_ERROR, "Fermata: too many fiber parts; raise FERMATA_SLOTS_BYTES or FERMATA_PARTS_MAX");
	}
	parts_len++;
	part->at = (uint16_t)slots_bytes;
	slots_bytes += slot_bytes;
	ADD(on_suspend)
	ADD_FIRST(on_resume)
	ADD_FIRST(on_return)
	ADD_FIRST(on_end)
	ADD(on_undo)
	ADD(on_clean_up)
	part->bit = part->on_clean_up ? FERMATA_TOUCHED << fermata_parts.on_clean_up.len : 0;
	ADD(on_cleaned_up)
	ADD(has_rest)
	ADD(on_move)
	ADD(on_wait)
	ADD(obstacle)
	ADD(outlives_client)
	ADD(waits_for)
	ADD(on_cut)
	ADD(on_unlock)
	ADD(on_start)
	ADD(on_wake)
	ADD(on_fatal)
	ADD(on_create)
	ADD(on_first_wait)
	ADD(on_release)
	ADD(answers_exit)
	ADD(answers_exception)
	ADD(on_retire)
	ADD(on_stop)
}
