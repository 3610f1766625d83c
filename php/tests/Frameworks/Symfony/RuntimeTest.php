<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\Symfony;

use Fermata\Testing\TestServer;
use Fermata\Tests\{Php, Raw};
use PHPUnit\Framework\TestCase;

/** Tests a complete Symfony application of Debian's packages with a real server. */
final class RuntimeTest extends TestCase
{
    private static string $folder;
    private static TestServer $server;

    public static function setUpBeforeClass(): void
    {
        self::$folder = sys_get_temp_dir() . '/fermata-symfony-' . bin2hex(random_bytes(6));
        mkdir(self::$folder . '/public', recursive: true);
        file_put_contents(self::$folder . '/large.bin', random_bytes(700_000));
        file_put_contents(self::$folder . '/public/app.css', 'body {}');
        self::$server = self::serve('prod');
    }

    public static function tearDownAfterClass(): void
    {
        self::$server->stop();
        exec('rm -rf ' . escapeshellarg(self::$folder));
    }

    /** @param array<string, string> $variables */
    private static function serve(string $environment, array $variables = []): TestServer
    {
        return new TestServer(__DIR__ . '/app.php', $variables + ['TEST_FOLDER' => self::$folder, 'APP_ENV' => $environment, 'APP_DEBUG' => $environment === 'dev' ? '1' : '0'],
            options: Php::options());
    }

    public function testARequestIsWhole(): void
    {
        self::assertSame('Hello Ada', self::$server->get('/?name=Ada')->body);
        $answer = self::$server->request('POST', '/all?a[]=1', ['Host' => 'shop.example', 'Cookie' => 'c=d',
            'Content-Type' => 'application/x-www-form-urlencoded'], 'field=value')->json();
        self::assertSame([
            'method' => 'POST', 'uri' => 'http://shop.example/all?a%5B0%5D=1', 'query' => ['a' => ['1']], 'post' => ['field' => 'value'], 'cookies' => ['c' => 'd'],
            'ip' => '127.0.0.1', 'base' => '', 'path' => '/all', 'content' => 'field=value', 'protocol' => 'HTTP/1.1', 'native' => '/all', 'env' => 'prod', 'secure' => false,
        ], $answer);
        $put = self::$server->request('PUT', '/all', ['Content-Type' => 'application/x-www-form-urlencoded'], 'by=put')->json();
        self::assertSame([['by' => 'put'], 'by=put'], [$put['post'], $put['content']]);
        self::assertSame('body {}', self::$server->get('/app.css')->body);
        self::assertSame(['', 404], [self::$server->request('HEAD', '/none')->body, self::$server->get('/none')->status]);
        self::assertSame('native', self::$server->get('/native')->body);
    }

    /** Proxy headers of a client that is not a trusted proxy. No URL of the application may contain their values. */
    private const FORWARDED = ['Host' => 'shop.example', 'X-Forwarded-Host' => 'foreign.example', 'X-Forwarded-Proto' => 'https', 'X-Forwarded-Port' => '8443',
        'X-Forwarded-Prefix' => '/foreign', 'Forwarded' => 'host=foreign.example;proto=https', 'X-Original-URL' => '/foreign', 'X-Rewrite-URL' => '/foreign',
        'X-Host' => 'foreign.example', 'Front-End-Https' => 'on'];

    public function testHeadersOfProxiesThatAreNotTrustedChangeNoAddress(): void
    {
        $answer = self::$server->get('/all', self::FORWARDED)->json();
        self::assertSame(['http://shop.example/all', '127.0.0.1', '', false], [$answer['uri'], $answer['ip'], $answer['base'], $answer['secure']]);
    }

    /** RFC 9112, section 3.2. */
    public function testARequestOfHttp10NeedsNoHost(): void
    {
        $answer = Raw::ask(self::$server, "GET /all HTTP/1.0\r\n\r\n");
        self::assertStringStartsWith('HTTP/1.1 200 ', $answer);
        self::assertStringContainsString(json_encode(self::$server->url . '/all'), $answer);
    }

