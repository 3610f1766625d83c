/* Replaces functions in an object's relocation tables.
 *
 * An object (the program or a shared library) calls functions of other objects through a table of addresses that the dynamic
 * linker fills in. Entries are found by the symbol names of their relocations. Each change is recorded, and the old value is
 * restored when the extension shuts down, since the object may outlive it. Supports only 64-bit ELF with addends: Linux on
 * x86-64 and ARM, with glibc or musl. */
#ifndef _GNU_SOURCE
# define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
# include "config.h"
#endif
#include "hooks/hooks.h"
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include "base/optimize_size.h"

#if defined(__x86_64__) && defined(__LP64__)
# define IS_FUNCTION(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__) && defined(__LP64__)
# define IS_FUNCTION(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
# define IS_FUNCTION(type) false
# define FERMATA_PATCH_UNKNOWN
#endif

typedef struct change {
	void **place, *old, *by;
} change;

static struct {
	change *at;
	uint32_t len, capacity;
} changes;

typedef struct search {
	const char *object;
	const fermata_replacement *calls; /* NULL = only test if the object is loaded */
	size_t calls_len;
	bool is_found;
	uint32_t changed, failed;
} search;

typedef struct tables {
	const ElfW(Sym) *symbols;
	const char *strings;
	const ElfW(Rela) *relocations[2];
	size_t lens[2];
} tables;

bool fermata_patch_is_possible(void)
{
#ifdef FERMATA_PATCH_UNKNOWN
	return false;
#else
	return true;
#endif
}

/* Last region of /proc/self/maps that was looked up, with its protection: the linker makes tables read-only after filling them.
 * Most entries are in the same region as the previous entry. It is looked up again after an object may have been loaded or
 * unloaded. */
static struct {
	uintptr_t from, to;
	int protection;
} region;

static void forget_region(void)
{
	region.from = region.to = 0;
}

static int protection_of(uintptr_t address)
{
	char line[512];
	if (address >= region.from && address < region.to) {
		return region.protection;
	}
	forget_region();
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long long from, to;
		char flags[5];
		if (sscanf(line, "%llx-%llx %4s", &from, &to, flags) == 3 && address >= from && address < to) {
			region.from = from;
			region.to = to;
			region.protection = (flags[0] == 'r' ? PROT_READ : 0) | (flags[1] == 'w' ? PROT_WRITE : 0) | (flags[2] == 'x' ? PROT_EXEC : 0);
			break;
		}
	}
	if (maps) {
		fclose(maps);
	}
	return region.to ? region.protection : -1;
}

static bool store(void **place, void *value)
{
	uintptr_t page = (uintptr_t)place & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	int protection = protection_of((uintptr_t)place);
	if (protection < 0) {
		return false;
	}
	bool is_sealed = !(protection & PROT_WRITE);
	if (is_sealed && mprotect((void *)page, sysconf(_SC_PAGESIZE), protection | PROT_WRITE) != 0) {
		return false;
	}
	*place = value;
	if (is_sealed) {
		mprotect((void *)page, sysconf(_SC_PAGESIZE), protection);
	}
	return true;
}

bool fermata_patch_pointer(void **place, void *value)
{
	void *old = *place;
	if (old == value) {
		return true;
	}
	if (!store(place, value)) {
		return false;
	}
	if (changes.len == changes.capacity) {
		changes.capacity = changes.capacity ? changes.capacity * 2 : 64;
		changes.at = safe_perealloc(changes.at, changes.capacity, sizeof(change), 0, true);
	}
	changes.at[changes.len++] = (change){place, old, value};
	return true;
}

bool fermata_patch_lasting(void **place, void *value)
{
	return *place == value || store(place, value);
}

/* Drops the cached region, since an object may have been loaded since. */
uint32_t fermata_patch_len(void)
{
	forget_region();
	return changes.len;
}

/* Returns true if the entry still has the replacement. The memory of an unloaded object may be unmapped or reused. */
static bool is_ours(const change *it)
{
	int protection = protection_of((uintptr_t)it->place);
	return protection >= 0 && (protection & PROT_READ) && *it->place == it->by;
}

