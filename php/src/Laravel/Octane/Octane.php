<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

/**
 * Octane with tables. Without this class, tables require Swoole.
 *
 * @internal
 */
final class Octane extends \Laravel\Octane\Octane
{
    /** Container key of the array of tables, indexed by name. */
    public const TABLES = 'fermata.octane.tables';

    public function table(string $table): \Swoole\Table
    {
        $tables = app()->bound(self::TABLES) ? app(self::TABLES) : [];
        return $tables[$table] ?? throw new \Exception("there is no table $table; config/octane.php declares it under 'tables'");
    }
}
