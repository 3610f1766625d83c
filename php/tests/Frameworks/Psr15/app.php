<?php

declare(strict_types=1);

// Application for the tests of the PSR-15 bridge, with the PSR-7 library that TEST_PSR7 names.

require dirname(__DIR__, 2) . '/autoload.php';
$library = (string) getenv('TEST_PSR7');
require ['nyholm' => 'Nyholm/Psr7', 'guzzle' => 'GuzzleHttp/Psr7', 'slim' => 'Slim/Psr7'][$library] . '/autoload.php';

use Fermata\{Channel, Hold};
use Fermata\Psr15\{Body, Factories, Server};
use Psr\Http\Message\{ResponseInterface, ServerRequestInterface, UploadedFileInterface, UriInterface};
use Psr\Http\Server\RequestHandlerInterface;

$folder = (string) getenv('TEST_FOLDER');

final class App implements RequestHandlerInterface
{
    private static int $count = 0;

    public function __construct(private readonly object $responses, private readonly object $streams, private readonly string $folder) {}

    private function text(string $text, int $status = 200): ResponseInterface
    {
        return $this->responses->createResponse($status)->withHeader('Content-Type', 'text/plain')->withBody($this->streams->createStream($text));
    }

    private function typed(): ResponseInterface
    {
        header('Content-Type: text/own');
        return $this->responses->createResponse()->withBody($this->streams->createStream('own'));
    }

    /** Closes all output buffers, as applications for PHP-FPM do before a download. */
    private function ended(): ResponseInterface
    {
        while (ob_get_level() > 0) {
            ob_end_clean();
        }
        echo 'printed ';
        return $this->text('and answered');
    }

    public function handle(ServerRequestInterface $request): ResponseInterface
    {
        $path = $request->getUri()->getPath();
        $native = $request->getAttribute(Fermata\Request::class);
        return match (true) {
            $path === '/lazy' => $this->text(json_encode(self::differences($request), JSON_THROW_ON_ERROR)),
            $path === '/' => $this->text('Hello ' . ($request->getQueryParams()['name'] ?? 'nobody')),
            $path === '/all' => $this->text(json_encode($this->all($request), JSON_THROW_ON_ERROR)),
            str_ends_with($path, '/made') => $this->text(json_encode($this->made($request), JSON_THROW_ON_ERROR)),
            $path === '/headers' => $this->responses->createResponse(207)->withHeader('X-Many', ['a', 'b'])->withAddedHeader('x-many', 'c')
                ->withHeader('Content-Length', '999')->withHeader('Connection', 'close')->withAddedHeader('Set-Cookie', 'a=1')->withAddedHeader('set-cookie', 'b=2; Path=/')
                ->withHeader('X-Number', '5'),
            $path === '/echo' => $this->text((string) $request->getBody())->withHeader('X-Size', (string) $request->getBody()->getSize()),
            $path === '/upload' => $this->upload($request),
            $path === '/uploaded' => $this->uploaded($request->getUploadedFiles()),
            $path === '/hold' => $this->responses->createResponse()->withHeader('X-Own', 'yes')
                ->withBody(Body::hold(Hold::sse('news')->since($native->lastEventId()))),
            $path === '/hold-headers' => $this->responses->createResponse()->withHeader('X-Many', ['a', 'b'])
                ->withAddedHeader('Set-Cookie', 'a=1')->withAddedHeader('Set-Cookie', 'b=2; Path=/')->withBody(Body::hold(Hold::sse('news'))),
            $path === '/publish' => $this->text(Channel::get('news')->publish((string) $request->getBody())),
            $path === '/events' => $this->responses->createResponse()->withBody(Body::events(function (Fermata\EventSink $sink): void {
                $sink->send('one');
                $sink->send('two');
            })),
            $path === '/printed' => $this->responses->createResponse(201)->withHeader('Content-Type', 'text/csv')
                ->withBody(Body::output(fn() => print 'a,b')),
            $path === '/body-file' => $this->responses->createResponse()->withHeader('X-Own', 'yes')->withHeader('X-Many', ['a', 'b'])
                ->withAddedHeader('Set-Cookie', 'a=1')->withAddedHeader('Set-Cookie', 'b=2; Path=/')->withBody(Body::file("$this->folder/large.bin")),
            $path === '/file' => $this->responses->createResponse()->withHeader('Content-Type', 'text/own')
                ->withBody($this->streams->createStreamFromFile("$this->folder/large.bin")),
            $path === '/temporary' => $this->responses->createResponse()->withBody($this->temporary()),
            $path === '/pump' => $this->responses->createResponse()->withBody(new GuzzleHttp\Psr7\PumpStream(function () {
                static $left = 5;
                return $left-- > 0 ? "piece $left\n" : false;
            })),
            $path === '/head' => $this->responses->createResponse()->withHeader('Content-Length', '12345'),
            $path === '/session' => $this->session(),
            $path === '/meet' => $this->meet((int) $request->getQueryParams()['others']),
            $path === '/used' => $this->text(json_encode(Fermata\Tests\Php::used())),
            $path === '/using' => $this->using((int) $request->getQueryParams()['bytes']),
            $path === '/booting' => $this->booting((int) $request->getQueryParams()['bytes']),
            $path === '/secret' => $this->secret($request),
            $path === '/exit' => $this->leave(),
            $path === '/throw' => throw new RuntimeException('a detail for the log'),
            $path === '/prints' => $this->text((print 'printed ') ? 'and answered' : ''),
            $path === '/untyped' => $this->responses->createResponse()->withBody($this->streams->createStream(str_repeat('<p>', (int) ($request->getQueryParams()['times'] ?? 1)))),
            $path === '/typed' => $this->typed(),
            $path === '/ended' => $this->ended(),
            $path === '/count' => $this->text((string) ++self::$count),
            default => $this->text("nothing at $path", 404),
        };
    }