void fermata_patch_undo(uint32_t len)
{
	forget_region();
	while (changes.len > len) {
		const change *last = &changes.at[--changes.len];
		if (is_ours(last)) {
			store(last->place, last->old);
		}
	}
	if (!len && changes.at) {
		pefree(changes.at, true);
		memset(&changes, 0, sizeof(changes));
	}
}

static bool is_object(const struct dl_phdr_info *info, const char *object)
{
	if (strcmp(object, "php") != 0) {
		const char *slash = strrchr(info->dlpi_name, '/');
		const char *name = slash ? slash + 1 : info->dlpi_name;
		return strncmp(name, object, strlen(object)) == 0;
	}
	/* "php" is the object that contains this function of PHP: the program or libphp. */
	uintptr_t address = (uintptr_t)&zend_execute_ex;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + header->p_vaddr;
		if (header->p_type == PT_LOAD && address >= from && address < from + header->p_memsz) {
			return true;
		}
	}
	return false;
}

#ifndef FERMATA_PATCH_UNKNOWN
/* Returns an address from a dynamic section. glibc has relocated such addresses in place; musl has not. */
static const void *address_of(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

static bool read_tables(const struct dl_phdr_info *info, tables *it)
{
	const ElfW(Dyn) *dynamic = NULL;
	memset(it, 0, sizeof(*it));
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
			dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		}
	}
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		switch (dynamic->d_tag) {
			case DT_SYMTAB: it->symbols = address_of(info, dynamic->d_un.d_ptr); break;
			case DT_STRTAB: it->strings = address_of(info, dynamic->d_un.d_ptr); break;
			case DT_JMPREL: it->relocations[0] = address_of(info, dynamic->d_un.d_ptr); break;
			case DT_PLTRELSZ: it->lens[0] = dynamic->d_un.d_val / sizeof(ElfW(Rela)); break;
			case DT_RELA: it->relocations[1] = address_of(info, dynamic->d_un.d_ptr); break;
			case DT_RELASZ: it->lens[1] = dynamic->d_un.d_val / sizeof(ElfW(Rela)); break;
			default: break;
		}
	}
	return it->symbols && it->strings;
}

static void exchange(const struct dl_phdr_info *info, search *wanted)
{
	tables it;
	if (!read_tables(info, &it)) {
		return;
	}
	for (int table = 0; table < 2; table++) {
		for (size_t i = 0; it.relocations[table] && i < it.lens[table]; i++) {
			const ElfW(Rela) *relocation = &it.relocations[table][i];
			if (!IS_FUNCTION(ELF64_R_TYPE(relocation->r_info))) {
				continue;
			}
			const char *name = it.strings + it.symbols[ELF64_R_SYM(relocation->r_info)].st_name;
			for (size_t call = 0; call < wanted->calls_len; call++) {
				if (strcmp(name, wanted->calls[call].name) == 0) {
					bool done = fermata_patch_pointer((void **)(info->dlpi_addr + relocation->r_offset), wanted->calls[call].by);
					wanted->changed += done;
					wanted->failed += !done;
				}
			}
		}
	}
}
#endif

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	search *it = data;
	if (!is_object(info, it->object)) {
		return 0;
	}
	it->is_found = true;
#ifndef FERMATA_PATCH_UNKNOWN
	if (it->calls) {
		exchange(info, it);
	}
#endif
	/* Continue the search: a library may be loaded in two variants, such as libcurl and libcurl-gnutls. */
	return 0;
}

bool fermata_patch_has(const char *object)
{
	search it = {.object = object};
	dl_iterate_phdr(visit, &it);
	return it.is_found;
}

uint32_t fermata_patch(const char *object, const fermata_replacement *calls, size_t len, uint32_t *failed)
{
	search it = {.object = object, .calls = calls, .calls_len = len};
	dl_iterate_phdr(visit, &it);
	*failed += it.failed;
	return it.changed;
}