    public function testServicesAreResetAfterEachRequest(): void
    {
        self::assertSame('none ada', self::$server->get('/remember?user=ada')->body);
        self::assertSame('none bob', self::$server->get('/remember?user=bob')->body);
        $resets = (int) self::$server->get('/resets')->body;
        self::assertSame($resets + 1, (int) self::$server->get('/resets')->body);
    }

    /** Symfony buffers such messages until the process ends, so a worker would grow with each request. */
    public function testWhatNoLoggerTakesIsLoggedAfterTheRequest(): void
    {
        self::assertSame('deprecated', self::$server->get('/deprecated')->body);
        self::assertSame('deprecated', self::$server->get('/deprecated')->body);
        for ($deadline = microtime(true) + 30; substr_count(self::$server->log(), 'an old way') < 2; usleep(5000)) {
            self::assertLessThan($deadline, microtime(true), self::$server->log());
        }
        self::assertTrue(true);
    }

    public function testSessions(): void
    {
        $first = self::$server->get('/session');
        self::assertSame('1', $first->body);
        $cookies = $first->cookies();
        self::assertCount(1, $first->headers['set-cookie']);
        $cookie = ['Cookie' => 'PHPSESSID=' . $cookies['PHPSESSID']];
        self::assertSame(['2', '1', '3'], [self::$server->get('/session', $cookie)->body, self::$server->get('/session')->body, self::$server->get('/session', $cookie)->body]);
        $migrated = self::$server->get('/session?migrate=1', $cookie);
        self::assertSame('4', $migrated->body);
        self::assertNotSame($cookies['PHPSESSID'], $migrated->cookies()['PHPSESSID']);
        self::assertSame('5', self::$server->get('/session', ['Cookie' => 'PHPSESSID=' . $migrated->cookies()['PHPSESSID']])->body);
    }

    public function testCookiesAreLinesOfTheirOwn(): void
    {
        self::assertSame(['a' => '1', 'b' => '2'], self::$server->get('/cookies')->cookies());
        $file = self::$server->get('/native-file');
        self::assertSame([['a' => '1', 'b' => '2'], ['a', 'b']], [$file->cookies(), $file->headers['x-many']]);
    }

    public function testStreamsAndFiles(): void
    {
        $stream = self::$server->open('GET', '/streamed');
        self::assertSame([201, 'text/x'], [$stream->status, strtok($stream->headers['content-type'][0], ';')]);
        $stream->waitFor('first');
        self::assertSame('first second', $stream->answer()->body);
        $large = file_get_contents(self::$folder . '/large.bin');
        $file = self::$server->get('/file');
        self::assertSame([true, 'yes', '700000'], [$file->body === $large, $file->header('X-Own'), $file->header('Content-Length')]);
        self::assertNotNull($file->header('ETag'), 'the kernel sends it');
        self::assertSame(304, self::$server->get('/file', ['If-None-Match' => $file->header('ETag')])->status);
        $range = self::$server->get('/file', ['Range' => 'bytes=100-199']);
        self::assertSame([206, substr($large, 100, 100)], [$range->status, $range->body]);
        self::assertStringContainsString("filename*=utf-8''n%C3%A4me.bin", self::$server->get('/download')->header('Content-Disposition'));
        self::assertSame(300_000, strlen(self::$server->get('/gone-after')->body));
        for ($deadline = microtime(true) + 60; file_exists(self::$folder . '/once') && microtime(true) < $deadline; usleep(1000)) {
            clearstatcache();
        }
        self::assertFileDoesNotExist(self::$folder . '/once');
    }

