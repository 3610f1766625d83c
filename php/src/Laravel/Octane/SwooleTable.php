<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

/**
 * Fermata table for PHP with the Swoole extension loaded. Octane::table() must return a Swoole\Table, so this class extends it
 * and forwards every call: only processes of a Swoole server share the memory of a real Swoole\Table.
 *
 * Parameters have no types, because Swoole's differ between versions.
 *
 * @internal
 */
final class SwooleTable extends \Swoole\Table
{
    private ?\Iterator $rows = null;

    /** Does not call the parent's constructor, which allocates memory. */
    public function __construct(private readonly Table $table) {}

    public function column($name, $type, $size = 0): bool
    {
        return $this->table->column($name, $type, $size);
    }

    public function create(): bool
    {
        return $this->table->create();
    }

    public function destroy(): bool
    {
        // The table exists for all workers until the server stops, so it cannot be destroyed.
        return false;
    }

    public function set($key, $value): bool
    {
        return $this->table->set((string) $key, $value);
    }

    public function get($key, $field = null): array|int|float|string|false
    {
        return $this->table->get((string) $key, $field);
    }

    public function exists($key): bool
    {
        return $this->table->exists((string) $key);
    }

    public function exist($key): bool
    {
        return $this->table->exists((string) $key);
    }

    public function incr($key, $column, $incrby = 1): int|float
    {
        return $this->table->incr((string) $key, $column, $incrby);
    }

    public function decr($key, $column, $decrby = 1): int|float
    {
        return $this->table->decr((string) $key, $column, $decrby);
    }

    public function delete($key): bool
    {
        return $this->table->delete((string) $key);
    }

    public function del($key): bool
    {
        return $this->table->delete((string) $key);
    }

    public function count(): int
    {
        return $this->table->count();
    }

    public function getSize(): int
    {
        return $this->table->getSize();
    }

    public function getMemorySize(): int
    {
        return $this->table->getMemorySize();
    }

    public function stats(): array|false
    {
        // Swoole's statistics describe Swoole's hash table, so they do not apply.
        return false;
    }

    public function rewind(): void
    {
        $this->rows = $this->table->getIterator();
        $this->rows->rewind();
    }

    public function valid(): bool
    {
        return $this->rows?->valid() ?? false;
    }

    public function current(): mixed
    {
        return $this->rows?->current();
    }

    public function key(): mixed
    {
        return $this->rows?->key();
    }

    public function next(): void
    {
        $this->rows?->next();
    }
}
