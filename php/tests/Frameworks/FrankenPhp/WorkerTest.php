<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\FrankenPhp;

use Fermata\Testing\TestServer;
use PHPUnit\Framework\TestCase;

/** Tests an unmodified FrankenPHP worker script with a real server. */
final class WorkerTest extends TestCase
{
    /** Path in Debian's package composer. */
    private const CLASS_LOADER = '/usr/share/php/Composer/Autoload/ClassLoader.php';

    private string $folder;
    private ?TestServer $server = null;

    protected function setUp(): void
    {
        $this->folder = sys_get_temp_dir() . '/fermata-frankenphp-' . bin2hex(random_bytes(6));
        mkdir($this->folder);
        $this->server = new TestServer(dirname(__DIR__, 3) . '/bin/fermata-frankenphp', ['TEST_FOLDER' => $this->folder], [__DIR__ . '/worker.php']);
    }

    protected function tearDown(): void
    {
        $this->server = null;
        exec('rm -rf ' . escapeshellarg($this->folder));
    }

    public function testARequestIsInTheSuperglobals(): void
    {
        $answer = $this->server->post('/globals?a=1&b[]=2', ['c' => 'd'], ['Cookie' => 'e=f']);
        self::assertSame('application/json', $answer->header('Content-Type'));
        self::assertSame([['a' => '1', 'b' => ['2']], ['c' => 'd'], ['e' => 'f'], 'POST', 'c=d', 'frankenphp', 'Pacific/Auckland', true, '1'], json_decode($answer->body, true));
        self::assertSame([[], [], [], 'GET', '', 'frankenphp', 'Pacific/Auckland', true, '1'], json_decode($this->server->get('/globals')->body, true));
    }

    public function testTheScriptKeepsItsState(): void
    {
        self::assertSame(['1', '2', '3'], array_map(fn(): string => $this->server->get('/count')->body, range(1, 3)));
        self::assertSame('once', $this->server->get('/')->body);
        $this->waitFor('terminated', '4');
    }

    public function testHeadersStatusAndCookies(): void
    {
        $answer = $this->server->get('/headers', ['X-Name' => 'Ada']);
        self::assertSame([418, 'printed', 'Ada'], [$answer->status, $answer->body, $answer->header('X-Asked')]);
        self::assertSame(['1', '2'], $answer->headers['x-one']);
        self::assertSame('b', $answer->cookies()['a']);
        self::assertStringContainsString('X-One', $answer->header('X-Seen'));
        $next = $this->server->get('/');
        self::assertSame([200, []], [$next->status, $next->cookies()]);
        self::assertStringStartsWith('text/html', $next->header('Content-Type'));
    }

    /** Downloads and streams written for PHP-FPM close all output buffers. */
    public function testWhatIsPrintedBehindTheEndOfAllBuffersIsSent(): void
    {
        self::assertSame('first second', $this->server->get('/ended-buffers')->body);
        self::assertSame('INNER left open', $this->server->get('/buffer')->body);
    }

    public function testAHandlerCannotAskForTheNextRequest(): void
    {
        self::assertSame(500, $this->server->get('/nested')->status);
        self::assertSame('once', $this->server->get('/')->body);
        self::assertStringContainsString('called by the script', (string) file_get_contents("$this->folder/caught"));
    }

