<?php

declare(strict_types=1);

// Declares the classes of Swoole, Octane and Laravel that tables depend on, then uses a table as an application with all three.

namespace Swoole {
    class Table implements \Iterator, \Countable
    {
        public const TYPE_INT = 1;
        public const TYPE_FLOAT = 2;
        public const TYPE_STRING = 3;

        public function __construct(int $table_size, float $conflict_proportion = 0.2) { throw new \Error('a table of Swoole was made'); }
        public function column(string $name, int $type, int $size = 0): bool { return self::never(); }
        public function create(): bool { return self::never(); }
        public function destroy(): bool { return self::never(); }
        public function set(string $key, array $value): bool { return self::never(); }
        public function get(string $key, ?string $field = null): array|false|string|float|int { return self::never(); }
        public function count(): int { return self::never(); }
        public function del(string $key): bool { return self::never(); }
        public function delete(string $key): bool { return self::never(); }
        public function exists(string $key): bool { return self::never(); }
        public function exist(string $key): bool { return self::never(); }
        public function incr(string $key, string $column, int|float $incrby = 1): float|int { return self::never(); }
        public function decr(string $key, string $column, int|float $incrby = 1): float|int { return self::never(); }
        public function getSize(): int { return self::never(); }
        public function getMemorySize(): int { return self::never(); }
        public function stats(): array|false { return self::never(); }
        public function rewind(): void { self::never(); }
        public function valid(): bool { return self::never(); }
        public function next(): void { self::never(); }
        public function current(): mixed { return self::never(); }
        public function key(): mixed { return self::never(); }
        private static function never(): never { throw new \Error('Swoole was called'); }
    }
}

namespace Laravel\Octane {
    class Octane
    {
        public function table(string $table): \Swoole\Table { throw new \Exception('only with Swoole'); }
    }

    class ApplicationFactory {}
}

namespace Illuminate\Foundation {
    class Application
    {
        public array $instances = [];
        public function instance(string $name, mixed $value): void { $this->instances[$name] = $value; }
        public function bound(string $name): bool { return isset($this->instances[$name]); }
        public function make(string $name): object
        {
            return new class {
                public function get(string $name): array
                {
                    return $name === 'octane.tables' ? ['example:3' => ['name' => 'string:10', 'votes' => 'int', 'score' => 'float']] : ['rows' => 8, 'bytes' => 100];
                }
            };
        }
    }
}

namespace {
    require dirname(__DIR__, 2) . '/autoload.php';

    function app(?string $name = null): mixed
    {
        static $app = new Illuminate\Foundation\Application();
        return $name === null ? $app : $app->instances[$name];
    }

    (new ReflectionMethod(Fermata\Laravel\Octane\Factory::class, 'declareTables'))->invoke(null, app());
    $table = (new Fermata\Laravel\Octane\Octane())->table('example');
    $set = $table->set('uuid', ['name' => 'Ada', 'votes' => '7', 'unknown' => true]);
    $sums = [$table->incr('uuid', 'votes', 3), $table->decr('uuid', 'score', 0.5)];
    $rows = [];
    foreach ([1, 2] as $_) {
        foreach ($table as $key => $row) {
            $rows[] = [$key, $row];
        }
    }
    $found = [$table->get('uuid', 'name'), $table->get('none'), $table->exist('uuid'), $table->exists('none'), count($table), $table->getSize()];
    $memory = $table->getMemorySize() > 0;
    $end = [$table->del('uuid'), $table->delete('uuid'), count($table), $table->stats(), $table->destroy()];
    app('octane.cacheTable')->set('a', ['value' => 'b', 'expiration' => 1]);
    echo json_encode([$table instanceof Swoole\Table, $set, $sums, $rows, $found, $memory, $end, app('octane.cacheTable')->get('a', 'value')]);
}
