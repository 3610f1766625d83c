<?php

declare(strict_types=1);

namespace Fermata\Tests\Grip;

use Fermata\Grip\Item;
use Fermata\Grip\Publisher;
use Fermata\Grip\PublishFailed;
use Fermata\Grip\Signature;
use PHPUnit\Framework\TestCase;

final class PublisherTest extends TestCase
{
    /** @var resource */
    private static $server;
    private static string $seen;
    private static string $edge;

    public static function setUpBeforeClass(): void
    {
        self::$seen = tempnam(sys_get_temp_dir(), 'grip');
        $free = stream_socket_server('tcp://127.0.0.1:0');
        self::$edge = stream_socket_get_name($free, false);
        fclose($free);
        self::$server = proc_open(
            [PHP_BINARY, '-n', '-S', self::$edge, __DIR__ . '/control.php'],
            [1 => ['file', '/dev/null', 'w'], 2 => ['file', '/dev/null', 'w']],
            $pipes,
            null,
            ['SEEN' => self::$seen] + getenv(),
        );
        $end = microtime(true) + 20;
        while (!$socket = @stream_socket_client('tcp://' . self::$edge)) {
            self::assertLessThan($end, microtime(true), 'php -S does not listen');
            usleep(10_000);
        }
        fclose($socket);
    }

    public static function tearDownAfterClass(): void
    {
        proc_terminate(self::$server);
        proc_close(self::$server);
        unlink(self::$seen);
    }

    protected function setUp(): void
    {
        file_put_contents(self::$seen, '');
    }

    protected function tearDown(): void
    {
        putenv('GRIP_URL');
        putenv('FERMATA_CONTROL');
    }

    /** @return list<array<string, mixed>> */
    private static function seen(): array
    {
        $lines = file(self::$seen, FILE_IGNORE_NEW_LINES);
        return array_map(fn (string $line) => json_decode($line, true), $lines);
    }

    public function testAnItemIsPosted(): void
    {
        (new Publisher('http://' . self::$edge . '/below/'))->publish('room', new Item(stream: 'x'));
        $formats = ['http-stream' => ['content' => 'x']];
        self::assertSame([[
            'path' => '/below/publish/',
            'authorization' => null,
            'body' => ['items' => [['channel' => 'room', 'formats' => $formats]]],
        ]], self::seen());
    }

    public function testTheEnvironmentNamesAddresses(): void
    {
        putenv('GRIP_URL=http://' . self::$edge . '?iss=app&key=secret http://me:p%40ss@' . self::$edge);
        (new Publisher())->publish('room', 'hello');
        [$token, $password] = array_column(self::seen(), 'authorization');
        self::assertTrue(Signature::isValid(substr($token, strlen('Bearer ')), 'secret', 'app'));
        self::assertSame('Basic ' . base64_encode('me:p@ss'), $password);
    }

    public function testARefusalIsToldAndTheOthersHaveTheItem(): void
    {
        $publisher = new Publisher(['http://' . self::$edge . '/refuses', 'http://' . self::$edge]);
        try {
            $publisher->publish('room', 'hello');
            self::fail('nothing was thrown');
        } catch (PublishFailed $failure) {
            self::assertStringContainsString('refuses with 400: Invalid format', $failure->getMessage());
        }
        self::assertCount(1, self::seen());
    }

    public function testNobodyThereIsTold(): void
    {
        $this->expectException(PublishFailed::class);
        $this->expectExceptionMessage('http://127.0.0.1:1');
        (new Publisher('http://127.0.0.1:1'))->publish('room', 'hello');
    }

    public function testSecretsDoNotGoUnencrypted(): void
    {
        foreach (['edge.example', '127.example.com', '127.0.0.1.example'] as $host) {
            try {
                (new Publisher("http://$host?key=secret", timeout: 0.5))->publish('room', 'hello');
                self::fail('nothing was thrown');
            } catch (PublishFailed $failure) {
                self::assertStringContainsString('https://', $failure->failures["http://$host"]);
            }
        }
    }

    public function testAnAddressIsNeeded(): void
    {
        $this->expectException(\ValueError::class);
        $this->expectExceptionMessage('GRIP_URL');
        new Publisher();
    }

    public function testOtherSchemesAreRefused(): void
    {
        $this->expectException(\ValueError::class);
        new Publisher('udp://127.0.0.1:5560');
    }

