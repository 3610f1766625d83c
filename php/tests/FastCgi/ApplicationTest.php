<?php

declare(strict_types=1);

namespace Fermata\Tests\FastCgi;

use Fermata\{Hook, Response, Runtime, Server};
use Fermata\FastCgi\Application;
use Fermata\Testing\{StartsServers, TestServer};
use Fermata\Tests\Http2;
use PHPUnit\Framework\TestCase;

/** Tests the handler with a real PHP-FPM. */
final class ApplicationTest extends TestCase
{
    use StartsServers;

    private const CHILDREN = 4;

    private static string $folder;
    /** @var resource|null */
    private static $fpm = null;

    public static function setUpBeforeClass(): void
    {
        $program = '/usr/sbin/php-fpm' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
        if (!is_executable($program)) {
            self::markTestSkipped("$program is not installed");
        }
        self::$folder = sys_get_temp_dir() . '/fermata-fastcgi-' . bin2hex(random_bytes(6));
        mkdir(self::$folder . '/root/sub', 0755, true);
        $children = self::CHILDREN;
        $folder = self::$folder;
        file_put_contents("$folder/fpm.conf", "[global]\nerror_log = $folder/fpm.log\n[www]\nlisten = $folder/fpm.sock\nuser = root\ngroup = root\n"
            . "pm = static\npm.max_children = $children\ncatch_workers_output = yes\nphp_admin_value[output_buffering] = 0\n");
        foreach (self::scripts() as $name => $code) {
            file_put_contents("$folder/root/$name", "<?php $code");
        }
        file_put_contents("$folder/root/page.txt", 'a file');
        $log = ['file', "$folder/fpm.out", 'w'];
        self::$fpm = proc_open([$program, '--nodaemonize', '--allow-to-run-as-root', '-n', '-y', "$folder/fpm.conf"], [['file', '/dev/null', 'r'], $log, $log], $pipes);
        for ($end = microtime(true) + 20; !@stream_socket_client("unix://$folder/fpm.sock"); usleep(5_000)) {
            if (microtime(true) > $end) {
                throw new \RuntimeException((string) file_get_contents("$folder/fpm.out"));
            }
        }
    }