    public function testUploads(): void
    {
        $part = fn(string $name, string $text): string => "--x\r\nContent-Disposition: form-data; name=\"$name\"; filename=\"a.txt\"\r\n\r\n$text\r\n";
        $body = $part('one', 'first') . $part('many[]', 'b') . $part('many[]', 'c') . "--x\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nTitle\r\n--x--\r\n";
        $answer = self::$server->request('POST', '/upload', ['Content-Type' => 'multipart/form-data; boundary=x'], $body);
        self::assertSame(['a.txt', true, 'first', 2, 'Title', 'first'], $answer->json());
    }

    public function testATooLargeFileHasAnError(): void
    {
        $body = "--x\r\nContent-Disposition: form-data; name=\"one\"; filename=\"a.txt\"\r\n\r\n" . str_repeat('x', 1001) . "\r\n--x--\r\n";
        $answer = self::$server->request('POST', '/refused-file', ['Content-Type' => 'multipart/form-data; boundary=x'], $body);
        self::assertSame([UPLOAD_ERR_INI_SIZE, 'a.txt'], $answer->json());
    }

    public function testHintsLeaveAheadOfTheAnswer(): void
    {
        $stream = stream_socket_client('tcp://' . substr(self::$server->url, strlen('http://')));
        stream_set_timeout($stream, 60);
        fwrite($stream, "GET /hints HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        $text = (string) stream_get_contents($stream);
        self::assertStringStartsWith("HTTP/1.1 103 Early Hints\r\nLink: </app.css>; rel=preload; as=style\r\n\r\nHTTP/1.1 200 OK\r\n", $text);
        self::assertStringEndsWith("\r\n\r\n1", $text);
    }

    public function testAReasonPhraseIsTheApplications(): void
    {
        $stream = stream_socket_client('tcp://' . substr(self::$server->url, strlen('http://')));
        stream_set_timeout($stream, 60);
        fwrite($stream, "GET /reason HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        self::assertSame("HTTP/1.1 299 Own Phrase\r\n", fgets($stream));
        fclose($stream);
    }

    public function testAReasonPhraseThatCannotBeSentIsTheUsualOne(): void
    {
        foreach (['/long-reason', '/split-reason'] as $target) {
            $answer = self::$server->request('GET', $target);
            self::assertSame([404, 'x'], [$answer->status, $answer->body]);
            self::assertArrayNotHasKey('x-own', $answer->headers);
        }
    }

    public function testAControllerHoldsAClient(): void
    {
        $client = self::$server->open('GET', '/held');
        self::assertSame('text/event-stream', $client->headers['content-type'][0]);
        self::assertSame('published', self::$server->request('POST', '/publish', [], 'news')->body);
        self::assertSame('news', $client->event());
    }

    public function testAHubOfMercurePublishesToChannels(): void
    {
        $client = self::$server->open('GET', '/held');
        self::assertStringStartsWith('urn:uuid:', self::$server->get('/hub')->body);
        $event = $client->nextEvent();
        self::assertSame(['named', 'updated'], [$event['event'], $event['data']]);
    }

    public function testTerminateRunsAfterTheAnswer(): void
    {
        self::assertSame('early', self::$server->get('/late')->body);
        self::assertFileDoesNotExist(self::$folder . '/terminated');
        touch(self::$folder . '/answered');
        // The next request waits for the work after the response.
        self::assertSame('Hello nobody', self::$server->get('/')->body);
        self::assertStringEqualsFile(self::$folder . '/terminated', 'after the answer');
    }

    public function testATransactionThatIsLeftOpenIsRolledBack(): void
    {
        self::assertSame('1', self::$server->get('/add')->body);
        self::assertSame('2', self::$server->get('/add?begins=2')->body);
        // The row of the first request, and this request's row.
        self::assertSame('2', self::$server->get('/add')->body);
        self::assertStringContainsString('left a transaction of', self::$server->log());
        self::assertSame('left', self::$server->get('/add?begins=1&exit=1')->body);
        self::assertSame('3', self::$server->get('/add')->body);
        // With Doctrine's auto_commit: false a transaction is always open.
        foreach (['4', '4'] as $rows) {
            self::assertSame($rows, self::$server->get('/add?commits=0')->body);
        }
        self::assertSame('4', self::$server->get('/add')->body);
    }

    public function testExitAnswersAndLeavesNothing(): void
    {
        self::assertSame('printed and answered', self::$server->get('/printed')->body);
        $answer = self::$server->get('/exit');
        self::assertSame([200, 'dumped'], [$answer->status, $answer->body]);
        self::assertSame('none ada', self::$server->get('/remember?user=ada')->body);
        self::assertSame(500, self::$server->get('/broken')->status);
        self::assertSame('none bob', self::$server->get('/remember?user=bob')->body);
    }

    public function testNothingOfARequestReachesTheNext(): void
    {
        $before = self::$server->get('/state')->json();
        $left = self::$server->get('/leave-state?q=1');
        self::assertSame(['left', 'here'], [$left->body, $left->header('X-Left')]);
        self::assertSame($before, self::$server->get('/state')->json());
    }

    public function testDevelopmentShowsErrors(): void
    {
        $server = self::serve('dev');
        $answer = $server->get('/broken', ['Accept' => 'text/html']);
        self::assertSame(500, $answer->status);
        self::assertStringContainsString('a detail', $answer->body);
        self::assertSame('Hello nobody', $server->get('/')->body);
    }

    /** Under PHP-FPM Symfony's handler of uncaught exceptions sends the same page. */
    public function testAnExceptionThatEscapesTheKernelHasThePageOfSymfony(): void
    {
        $answer = self::$server->get('/escapes', ['Accept' => 'text/html']);
        self::assertSame([500, 'text/html; charset=UTF-8'], [$answer->status, $answer->header('Content-Type')]);
        self::assertStringContainsString('<!DOCTYPE html>', $answer->body);
        self::assertStringNotContainsString('of the listener', $answer->body);
        self::assertStringContainsString('of the listener', self::$server->log());
        self::assertSame('none ada', self::$server->get('/remember?user=ada')->body);
        self::assertStringContainsString('of the listener', self::serve('dev')->get('/escapes')->body);
    }

    public function testTheSapiIsNotThatOfATerminal(): void
    {
        self::assertSame('frankenphp frankenphp', self::$server->get('/sapi')->body);
    }

    /** Before Symfony 7 the kernel does not catch an Error; under PHP-FPM the handler of uncaught exceptions does. */
    public function testAnErrorHasThePageOfTheApplication(): void
    {
        $answer = self::$server->get('/type-error', ['Accept' => 'text/html']);
        self::assertSame(500, $answer->status);
        self::assertStringContainsString('An Error Occurred: Internal Server Error', $answer->body);
        $server = self::serve('dev');
        self::assertStringContainsString('must be of type int', rawurldecode((string) $server->get('/type-error')->header('X-Debug-Exception')));
        self::assertSame('none ada', $server->get('/remember?user=ada')->body);
        self::assertSame('none bob', $server->get('/remember?user=bob')->body);
    }

    /** In development PHP's notice about a missing buffer becomes an exception. */
    public function testAStreamMayFlushTheBufferOfPhpFpmInDevelopment(): void
    {
        self::assertSame('first second', self::serve('dev')->get('/flushed')->body);
    }

    public function testWhatIsPrintedBeforeAStreamComesFirst(): void
    {
        self::assertSame('before streamed', self::$server->get('/printed-stream')->body);
    }

    public function testAPageIsWhereDumpsGo(): void
    {
        $answer = self::$server->get('/dd');
        // dd() sets this status if the output is not a terminal.
        self::assertSame([500, 'text/html; charset=UTF-8'], [$answer->status, $answer->header('Content-Type')]);
        self::assertStringContainsString('<span class=sf-dump-str title="5 characters">shown</span>', $answer->body);
        self::assertSame('web=1&worker=1', self::$server->get('/mode')->body);
    }

    /** DebugBundle collects dumps for the toolbar and prints them when the process ends. */
    public function testWhatABundleKeepsOfDumpsIsShownByExit(): void
    {
        $server = self::serve('dev', ['TEST_DUMPS' => '1']);
        foreach ([1, 2] as $_) {
            self::assertStringContainsString('shown', $server->get('/dd')->body);
            self::assertSame('Hello nobody', $server->get('/')->body);
        }
    }

    public function testAPortInUseIsOneLine(): void
    {
        $extension = (string) getenv('FERMATA_EXTENSION');
        $command = [PHP_BINARY, ...Php::options(), ...($extension === '' ? [] : ["-dextension=$extension"]), __DIR__ . '/app.php'];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes, null,
            ['FERMATA_LISTEN' => self::$server->url, 'TEST_FOLDER' => self::$folder, 'APP_ENV' => 'dev', 'APP_DEBUG' => '1'] + getenv());
        $printed = (string) stream_get_contents($pipes[1]);
        self::assertSame(1, proc_close($process), $printed);
        self::assertMatchesRegularExpression('~\Afermata: listen: cannot listen on \S+: the port is in use [^\n]*\n\z~', $printed);
    }

    public function testTheConsoleListsTheServersOwnRoutes(): void
    {
        self::assertMatchesRegularExpression('~^ *GET +/native +\S+app\.php:\d+ *$~m', self::console('fermata:routes'));
        $routes = json_decode(self::console('fermata:routes', '--json'), true, flags: JSON_THROW_ON_ERROR);
        self::assertSame([['handler', 'GET', '/native']], array_map(static fn(array $route): array => [$route['kind'], $route['method'], $route['path']], $routes));
    }

    public function testTheConsoleReloadsTheServer(): void
    {
        $listening = static function (TestServer $server, int $times): string {
            for ($deadline = microtime(true) + 60; preg_match_all('~listening on (http://\S+)~', $server->log(), $found) < $times; usleep(5000)) {
                self::assertLessThan($deadline, microtime(true), "the server does not listen again:\n" . $server->log());
            }
            return $found[1][$times - 1];
        };
        file_put_contents(self::$folder . '/version', 'old');
        $server = new TestServer(__DIR__ . '/app.php', ['TEST_CONSOLE' => '1', 'TEST_FOLDER' => self::$folder], ['fermata:serve'],
            Php::options());
        $pid = $server->pid();
        self::assertSame('old', $server->get('/version')->body);
        file_put_contents(self::$folder . '/version', 'new');
        foreach ([2, 3] as $times) {
            self::assertStringContainsString("The server $pid", self::console('fermata:reload'));
            $url = $listening($server, $times);
            self::assertSame('new', file_get_contents("$url/version"));
        }
        // A second server that fails to listen must restore the file.
        self::assertStringContainsString('in use', self::console('!fermata:serve', "--listen=$url"));
        self::assertStringContainsString("The server $pid", self::console('fermata:reload'));
        $listening($server, 4);
        self::assertSame($pid, $server->pid());
        $server->stop();
        // A reused process id must not be signalled.
        file_put_contents(self::$folder . '/var/log/fermata-prod.pid', getmypid() . ' 1');
        self::assertStringContainsString('No server', self::console('!fermata:reload'));
    }

    /** Returns the output of a command. A leading ! means that the command must fail. */
    private static function console(string ...$arguments): string
    {
        $fails = str_starts_with($arguments[0], '!');
        $arguments[0] = ltrim($arguments[0], '!');
        $command = [PHP_BINARY, ...Php::options()];
        $extension = (string) getenv('FERMATA_EXTENSION');
        $process = proc_open([...$command, ...($extension === '' ? [] : ["-dextension=$extension"]), __DIR__ . '/app.php', ...$arguments],
            [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes, null, ['TEST_CONSOLE' => '1', 'TEST_FOLDER' => self::$folder] + getenv());
        $printed = (string) stream_get_contents($pipes[1]);
        self::assertSame($fails ? 1 : 0, proc_close($process), $printed);
        return $printed;
    }
}