    /** Returns the methods of the request and its URI whose results differ from the library's, and the classes of both. */
    private static function differences(ServerRequestInterface $request): array
    {
        $own = $request->withMethod($request->getMethod());
        $request = $request->withAttribute('other', 1)->withoutAttribute('other');
        // A change and its reversal yield a URI of the library.
        [$uri, $ownUri] = [$request->getUri(), $request->getUri()->withFragment('other')->withFragment('')];
        $other = $request->withAttribute('other', 1);
        return [
            'classes' => [$request::class, $own::class, $uri::class === $ownUri::class],
            'attributes' => [array_keys($other->getAttributes()), array_keys($other->withMethod('PUT')->getAttributes()), $request->getAttribute('other')],
        ] + self::compared(ServerRequestInterface::class, $request, $own->withUri($ownUri, true)) + self::compared(UriInterface::class, $uri, $ownUri);
    }

    private static function compared(string $interface, object $one, object $other): array
    {
        $found = [];
        foreach (get_class_methods($interface) as $method) {
            $arguments = match ($method) {
                'hasHeader', 'getHeader', 'getHeaderLine' => [['HOST'], ['x-many'], ['none'], ['']],
                'getAttribute' => [[Fermata\Request::class], ['none'], ['none', 'default']],
                default => str_starts_with($method, 'get') || $method === '__toString' ? [[]] : [],
            };
            foreach ($arguments as $given) {
                [$ours, $theirs] = array_map(static fn(mixed $told): mixed => match ($method) {
                    // Different objects with the same content.
                    'getBody', 'getUri' => (string) $told,
                    // Libraries differ in the case of names and in the space after a comma.
                    'getHeaders' => array_change_key_case($told),
                    'getHeaderLine' => str_replace(', ', ',', $told),
                    default => $told,
                }, [$one->$method(...$given), $other->$method(...$given)]);
                if ($ours != $theirs) {
                    $found[$method] = [$ours, $theirs];
                }
            }
        }
        return $found;
    }

    private function all(ServerRequestInterface $request): array
    {
        $server = $request->getServerParams();
        return [
            'method' => $request->getMethod(), 'uri' => (string) $request->getUri(), 'version' => $request->getProtocolVersion(),
            'query' => $request->getQueryParams(), 'cookies' => $request->getCookieParams(), 'parsed' => $request->getParsedBody(),
            'many' => $request->getHeader('X-Many'), 'same' => $server == $_SERVER,
            'server' => array_intersect_key($server, array_flip(['SERVER_PROTOCOL', 'REMOTE_ADDR', 'REQUEST_METHOD', 'SCRIPT_NAME', 'QUERY_STRING', 'HTTP_HOST'])),
            'time' => abs($server['REQUEST_TIME_FLOAT'] - microtime(true)) < 60,
        ];
    }

    private function made(ServerRequestInterface $request): array
    {
        $changed = $request->withHeader('x-MANY', 'other')->withAddedHeader('X-Number', '9')->withoutHeader('HOST');
        return [
            'uri' => (string) $request->getUri(), 'path' => $request->getUri()->getPath(), 'query' => $request->getUri()->getQuery(),
            'target' => $request->getRequestTarget(), 'host' => $request->getHeaderLine('hOsT'), 'number' => $request->getHeader('7'),
            'names' => array_map(strval(...), array_keys($request->getHeaders())), 'changed' => $changed->getHeader('X-Many'),
            'added' => $changed->getHeader('x-number'), 'hasHost' => $changed->hasHeader('Host'), 'stillHasHost' => $request->hasHeader('Host'),
            'attributes' => array_keys($request->getAttributes()), 'body' => (string) $request->getBody(),
        ];
    }

    private function upload(ServerRequestInterface $request): ResponseInterface
    {
        $show = function (mixed $file) use (&$show): mixed {
            if (is_array($file)) {
                return array_map($show, $file);
            }
            assert($file instanceof UploadedFileInterface);
            $error = $file->getError();
            $text = $error === UPLOAD_ERR_OK ? (string) $file->getStream() : null;
            if ($error === UPLOAD_ERR_OK) {
                $file->moveTo("$this->folder/moved");
                unlink("$this->folder/moved");
            }
            return [$file->getClientFilename(), $file->getClientMediaType(), $file->getSize(), $error, $text];
        };
        return $this->text(json_encode([$show($request->getUploadedFiles()), $request->getParsedBody()]));
    }

