<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Server;

/**
 * A service with routes of the server's own beside the application: WebSockets, held clients, timers.
 *
 * With FermataBundle a service that implements it is called before the server runs. Its handlers run one at a time with those
 * of the application.
 */
interface RoutesInterface
{
    public function addTo(Server $server): void;
}
