<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks;

use PHPUnit\Framework\TestCase;

/** Tests that `fermata routes` and `fermata dev` list the application's own routes. */
final class RoutesTest extends TestCase
{
    private const NOTES = [['GET', '/'], ['POST', '/notes'], ['GET', '/events']];

    /** @return array<string, array{list<string>, string}> */
    public static function applications(): array
    {
        return [
            'Symfony' => [['symfony/public/index.php'], 'notes: App\Controller\NotesController::show'],
            'Laravel' => [['laravel/artisan', '--', 'fermata:start'], 'Closure'],
        ];
    }

    /**
     * @dataProvider applications
     * @param list<string> $program
     */
    public function testAreThoseOfTheApplication(array $program, string $handler): void
    {
        $root = dirname(__DIR__, 3);
        $program[0] = "$root/examples/$program[0]";
        $folder = sys_get_temp_dir() . '/fermata-routes-' . getmypid();
        $command = [getenv('FERMATA_COMMAND') ?: "$root/build/fermata", 'routes', '--json', ...$program];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => STDERR], $pipes, env_vars: ['APP_VAR' => $folder] + getenv());
        $routes = json_decode((string) stream_get_contents($pipes[1]), true);
        self::assertSame(0, proc_close($process));
        exec('rm -rf ' . escapeshellarg($folder));
        self::assertSame(self::NOTES, array_map(static fn(array $route): array => [$route['method'], $route['path']], $routes));
        self::assertSame($handler, $routes[0]['handler']);
    }
}
