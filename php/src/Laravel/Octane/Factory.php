<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

use Fermata\Laravel\FatalErrors;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap\RegisterProviders;
use Laravel\Octane\ApplicationFactory;

/**
 * Boots the application with the tables that config/octane.php declares. They are created after providers are registered, when
 * Octane's default configuration is merged, and before providers are booted, which may use tables.
 *
 * @internal
 */
final class Factory extends ApplicationFactory
{
    private const ROWS = 1000;
    private const STRING_BYTES = 1000;
    private const CACHE_BYTES = 10000;

    public function bootstrap(Application $app, array $initialInstances = []): Application
    {
        FatalErrors::adopt($app);
        $app->singleton(\Laravel\Octane\Octane::class, Octane::class);
        $app->afterBootstrapping(RegisterProviders::class, self::declareTables(...));
        return parent::bootstrap($app, $initialInstances);
    }

    private static function declareTables(Application $app): void
    {
        $config = $app->make('config');
        $tables = $config->get('octane.tables') ?: [];
        $cache = $config->get('octane.cache') ?: [];
        $made = [];
        foreach ($tables as $name => $columns) {
            [$name, $rows] = explode(':', $name) + [1 => self::ROWS];
            $table = new Table((int) $rows);
            foreach ($columns ?? [] as $column => $type) {
                [$type, $bytes] = explode(':', $type) + [1 => self::STRING_BYTES];
                $table->column($column, match ($type) {
                    'string' => Table::TYPE_STRING,
                    'int' => Table::TYPE_INT,
                    'float' => Table::TYPE_FLOAT,
                    default => throw new \InvalidArgumentException("config/octane.php: column $column of table $name is a string, int or float, not $type"),
                }, (int) $bytes);
            }
            $table->create();
            $made[$name] = $table instanceof \Swoole\Table ? $table : new SwooleTable($table);
        }
        $app->instance(Octane::TABLES, $made);
        if ($cache !== []) {
            $table = new CacheTable((int) ($cache['rows'] ?? self::ROWS));
            $table->column('value', Table::TYPE_STRING, (int) ($cache['bytes'] ?? self::CACHE_BYTES));
            $table->column('expiration', Table::TYPE_INT);
            $table->create();
            $app->instance('octane.cacheTable', $table);
        }
    }
}