    public static function tearDownAfterClass(): void
    {
        if (self::$fpm !== null) {
            proc_terminate(self::$fpm);
            proc_close(self::$fpm);
            self::$fpm = null;
            foreach (new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator(self::$folder, \FilesystemIterator::SKIP_DOTS), \RecursiveIteratorIterator::CHILD_FIRST) as $entry) {
                $entry->isDir() && !$entry->isLink() ? rmdir((string) $entry) : unlink((string) $entry);
            }
            rmdir(self::$folder);
        }
    }

    /** @return array<string, string> */
    private static function scripts(): array
    {
        return [
            'index.php' => 'header("X-Front: 1"); setcookie("a", "1"); setcookie("b", "2"); echo json_encode(array_intersect_key($_SERVER, array_flip('
                . '["SCRIPT_NAME", "SCRIPT_FILENAME", "PATH_INFO", "REQUEST_URI", "QUERY_STRING", "REMOTE_ADDR", "HTTP_X_A", "HTTP_PROXY", "HTTPS", "REQUEST_METHOD"])) + ["get" => $_GET]);',
            'sub/index.php' => 'echo "sub ", $_SERVER["SCRIPT_NAME"], " ", $_SERVER["PATH_INFO"] ?? "-";',
            'form.php' => 'echo json_encode([$_POST, array_map(fn($file) => [$file["name"], $file["size"], $file["error"]], $_FILES)]);',
            'echo.php' => '$in = fopen("php://input", "r"); header("Content-Type: application/octet-stream"); while (!feof($in)) { echo fread($in, 8192); }',
            'ignores.php' => 'header("Content-Type: text/plain"); for ($i = 0; $i < 64; $i++) { echo str_repeat(chr(65 + $i % 26), 65536); }',
            'slow.php' => 'usleep(400_000); echo "slow";',
            'never.php' => 'sleep(5); echo "late";',
            'pieces.php' => 'foreach ([1, 2, 3] as $i) { echo "piece $i\n"; @ob_flush(); flush(); usleep(300_000); }',
            'status.php' => 'header("HTTP/1.1 418 Short And Stout"); header("X-Powered-By: tea"); echo "teapot";',
            'moved.php' => 'header("Location: /elsewhere");',
            'nothing.php' => 'http_response_code(204);',
            'complains.php' => 'error_log("something is odd"); echo "fine";',
            'dies.php' => 'echo str_repeat("x", 100_000); flush(); posix_kill(getmypid(), SIGKILL);',
            'stays.php' => 'ignore_user_abort(false); file_put_contents(__DIR__ . "/stays", "begun"); for ($i = 0; $i < 100; $i++) { echo str_repeat("x", 65536); flush(); usleep(20_000); }'
                . ' file_put_contents(__DIR__ . "/stays", "ended");',
        ];
    }

    /**
     * @param array<string, mixed> $arguments
     * @param array<string, string> $environment
     */
    private function server(array $arguments = [], bool $isHooked = true, array $environment = []): TestServer
    {
        $arguments += ['socket' => self::$folder . '/fpm.sock', 'root' => self::$folder . '/root'];
        return $this->startServer(static function (Server $server) use ($arguments, $isHooked): void {
            // PHPUnit's error handler turns warnings into exceptions.
            set_error_handler(null);
            if ($isHooked) {
                Runtime::hook(Hook::Streams);
            }
            $server->get('/native', fn() => Response::text('native'));
            $server->static('/files', $arguments['root'], fallback: new Application(...['script' => null, 'prefix' => '/files'] + $arguments));
            $application = new Application(...$arguments);
            $server->any('/{path...}', $application);
            $server->any('/raw/{path...}', new Application(...['script' => null, 'prefix' => '/raw'] + $arguments), bodyBytes: 8_000_000, streamBody: true);
        }, $environment);
    }

    public function testOneScriptAnswersEverything(): void
    {
        $answer = $this->server()->request('GET', '/any/page?x=1&y=%2F', ['X-A' => 'b', 'Proxy' => 'evil', 'X_A' => 'evil']);
        $root = self::$folder . '/root';
        self::assertSame(200, $answer->status);
        self::assertSame('1', $answer->header('X-Front'));
        self::assertSame(['a=1', 'b=2'], array_map(fn(string $line) => explode(';', $line)[0], $answer->headers['set-cookie'] ?? $answer->headers['Set-Cookie'] ?? []));
        $seen = json_decode($answer->body, true);
        ksort($seen);
        self::assertSame(['HTTP_X_A' => 'b', 'QUERY_STRING' => 'x=1&y=%2F', 'REMOTE_ADDR' => '127.0.0.1', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/any/page?x=1&y=%2F',
            'SCRIPT_FILENAME' => "$root/index.php", 'SCRIPT_NAME' => '/index.php', 'get' => ['x' => '1', 'y' => '/']], $seen);
    }

    public function testThePathNamesAScript(): void
    {
        $server = $this->server();
        self::assertSame('sub /files/sub/index.php -', $server->request('GET', '/files/sub/')->body);
        self::assertSame('sub /files/sub/index.php /in/fo', $server->request('GET', '/files/sub/index.php/in/fo')->body);
        self::assertSame('a file', $server->request('GET', '/files/page.txt')->body);
        self::assertSame(404, $server->request('GET', '/files/none.txt')->status);
        self::assertSame(404, $server->request('GET', '/files/none.php')->status);
        foreach (['/raw/..%2Findex.php', '/raw/a%5Cb.php', '/raw/index.php%00', '/raw/%ff.php'] as $path) {
            self::assertContains($server->request('GET', $path)->status, [400, 404], $path);
        }
    }

    public function testBodiesGoBothWays(): void
    {
        $server = $this->server();
        $boundary = 'b0undary';
        $form = "--$boundary\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--$boundary\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.txt\"\r\n\r\n"
            . str_repeat('y', 100_000) . "\r\n--$boundary--\r\n";
        self::assertSame('[{"a":"1"},{"f":["f.txt",100000,0]}]', $server->request('POST', '/raw/form.php', ['Content-Type' => "multipart/form-data; boundary=$boundary"], $form)->body);
        $body = random_bytes(3_000_000);
        $echo = $server->request('POST', '/raw/echo.php', [], $body)->body;
        self::assertSame([strlen($body), md5($body)], [strlen($echo), md5($echo)]);
        self::assertSame('', $server->request('POST', '/raw/echo.php')->body);
        // The application sends four megabytes before it reads any of the request body.
        $answer = $server->request('POST', '/raw/ignores.php', [], str_repeat('z', 1_000_000));
        self::assertSame(64 * 65_536, strlen($answer->body));
    }

    public function testABodyWithoutALengthGetsOne(): void
    {
        $server = $this->server();
        $connection = stream_socket_client(str_replace('http:', 'tcp:', $server->url));
        fwrite($connection, "POST /raw/echo.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
        self::assertStringContainsString('abcde', (string) stream_get_contents($connection));
        $server = $this->server(environment: ['FERMATA_HTTP2' => 'on']);
        self::assertSame('abcde', Http2::post("$server->url/raw/echo.php", 'abcde'));
    }

    public function testTheWorkerGoesOnWhilePhpFpmWorks(): void
    {
        $server = $this->server();
        $slow = array_map(fn() => $server->send('GET', '/raw/slow.php'), range(1, self::CHILDREN));
        self::assertSame('native', $server->request('GET', '/native')->body);
        foreach ($slow as $pending) {
            self::assertSame('slow', $pending->answer()->body);
        }
    }

    public function testPiecesLeaveAsTheyCome(): void
    {
        $server = $this->server();
        $connection = stream_socket_client(str_replace('http:', 'tcp:', $server->url));
        fwrite($connection, "GET /raw/pieces.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        $seen = '';
        while (!str_contains($seen, 'piece 1')) {
            $seen .= fread($connection, 8192);
        }
        self::assertStringNotContainsString('piece 3', $seen);
        self::assertStringContainsString('piece 3', (string) stream_get_contents($connection));
    }

    public function testWhatTheProgramAnswersIsAnswered(): void
    {
        $server = $this->server();
        $answer = $server->request('GET', '/raw/status.php');
        self::assertSame([418, 'teapot', 'tea'], [$answer->status, $answer->body, $answer->header('X-Powered-By')]);
        $answer = $server->request('GET', '/raw/moved.php');
        self::assertSame([302, '/elsewhere'], [$answer->status, $answer->header('Location')]);
        self::assertSame([204, ''], [($answer = $server->request('GET', '/raw/nothing.php'))->status, $answer->body]);
        self::assertSame('', $server->request('HEAD', '/raw/status.php')->body);
        self::assertSame('fine', $server->request('GET', '/raw/complains.php')->body);
        self::assertStringContainsString('something is odd', $server->log());
    }

    public function testAFailureIsAnAnswerToo(): void
    {
        $server = $this->server(['timeout' => 0.5]);
        self::assertSame(504, $server->request('GET', '/raw/never.php')->status);
        try {
            // The header section was sent, so the client must be able to detect the truncated body.
            $broken = strlen($server->request('GET', '/raw/dies.php')->body);
            self::assertLessThan(100_000, $broken);
        } catch (\RuntimeException $error) {
            self::assertNotSame('', $error->getMessage());
        }
        self::assertSame('fine', $server->request('GET', '/raw/complains.php')->body);
        self::assertStringContainsString('silent for 0.5 seconds (timeout)', $server->log());

        $server = $this->server(['socket' => self::$folder . '/none.sock']);
        self::assertSame(502, $server->request('GET', '/')->status);
        self::assertStringContainsString('check that PHP-FPM runs', $server->log());

        $server = $this->server(isHooked: false);
        self::assertSame(500, $server->request('GET', '/')->status);
        self::assertStringContainsString('Fermata\Hook::Streams', $server->log());
    }

    public function testAClientThatLeavesFreesTheChild(): void
    {
        $server = $this->server();
        $connection = stream_socket_client(str_replace('http:', 'tcp:', $server->url));
        fwrite($connection, "GET /raw/stays.php HTTP/1.1\r\nHost: a\r\n\r\n");
        fread($connection, 8192);
        fclose($connection);
        self::assertSame('begun', file_get_contents(self::$folder . '/root/stays'));
        // All children respond, including the one whose client disconnected, so none is blocked.
        foreach (array_map(fn() => $server->send('GET', '/raw/slow.php'), range(1, self::CHILDREN)) as $pending) {
            self::assertSame('slow', $pending->answer()->body);
        }
        self::assertSame('begun', file_get_contents(self::$folder . '/root/stays'));
    }

    public function testWhatCannotBeIsRefused(): void
    {
        foreach ([['fpm.sock', '/srv', '/index.php'], ['/fpm.sock', '/srv', '/../index.php'], ['/fpm.sock', '/srv', 'index.php'], ['/fpm.sock', '/srv', '/index.php', 'old/'],
            ['/fpm.sock', '/srv', '/index.php', '', 0.0]] as $arguments) {
            try {
                new Application(...$arguments);
            } catch (\ValueError $error) {
                self::assertMatchesRegularExpression('~^(socket|script|prefix|timeout) is ~', $error->getMessage());
                continue;
            }
            self::fail('accepted: ' . json_encode($arguments));
        }
        self::assertInstanceOf(Application::class, new Application('[::1]:9000', '/srv'));
    }
}
