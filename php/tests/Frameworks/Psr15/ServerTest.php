<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\Psr15;

use Fermata\Psr15\Internal\LazyRequest;
use Fermata\Testing\TestServer;
use Fermata\Tests\{Http2, Php, Raw};
use PHPUnit\Framework\TestCase;

/** Tests the bridge with a real server and each PSR-7 library of Debian. */
final class ServerTest extends TestCase
{
    private const LARGE = 700_000;

    private static string $folder;

    /** @var array<string, TestServer> */
    private static array $servers = [];

    public static function setUpBeforeClass(): void
    {
        self::$folder = sys_get_temp_dir() . '/fermata-psr15-' . bin2hex(random_bytes(6));
        mkdir(self::$folder . '/public/build', recursive: true);
        file_put_contents(self::$folder . '/large.bin', random_bytes(self::LARGE));
        file_put_contents(self::$folder . '/public/build/app.js', 'export const a = 1;');
        file_put_contents(self::$folder . '/public/index.php', '<?php secret();');
        file_put_contents(self::$folder . '/public/.env', 'secret');
        mkdir(self::$folder . '/outside');
        file_put_contents(self::$folder . '/outside/a.txt', 'outside');
        symlink(self::$folder . '/outside', self::$folder . '/public/outside');
        symlink(self::$folder . '/public/build', self::$folder . '/public/linked');
    }

    public static function tearDownAfterClass(): void
    {
        self::$servers = [];
        exec('rm -rf ' . escapeshellarg(self::$folder));
    }

    /** @return iterable<string, array{string}> */
    public static function libraries(): iterable
    {
        yield 'nyholm' => ['nyholm'];
        yield 'guzzle' => ['guzzle'];
        yield 'slim' => ['slim'];
    }

    private static function server(string $library): TestServer
    {
        return self::$servers[$library] ??= new TestServer(__DIR__ . '/app.php', ['TEST_PSR7' => $library, 'TEST_FOLDER' => self::$folder], options: Php::options());
    }

    /** @dataProvider libraries */
    public function testARequestIsWhole(string $library): void
    {
        $server = self::server($library);
        self::assertSame('Hello Ada', $server->get('/?name=Ada')->body);
        $answer = $server->request('POST', '/all?a[]=1&a[]=2', [
            'Host' => 'shop.example', 'X-Many' => ['one', 'two'], 'Cookie' => 'c=d; e=f', 'Content-Type' => 'application/x-www-form-urlencoded',
        ], 'field=value&list[x]=y');
        self::assertSame([
            'method' => 'POST', 'uri' => 'http://shop.example/all?' . parse_url($answer->json()['uri'], PHP_URL_QUERY), 'version' => '1.1',
            'query' => ['a' => ['1', '2']], 'cookies' => ['c' => 'd', 'e' => 'f'], 'parsed' => ['field' => 'value', 'list' => ['x' => 'y']],
            'many' => ['one', 'two'], 'same' => true,
        ], array_diff_key($answer->json(), ['server' => 1, 'time' => 1]));
        self::assertEquals([
            'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1', 'REQUEST_METHOD' => 'POST', 'SCRIPT_NAME' => '/index.php',
            'QUERY_STRING' => 'a[]=1&a[]=2', 'HTTP_HOST' => 'shop.example',
        ], $answer->json()['server']);
        self::assertTrue($answer->json()['time']);
    }

    /** Proxy headers of a client that is not a trusted proxy. No URL of the application may contain their values. */
    private const FORWARDED = ['Host' => 'shop.example', 'X-Forwarded-Host' => 'foreign.example', 'X-Forwarded-Proto' => 'https', 'X-Forwarded-Port' => '8443',
        'X-Forwarded-Prefix' => '/foreign', 'Forwarded' => 'host=foreign.example;proto=https', 'X-Original-URL' => '/foreign', 'X-Rewrite-URL' => '/foreign',
        'X-Host' => 'foreign.example', 'Front-End-Https' => 'on'];

    /** @dataProvider libraries */
    public function testHeadersOfProxiesThatAreNotTrustedChangeNoAddress(string $library): void
    {
        self::assertSame('http://shop.example/made', self::server($library)->get('/made', self::FORWARDED)->json()['uri']);
    }

