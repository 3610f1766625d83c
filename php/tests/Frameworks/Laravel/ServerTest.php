<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\Laravel;

use Fermata\Testing\{Answer, TestServer};
use Fermata\Tests\{Php, Raw};
use PHPUnit\Framework\TestCase;

/** Tests a complete Laravel application of Debian's packages with a real server. */
class ServerTest extends TestCase
{
    protected static string $folder;
    protected static TestServer $server;

    /** Additional environment variables of the server. */
    protected const ENVIRONMENT = ['FERMATA_OCTANE' => ''];

    public static function setUpBeforeClass(): void
    {
        self::$folder = sys_get_temp_dir() . '/fermata-laravel-' . bin2hex(random_bytes(6));
        foreach (['sessions', 'views', 'cache'] as $name) {
            mkdir(self::$folder . "/$name", recursive: true);
        }
        touch(self::$folder . '/database.sqlite');
        file_put_contents(self::$folder . '/large.bin', random_bytes(700_000));
        self::$server = self::start();
    }

    /** @param array<string, string> $environment */
    private static function start(array $environment = []): TestServer
    {
        return new TestServer(__DIR__ . '/app.php', [
            ...$environment,
            ...static::ENVIRONMENT,
            'TEST_FOLDER' => self::$folder,
            'APP_SERVICES_CACHE' => self::$folder . '/cache/services.php',
            'APP_PACKAGES_CACHE' => self::$folder . '/cache/packages.php',
        ], options: Php::options());
    }

    public static function tearDownAfterClass(): void
    {
        self::$server->stop();
        exec('rm -rf ' . escapeshellarg(self::$folder));
    }

    /** @return array{Cookie: string} */
    private static function session(Answer $answer): array
    {
        return ['Cookie' => 'laravel_session=' . $answer->cookies()['laravel_session']];
    }

    public function testARequestIsWhole(): void
    {
        self::assertSame('Hello Ada', self::$server->get('/?name=Ada')->body);
        $answer = self::$server->request('PUT', '/all?a=1', ['Host' => 'shop.example', 'Content-Type' => 'application/json'], '{"b":2}')->json();
        self::assertSame(['method' => 'PUT', 'url' => 'http://shop.example/all?a=1', 'input' => ['b' => 2, 'a' => '1'], 'ip' => '127.0.0.1', 'content' => '{"b":2}', 'console' => false], $answer);
        self::assertSame("body {}\n", self::$server->get('/app.css')->body);
        self::assertSame(404, self::$server->get('/none')->status);
        self::assertStringContainsString('<h1>&lt;Title&gt;</h1>', self::$server->get('/view')->body);
    }

    /** RFC 9112, section 3.2. */
    public function testARequestOfHttp10NeedsNoHost(): void
    {
        $answer = Raw::ask(self::$server, "GET /all HTTP/1.0\r\n\r\n");
        self::assertStringStartsWith('HTTP/1.1 200 ', $answer);
        self::assertStringContainsString(json_encode(self::$server->url . '/all'), $answer);
    }

    public function testTheRequestIsAsLaravelCapturesIt(): void
    {
        $form = ['Content-Type' => 'application/x-www-form-urlencoded'];
        $json = ['Content-Type' => 'application/json'];
        foreach ([
            ['GET', '/captured?a=1&b[]=2', ['Cookie' => 'c=3', 'Authorization' => 'Basic ' . base64_encode('ada:secret')], '', ['a' => '1', 'b' => ['2']], 'GET', 'ada'],
            ['GET', '/captured', ['Authorization' => 'Digest username="ada"', 'X-HTTP-Method-Override' => 'PUT'], '', [], 'GET', null],
            ['GET', '/captured?a=1', $json, '{"b":2}', ['b' => 2, 'a' => '1'], 'GET', null],
            ['POST', '/captured?a=1', $form + ['X-HTTP-Method-Override' => 'PUT'], 'b=2', ['b' => '2', 'a' => '1'], 'PUT', null],
            ['PUT', '/captured', $form, 'b=2', ['b' => '2'], 'PUT', null],
            ['DELETE', '/captured?a=1', [], '', ['a' => '1'], 'DELETE', null],
        ] as [$method, $target, $headers, $body, $input, $as, $user]) {
            $captured = self::$server->request($method, $target, $headers, $body);
            self::assertSame([true, $input, $as, $user], $captured->json(), "$method $target " . json_encode($headers));
        }
    }

    /** Collecting cycles takes longer than every other cleanup between two requests. */
    public function testARequestLeavesNoCycles(): void
    {
        $left = [];
        for ($i = 0; $i < 6; $i++) {
            self::$server->get('/view');
            $left[] = self::$server->get('/cycles')->json();
        }
        self::assertSame([], array_filter($left), json_encode($left));
    }