    public function testAPortInUseIsOneLine(): void
    {
        $extension = (string) getenv('FERMATA_EXTENSION');
        $command = [PHP_BINARY, ...($extension === '' ? [] : ["-dextension=$extension"]), dirname(__DIR__, 3) . '/bin/fermata-frankenphp', __DIR__ . '/worker.php'];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes, null,
            ['FERMATA_LISTEN' => $this->server->url, 'TEST_FOLDER' => $this->folder] + getenv());
        $printed = (string) stream_get_contents($pipes[1]);
        self::assertSame(1, proc_close($process), $printed);
        self::assertMatchesRegularExpression('~\Afermata: listen: cannot listen on \S+: the port is in use [^\n]*\n\z~', $printed);
    }

    public function testSessionsBelongToTheirUsers(): void
    {
        $first = $this->server->get('/session');
        self::assertSame('1', $first->body);
        $cookie = ['Cookie' => 'PHPSESSID=' . $first->cookies()['PHPSESSID']];
        self::assertSame('2', $this->server->get('/session', $cookie)->body);
        self::assertSame('1', $this->server->get('/session')->body);
        self::assertSame('3', $this->server->get('/session', $cookie)->body);
    }

    /** Otherwise the client's next request, in another worker, reads the old session. */
    public function testTheSessionIsWrittenBeforeTheAnswerLeaves(): void
    {
        $answer = $this->server->get('/session-written');
        self::assertSame([200, 'page', 'user|s:3:"ada";'], [$answer->status, $answer->body, $answer->header('X-Written')]);
    }

    public function testUploadsAndBuffers(): void
    {
        $body = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nHello\r\n--x--\r\n";
        $answer = $this->server->request('POST', '/upload', ['Content-Type' => 'multipart/form-data; boundary=x'], $body);
        self::assertSame(['a.txt', 5, true, true, 'Hello'], json_decode($answer->body, true));
        self::assertSame('INNER left open', $this->server->get('/buffer')->body);
        self::assertSame('waited', $this->server->get('/wait')->body);
        self::assertSame('once', $this->server->get('/')->body);
    }

    public function testARequestMayBeFinishedEarly(): void
    {
        self::assertSame('finished', $this->server->get('/finish')->body);
        $this->waitFor('finished', 'after');
        self::assertSame('once', $this->server->get('/')->body);
    }

    public function testWhatTheHandlerThrowsIsTheScripts(): void
    {
        self::assertSame(500, $this->server->get('/throw')->status);
        $this->waitFor('caught', 'thrown');
        self::assertSame('2', $this->server->get('/count')->body);
    }

    public function testExitAnswersAndTheWorkerIsReplaced(): void
    {
        $this->server->get('/count');
        $answer = $this->server->get('/exit');
        self::assertSame([200, 'said', 'yes'], [$answer->status, $answer->body, $answer->header('X-Exit')]);
        for ($deadline = microtime(true) + 30; ($next = $this->server->get('/count'))->status === 503; usleep(5000)) {
            self::assertLessThan($deadline, microtime(true));
        }
        self::assertSame('1', $next->body);
    }

    public function testWhatNobodyCatchesCostsTheWorkerAlone(): void
    {
        $this->server->get('/count');
        self::assertSame(500, $this->server->get('/uncaught')->status);
        for ($deadline = microtime(true) + 30; ($next = $this->server->get('/count'))->status === 503; usleep(5000)) {
            self::assertLessThan($deadline, microtime(true), $this->server->log());
        }
        self::assertSame('1', $next->body);
    }

    public function testTheScriptsLoopEndsWithTheServer(): void
    {
        $this->server->get('/count');
        $this->server->stop();
        $this->waitFor('shutdown', 'yes');
    }

    /** @return iterable<string, array{string, string, bool}> script start, content of another file, true if the worker restarts the script */
    public static function starts(): iterable
    {
        $required = "require __DIR__ . '/other.php';";
        yield 'nothing' => ['', '', true];
        yield 'a file without declarations' => [$required, "return ['setting' => 1];", true];
        yield 'an object of a class without a name' => [$required, 'return new class {};', true];
        yield 'a function of its own' => ['if (true) { function declared(): void {} }', '', false];
        yield 'a function of another file' => [$required, 'function declared(): void {}', false];
        yield 'a class of another file' => [$required, 'final class Declared {}', false];
        yield 'an interface of another file' => [$required, 'interface Declared {}', false];
        $composer = "require_once __DIR__ . '/vendor/composer/ClassLoader.php'; \$loader = new Composer\\Autoload\\ClassLoader(__DIR__ . '/vendor'); \$loader->setPsr4('App\\\\', __DIR__); \$loader->register();";
        yield 'a class that Composer loads' => ["$composer new App\\other();", 'namespace App; final class other {}', true];
        yield 'a function among what Composer has installed' => ["$composer require_once __DIR__ . '/vendor/functions.php';", '', true];
    }

    /** @dataProvider starts */
    public function testARequestBehindTheEndOfTheScriptIsAnsweredByItsWorkerOrTheReplacement(string $start, string $other, bool $isSame): void
    {
        mkdir("$this->folder/vendor/composer", recursive: true);
        if (str_contains($start, 'Composer') && !@copy(self::CLASS_LOADER, "$this->folder/vendor/composer/ClassLoader.php")) {
            self::markTestSkipped('there is no Composer: ' . self::CLASS_LOADER);
        }
        file_put_contents("$this->folder/vendor/functions.php", '<?php function installed(): void {}');
        file_put_contents("$this->folder/other.php", "<?php $other");
        file_put_contents("$this->folder/ending.php", <<<PHP
            <?php
            \$seen = [\$_GET, \$_SERVER['REQUEST_METHOD'] ?? null, \$_SERVER['HTTP_X_NAME'] ?? null];
            header('X-Start: yes');
            $start
            frankenphp_handle_request(static function () use (\$seen): void {
                header('X-Answered: yes');
                header('X-Worker: ' . getmypid());
                echo json_encode([\$seen, \$_GET, \$_SERVER['HTTP_X_NAME']]);
            });
            PHP);
        $this->server = new TestServer(dirname(__DIR__, 3) . '/bin/fermata-frankenphp', ['FERMATA_WORKERS' => '1'], ["$this->folder/ending.php"]);
        // The worker receives both requests with one read, so it has the second one when the first one ends the script.
        $connection = stream_socket_client(str_replace('http://', 'tcp://', $this->server->url), timeout: 30.0);
        stream_set_timeout($connection, 10);
        $request = static fn(int $number): string => "GET /?a=$number HTTP/1.1\r\nHost: test\r\nX-Name: Ada\r\n";
        fwrite($connection, $request(1) . "\r\n" . $request(2) . "Connection: close\r\n\r\n");
        $answers = array_slice(explode('HTTP/1.1 ', (string) stream_get_contents($connection)), 1);
        self::assertCount(2, $answers, implode($answers) . $this->server->log());
        $workers = [];
        foreach ($answers as $number => $answer) {
            self::assertStringStartsWith('200 ', $answer, $this->server->log());
            self::assertSame(1, preg_match('~^X-Worker: (\d+)~m', $answer, $found));
            $workers[$found[1]] = true;
            self::assertStringEndsWith("\r\n\r\n" . json_encode([[[], null, null], ['a' => (string) ($number + 1)], 'Ada']), $answer);
            self::assertStringNotContainsString('X-Start', $answer);
            self::assertStringContainsString("X-Answered: yes\r\n", $answer);
        }
        self::assertCount($isSame ? 1 : 2, $workers);
    }

    /** @return iterable<string, array{int, int}> number of workers, and duration of a handler in microseconds */
    public static function crowds(): iterable
    {
        yield 'one worker, short handlers' => [1, 0];
        yield 'one worker, long handlers' => [1, 3000];
        yield 'two workers, short handlers' => [2, 0];
        yield 'two workers, long handlers' => [2, 3000];
    }

    /** @dataProvider crowds */
    public function testEachRequestIsAnsweredOnceWhileScriptsEndThatCannotBeginAgain(int $workers, int $sleep): void
    {
        file_put_contents("$this->folder/ending.php", <<<PHP
            <?php
            if (true) { function declared(): void {} }
            for (\$handled = 0; \$handled < 7 && frankenphp_handle_request(static function (): void {
                usleep($sleep);
                file_put_contents('$this->folder/handled', \$_SERVER['HTTP_X_ID'] . "\n", FILE_APPEND);
                echo \$_SERVER['HTTP_X_ID'], file_get_contents('php://input');
            }); \$handled++) {
            }
            PHP);
        $this->server = new TestServer(dirname(__DIR__, 3) . '/bin/fermata-frankenphp', ['FERMATA_WORKERS' => (string) $workers], ["$this->folder/ending.php"]);
        $ids = [];
        for ($round = 0; $round < 3; $round++) {
            $connections = [];
            for ($client = 0; $client < 60; $client++) {
                $connection = stream_socket_client(str_replace('http://', 'tcp://', $this->server->url), timeout: 30.0);
                stream_set_timeout($connection, 30);
                $ids[] = $id = "$round-$client";
                $head = " / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Id: $id\r\n";
                fwrite($connection, match ($client % 3) {
                    0 => "GET$head\r\n",
                    1 => "POST{$head}Content-Length: 4\r\n\r\nbody",
                    2 => "POST{$head}Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
                });
                $connections[$id . ($client % 3 === 0 ? '' : 'body')] = $connection;
            }
            foreach ($connections as $body => $connection) {
                $answer = (string) stream_get_contents($connection);
                self::assertStringStartsWith('HTTP/1.1 200 ', $answer, "$body: $answer\n" . substr($this->server->log(), -3000));
                self::assertStringEndsWith("\r\n\r\n$body", $answer);
            }
        }
        $handled = file("$this->folder/handled", FILE_IGNORE_NEW_LINES);
        sort($ids);
        sort($handled);
        self::assertSame($ids, $handled);
    }


    private function waitFor(string $file, string $content): void
    {
        for ($deadline = microtime(true) + 30; @file_get_contents("$this->folder/$file") !== $content; usleep(5000)) {
            self::assertLessThan($deadline, microtime(true), $this->server->log());
        }
        self::assertTrue(true);
    }
}
