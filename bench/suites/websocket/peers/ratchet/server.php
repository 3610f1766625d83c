<?php

/** `php server.php echo|subprotocol|broadcast PORT [CERTIFICATE KEY]`, with an autoloader in BENCH_AUTOLOAD. */

// This Ratchet version of 2021 sets dynamic properties, which PHP 8.2 deprecates, once per connection.
error_reporting(E_ALL & ~E_DEPRECATED);

use Ratchet\{ConnectionInterface, MessageComponentInterface};
use Ratchet\Http\HttpServer;
use Ratchet\Server\IoServer;
use Ratchet\WebSocket\{WsServer, WsServerInterface};
use React\EventLoop\Loop;
use React\Socket\{SecureServer, TcpServer};

require getenv('BENCH_AUTOLOAD');

abstract class Handler implements MessageComponentInterface, WsServerInterface
{
    protected SplObjectStorage $all;

    public function __construct(private readonly string $mode)
    {
        $this->all = new SplObjectStorage();
    }

    public function getSubProtocols(): array
    {
        // With a subprotocol listed, Ratchet rejects clients that do not offer it.
        return $this->mode === 'subprotocol' ? ['bench'] : [];
    }

    public function onOpen(ConnectionInterface $conn)
    {
        $this->all->attach($conn);
    }

    public function onClose(ConnectionInterface $conn)
    {
        $this->all->detach($conn);
    }

    public function onError(ConnectionInterface $conn, Exception $e)
    {
        fwrite(STDERR, $e->getMessage() . "\n");
        $conn->close();
    }
}

final class EchoHandler extends Handler
{
    public function onMessage(ConnectionInterface $from, $msg)
    {
        $from->send($msg);
    }
}

final class BroadcastHandler extends Handler
{
    public function onMessage(ConnectionInterface $from, $msg)
    {
        foreach ($this->all as $connection) {
            $connection->send($msg);
        }
    }
}

[, $mode, $port, $certificate, $key] = $argv + [3 => '', 4 => ''];
$loop = Loop::get();
$socket = new TcpServer("127.0.0.1:$port", $loop, ['backlog' => 4096]);
if ($certificate !== '') {
    $socket = new SecureServer($socket, $loop, ['local_cert' => $certificate, 'local_pk' => $key, 'verify_peer' => false]);
}
$handler = $mode === 'broadcast' ? new BroadcastHandler($mode) : new EchoHandler($mode);
(new IoServer(new HttpServer(new WsServer($handler)), $socket, $loop))->run();