    public function testTheMiddlewareOfARouteIsToldTheEnd(): void
    {
        $ended = self::$folder . '/ended';
        foreach (['/ends', '/ends-once', '/', '/ends', '/ends-closure', '/ends-once'] as $path) {
            self::assertSame(200, self::$server->get($path)->status);
        }
        $expected = ['ends 200', 'ends 200', 'ends 200', 'ends 200', 'ends-closure 200', 'ends-once 200', 'ends-once 200'];
        $deadline = microtime(true) + 5;
        // The response is sent before the work.
        while (($told = is_file($ended) ? file($ended, FILE_IGNORE_NEW_LINES) : []) && count($told) < count($expected) && microtime(true) < $deadline) {
            usleep(1000);
        }
        sort($told);
        self::assertSame($expected, $told);
    }

    /** Also after responses without following work, which are sent together. */
    public function testWhatTheApplicationDoesAtTheEndComesAfterTheAnswer(): void
    {
        for ($i = 0; $i < 250; $i++) {
            self::assertSame('Hello nobody', self::$server->get('/')->body);
        }
        self::assertSame('early', self::$server->get('/terminating')->body);
        self::assertFileDoesNotExist(self::$folder . '/terminated');
        touch(self::$folder . '/answered');
        for ($deadline = microtime(true) + 30; !is_file(self::$folder . '/terminated') && microtime(true) < $deadline; usleep(2000)) {
            clearstatcache();
        }
        self::assertStringEqualsFile(self::$folder . '/terminated', 'after the answer');
    }

    public function testUsersAndSessionsAreTheirOwn(): void
    {
        $ada = self::$server->get('/sign-in/ada');
        self::assertSame('in as ada', $ada->body);
        self::assertSame('nobody', self::$server->get('/user')->body);
        self::assertSame('ada', self::$server->get('/user', self::session($ada))->body);
        self::assertSame('nobody', self::$server->get('/user')->body);
        $first = self::$server->get('/visits');
        self::assertSame(['1', '2', '1', '3'], [$first->body, self::$server->get('/visits', self::session($first))->body, self::$server->get('/visits')->body,
            self::$server->get('/visits', self::session($first))->body]);
    }

    public function testNothingOfARequestReachesTheNext(): void
    {
        $before = self::$server->get('/state')->json();
        $left = self::$server->get('/leave');
        self::assertArrayHasKey('left', $left->cookies());
        self::assertSame($before, self::$server->get('/state')->json());
        self::assertSame(['Test', 'en', false, null, null, 'UTC', false, 0, 'state'], array_slice($before, 0, 9));
        self::assertSame(['1', '1'], [self::$server->get('/count')->body, self::$server->get('/count')->body]);
        self::assertSame(['1', '1'], [self::$server->get('/scoped')->body, self::$server->get('/scoped')->body]);
        self::assertSame(['1', '1'], [self::$server->get('/controller')->body, self::$server->get('/controller')->body]);
    }

    public function testAControllerEndsWithItsRequestThatExits(): void
    {
        self::assertSame('dumped', self::$server->get('/controller?exit=1')->body);
        self::assertSame('1', self::$server->get('/controller')->body);
    }

    public function testAPageOfAnErrorSeesNoRouteOfTheRequestBefore(): void
    {
        foreach (['/user', '/exit'] as $before) {
            self::$server->get($before);
            $answer = self::$server->get('/missing');
            self::assertSame([404, [null, 'missing']], [$answer->status, $answer->json()]);
        }
    }

    /** Proxy headers of a client that is not a trusted proxy. No URL of the application may contain their values. */
    private const FORWARDED = ['Host' => 'shop.example', 'X-Forwarded-Host' => 'foreign.example', 'X-Forwarded-Proto' => 'https', 'X-Forwarded-Port' => '8443',
        'X-Forwarded-Prefix' => '/foreign', 'Forwarded' => 'host=foreign.example;proto=https', 'X-Original-URL' => '/foreign', 'X-Rewrite-URL' => '/foreign',
        'X-Host' => 'foreign.example', 'Front-End-Https' => 'on'];

    public function testHeadersOfProxiesThatAreNotTrustedChangeNoAddress(): void
    {
        self::assertSame('http://shop.example/x', self::$server->get('/state', self::FORWARDED)->json()[9]);
        self::assertSame('http://shop.example/x', self::$server->get('/redirect', self::FORWARDED)->header('Location'));
    }

