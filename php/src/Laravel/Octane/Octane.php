<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

/**
 * Octane with tables, which are Swoole's alone otherwise.
 *
 * @internal
 */
final class Octane extends \Laravel\Octane\Octane
{
    /** In the container: the tables by name. */
    public const TABLES = 'fermata.octane.tables';

    public function table(string $table): \Swoole\Table
    {
        $tables = app()->bound(self::TABLES) ? app(self::TABLES) : [];
        return $tables[$table] ?? throw new \Exception("there is no table $table; config/octane.php declares it under 'tables'");
    }
}
