<?php

declare(strict_types=1);

namespace Fermata\Tests\Requests;

use Fermata\Testing\TestServer;
use Fermata\Tests\Raw;
use PHPUnit\Framework\TestCase;

/**
 * Sends each row of rows.php to PHP-FPM behind nginx and to Fermata. Status, headers and body must match, unless
 * differences.txt lists the row with the sentence of the documentation.
 */
final class BesideFpmTest extends TestCase
{
    /** Headers that are the server's own or frame the body. */
    private const NOT_COMPARED = ['connection', 'content-length', 'date', 'keep-alive', 'server', 'transfer-encoding'];
    private const NGINX = '/usr/sbin/nginx';
    private const SECONDS_MAX = 20.0;

    private static string $folder;
    private static string $fpmAddress;
    /** @var list<resource> */
    private static array $processes = [];
    /** @var array<string, TestServer> servers by the way of running program.php */
    private static array $servers = [];

    public static function setUpBeforeClass(): void
    {
        $fpm = '/usr/sbin/php-fpm' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
        foreach ([$fpm, self::NGINX] as $program) {
            if (!is_executable($program)) {
                self::markTestSkipped("$program is not installed");
            }
        }
        self::$folder = $folder = sys_get_temp_dir() . '/fermata-beside-' . bin2hex(random_bytes(6));
        self::$fpmAddress = "unix://$folder/nginx.sock";
        foreach (['fpm-sessions', 'sessions', 'nginx'] as $name) {
            mkdir("$folder/$name", recursive: true);
        }
        $program = __DIR__ . '/program.php';
        $settings = implode('', array_map(static fn(string $setting): string => 'php_value[' . strtr($setting, ['=' => '] = ']) . "\n", self::settings("$folder/fpm-sessions")));
        file_put_contents("$folder/fpm.conf", "[global]\nerror_log = $folder/fpm.log\n[www]\nlisten = $folder/fpm.sock\nuser = root\ngroup = root\npm = static\npm.max_children = 2\n$settings");
        $temporary = implode('', array_map(static fn(string $name): string => "{$name}_temp_path $folder/nginx;", ['client_body', 'fastcgi', 'proxy', 'scgi', 'uwsgi']));
        $parameters = "include /etc/nginx/fastcgi_params; fastcgi_param HTTP_HOST \$http_host; fastcgi_param SERVER_NAME \$host; fastcgi_param SCRIPT_FILENAME $program; fastcgi_param SCRIPT_NAME /index.php;";
        file_put_contents("$folder/nginx.conf", <<<CONF
            user root; daemon off; pid $folder/nginx.pid; error_log $folder/nginx.log; worker_processes 1;
            events { worker_connections 64; }
            http {
                $temporary access_log off; default_type application/octet-stream;
                server {
                    listen unix:$folder/nginx.sock; root $folder; server_name localhost;
                    location / { $parameters fastcgi_param DOCUMENT_URI /index.php; fastcgi_pass unix:$folder/fpm.sock; }
                    location ~ ^/index\\.php(/|$) { fastcgi_split_path_info ^(/index\\.php)(/.*)?$; $parameters fastcgi_param PATH_INFO \$fastcgi_path_info; fastcgi_pass unix:$folder/fpm.sock; }
                }
            }
            CONF);
        $log = ['file', "$folder/out", 'a'];
        foreach ([[$fpm, '--nodaemonize', '--allow-to-run-as-root', '-n', '-y', "$folder/fpm.conf"], [self::NGINX, '-c', "$folder/nginx.conf", '-p', $folder]] as $i => $command) {
            self::$processes[] = proc_open($command, [['file', '/dev/null', 'r'], $log, $log], $pipes);
            $socket = $i === 0 ? "$folder/fpm.sock" : "$folder/nginx.sock";
            for ($end = microtime(true) + self::SECONDS_MAX; !@stream_socket_client("unix://$socket"); usleep(5_000)) {
                if (microtime(true) > $end) {
                    throw new \RuntimeException((string) file_get_contents("$folder/out"));
                }
            }
        }
        $options = ['-n', '-dextension=posix', ...array_map(static fn(string $setting): string => "-d$setting", self::settings("$folder/sessions"))];
        foreach (['worker' => [dirname(__DIR__, 2) . '/bin/fermata-frankenphp', [$program]], 'globals' => [$program, []]] as $way => [$file, $arguments]) {
            self::$servers[$way] = new TestServer($file, ['FERMATA_TEST_WAY' => $way], $arguments, $options, self::SECONDS_MAX);
        }
    }

    public static function tearDownAfterClass(): void
    {
        self::$servers = [];
        foreach (self::$processes as $process) {
            proc_terminate($process);
            proc_close($process);
        }
        self::$processes = [];
        if (isset(self::$folder)) {
            exec('rm -rf ' . escapeshellarg(self::$folder));
        }
    }