    /** @dataProvider libraries */
    public function testARequestIsAsTheLibraryMakesIt(string $library): void
    {
        $server = self::server($library);
        $headers = ['Host' => 'Shop.example:8080', 'X-Many' => ['one', 'two'], 'X-Number' => '8'];
        // Slim rejects header names that consist of digits.
        $seven = $library === 'slim' ? [] : ['seven'];
        $headers += array_filter(['7' => $seven]);
        foreach (['/made' => ['/made', ''], '/a%2Fb/ä"/made?q=[ä]&r' => ['/a%2Fb/%C3%A4%22/made', 'q=%5B%C3%A4%5D&r'], '/made?' => ['/made', '']] as $target => [$path, $query]) {
            // Clients must percent-encode bytes that are not allowed in a target.
            $target = str_replace(['ä', '"'], ['%C3%A4', '%22'], $target);
            $made = $server->get($target, $headers)->json();
            $uri = "http://shop.example:8080$path" . ($query === '' ? '' : "?$query");
            self::assertSame([
                'uri' => $uri, 'path' => $path, 'query' => $query, 'target' => substr($uri, strlen('http://shop.example:8080')), 'host' => 'Shop.example:8080',
                'number' => $seven, 'changed' => ['other'], 'added' => ['8', '9'], 'hasHost' => false, 'stillHasHost' => true,
                'attributes' => [\Fermata\Request::class], 'body' => '',
            ], array_diff_key($made, ['names' => 1]));
            $names = $made['names'];
            sort($names);
            self::assertSame(['Host', 'X-Many', 'X-Number'], array_values(array_diff($names, ['Connection', '7'])));
        }
        // Two leading slashes must not be parsed as a host.
        self::assertSame('shop.example', parse_url($server->get('//other/made', ['Host' => 'shop.example'])->json()['uri'], PHP_URL_HOST));
        $absolute = $server->get('http://shop.example/made?a', ['Host' => 'shop.example'])->json();
        self::assertSame(['http://shop.example/made?a', '/made', 'a'], [$absolute['uri'], $absolute['path'], $absolute['query']]);
    }

    /** HTTP/1.0 needs no Host (RFC 9112, section 3.2): health checks, `ab` and old clients send none. @dataProvider libraries */
    public function testARequestOfHttp10NeedsNoHost(string $library): void
    {
        foreach ([self::server($library), self::withoutGlobals($library)] as $server) {
            foreach (['/made', '//other/made'] as $target) {
                $answer = Raw::ask($server, "GET $target?a=1 HTTP/1.0\r\n\r\n");
                self::assertStringStartsWith('HTTP/1.1 200 ', $answer);
                $uri = json_decode(substr($answer, (int) strpos($answer, "\r\n\r\n")), true)['uri'];
                self::assertSame($server->url, substr($uri, 0, strlen($server->url)));
                self::assertSame('a=1', parse_url($uri, PHP_URL_QUERY));
            }
        }
        $socket = self::$folder . "/socket-$library";
        $server = new TestServer(__DIR__ . '/app.php', [
            'TEST_PSR7' => $library, 'TEST_FOLDER' => self::$folder, 'FERMATA_LISTEN' => "http://127.0.0.1:0,unix:$socket",
        ], options: Php::options());
        $answer = Raw::ask($server, "GET /made HTTP/1.0\r\n\r\n", "unix://$socket");
        self::assertStringContainsString('"uri":"http:\/\/localhost\/made"', $answer);
    }

    /** @dataProvider libraries */
    public function testARequestIsAsOneThatTheLibraryHasMade(string $library): void
    {
        $classes = ['nyholm' => \Nyholm\Psr7\ServerRequest::class, 'guzzle' => \GuzzleHttp\Psr7\ServerRequest::class, 'slim' => \Slim\Psr7\Request::class];
        $attributes = [[\Fermata\Request::class, 'other'], [\Fermata\Request::class, 'other'], null];
        foreach ([self::server($library), self::withoutGlobals($library)] as $server) {
            // True if the target must be escaped, so that the URI is the library's from the start.
            $targets = ['/lazy' => false, '/lazy?' => false, '/lazy?a=1&b=%20' => false, '/lazy?a[]=1&b=%20' => true, '/lazy??b' => true, "/lazy?(a)='*" => true];
            foreach ($targets as $target => $isLibraries) {
                foreach (['shop.example', 'Shop.Example:80', '[::1]:8080'] as $host) {
                    $asked = ['Host' => $host, 'X-Many' => ['one', 'two'], 'Cookie' => 'c=d; e.f=g'];
                    $answer = $server->get($target, $asked);
                    $expected = ['classes' => [LazyRequest::class, $classes[$library], $isLibraries], 'attributes' => $attributes];
                    self::assertSame($expected, $answer->json(), "$target of $host");
                    $posted = $server->request('POST', $target, $asked + ['Content-Type' => 'application/x-www-form-urlencoded'], 'a=1');
                    self::assertSame($expected, $posted->json(), "$target of $host");
                }
            }
        }
    }

