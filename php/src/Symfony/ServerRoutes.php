<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Server;

/**
 * Collects all services that add routes to the server.
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
