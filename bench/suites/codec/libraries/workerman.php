<?php

declare(strict_types=1);

use Workerman\Connection\TcpConnection;
use Workerman\Protocols\Websocket;

require getenv('BENCH_AUTOLOAD');

function measure(string $function, string $input, string $payload, int $calls): int
{
    // A connection after its handshake. It has no socket, because neither function uses one.
    $connection = (new ReflectionClass(TcpConnection::class))->newInstanceWithoutConstructor();
    $connection->context = new stdClass();
    $connection->context->websocketHandshake = true;
    $connection->context->websocketDataBuffer = '';
    $connection->context->websocketCurrentFrameLength = 0;
    $connection->websocketType = Websocket::BINARY_TYPE_BLOB;
    $result = Websocket::$function($input, $connection);
    if ($function === 'encode' ? !str_ends_with($result, $payload) : $result !== $payload) {
        throw new UnexpectedValueException('a wrong result');
    }
    $start = hrtime(true);
    if ($function === 'encode') {
        for ($i = 0; $i < $calls; $i++) {
            $result = Websocket::encode($input, $connection);
        }
    } else {
        for ($i = 0; $i < $calls; $i++) {
            $result = Websocket::decode($input, $connection);
        }
    }
    return hrtime(true) - $start;
}