    public function testAHandlerForRequestsOfOneLibraryGetsThose(): void
    {
        foreach (['handler', 'factories'] as $typed) {
            $server = new TestServer(__DIR__ . '/app.php', ['TEST_PSR7' => 'nyholm', 'TEST_FOLDER' => self::$folder, 'TEST_TYPED' => $typed], options: Php::options());
            self::assertSame([\Nyholm\Psr7\ServerRequest::class, \Nyholm\Psr7\ServerRequest::class, true], $server->get('/lazy')->json()['classes']);
        }
    }

    private static function withoutGlobals(string $library): TestServer
    {
        return new TestServer(__DIR__ . '/app.php', ['TEST_PSR7' => $library, 'TEST_FOLDER' => self::$folder, 'TEST_GLOBALS' => 'off'], options: Php::options());
    }

    /** @dataProvider libraries */
    public function testHeadersAreTakenLeniently(string $library): void
    {
        $answer = self::server($library)->get('/headers');
        self::assertSame(207, $answer->status);
        self::assertSame(['a', 'b', 'c'], $answer->headers['x-many']);
        self::assertSame(['a=1', 'b=2; Path=/'], $answer->headers['set-cookie']);
        self::assertSame('0', $answer->header('Content-Length'));
    }

    /** @dataProvider libraries */
    public function testBodiesOfEverySizeAndMethod(string $library): void
    {
        $server = self::server($library);
        foreach (['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as $method) {
            $answer = $server->request($method, '/echo', [], 'body');
            self::assertSame([200, 'body', '4'], [$answer->status, $answer->body, $answer->header('X-Size')], $method);
        }
        $large = random_bytes(3_000_000);
        self::assertTrue($server->request('POST', '/echo', [], $large)->body === $large);
        self::assertSame('', $server->request('HEAD', '/')->body);
        self::assertSame('12345', $server->request('HEAD', '/head')->header('Content-Length'));
        self::assertSame('nothing at /a%2Fb', $server->get('/a%2Fb')->body);
    }

    /** @dataProvider libraries */
    public function testUploads(string $library): void
    {
        $part = fn(string $name, string $file, string $text): string => "--x\r\nContent-Disposition: form-data; name=\"$name\"; filename=\"$file\"\r\n"
            . "Content-Type: text/plain\r\n\r\n$text\r\n";
        $body = $part('one', 'a.txt', 'first') . $part('many[]', 'b.txt', 'second') . $part('many[]', 'large.txt', str_repeat('x', 2000))
            . "--x\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nA title\r\n--x--\r\n";
        $answer = self::server($library)->request('POST', '/upload', ['Content-Type' => 'multipart/form-data; boundary=x'], $body);
        self::assertSame([
            [
                'one' => ['a.txt', 'text/plain', 5, UPLOAD_ERR_OK, 'first'],
                'many' => [['b.txt', 'text/plain', 6, UPLOAD_ERR_OK, 'second'], ['large.txt', 'text/plain', 2000, UPLOAD_ERR_INI_SIZE, null]],
            ],
            ['title' => 'A title'],
        ], $answer->json());
    }

    /**
     * The uploaded file is an object of the bridge, not of the library.
     *
     * @dataProvider libraries
     */
    public function testAnUploadedFileKeepsToPsr7(string $library): void
    {
        $body = '';
        foreach (['first', 'second', str_repeat('x', 2000)] as $text) {
            $body .= "--x\r\nContent-Disposition: form-data; name=\"f[]\"; filename=\"a\"\r\n\r\n$text\r\n";
        }
        $answer = self::server($library)->request('POST', '/uploaded', ['Content-Type' => 'multipart/form-data; boundary=x'], "$body--x--\r\n");
        self::assertSame([
            'again' => true, 'part' => 'fi', 'rest' => 'rst', 'whole' => 'first', 'seekable' => true, 'writable' => false, 'bytes' => 5,
            'empty' => 'argument', 'nowhere' => 'runtime', 'moved' => 'nothing', 'content' => 'first',
            'twice' => 'runtime', 'after' => 'runtime', 'size' => 5,
            'unread' => 'nothing', 'replaced' => 'second',
            'large' => UPLOAD_ERR_INI_SIZE, 'none' => 'runtime', 'unmovable' => 'runtime', 'left' => false,
        ], json_decode($answer->body, true), $answer->body);
    }

    /** @dataProvider libraries */
    public function testAHeldClientGetsWhatIsPublished(string $library): void
    {
        $server = self::server($library);
        $client = $server->open('GET', '/hold');
        self::assertSame(['text/event-stream', 'yes'], [$client->headers['content-type'][0], $client->headers['x-own'][0]]);
        $id = $server->request('POST', '/publish', [], 'first')->body;
        self::assertSame('first', $client->event());
        $client->close();
        $server->request('POST', '/publish', [], 'second');
        self::assertSame('second', $server->open('GET', '/hold', ['Last-Event-ID' => $id])->event());
    }

    /** @dataProvider libraries */
    public function testHeadersOfAHeldClientKeepTheirValues(string $library): void
    {
        if (!method_exists(\Fermata\Hold::class, 'withAddedHeader')) {
            self::markTestSkipped('a Hold of this extension has one line of each header');
        }
        $headers = self::server($library)->open('GET', '/hold-headers')->headers;
        self::assertSame([['a=1', 'b=2; Path=/'], ['a', 'b']], [$headers['set-cookie'], $headers['x-many']]);
    }

    /** @dataProvider libraries */
    public function testBodiesThatTheServerMakes(string $library): void
    {
        $server = self::server($library);
        $events = $server->open('GET', '/events');
        self::assertSame(['one', 'two', null], [$events->event(), $events->event(), $events->event()]);
        $printed = $server->get('/printed');
        self::assertSame([201, 'text/csv', 'a,b'], [$printed->status, $printed->header('Content-Type'), $printed->body]);
        $large = file_get_contents(self::$folder . '/large.bin');
        $file = $server->get('/body-file');
        self::assertSame([true, 'yes'], [$file->body === $large, $file->header('X-Own')]);
        self::assertSame([['a=1', 'b=2; Path=/'], ['a', 'b']], [$file->headers['set-cookie'], $file->headers['x-many']]);
    }

    /** @dataProvider libraries */
    public function testStreamsOfResponses(string $library): void
    {
        $server = self::server($library);
        $large = file_get_contents(self::$folder . '/large.bin');
        $file = $server->get('/file');
        self::assertSame([true, 'text/own', (string) self::LARGE], [$file->body === $large, $file->header('Content-Type'), $file->header('Content-Length')]);
        self::assertNotNull($file->header('ETag'), 'the kernel sends a plain file');
        $range = $server->get('/file', ['Range' => 'bytes=10-19']);
        self::assertSame([206, substr($large, 10, 10)], [$range->status, $range->body]);
        self::assertSame(str_repeat('t', 1_000_000), $server->get('/temporary')->body);
        if ($library === 'guzzle') {
            self::assertSame("piece 4\npiece 3\npiece 2\npiece 1\npiece 0\n", $server->get('/pump')->body);
        }
    }

    /** @dataProvider libraries */
    public function testFilesOfThePublicFolder(string $library): void
    {
        $server = self::server($library);
        self::assertSame('export const a = 1;', $server->get('/build/app.js')->body);
        self::assertSame(404, $server->get('/.env')->status);
        self::assertSame('nothing at /index.php', $server->get('/index.php')->body);
        self::assertSame('export const a = 1;', $server->get('/linked/app.js')->body);
        self::assertSame('nothing at /outside/a.txt', $server->get('/outside/a.txt')->body);
        self::assertSame('nothing at /build/none.js', $server->get('/build/none.js')->body);
        self::assertSame('nothing at /build/app.js', $server->request('POST', '/build/app.js')->body);
    }

    /** @dataProvider libraries */
    public function testSessionsAndCookiesOfPhpReachTheClient(string $library): void
    {
        $server = self::server($library);
        $first = $server->get('/session');
        self::assertSame(['1', 'x'], [$first->body, $first->cookies()['extra']]);
        $cookie = ['Cookie' => 'PHPSESSID=' . $first->cookies()['PHPSESSID']];
        self::assertSame('2', $server->get('/session', $cookie)->body);
        self::assertSame('1', $server->get('/session')->body);
        self::assertSame('3', $server->get('/session', $cookie)->body);
    }

    /** @dataProvider libraries */
    public function testExitAndExceptions(string $library): void
    {
        $server = self::server($library);
        $answer = $server->get('/exit');
        self::assertSame([402, 'printed'], [$answer->status, $answer->body]);
        self::assertSame('printed and answered', $server->get('/prints')->body);
        self::assertSame('printed and answered', $server->get('/ended')->body);
        $answer = $server->get('/throw');
        self::assertSame(500, $answer->status);
        self::assertStringNotContainsString('detail', $answer->body);
        self::assertStringContainsString('a detail for the log', $server->log());
    }

    /** PHP-FPM sends PHP's default type. Without it browsers would show such pages as text. @dataProvider libraries */
    public function testABodyWithoutATypeIsHtml(string $library): void
    {
        foreach (['/untyped', '/untyped?times=100000'] as $target) {
            self::assertSame('text/html; charset=utf-8', strtolower((string) self::server($library)->get($target)->header('Content-Type')));
        }
        self::assertStringStartsWith('text/own', self::server($library)->get('/typed')->header('Content-Type'));
    }

    /** @dataProvider libraries */
    public function testABodyOverHttp2NeedsNoLength(string $library): void
    {
        $server = new TestServer(__DIR__ . '/app.php', ['TEST_PSR7' => $library, 'TEST_FOLDER' => self::$folder, 'FERMATA_HTTP2' => 'on'], options: Php::options());
        self::assertSame('a body', Http2::post("$server->url/echo", 'a body'));
        $all = json_decode(Http2::post("$server->url/all", 'a body'), true);
        self::assertSame(['2.0', 'HTTP/2.0'], [$all['version'], $all['server']['SERVER_PROTOCOL']]);
    }

    public function testHandlersThatRunBesideEachOtherAreWarnedOfOnce(): void
    {
        $environment = ['TEST_PSR7' => 'nyholm', 'TEST_FOLDER' => self::$folder, 'TEST_GLOBALS' => 'off', 'TEST_BESIDE' => 'on', 'FERMATA_WORKERS' => '1'];
        $server = new TestServer(__DIR__ . '/app.php', $environment, options: Php::options());
        // Sequential requests do not run concurrently, even after exit().
        self::assertSame(['Hello nobody', 500], [$server->get('/')->body, $server->get('/exit')->status]);
        self::assertSame('Hello nobody', $server->get('/')->body);
        self::assertStringNotContainsString('beside each other', $server->log());
        foreach ([3, 6] as $others) {
            $waiting = array_map(static fn(): \Fermata\Testing\Pending => $server->send('GET', "/meet?others=$others"), range(1, 3));
            foreach ($waiting as $pending) {
                self::assertSame('met', $pending->answer()->body);
            }
        }
        self::assertSame(1, substr_count($server->log(), 'run beside each other in a worker (handlers_max)'), $server->log());
    }

    public function testAWorkerIsReplacedAfterItsRequests(): void
    {
        $server = new TestServer(__DIR__ . '/app.php', ['TEST_PSR7' => 'nyholm', 'TEST_FOLDER' => self::$folder, 'TEST_REQUESTS_MAX' => '3'], options: Php::options());
        $counts = [];
        for ($i = 0; $i < 20; $i++) {
            $answer = $server->get('/count');
            self::assertSame(200, $answer->status);
            $counts[] = (int) $answer->body;
        }
        // A request that arrived before the worker's SIGTERM is its last one.
        self::assertGreaterThanOrEqual(3, max($counts));
        self::assertLessThan(10, max($counts));
        self::assertGreaterThanOrEqual(2, count(array_keys($counts, 1, true)));
    }
}