    public function testAnOverloadedEdgeIsAskedAgain(): void
    {
        $url = 'http://' . self::$edge . '/overloaded';
        (new Publisher($url))->publish('room', 'hello');
        self::assertCount(3, self::seen());
        file_put_contents(self::$seen, '');
        $this->expectException(PublishFailed::class);
        $this->expectExceptionMessage('refuses with 503');
        (new Publisher($url, tries: 2))->publish('room', 'hello');
    }

    public function testNobodyIsWaitedForWithoutBound(): void
    {
        // Accepts connections and sends nothing.
        $silent = stream_socket_server('tcp://127.0.0.1:0');
        $name = stream_socket_get_name($silent, false);
        foreach (["http://$name", "tcp://$name"] as $url) {
            try {
                (new Publisher($url, timeout: 0.2))->publish('room', 'hello');
                self::fail('nothing was thrown');
            } catch (PublishFailed $failure) {
                self::assertSame([$url => 'has not answered within 0.2 seconds'], $failure->failures);
            }
        }
    }

    public function testWhatMayHaveArrivedIsSentAgainOnlyWithAnId(): void
    {
        foreach ([[Item::event('hello'), 1], [Item::event('hello', id: '7'), 3]] as [$item, $expected]) {
            // Reads a request and closes without a response.
            $code = '$l = stream_socket_server("tcp://127.0.0.1:0"); echo stream_socket_get_name($l, false), "\n";'
                . ' for ($n = 0; $socket = @stream_socket_accept($l, 1);) {'
                . ' for ($text = ""; !str_ends_with($text, "}"); $text .= fread($socket, 4096)) {} fclose($socket); echo ++$n; }';
            $process = proc_open([PHP_BINARY, '-n', '-r', $code], [1 => ['pipe', 'w']], $pipes);
            $name = trim(fgets($pipes[1]));
            try {
                (new Publisher("http://$name"))->publish('room', $item);
                self::fail('nothing was thrown');
            } catch (PublishFailed $failure) {
                self::assertSame(["http://$name" => 'has closed the connection'], $failure->failures);
            }
            self::assertSame(substr('123', 0, $expected), stream_get_contents($pipes[1]));
            proc_close($process);
        }
    }

    public function testAProxyThatFailsMayHaveToldTheEdge(): void
    {
        foreach ([[500, 1], [502, 1], [504, 1], [503, 3], [429, 3], [408, 3], [403, 1]] as [$status, $expected]) {
            foreach ([[null, $expected], ['7', $status >= 500 ? 3 : $expected]] as [$id, $count]) {
                file_put_contents(self::$seen, '');
                try {
                    $url = 'http://' . self::$edge . "/status/$status";
                    (new Publisher($url))->publish('room', Item::event('hello', id: $id));
                    self::fail('nothing was thrown');
                } catch (PublishFailed $failure) {
                    self::assertStringContainsString("refuses with $status", $failure->getMessage());
                }
                self::assertCount($count, self::seen(), "$status " . ($id ?? 'without an id'));
            }
        }
    }

    public function testAnEdgeThatKeepsTheConnectionIsNotWaitedFor(): void
    {
        $answers = [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ];
        foreach ($answers as $answer) {
            // Responds and waits until the client closes.
            $code = '$l = stream_socket_server("tcp://127.0.0.1:0"); echo stream_socket_get_name($l, false), "\n";'
                . ' $socket = stream_socket_accept($l, 60); stream_set_timeout($socket, 60);'
                . ' for ($text = ""; !str_ends_with($text, "}"); $text .= fread($socket, 4096)) {}'
                . ' fwrite($socket, base64_decode($argv[1])); fread($socket, 1); echo "closed";';
            $command = [PHP_BINARY, '-n', '-r', $code, base64_encode($answer)];
            $process = proc_open($command, [1 => ['pipe', 'w']], $pipes);
            $name = trim(fgets($pipes[1]));
            (new Publisher("http://$name", timeout: 20))->publish('room', 'hello');
            self::assertSame('closed', stream_get_contents($pipes[1]));
            proc_close($process);
        }
    }

    public function testAnEdgeIsKnownByItsKey(): void
    {
        $publisher = new Publisher(['http://a?key=one', 'https://b?key=two&verify-key=three&verify-iss=edge', 'http://c']);
        self::assertTrue($publisher->isProxied(Signature::sign('any', 'one')));
        self::assertTrue($publisher->isProxied(Signature::sign('edge', 'three')));
        foreach ([Signature::sign('other', 'three'), Signature::sign('edge', 'two'), Signature::sign('', 'x'), null] as $token) {
            self::assertFalse($publisher->isProxied($token));
        }
        self::assertFalse((new Publisher('http://c'))->isProxied(Signature::sign('any', 'one')));
    }
}
