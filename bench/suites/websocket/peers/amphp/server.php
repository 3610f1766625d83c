<?php

/** `php server.php echo|subprotocol|broadcast PORT [CERTIFICATE KEY]`, with an autoloader in BENCH_AUTOLOAD. */

declare(strict_types=1);

use Amp\Http\Server\{DefaultErrorHandler, Request, Response, SocketHttpServer};
use Amp\Socket\{BindContext, Certificate, InternetAddress, ServerTlsContext};
use Amp\Websocket\Server\{Rfc6455Acceptor, Rfc6455ClientFactory, Websocket, WebsocketAcceptor, WebsocketClientGateway, WebsocketClientHandler};
use Amp\Websocket\WebsocketClient;
use Psr\Log\NullLogger;

require getenv('BENCH_AUTOLOAD');

[, $mode, $port, $certificate, $key] = $argv + [3 => '', 4 => ''];
$logger = new NullLogger();
$server = SocketHttpServer::createForDirectAccess(
    $logger,
    connectionLimit: 19_900,
    connectionLimitPerIp: 19_900,
    concurrencyLimit: null,
);
$context = (new BindContext())->withBacklog(4096)->withTcpNoDelay();
if ($certificate !== '') {
    $context = $context->withTlsContext((new ServerTlsContext())->withDefaultCertificate(new Certificate($certificate, $key)));
}
$server->expose(new InternetAddress('127.0.0.1', (int) $port), $context);

$acceptor = new class implements WebsocketAcceptor {
    public function __construct(private readonly WebsocketAcceptor $inner = new Rfc6455Acceptor())
    {
    }

    public function handleHandshake(Request $request): Response
    {
        $response = $this->inner->handleHandshake($request);
        if ($request->hasHeader('sec-websocket-protocol')) {
            $response->setHeader('sec-websocket-protocol', 'bench');
        }
        return $response;
    }
};
$handler = new class($mode) implements WebsocketClientHandler {
    private readonly WebsocketClientGateway $gateway;

    public function __construct(private readonly string $mode)
    {
        $this->gateway = new WebsocketClientGateway();
    }

    public function handleClient(WebsocketClient $client, Request $request, Response $response): void
    {
        if ($this->mode !== 'broadcast') {
            while ($message = $client->receive()) {
                $client->sendText($message->buffer());
            }
            return;
        }
        $this->gateway->addClient($client);
        while ($message = $client->receive()) {
            $this->gateway->broadcastText($message->buffer())->ignore();
        }
    }
};
// No limit on frames or bytes per second, and no heartbeat: no other peer has them.
$factory = new Rfc6455ClientFactory(heartbeatQueue: null, rateLimit: null);
$websocket = new Websocket($server, $logger, $acceptor, $handler, clientFactory: $factory);
$server->start($websocket, new DefaultErrorHandler());
Amp\trapSignal([SIGINT, SIGTERM]);
$server->stop();
