<?php

declare(strict_types=1);

// `php worker.php AUTOLOAD`: a RoadRunner worker without PSR-7, which is faster than one with PSR-7.

use Spiral\RoadRunner\Http\HttpWorker;
use Spiral\RoadRunner\Worker;

require $argv[1];

$worker = new HttpWorker(Worker::create());
while (($request = $worker->waitRequest()) !== null) {
    $worker->respond(200, json_encode(['status' => 'OK']), ['Content-Type' => ['application/json']]);
}