    /** @return list<string> */
    private static function settings(string $sessions): array
    {
        return ["session.save_path=$sessions", 'session.gc_probability=0', 'display_errors=0', 'expose_php=0', 'html_errors=0', 'max_execution_time=30'];
    }

    /** @return iterable<string, array{string, string}> */
    public static function rows(): iterable
    {
        foreach (array_keys(require __DIR__ . '/rows.php') as $name) {
            foreach (['worker', 'globals'] as $way) {
                yield "$name ($way)" => [$name, $way];
            }
        }
    }

    /** @return array<string, string> sentence of docs/frankenphp.md for each row that differs */
    private static function differences(): array
    {
        $differences = [];
        foreach (file(__DIR__ . '/differences.txt', FILE_IGNORE_NEW_LINES) as $line) {
            if ($line !== '' && $line[0] !== '#') {
                [$name, $sentence] = explode(': ', $line, 2);
                $differences[$name] = $sentence;
            }
        }
        return $differences;
    }

    /** @dataProvider rows */
    public function testIsAsUnderPhpFpm(string $name, string $way): void
    {
        [$of, $by] = [self::ask($name, self::$fpmAddress), self::ask($name, str_replace('http://', 'tcp://', self::$servers[$way]->url))];
        $sentence = self::differences()["$name ($way)"] ?? self::differences()[$name] ?? null;
        // Ignore the reason phrase if PHP-FPM sends none.
        $by = preg_match('/^\d+ ?\n/', $of) ? preg_replace('/^(\d+) [^\n]*/', '$1', $by) : $by;
        $of = preg_replace('/^(\d+) \n/', "\$1\n", $of);
        if ($sentence === null) {
            self::assertSame($of, $by);
            return;
        }
        self::assertStringContainsString($sentence, (string) file_get_contents(dirname(__DIR__, 3) . '/docs/frankenphp.md'), 'the page tells of the difference');
        self::assertNotSame($of, $by, 'differences.txt names a row that does not differ');
    }

    public function testEveryFunctionHasARow(): void
    {
        $names = [...get_extension_funcs('session'), ...array_filter(get_defined_functions()['internal'], static fn(string $name): bool => preg_match(
            '/^(header|headers_(?!send)|ob_(?!(gz|iconv_|tidy)_?handler)|output_|filter_(input|has)|set(raw)?cookie$|connection_|http_response|(is|move)_uploaded|flush$|getallheaders$)/', $name) === 1)];
        $rows = (string) file_get_contents(__DIR__ . '/rows.php');
        $missing = array_filter(array_unique($names), static fn(string $name): bool => !str_contains($rows, "$name("));
        self::assertSame([], array_values($missing));
    }

    /** Returns status, headers and body without the server's own headers. */
    private static function ask(string $name, string $address): string
    {
        [, $method, $target, $headers, $body] = (require __DIR__ . '/rows.php')[$name] + [null, 'GET', '/', [], ''];
        $head = "$method $target HTTP/1.1\r\nHost: x.example\r\nConnection: close\r\nX-Row: " . rawurlencode($name) . "\r\n";
        if ($body !== '' && !isset($headers['Transfer-Encoding'])) {
            $headers += ['Content-Length' => (string) strlen($body)];
        }
        foreach ($headers as $header => $values) {
            foreach ((array) $values as $value) {
                $head .= "$header: $value\r\n";
            }
        }
        $server = reset(self::$servers);
        [$lines, $content] = explode("\r\n\r\n", Raw::ask($server, "$head\r\n$body", $address), 2) + [1 => ''];
        $lines = explode("\r\n", $lines);
        if (preg_grep('/^transfer-encoding: chunked$/i', $lines) !== []) {
            for ($whole = ''; preg_match('/^([0-9a-f]+)\r\n/i', $content, $size) && hexdec($size[1]) > 0;) {
                $whole .= substr($content, strlen($size[0]), (int) hexdec($size[1]));
                $content = substr($content, strlen($size[0]) + (int) hexdec($size[1]) + 2);
            }
            $content = $whole;
        }
        $status = array_shift($lines);
        $kept = [];
        foreach ($lines as $line) {
            [$header, $value] = explode(':', $line, 2) + [1 => '(no colon)'];
            if (!in_array(strtolower($header), self::NOT_COMPARED, true)) {
                $kept[] = strtolower($header) . ': ' . preg_replace('/^PHPSESSID=\w+/', 'PHPSESSID=ID', ltrim($value));
            }
        }
        // Sort by name, because only the order of headers with the same name matters.
        usort($kept, static fn(string $a, string $b): int => strtok($a, ':') <=> strtok($b, ':'));
        $dates = '/\w{3}, \d\d.\w{3}.\d{4} \d\d:\d\d:\d\d GMT/';
        $answer = preg_replace('/^HTTP\/1\.[01] /', '', $status) . "\n" . implode("\n", $kept) . "\n\n$content";
        return str_replace('/fpm-sessions', '/sessions', preg_replace($dates, 'DATE', $answer));
    }
}
