<?php

declare(strict_types=1);

// Symfony application for the tests of the bridge. Only the runtime differs from an ordinary application.

namespace Fermata\Tests\Frameworks\Symfony;

use Fermata\{Channels, Hold, Server};
use Fermata\Symfony\{FermataBundle, NativeResponse, RoutesInterface, Runtime};
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\EventDispatcher\EventSubscriberInterface;
use Symfony\Component\HttpFoundation\{BinaryFileResponse, Cookie, JsonResponse, Request, Response, StreamedResponse};
use Symfony\Component\HttpKernel\DataCollector\DumpDataCollector;
use Symfony\Component\HttpKernel\Event\{ExceptionEvent, TerminateEvent};
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\HttpKernel\KernelEvents;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;
use Symfony\Component\VarDumper\Cloner\VarCloner;
use Symfony\Component\VarDumper\VarDumper;
use Symfony\Contracts\Service\ResetInterface;

require_once dirname(__DIR__, 2) . '/autoload.php';
foreach (['Bundle/FrameworkBundle', 'Component/Runtime', 'Component/Console', 'Component/Dotenv', 'Component/Yaml', 'Component/Mime', 'Component/Mercure'] as $package) {
    require_once "Symfony/$package/autoload.php";
}
// Symfony 6 calls Composer\InstalledVersions, which Debian's packages do not load.
if (!class_exists(\Composer\InstalledVersions::class) && stream_resolve_include_path('Composer/InstalledVersions.php')) {
    require_once 'Composer/InstalledVersions.php';
}

/** Version of the code at the start of the process. */
define(__NAMESPACE__ . '\VERSION', (string) @file_get_contents(getenv('TEST_FOLDER') . '/version'));

/** Service that stores data of a request until it is reset. */
final class Memory implements ResetInterface
{
    public ?string $user = null;
    public int $resets = 0;

    public function reset(): void
    {
        $this->user = null;
        $this->resets++;
    }
}

final class Late implements EventSubscriberInterface
{
    public static function getSubscribedEvents(): array
    {
        return [KernelEvents::TERMINATE => 'terminate', KernelEvents::EXCEPTION => ['fail', 1000]];
    }

    /** Listener that throws, so that no other listener sets a response. */
    public function fail(ExceptionEvent $event): void
    {
        if ($event->getThrowable() instanceof \DomainException) {
            throw new \DomainException('of the listener', 0, $event->getThrowable());
        }
    }

    public function terminate(TerminateEvent $event): void
    {
        if ($event->getRequest()->getPathInfo() === '/late') {
            // Blocks the worker until the client has read the response, which must be sent before this code runs.
            for ($deadline = microtime(true) + 30; !file_exists(getenv('TEST_FOLDER') . '/answered') && microtime(true) < $deadline; usleep(2000)) {
                clearstatcache();
            }
            file_put_contents(getenv('TEST_FOLDER') . '/terminated', microtime(true) < $deadline ? 'after the answer' : 'before the answer');
        }
    }
}

/** The transaction methods of a Doctrine connection. */
final class Connection
{
    private ?\PDO $pdo = null;
    private int $level = 0;
    private bool $commits = true;

    private function connect(): void
    {
        $this->pdo ??= new \PDO('sqlite:' . getenv('TEST_FOLDER') . '/rows.sqlite', options: [\PDO::ATTR_ERRMODE => \PDO::ERRMODE_EXCEPTION]);
        $this->pdo->exec('CREATE TABLE IF NOT EXISTS rows (text TEXT)');
    }

    public function add(int $begins, bool $commits): int
    {
        $this->connect();
        $this->commits = $commits;
        if (!$commits && $this->level === 0) {
            $this->pdo->beginTransaction();
            $this->level = 1;
        }
        for (; $begins > 0; $begins--) {
            $this->level++ === 0 && $this->pdo->beginTransaction();
        }
        $this->pdo->exec("INSERT INTO rows VALUES ('row')");
        return (int) $this->pdo->query('SELECT count(*) FROM rows')->fetchColumn();
    }

    public function isTransactionActive(): bool
    {
        return $this->level > 0;
    }

    public function isAutoCommit(): bool
    {
        return $this->commits;
    }

    public function getTransactionNestingLevel(): int
    {
        return $this->level;
    }

    /** Like Doctrine, starts another transaction immediately if auto-commit is off. */
    public function rollBack(): void
    {
        if (--$this->level === 0) {
            $this->pdo->rollBack();
            if (!$this->commits) {
                $this->pdo->beginTransaction();
                $this->level = 1;
            }
        }
    }

    public function close(): void
    {
        $this->pdo = null;
        $this->level = 0;
    }
}

final class Sockets implements RoutesInterface
{
    public function addTo(Server $server): void
    {
        $server->get('/native', static fn(): \Fermata\Response => \Fermata\Response::text('native'));
    }
}

