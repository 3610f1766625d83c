<?php

declare(strict_types=1);

namespace Fermata\Internal;

/**
 * Routes of the application behind the front controller, for `fermata dev` and `fermata routes`.
 *
 * @internal
 */
final class Routes
{
    /** @var (\Closure(): list<array{kind: string, method: string, path: string, handler: string}>)|null lists the application's routes */
    public static ?\Closure $list = null;

    /** @var (\Closure(string): void)|null receives the matched route of each request; null outside of development */
    public static ?\Closure $told = null;

    /**
     * Replaces the front controller's route with the application's routes.
     *
     * @param list<array{kind: string, method: string, path: string, handler: string}> $routes routes of the server
     * @return list<array{kind: string, method: string, path: string, handler: string}>
     */
    public static function with(array $routes): array
    {
        if (self::$list === null) {
            return $routes;
        }
        $front = FrontController::class . '::';
        return [
            ...array_filter($routes, static fn(array $route): bool => !str_starts_with($route['handler'], $front)),
            ...(self::$list)(),
        ];
    }

    /**
     * @param list<string> $methods empty: all methods
     * @return list<array{kind: string, method: string, path: string, handler: string}>
     */
    public static function of(array $methods, string $path, string $handler): array
    {
        // Omit HEAD where there is GET, as in the server's list.
        $methods = in_array('GET', $methods, true) ? array_diff($methods, ['HEAD']) : $methods;
        return array_map(
            static fn(string $method): array => ['kind' => 'application', 'method' => $method, 'path' => $path, 'handler' => $handler],
            array_values($methods === [] ? [''] : $methods),
        );
    }
}