    public function testAddressesAreThoseOfTheRequest(): void
    {
        foreach (['shop.example', 'other.example'] as $host) {
            self::assertSame("http://$host/x", self::$server->get('/state', ['Host' => $host])->json()[9]);
            self::assertSame("http://$host/x", self::$server->get('/redirect', ['Host' => $host])->header('Location'));
            self::$server->get('/leave');
        }
        $visit = self::$server->get('/visits');
        self::assertSame(self::$server->url . '/visits', self::$server->get('/previous', self::session($visit))->body);
        self::assertSame(self::$server->url, self::$server->get('/previous')->body);
    }

    public function testDatesAreInTheLanguageOfTheRequest(): void
    {
        self::assertSame('März', self::$server->get('/locale')->body);
        self::assertSame('March', self::$server->get('/month')->body);
    }

    public function testPagesAreThoseOfTheRequest(): void
    {
        self::assertSame([3, 'http://shop.example/page'], self::$server->get('/page?page=3', ['Host' => 'shop.example'])->json());
        self::assertSame([1, 'http://other.example/page'], self::$server->get('/page', ['Host' => 'other.example'])->json());
    }

    public function testATransactionEndsWithItsRequest(): void
    {
        foreach (['/transaction', '/transaction?exit=1'] as $path) {
            self::assertSame(200, self::$server->get($path)->status);
            $database = new \PDO('sqlite:' . self::$folder . '/database.sqlite', options: [\PDO::ATTR_TIMEOUT => 0]);
            // The server ends the transaction after the response. Until then the database is locked.
            for ($deadline = microtime(true) + 30; !self::mayWrite($database) && microtime(true) < $deadline; usleep(10_000)) {
            }
            self::assertTrue(self::mayWrite($database), 'the transaction is still open');
            self::assertSame([], $database->query('SELECT name FROM sqlite_master')->fetchAll());
        }
    }

    private static function mayWrite(\PDO $database): bool
    {
        try {
            $database->exec('BEGIN IMMEDIATE; ROLLBACK');
            return true;
        } catch (\PDOException) {
            return false;
        }
    }

    public function testConnectionsOfTheStartAreNotShared(): void
    {
        self::assertSame('by nobody', self::start()->get('/opened')->body);
    }

    /** @return iterable<string, array{array<string, string>}> */
    public static function consoles(): iterable
    {
        yield 'by a program' => [[]];
        yield 'by a command of the console' => [['TEST_CONSOLE' => '1']];
    }

    /**
     * @param array<string, string> $environment
     * @dataProvider consoles
     */
    public function testAFatalErrorIsLoggedOnceAndItsPageIsNotPrinted(array $environment): void
    {
        $server = self::start($environment + ['FERMATA_WORKERS' => '1']);
        self::assertSame(500, $server->get('/fatal')->status);
        self::assertSame('Hello Ada', $server->get('/?name=Ada')->body);
        $server->stop();
        self::assertSame(1, preg_match_all('~ERROR: Allowed memory size~', $server->log()), $server->log());
        self::assertSame('', $server->output());
    }

    public function testTheSapiIsNotThatOfATerminal(): void
    {
        self::assertSame('frankenphp frankenphp', self::$server->get('/sapi')->body);
    }

    public function testAPageIsWhereDumpsGo(): void
    {
        // Twice: each page must contain the styles.
        foreach ([1, 2] as $_) {
            $answer = self::$server->get('/dd');
            // dd() sets this status if the output is not a terminal.
        self::assertSame([500, 'text/html; charset=UTF-8'], [$answer->status, $answer->header('Content-Type')]);
            self::assertStringContainsString('<span class=sf-dump-str title="5 characters">shown</span>', $answer->body);
            self::assertStringContainsString('<style>', $answer->body);
        }
    }

    public function testExitAndExceptions(): void
    {
        $answer = self::$server->get('/exit');
        self::assertSame([200, 'dumped'], [$answer->status, $answer->body]);
        self::assertSame('nobody', self::$server->get('/user')->body);
        $answer = self::$server->get('/throw');
        self::assertSame(500, $answer->status);
        self::assertStringNotContainsString('a detail', $answer->body);
        self::assertSame('Hello nobody', self::$server->get('/')->body);
    }

    public function testFilesAndStreams(): void
    {
        $file = self::$server->get('/file');
        self::assertTrue($file->body === file_get_contents(self::$folder . '/large.bin'));
        self::assertSame(100_000, strlen(self::$server->get('/download')->body));
        self::assertSame("stored\n", self::$server->get('/storage/a.txt')->body);
        foreach (['/storage/none.txt', '/storage/a.php', '/storage/.hidden.txt'] as $path) {
            self::assertSame(404, self::$server->get($path)->status);
        }
    }

    public function testBroadcastsReachHeldClients(): void
    {
        $client = self::$server->open('GET', '/events');
        self::assertSame(200, $client->status);
        self::assertSame('published', self::$server->request('POST', '/publish', [], 'news')->body);
        self::assertSame('{"text":"news"}', $client->event());
    }
}