final class TestKernel extends Kernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle(), new FermataBundle()];
    }

    public function getProjectDir(): string
    {
        return (string) getenv('TEST_FOLDER');
    }

    /** Sets the dump handler like DebugBundle. */
    public function boot(): void
    {
        parent::boot();
        if (getenv('TEST_DUMPS')) {
            VarDumper::setHandler(fn(mixed $value) => $this->container->get('data_collector.dump')->dump((new VarCloner())->cloneVar($value)));
        }
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', [
            'secret' => 'test',
            'test' => false,
            'http_method_override' => false,
            'session' => ['storage_factory_id' => 'session.storage.factory.native', 'handler_id' => null, 'save_path' => getenv('TEST_FOLDER'), 'cookie_secure' => 'auto', 'cookie_samesite' => 'lax'],
            'router' => ['utf8' => true],
        ]);
        $services = $container->services()->defaults()->autowire()->autoconfigure();
        $services->set(Memory::class)->public();
        $services->set(Late::class);
        $services->set(Sockets::class);
        $services->set(Connection::class)->public();
        $container->parameters()->set('doctrine.connections', ['default' => Connection::class, 'other' => 'unused.connection']);
        $services->set('logger', \Psr\Log\NullLogger::class);
        if (getenv('TEST_DUMPS')) {
            $services->set('data_collector.dump', DumpDataCollector::class)->autowire(false)->public()->tag('kernel.reset', ['method' => 'reset']);
        }
        $services->alias('test.channels', Channels::class)->public();
        $services->alias('test.hub', \Symfony\Component\Mercure\HubInterface::class)->public();
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('all', '/{action}')->controller([self::class, 'act'])->defaults(['action' => 'index'])->requirements(['action' => '.*']);
    }

    public function act(Request $request, string $action, \Fermata\Request $native): Response
    {
        $folder = (string) getenv('TEST_FOLDER');
        $memory = $this->container->get(Memory::class);
        return match ($action) {
            '', 'index' => new Response('Hello ' . $request->query->get('name', 'nobody')),
            'hints' => $this->hint(),
            'deprecated' => new Response(trigger_error('an old way', E_USER_DEPRECATED) ? 'deprecated' : ''),
            'version' => new Response(VERSION),
            'refused-file' => new JsonResponse([$request->files->get('one')->getError(), $request->files->get('one')->getClientOriginalName()]),
            'reason' => (new Response('x'))->setStatusCode(299, 'Own Phrase'),
            'long-reason' => (new Response('x'))->setStatusCode(404, str_repeat('x', 300)),
            'split-reason' => (new Response('x'))->setStatusCode(404, "Own\r\nX-Own: phrase"),
            'all' => new JsonResponse([
                'method' => $request->getMethod(), 'uri' => $request->getUri(), 'query' => $request->query->all(), 'post' => $request->request->all(),
                'cookies' => $request->cookies->all(), 'ip' => $request->getClientIp(), 'base' => $request->getBaseUrl(), 'path' => $request->getPathInfo(),
                'content' => $request->getContent(), 'protocol' => $request->server->get('SERVER_PROTOCOL'), 'native' => $native->path(),
                'env' => $request->server->get('APP_ENV'), 'secure' => $request->isSecure(),
            ]),
            'remember' => new Response(($memory->user ?? 'none') . ' ' . ($memory->user = $request->query->get('user'))),
            'resets' => new Response((string) $memory->resets),
            'session' => $this->session($request),
            'secret' => $this->secret($request, $memory),
            'used' => new JsonResponse(\Fermata\Tests\Php::used()),
            'cookies' => $this->cookies(),
            'streamed' => new StreamedResponse(function (): void {
                echo 'first';
                flush();
                \Fermata\delay(0.05);
                echo ' second';
            }, 201, ['Content-Type' => 'text/x']),
            'file' => new BinaryFileResponse("$folder/large.bin", 200, ['X-Own' => 'yes']),
            'download' => (new BinaryFileResponse("$folder/large.bin"))->setContentDisposition('attachment', 'näme.bin'),
            'gone-after' => $this->temporary($folder),
            'upload' => $this->upload($request, $folder),
            'held' => new NativeResponse(Hold::sse('news')->since($native->lastEventId())),
            'native-file' => $this->withMany(new NativeResponse(\Fermata\Response::file("$folder/large.bin"))),
            'publish' => $this->publish($request),
            'hub' => new Response($this->container->get('test.hub')->publish(new \Symfony\Component\Mercure\Update(['other', 'news'], 'updated', type: 'named'))),
            'late' => new Response('early'),
            'printed' => new Response((print 'printed ') ? 'and answered' : ''),
            'exit' => $this->leave(),
            'type-error' => (static fn(int $number): Response => new Response())('none'),
            'mode' => new Response((string) ($_SERVER['APP_RUNTIME_MODE'] ?? 'none')),
            'dd' => dd('shown'),
            'printed-stream' => new StreamedResponse((print 'before ') ? static fn() => print 'streamed' : null),
            'flushed' => new StreamedResponse(function (): void {
                foreach (['first', ' second'] as $piece) {
                    echo $piece;
                    ob_flush();
                    flush();
                }
            }),
            'add' => new Response((string) $this->container->get(Connection::class)->add((int) $request->query->get('begins'), $request->query->get('commits', '1') === '1') . ($request->query->has('exit') ? exit(print 'left') : '')),
            'escapes' => throw new \DomainException('not for the client'),
            'sapi' => new Response(PHP_SAPI . ' ' . php_sapi_name()),
            'broken' => throw new \RuntimeException('a detail'),
            'state' => new JsonResponse([$_GET, date_default_timezone_get(), ini_get('precision'), setlocale(LC_NUMERIC, '0'), error_reporting(), ob_get_level(), headers_list(),
                session_status(), getenv('LEFT'), http_response_code()]),
            'leave-state' => $this->leaveState(),
            default => new Response("nothing at $action", 404),
        };
    }

    private function session(Request $request): Response
    {
        $session = $request->getSession();
        $session->set('visits', $session->get('visits', 0) + 1);
        if ($request->query->has('migrate')) {
            $session->migrate();
        }
        return new Response((string) $session->get('visits'));
    }

    private function secret(Request $request, Memory $memory): Response
    {
        $session = $request->getSession();
        $token = $request->query->get('token');
        $session->set('token', $session->get('token') ?? $token);
        $session->set('visits', $session->get('visits', 0) + 1);
        $seen = [$session->get('token'), $session->get('visits'), $memory->user, $_GET['token'], $_SERVER['QUERY_STRING'], ini_get('precision')];
        $memory->user = $token;
        ini_set('precision', (string) random_int(3, 9));
        match ($request->query->get('end')) {
            'exit' => $this->leave(),
            'throw' => throw new \RuntimeException("of $token"),
            default => null,
        };
        return $request->query->get('end') === 'stream'
            ? new StreamedResponse(static function () use ($seen): void { echo json_encode($seen), str_repeat(' ', 500_000); })
            : new JsonResponse($seen);
    }

    private function withMany(Response $response): Response
    {
        $response->headers->set('X-Many', ['a', 'b']);
        $response->headers->setCookie(Cookie::create('a', '1'));
        $response->headers->setCookie(Cookie::create('b', '2'));
        return $response;
    }

    private function cookies(): Response
    {
        $response = new Response('cookies');
        $response->headers->setCookie(Cookie::create('a', '1'));
        $response->headers->setCookie(Cookie::create('b', '2', httpOnly: false));
        return $response;
    }

    private function temporary(string $folder): Response
    {
        file_put_contents("$folder/once", str_repeat('o', 300_000));
        return (new BinaryFileResponse("$folder/once"))->deleteFileAfterSend();
    }

    private function upload(Request $request, string $folder): Response
    {
        $file = $request->files->get('one');
        $many = $request->files->get('many');
        $text = [$file->getClientOriginalName(), $file->isValid(), $file->getContent(), count($many), $request->request->get('title')];
        $file->move($folder, 'moved.txt');
        return new JsonResponse([...$text, file_get_contents("$folder/moved.txt")]);
    }

    private function publish(Request $request): Response
    {
        $this->container->get('test.channels')->publish('news', $request->getContent());
        return new Response('published');
    }

    /** Does the same as AbstractController::sendEarlyHints() of Symfony 6.3 and later. */
    private function hint(): Response
    {
        header('Link: </app.css>; rel=preload; as=style');
        return new Response((string) headers_send(103));
    }

    private function leave(): never
    {
        $this->container->get(Memory::class)->user = 'left by exit';
        echo 'dumped';
        exit(1);
    }

    private function leaveState(): Response
    {
        date_default_timezone_set('Asia/Tokyo');
        ini_set('precision', '3');
        setlocale(LC_ALL, 'C.UTF-8');
        putenv('LEFT=here');
        set_error_handler(static fn(): bool => true);
        error_reporting(0);
        ob_start();
        header('X-Left: here');
        http_response_code(418);
        return new Response('left');
    }
}

if (getenv('TEST_CONSOLE')) {
    // Like bin/console.
    exit((new \Symfony\Bundle\FrameworkBundle\Console\Application(new TestKernel('prod', false)))->run());
}

/** Like vendor/autoload_runtime.php. */
$class = $_SERVER['APP_RUNTIME'] ?? Runtime::class;
$runtime = new $class(['project_dir' => getenv('TEST_FOLDER'), 'disable_dotenv' => true, 'worker_loop_max' => (int) getenv('TEST_REQUESTS_MAX'), 'fermata' => ['public' => getenv('TEST_FOLDER') . '/public', 'body_bytes' => 20_000_000, 'upload_bytes' => 1000]]);
[$application, $arguments] = $runtime->getResolver(static fn(array $context): TestKernel => new TestKernel($context['APP_ENV'], (bool) $context['APP_DEBUG']))->resolve();
exit($runtime->getRunner($application(...$arguments))->run());
