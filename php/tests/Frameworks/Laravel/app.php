<?php

declare(strict_types=1);

// Serves the application in project/ with the routes for the bridge's tests.

namespace Fermata\Tests\Frameworks\Laravel;

use Fermata\Laravel\Server;
use Fermata\{Hold, Poll};
use Fermata\Symfony\NativeResponse;
use Illuminate\Auth\GenericUser;
use Illuminate\Broadcasting\{Channel, InteractsWithSockets, PresenceChannel, PrivateChannel};
use Illuminate\Contracts\Broadcasting\ShouldBroadcastNow;
use Illuminate\Contracts\Auth\{Authenticatable, UserProvider};
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Cookie\Middleware\{AddQueuedCookiesToResponse, EncryptCookies};
use Illuminate\Http\{Request, Response as LaravelResponse};
use Illuminate\Pagination\Paginator;
use Illuminate\Routing\Middleware\SubstituteBindings;
use Illuminate\Session\Middleware\StartSession;
use Illuminate\Support\Facades\{App, Auth, Broadcast, Cache, Config, Cookie, DB, Redirect, Route, URL, View};
use Illuminate\Support\ServiceProvider;
use Laravel\Octane\Facades\Octane;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Exception\NotFoundHttpException;

use function Fermata\delay;

require_once dirname(__DIR__, 2) . '/autoload.php';
require_once 'Illuminate/autoload.php';

/** Waits. If a handler calls it, the worker runs other handlers during the wait. */
function pause(float $seconds): void
{
    Poll::inHandler() ? delay($seconds) : usleep((int) ($seconds * 1e6));
}

final class Kernel extends \Illuminate\Foundation\Http\Kernel
{
    protected $middlewareGroups = ['web' => [EncryptCookies::class, AddQueuedCookiesToResponse::class, StartSession::class, SubstituteBindings::class]];
}

/** User provider that accepts every id without a password. */
final class Named implements UserProvider
{
    public function retrieveById($identifier): GenericUser
    {
        return new GenericUser(['id' => $identifier, 'remember_token' => null]);
    }

    public function retrieveByToken($identifier, $token): ?Authenticatable
    {
        return null;
    }

    public function updateRememberToken(Authenticatable $user, $token): void {}

    public function retrieveByCredentials(array $credentials): ?Authenticatable
    {
        return null;
    }

    public function validateCredentials(Authenticatable $user, array $credentials): bool
    {
        return false;
    }
}

final class Counter
{
    public int $count = 0;
}

/** Scoped service: one instance per request. */
final class Scoped
{
    public int $count = 0;
}

final class Page
{
    private int $calls = 0;

    public function show(Request $request): string
    {
        $this->calls++;
        return $request->has('exit') ? exit(print 'dumped') : (string) $this->calls;
    }
}

/** Middleware that records its termination. */
final class Ends
{
    public function handle(Request $request, \Closure $next): mixed
    {
        return $next($request);
    }

    public function terminate(Request $request, Response $response): void
    {
        file_put_contents(getenv('TEST_FOLDER') . '/ended', "{$request->path()} {$response->getStatusCode()}\n", FILE_APPEND);
    }
}

/** Middleware that the container replaces by another class, which is terminated. */
final class Replaced
{
    public function handle(Request $request, \Closure $next): mixed
    {
        return new LaravelResponse('not replaced');
    }
}

final class Shipped implements ShouldBroadcastNow
{
    use InteractsWithSockets;

    public function __construct(public string $text, private readonly Channel $channel) {}

    public function broadcastOn(): Channel
    {
        return $this->channel;
    }
}

