<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Server;

/**
 * All services that have routes of the server's own.
 *
 * @internal
 */
final readonly class ServerRoutes
{
    /** @param iterable<RoutesInterface> $routes */
    public function __construct(private iterable $routes) {}

    public function addTo(Server $server): void
    {
        foreach ($this->routes as $routes) {
            $routes->addTo($server);
        }
    }
}