    /**
     * Checks PSR-7's requirements for uploaded files in the order of an application's calls.
     *
     * @param array{UploadedFileInterface, UploadedFileInterface, UploadedFileInterface} $files
     */
    private function uploaded(array $files): ResponseInterface
    {
        [$file, $other, $large] = $files['f'];
        $thrown = static function (\Closure $call): string {
            try {
                $call();
                return 'nothing';
            } catch (InvalidArgumentException | RuntimeException $error) {
                return $error instanceof RuntimeException ? 'runtime' : 'argument';
            }
        };
        $target = "$this->folder/uploaded";
        $stream = $file->getStream();
        $seen = [
            'again' => $file->getStream() === $stream, 'part' => $stream->read(2), 'rest' => $stream->getContents(), 'whole' => (string) $stream,
            'seekable' => $stream->isSeekable(), 'writable' => $stream->isWritable(), 'bytes' => $stream->getSize(),
            'empty' => $thrown(fn() => $file->moveTo('')), 'nowhere' => $thrown(fn() => $file->moveTo("$this->folder/no/such/folder/a")),
            'moved' => $thrown(fn() => $file->moveTo($target)), 'content' => file_get_contents($target),
            'twice' => $thrown(fn() => $file->moveTo("$target-again")), 'after' => $thrown(fn() => $file->getStream()), 'size' => $file->getSize(),
            'unread' => $thrown(fn() => $other->moveTo($target)), 'replaced' => file_get_contents($target),
            'large' => $large->getError(), 'none' => $thrown(fn() => $large->getStream()), 'unmovable' => $thrown(fn() => $large->moveTo("$target-again")),
            'left' => is_file("$target-again"),
        ];
        unlink($target);
        return $this->text(json_encode($seen, JSON_THROW_ON_ERROR));
    }

    private function temporary(): object
    {
        $file = tmpfile();
        fwrite($file, str_repeat('t', 1_000_000));
        return $this->streams->createStreamFromResource($file);
    }

    private function session(): ResponseInterface
    {
        session_save_path($this->folder);
        session_start();
        $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
        setcookie('extra', 'x');
        return $this->text((string) $_SESSION['visits']);
    }

    private function secret(ServerRequestInterface $request): ResponseInterface
    {
        session_save_path($this->folder);
        session_start();
        $token = $request->getQueryParams()['token'];
        $_SESSION['token'] ??= $token;
        $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
        $seen = [$_SESSION['token'], $_SESSION['visits'], $GLOBALS['_ENV']['user'] ?? null, $_GET['token'], $_SERVER['QUERY_STRING'], ini_get('precision')];
        $_ENV['user'] = $token;
        ini_set('precision', (string) random_int(3, 9));
        $end = $request->getQueryParams()['end'] ?? '';
        match ($end) {
            'exit' => exit(print 'dumped'),
            'throw' => throw new RuntimeException("of $token"),
            default => null,
        };
        $text = json_encode($seen);
        return $end === 'stream'
            ? $this->responses->createResponse()->withBody(Body::output(function () use ($text): void { echo $text, str_repeat(' ', 500_000); }))
            : $this->text($text);
    }

    /** Waits until the given number of handlers are running. */
    private function meet(int $others): ResponseInterface
    {
        static $met = 0;
        for ($met++; $met < $others; ) {
            Fermata\delay(0.002);
        }
        return $this->text('met');
    }

    /** Uses the given memory while other handlers run. */
    private function using(int $bytes): ResponseInterface
    {
        $used = str_repeat('x', $bytes);
        Fermata\delay(0.1);
        return $this->text(json_encode([getmypid(), strlen($used)]));
    }

    /** The first request builds an application of the given size. */
    private function booting(int $bytes): ResponseInterface
    {
        static $application = null;
        $application ??= str_repeat('x', $bytes);
        return $this->text(json_encode([getmypid(), strlen($application)]));
    }

    private function leave(): never
    {
        http_response_code(402);
        echo 'printed';
        exit;
    }
}

$found = Factories::find();
$responses = match ($library) {
    'slim' => new Slim\Psr7\Factory\ResponseFactory(),
    default => $found->requests,
};
$app = new App($responses, $found->streams, $folder);
(new Server(
    getenv('TEST_TYPED') === 'handler' ? static fn(Nyholm\Psr7\ServerRequest $request): ResponseInterface => $app->handle($request) : $app,
    factories: getenv('TEST_TYPED') === 'factories' ? $found : null,
    server: getenv('TEST_BESIDE') === 'on' ? new Fermata\Server() : null,
    globals: getenv('TEST_GLOBALS') !== 'off',
    public: "$folder/public",
    bodyBytes: 20_000_000,
    uploadBytes: 1000,
    requestsMax: (int) getenv('TEST_REQUESTS_MAX'),
))->run();