final class RouteProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->app->singleton(Counter::class);
        $this->app->scoped(Scoped::class);
        $this->app->bind(Replaced::class, Ends::class);
    }

    public function boot(): void
    {
        // Resolves the manager at boot, as many packages do.
        Auth::provider('named', static fn(): Named => new Named());
        $this->app->make(Scoped::class);
        URL::getFacadeRoot();
        Redirect::getFacadeRoot();
        $this->app->make(ExceptionHandler::class)->renderable(static fn(NotFoundHttpException $error, Request $request) => $request->is('missing')
            ? response()->json([Route::current()?->uri(), Route::getCurrentRequest()?->path()], 404) : null);
        View::share('shared', 'by all');
        DB::connection()->getPdo();
        if (class_exists(Octane::class) && (getenv('TEST_TASK_WORKERS') ?: '0') !== '0') {
            Cache::store('octane')->interval('made', static fn(): string => bin2hex(random_bytes(4)), seconds: 1);
            Octane::tick('test', static fn() => file_put_contents(getenv('TEST_FOLDER') . '/ticks', '.', FILE_APPEND));
        }
        Broadcast::channel('orders.{user}', static fn(GenericUser $user, string $owner): bool => $user->id === $owner);
        Broadcast::channel('room', static fn(GenericUser $user): array => ['name' => $user->id]);
        Route::middleware('web')->group(static function (): void {
            Broadcast::routes();
            Route::post('/ship/{kind}/{name}', static function (Request $request, string $kind, string $name): string {
                $event = new Shipped($request->getContent(), new (['public' => Channel::class, 'private' => PrivateChannel::class, 'presence' => PresenceChannel::class][$kind])($name));
                $request->query('others') ? broadcast($event)->toOthers() : event($event);
                return 'shipped';
            });
            Route::get('/', static fn(Request $request): string => 'Hello ' . $request->query('name', 'nobody'));
            Route::any('/all', static fn(Request $request): array => [
                'method' => $request->method(), 'url' => $request->fullUrl(), 'input' => $request->input(), 'ip' => $request->ip(), 'content' => $request->getContent(),
                'console' => App::runningInConsole(),
            ]);
            Route::get('/terminating', static function (): string {
                app()->terminating(static function (): void {
                    // Blocks the worker until the client has read the response, which must be sent before this code runs.
                    for ($deadline = microtime(true) + 30; !file_exists(getenv('TEST_FOLDER') . '/answered') && microtime(true) < $deadline; usleep(2000)) {
                        clearstatcache();
                    }
                    file_put_contents(getenv('TEST_FOLDER') . '/terminated', microtime(true) < $deadline ? 'after the answer' : 'before the answer');
                });
                return 'early';
            });
            Route::get('/view', static fn() => view('page', ['title' => '<Title>']));
            Route::get('/user', static fn(): string => (string) (Auth::id() ?? 'nobody'));
            Route::get('/sign-in/{name}', static function (string $name): string {
                Auth::loginUsingId($name);
                return 'in as ' . Auth::id();
            });
            Route::get('/visits', static function (Request $request): string {
                $request->session()->put('visits', $request->session()->get('visits', 0) + 1);
                return (string) $request->session()->get('visits');
            });
            Route::get('/count', static fn(): string => (string) ++app(Counter::class)->count);
            Route::get('/scoped', static fn(): string => (string) ++app(Scoped::class)->count);
            Route::get('/controller', [Page::class, 'show']);
            Route::get('/leave', static function (): string {
                Config::set('app.name', 'Changed');
                App::setLocale('de');
                Cookie::queue('left', 'here');
                Cache::put('left', 'here');
                View::share('title', 'left');
                DB::beginTransaction();
                URL::forceRootUrl('http://left.example');
                URL::defaults(['left' => 'here']);
                date_default_timezone_set('Asia/Tokyo');
                app()->instance('left', 'here');
                return 'left';
            });
            Route::get('/state', static fn(): array => [
                Config::get('app.name'), App::getLocale(), Cookie::hasQueued('left'), Cache::get('left'), View::shared('title'), date_default_timezone_get(), app()->bound('left'),
                DB::transactionLevel(), request()->path(), url('/x'), Auth::check(), URL::getDefaultParameters(), \Carbon\Carbon::getLocale(), \Carbon\CarbonImmutable::getLocale(),
            ]);
            Route::get('/locale', static function (): string {
                App::setLocale('de');
                return \Carbon\Carbon::parse('2026-03-01')->translatedFormat('F');
            });
            Route::get('/month', static fn(): string => \Carbon\Carbon::parse('2026-03-01')->translatedFormat('F'));
            Route::get('/previous', static fn(): string => url()->previous());
            Route::get('/redirect', static fn() => redirect('/x'));
            Route::get('/page', static fn(): array => [Paginator::resolveCurrentPage(), Paginator::resolveCurrentPath()]);
            Route::get('/transaction', static function (Request $request): string {
                DB::beginTransaction();
                DB::statement('CREATE TABLE written (text TEXT)');
                return $request->has('exit') ? exit(print 'dumped') : 'written';
            });
            Route::get('/exit', static function (): never {
                Auth::loginUsingId('exiting');
                echo 'dumped';
                exit;
            });
            Route::get('/dd', static fn() => dd('shown'));
            Route::get('/secret', static function (Request $request, Counter $memory) {
                $session = $request->session();
                $token = $request->query('token');
                $session->put('token', $session->get('token') ?? $token);
                $session->put('visits', $session->get('visits', 0) + 1);
                $seen = [$session->get('token'), $session->get('visits'), View::shared('user'), $_GET['token'], $_SERVER['QUERY_STRING'], ini_get('precision')];
                View::share('user', $token);
                ini_set('precision', (string) random_int(3, 9));
                // Save now: exit() and a disconnected client skip Laravel's save at the end of the request.
                $session->save();
                match ($request->query('end')) {
                    'exit' => exit(print 'dumped'),
                    'throw' => throw new \RuntimeException("of $token"),
                    default => null,
                };
                return $request->query('end') === 'stream'
                    ? response()->stream(static function () use ($seen): void { echo json_encode($seen), str_repeat(' ', 500_000); })
                    : response()->json($seen);
            });
            Route::get('/ends', static fn(): string => 'ends')->middleware([Ends::class . ':1', Replaced::class]);
            Route::get('/ends-once', static fn(): string => 'ends')->middleware([Ends::class, Replaced::class])->withoutMiddleware(Replaced::class);
            Route::aliasMiddleware('closure', static fn(Request $request, \Closure $next): mixed => $next($request));
            Route::get('/ends-closure', static fn(): string => 'ends')->middleware(['closure', Ends::class]);
            Route::any('/captured', static function (Request $request): array {
                $parts = static fn(Request $it): array => [
                    $it->query->all(), $it->request->all(), $it->request === $it->query, $it->cookies->keys(), $it->files->all(), $it->server->all(), $it->headers->all(),
                    $it->getContent(), $it->input(), $it->method(), $it->getRealMethod(), $it->getUser(), $it->getRequestFormat(null),
                ];
                $given = $parts($request);
                return [$given === $parts(Request::capture()), $given[8], $given[9], $given[11]];
            });
            Route::get('/cycles', static fn(): int => gc_collect_cycles());
            Route::get('/used', static fn(): array => \Fermata\Tests\Php::used());
            Route::get('/opened', static fn(): string => DB::connection()->getRawPdo() instanceof \PDO ? 'before the start' : 'by nobody');
            Route::get('/concurrently', static function (Request $request): array {
                $wait = (float) $request->query('wait', '0');
                return Octane::concurrently([
                    'a' => static function (): string { pause(0.01); return 'first ' . getmypid(); },
                    'b' => static fn(): string => 'second ' . getmypid(),
                    'late' => static function () use ($wait): string { pause($wait); return 'late'; },
                ], (int) $request->query('ms', '30000')) + ['own' => getmypid()];
            });
            Route::get('/concurrently/throw', static function (): string {
                try {
                    Octane::concurrently([static fn() => throw new \DomainException('no such thing')]);
                } catch (\Laravel\Octane\Exceptions\TaskException $error) {
                    return $error->getClass() . ': ' . $error->getMessage();
                }
            });
            Route::get('/concurrently/own-time', static function (): string {
                $others = getenv('TEST_FOLDER') . '/others';
                @unlink($others);
                try {
                    Octane::concurrently([
                        static fn() => throw new \Fermata\Exception\TimeoutException('its own time is over'),
                        static function () use ($others): bool { pause(0.2); return touch($others); },
                    ], 30000);
                } catch (\Laravel\Octane\Exceptions\TaskException $error) {
                    return $error->getMessage() . (is_file($others) ? ', and the others went on' : '');
                }
            });
            Route::get('/dispatch', static function (): string {
                $file = getenv('TEST_FOLDER') . '/dispatched';
                app(\Laravel\Octane\Contracts\DispatchesTasks::class)->dispatch([static fn() => file_put_contents($file, 'done')]);
                return $file;
            });
            Route::get('/ticks', static fn(): string => (string) @file_get_contents(getenv('TEST_FOLDER') . '/ticks'));
            Route::get('/table', static function (): array {
                $table = Octane::table('example');
                $set = $table->set('uuid', ['name' => 'Ada', 'votes' => '7', 'unknown' => true]);
                $changed = $table->set('uuid', ['score' => 1]);
                $sums = [$table->incr('uuid', 'votes', 3), $table->decr('uuid', 'score', 0.5)];
                $rows = [];
                foreach ($table as $key => $row) {
                    $rows[$key] = $row;
                }
                $found = [$table->get('uuid'), $table->get('uuid', 'name'), $table->get('none'), $table->get('none', 'name'), $table->exist('uuid'), $table->exists('none')];
                return [$table instanceof \Swoole\Table, $set, $changed, $sums, $rows, $found, count($table), $table->del('uuid'), $table->delete('uuid'), count($table), $table->getSize()];
            });
            Route::get('/table/too-long', static function (): string {
                try {
                    Octane::table('example')->set('uuid', ['name' => 'much too long for it']);
                } catch (\Laravel\Octane\Exceptions\ValueTooLargeForColumnException $error) {
                    return $error->getMessage();
                }
            });
            Route::get('/table/unknown', static function (): string {
                try {
                    Octane::table('unknown');
                } catch (\Exception $error) {
                    return $error->getMessage();
                }
            });
            Route::get('/table/tasks', static function (): array {
                $tasks = array_fill(0, 3, static fn() => Octane::table('example')->incr('counted', 'votes'));
                Octane::concurrently($tasks, 30000);
                return [Octane::table('example')->get('counted', 'votes')];
            });
            Route::get('/cache/put', static function (Request $request): array {
                $cache = Cache::store('octane');
                return [$cache->put($request->query('key'), ['value' => $request->query('value')], (int) $request->query('seconds', '60')), getmypid()];
            });
            Route::get('/cache/get', static fn(Request $request): array => [Cache::store('octane')->get($request->query('key')), getmypid()]);
            Route::get('/cache/all', static function (): array {
                $cache = Cache::store('octane');
                $cache->flush();
                $counted = [$cache->increment('count'), $cache->increment('count', 4), $cache->decrement('count')];
                $remembered = [$cache->remember('once', 60, static fn() => 'made'), $cache->remember('once', 60, static fn() => 'made again')];
                $many = [$cache->putMany(['a' => 1, 'b' => 2], 60), $cache->many(['a', 'b', 'none'])];
                return [$counted, $remembered, $many, $cache->forget('a'), $cache->get('a', 'gone'), $cache->flush(), $cache->get('b')];
            });
            Route::get('/cache/full', static function (): array {
                $cache = Cache::store('octane');
                $cache->flush();
                // Octane itself uses up to three of the 8 rows: an interval, its value, and the time of the last tick.
                for ($i = 0; $i < 5; $i++) {
                    $cache->put("old $i", $i, 1);
                }
                sleep(2);
                for ($i = 0; $i < 5; $i++) {
                    $cache->put("new $i", $i, 60);
                }
                $kept = array_filter($cache->many(array_map(static fn(int $i): string => "new $i", range(0, 4))), static fn($value): bool => $value !== null);
                try {
                    for ($i = 0; $i < 6; $i++) {
                        $cache->put("more $i", $i, 60);
                    }
                } catch (\Fermata\Exception\BackpressureException $error) {
                    return [count($kept), $error->getMessage(), $cache->flush()];
                }
            });
            Route::get('/cache/interval', static fn(): array => [Cache::store('octane')->get('made')]);
            Route::get('/fatal', static fn(): string => str_repeat('x', 1 << 30));
            Route::get('/sapi', static fn(): string => PHP_SAPI . ' ' . php_sapi_name());
            Route::get('/throw', static fn() => throw new \RuntimeException('a detail'));
            Route::get('/file', static fn() => response()->file(getenv('TEST_FOLDER') . '/large.bin'));
            Route::get('/download', static fn() => response()->streamDownload(static function (): void { echo str_repeat('d', 100_000); }, 'd.txt'));
            Route::get('/events', static fn(\Fermata\Request $native): NativeResponse => new NativeResponse(Hold::sse('news')->since($native->lastEventId())));
            Route::post('/publish', static function (Request $request): string {
                Broadcast::connection()->broadcast(['news'], 'posted', ['text' => $request->getContent()]);
                return 'published';
            });
        });
    }
}

if (getenv('TEST_CONSOLE')) {
    // Boot the console application first, like `artisan fermata:start`.
    (require __DIR__ . '/project/bootstrap/app.php')->make(\Illuminate\Contracts\Console\Kernel::class)->bootstrap();
}
(new Server(__DIR__ . '/project', requestsMax: (int) getenv('TEST_REQUESTS_MAX'), taskWorkers: (int) getenv('TEST_TASK_WORKERS')))->run();
