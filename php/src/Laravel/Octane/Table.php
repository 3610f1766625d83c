<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

use Fermata\Table as Shared;
use Fermata\Table\Column;
use Laravel\Octane\Exceptions\ValueTooLargeForColumnException;

/**
 * Fermata\Table with the methods of Swoole\Table, as returned by Octane::table(). Without the Swoole extension this class is
 * aliased to Swoole\Table; with it, a SwooleTable wraps it.
 *
 * @implements \IteratorAggregate<string, array<string, int|float|string>>
 */
class Table implements \Countable, \IteratorAggregate
{
    public const TYPE_INT = 1;
    public const TYPE_FLOAT = 2;
    public const TYPE_STRING = 3;

    /** Maximum length of a key. Swoole truncates keys after 63 bytes. */
    private const KEY_BYTES = 255;

    /** @var array<string, Column> */
    private array $columns = [];

    private ?Shared $shared = null;

    public function __construct(private readonly int $size, float $conflictProportion = 0.2) {}

    public function column(string $name, int $type, int $size = 0): bool
    {
        $this->columns[$name] = match ($type) {
            self::TYPE_INT => Column::int($name),
            self::TYPE_FLOAT => Column::float($name),
            self::TYPE_STRING => Column::string($name, $size),
            default => throw new \InvalidArgumentException("there is no type $type of columns"),
        };
        return true;
    }

    /** Allocates the table. Call it before the server runs. */
    public function create(): bool
    {
        $this->shared = new Shared($this->size, array_values($this->columns), self::KEY_BYTES);
        return true;
    }

    /**
     * @param array<string, mixed> $values values by column; unknown columns are ignored
     * @throws ValueTooLargeForColumnException
     */
    public function set(string $key, array $values): bool
    {
        $row = [];
        foreach (array_intersect_key($values, $this->columns) as $name => $value) {
            $row[$name] = $this->fitting($this->columns[$name], $value);
        }
        $this->shared()->set($key, $row);
        return true;
    }

    /** Returns the row, or its column `$field`. Returns false if there is no such row. */
    public function get(string $key, ?string $field = null): array|int|float|string|false
    {
        return ($field === null ? $this->shared()->get($key) : $this->shared()->value($key, $field)) ?? false;
    }

    public function exists(string $key): bool
    {
        return $this->shared()->exists($key);
    }

    public function exist(string $key): bool
    {
        return $this->exists($key);
    }

    public function incr(string $key, string $column, int|float $incrby = 1): int|float
    {
        return $this->shared()->increment($key, $column, $incrby);
    }

    public function decr(string $key, string $column, int|float $decrby = 1): int|float
    {
        return $this->shared()->decrement($key, $column, $decrby);
    }

    public function delete(string $key): bool
    {
        return $this->shared()->delete($key);
    }

    public function del(string $key): bool
    {
        return $this->delete($key);
    }

    public function count(): int
    {
        return $this->shared()->count();
    }

    public function getSize(): int
    {
        return $this->size;
    }

    public function getMemorySize(): int
    {
        return $this->shared()->bytes;
    }

    public function getIterator(): \Iterator
    {
        return $this->shared()->getIterator();
    }

    private function fitting(Column $column, mixed $value): int|float|string
    {
        $value = match ($column->type) {
            Shared\Type::Int => (int) $value,
            Shared\Type::Float => (float) $value,
            Shared\Type::String => (string) $value,
        };
        if (\is_string($value) && \strlen($value) > $column->bytes) {
            throw new ValueTooLargeForColumnException(\sprintf('Value [%s...] is too large for [%s] column.', substr($value, 0, 20), $column->name));
        }
        return $value;
    }

    private function shared(): Shared
    {
        return $this->shared ?? throw new \LogicException('call create() before the table is used');
    }
}

// Applications and Octane::table() use the name Swoole\Table in types.
if (!class_exists('Swoole\Table', false)) {
    class_alias(Table::class, 'Swoole\Table');
}
