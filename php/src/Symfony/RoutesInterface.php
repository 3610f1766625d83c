<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Server;

/**
 * A service that adds routes to the server alongside the application: WebSockets, held clients, timers.
 *
 * FermataBundle calls each service that implements this interface before the server runs. In each worker only one handler runs
 * at a time, of these routes or the application.
 */
interface RoutesInterface
{
    public function addTo(Server $server): void;
}
