<?php

/**
 * The classes of the extension, for editors and static analysers; never loaded.
 * Written by scripts/stubs.php from ext/fermata.stub.php.
 */

namespace Fermata {
    /**
     * A production HTTP server inside `php server.php`.
     *
     * The script registers routes and calls run(), which binds, forks the workers and supervises them.
     * A handler takes the Request and returns a Response or a Hold; it may throw, exit or fail fatally
     * without harming other clients.
     */
    final class Server
    {
        /**
         * Every argument left out takes its value from `FERMATA_*` in the environment, else from the INI setting
         * of the same name, else from the built-in default. The environment wins over arguments too.
         *
         * @param string|array|null $listen "http://HOST:PORT" or "https://HOST:PORT", or several of them; port 0 takes
         *        any free one. Default http://127.0.0.1:8080.
         *        The environment variable PORT replaces the port of the first, FERMATA_LISTEN the whole.
         * @param int|null $workers worker processes, 1 to 256. Default: the number of usable cores, up to 64.
         * @param string|null $control "unix:/path.sock" to accept Publisher clients. Default: none.
         * @param Limits|null $limits bounds on connections, bytes and times
         * @param History|null $history how much each channel remembers
         * @param Log|null $log format and level of the lines on standard error
         * @param Tls|null $tls certificates for https addresses
         * @param list<string>|null $trustedProxies of addresses, networks such as "10.0.0.0/8", or "unix": proxies in front
         *        that tell by the headers of $proxyHeaders who the client is
         * @param AccessLog|null $accessLog a line for every request. Default: none.
         * @param string|null $metrics "http://HOST:PORT" that answers GET /metrics, /health/live and /health/ready.
         *        Default: none.
         * @param string|null $gripUrl GRIP edges in front, such as "http://localhost:5561?key=SECRET": clients of requests that
         *        they have signed are held by them, and they are told what is published. Default: the variable GRIP_URL,
         *        else none.
         * @param list<string>|null $proxyHeaders of the headers that the proxies of $trustedProxies write: "forwarded", or
         *        some of "x-forwarded-for", "x-forwarded-proto" and "x-forwarded-host". Default: the first two of these.
         * @param string|null $cluster "nats://HOST:PORT" or "redis://HOST:PORT", over TLS "tls://HOST:PORT" or "rediss://HOST:PORT", or
         *        several with commas between them: the log that several machines share, so that what one publishes reaches the clients
         *        of all. Default: none.
         * @throws Exception\ConfigurationException when a value is outside its range; the message names the setting
         */
        public function __construct(
            string|array|null $listen = null,
            ?int $workers = null,
            ?string $control = null,
            ?Limits $limits = null,
            ?History $history = null,
            ?Log $log = null,
            ?Tls $tls = null,
            ?array $trustedProxies = null,
            ?AccessLog $accessLog = null,
            ?string $metrics = null,
            #[\SensitiveParameter] ?string $gripUrl = null,
            ?array $proxyHeaders = null,
            #[\SensitiveParameter] ?string $cluster = null,
        ) {}

        /**
         * Answers GET, and HEAD without the body.
         *
         * @param string $path literal segments, `{name}` for one non-empty segment, `{name...}` for the rest of the path.
         *        A literal segment beats `{name}`, which beats `{name...}`.
         * @param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @phpstan-param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @psalm-param (callable(Request): (Response|Hold))|(callable(mixed...): (Response|Hold)) $handler
         * @param list<callable> $middleware around this handler alone, the first outermost; see use()
         * @param int|null $bodyBytes bytes that a request's body may have here, in place of the settings body_bytes_max,
         *        multipart_bytes_max and upload_bytes_max; over it the answer is 413
         * @param bool $streamBody call the handler as soon as the head has come; it reads the body while that arrives, by
         *        Request::read() or bodyStream(), and forms are not taken apart
         * @throws Exception\MisuseError when the pattern is malformed, already taken for this method, or run() was called
         */
        public function get(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /**
         * Answers POST; see get() for the arguments.
         * @param string $path literal segments, `{name}` for one non-empty segment, `{name...}` for the rest of the path.
         *        A literal segment beats `{name}`, which beats `{name...}`.
         * @param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @phpstan-param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @psalm-param (callable(Request): (Response|Hold))|(callable(mixed...): (Response|Hold)) $handler
         * @param list<callable> $middleware around this handler alone, the first outermost; see use()
         * @param int|null $bodyBytes bytes that a request's body may have here, in place of the settings body_bytes_max,
         *        multipart_bytes_max and upload_bytes_max; over it the answer is 413
         * @param bool $streamBody call the handler as soon as the head has come; it reads the body while that arrives, by
         *        Request::read() or bodyStream(), and forms are not taken apart
         */
        public function post(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /**
         * Answers PUT; see get() for the arguments.
         * @param string $path literal segments, `{name}` for one non-empty segment, `{name...}` for the rest of the path.
         *        A literal segment beats `{name}`, which beats `{name...}`.
         * @param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @phpstan-param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @psalm-param (callable(Request): (Response|Hold))|(callable(mixed...): (Response|Hold)) $handler
         * @param list<callable> $middleware around this handler alone, the first outermost; see use()
         * @param int|null $bodyBytes bytes that a request's body may have here, in place of the settings body_bytes_max,
         *        multipart_bytes_max and upload_bytes_max; over it the answer is 413
         * @param bool $streamBody call the handler as soon as the head has come; it reads the body while that arrives, by
         *        Request::read() or bodyStream(), and forms are not taken apart
         */
        public function put(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /**
         * Answers PATCH; see get() for the arguments.
         * @param string $path literal segments, `{name}` for one non-empty segment, `{name...}` for the rest of the path.
         *        A literal segment beats `{name}`, which beats `{name...}`.
         * @param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @phpstan-param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @psalm-param (callable(Request): (Response|Hold))|(callable(mixed...): (Response|Hold)) $handler
         * @param list<callable> $middleware around this handler alone, the first outermost; see use()
         * @param int|null $bodyBytes bytes that a request's body may have here, in place of the settings body_bytes_max,
         *        multipart_bytes_max and upload_bytes_max; over it the answer is 413
         * @param bool $streamBody call the handler as soon as the head has come; it reads the body while that arrives, by
         *        Request::read() or bodyStream(), and forms are not taken apart
         */
        public function patch(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /**
         * Answers DELETE; see get() for the arguments.
         * @param string $path literal segments, `{name}` for one non-empty segment, `{name...}` for the rest of the path.
         *        A literal segment beats `{name}`, which beats `{name...}`.
         * @param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @phpstan-param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @psalm-param (callable(Request): (Response|Hold))|(callable(mixed...): (Response|Hold)) $handler
         * @param list<callable> $middleware around this handler alone, the first outermost; see use()
         * @param int|null $bodyBytes bytes that a request's body may have here, in place of the settings body_bytes_max,
         *        multipart_bytes_max and upload_bytes_max; over it the answer is 413
         * @param bool $streamBody call the handler as soon as the head has come; it reads the body while that arrives, by
         *        Request::read() or bodyStream(), and forms are not taken apart
         */
        public function delete(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /**
         * Answers OPTIONS in place of the built-in answer with `Allow`; see get() for the arguments.
         * @param string $path literal segments, `{name}` for one non-empty segment, `{name...}` for the rest of the path.
         *        A literal segment beats `{name}`, which beats `{name...}`.
         * @param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @phpstan-param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @psalm-param (callable(Request): (Response|Hold))|(callable(mixed...): (Response|Hold)) $handler
         * @param list<callable> $middleware around this handler alone, the first outermost; see use()
         * @param int|null $bodyBytes bytes that a request's body may have here, in place of the settings body_bytes_max,
         *        multipart_bytes_max and upload_bytes_max; over it the answer is 413
         * @param bool $streamBody call the handler as soon as the head has come; it reads the body while that arrives, by
         *        Request::read() or bodyStream(), and forms are not taken apart
         */
        public function options(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /**
         * Answers every method that has no handler of its own for this path; see get() for the arguments.
         * @param string $path literal segments, `{name}` for one non-empty segment, `{name...}` for the rest of the path.
         *        A literal segment beats `{name}`, which beats `{name...}`.
         * @param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @phpstan-param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @psalm-param (callable(Request): (Response|Hold))|(callable(mixed...): (Response|Hold)) $handler
         * @param list<callable> $middleware around this handler alone, the first outermost; see use()
         * @param int|null $bodyBytes bytes that a request's body may have here, in place of the settings body_bytes_max,
         *        multipart_bytes_max and upload_bytes_max; over it the answer is 413
         * @param bool $streamBody call the handler as soon as the head has come; it reads the body while that arrives, by
         *        Request::read() or bodyStream(), and forms are not taken apart
         */
        public function any(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /**
         * Routes with a common prefix and common middleware.
         *
         * @param string $prefix such as "/api"; may have parameters
         * @param callable(Routes): mixed $routes called at once to add them
         * @param list<callable> $middleware around the group's handlers, the first outermost; see use()
         * @throws Exception\MisuseError when the prefix is malformed or run() was called
         */
        public function group(string $prefix, callable $routes, array $middleware = []): static {}

        /**
         * Puts middleware around every handler, in whatever order they are added; the first given is outermost.
         *
         * A middleware is a function (Request $request, callable $next): Response|Hold. It answers by itself or returns what
         * $next($request) returns, changed or not. Paths that nothing knows, wrong methods, OPTIONS,
         * static files and handshakes of WebSockets pass through it as well.
         *
         * @throws Exception\MisuseError when run() was called
         */
        public function use(callable ...$middleware): static {}

        /**
         * Answers paths that nothing knows, in place of the built-in 404. Middleware given to use() is around it.
         *
         * @param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @phpstan-param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold)) $handler
         * @psalm-param (callable(Request): (Response|Hold))|(callable(mixed...): (Response|Hold)) $handler
         * @throws Exception\MisuseError when there is such a handler already, or run() was called
         */
        public function notFound(callable $handler): static {}

        /**
         * Answers for a handler or middleware that has thrown, in place of the built-in 500 (400 for BadRequestException).
         *
         * The log has the exception already. When the error handler throws in turn, the client gets the built-in answer.
         * There is nothing to catch after a fatal error or exit(): these are answered 500.
         *
         * @param callable(Throwable, Request): (Response|Hold) $handler
         * @throws Exception\MisuseError when there is such a handler already, or run() was called
         */
        public function error(callable $handler): static {}

        /**
         * Serves the files below a directory without running PHP.
         *
         * Hidden files, and links that lead out of the directory, are answered 404; a directory serves its index.
         * Conditional requests and ranges are met, and clients that read br, zstd or gzip get text compressed.
         *
         * @param string $prefix path prefix such as "/assets"
         * @param string $directory an existing directory
         * @param int|null $cacheSeconds how long clients may use a file without asking (Cache-Control: max-age); 0 makes
         *        them ask every time, null leaves it to them
         * @param bool $immutable files never change under their name, so clients need not ask even on a reload
         * @param string $index the file served for a path that ends in a slash; "" for none
         * @param bool $precompressed send app.js.br, app.js.zst or app.js.gz in place of app.js when it is there
         * @param bool $compress compress files without such a sibling, within the settings compression_bytes_*
         * @param bool $sources send programs (.php*, .phtml, .phar, .inc, also packed or put aside) as text; otherwise they are 404
         * @param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold))|null $fallback answers below the prefix what no file does: paths
         *        without one, and every method but GET and HEAD. That is how front controllers are served.
         * @phpstan-param (callable(Request): (Response|Hold))|(callable(never...): (Response|Hold))|null $fallback
         * @psalm-param (callable(Request): (Response|Hold))|(callable(mixed...): (Response|Hold))|null $fallback
         * @throws Exception\MisuseError when the prefix is malformed, the directory cannot be read or an option cannot work
         */
        public function static(
            string $prefix,
            string $directory,
            ?int $cacheSeconds = null,
            bool $immutable = false,
            string $index = 'index.html',
            bool $precompressed = true,
            bool $compress = true,
            bool $sources = false,
            ?callable $fallback = null,
        ): static {}

        /**
         * Has PHP-FPM, or another program that speaks FastCGI, answer the paths below a prefix that no route of this server answers.
         * No PHP of the server's runs for it, neither a Fiber nor middleware.
         *
         * Files below the root are sent as static() does it, and never the source of a script. A path that names a script below
         * the root runs that, with the rest as PATH_INFO; a folder runs its index.php; everything else runs the index.
         * PHP-FPM that cannot be reached or breaks off is a 502, one that is silent a 504; the log says why.
         *
         * @param string $prefix "/" for everything, or such as "/old": what paths have in front and the root has not
         * @param string $socket where PHP-FPM listens: the path of its Unix socket, or HOST:PORT
         * @param string $root the folder of the scripts, as PHP-FPM's machine has it
         * @param string|null $index the script below the root that answers what no other does; null: paths have to name one
         * @param bool $files the root is a folder of this machine too; false: nothing is looked for there, and the index answers
         *        every path
         * @param int $connections that each worker has to PHP-FPM at most, 1 to 1,024: one for each request that is in progress
         * @param int $queue requests of a worker that wait for a connection at most, 1 to 65,536; one more is a 503
         * @param float $timeout seconds that PHP-FPM may be silent or take nothing, and that a request may wait for a connection
         * @param float $keepAlive seconds that a connection is kept for another request. A kept one occupies its child of PHP-FPM:
         *        pm.max_children has to be more than the connections of all workers. 0 opens one for each request
         * @param int|null $bodyBytes bytes that a request's body may have, in place of the setting body_bytes_max; over it 413
         * @param bool $streamBody pass a body with a Content-Length on while it arrives. It occupies a child of PHP-FPM for as long
         *        as its client takes; otherwise PHP-FPM is asked when it has come, and a large one is in a file until then
         * @throws Exception\MisuseError when an argument cannot work, the prefix is taken, or run() was called
         */
        public function fastcgi(
            string $prefix,
            string $socket,
            string $root,
            ?string $index = 'index.php',
            bool $files = true,
            int $connections = 16,
            int $queue = 256,
            float $timeout = 60.0,
            float $keepAlive = 0.0,
            ?int $bodyBytes = null,
            bool $streamBody = false,
        ): static {}

        /**
         * Accepts WebSocket connections: a handler object, or a callable for each event that matters.
         *
         * The handler is one object per worker, shared by all its connections; what belongs to one of them goes into
         * WebSocket::setData(). Browsers are admitted from pages of the same host only, unless the options say otherwise.
         * A handler that throws, exits or fails fatally closes its connection with 1011 and harms no other.
         *
         * @param string $path see get() for the pattern; upgrade() can read its parameters from the request
         * @param WebSocketHandler|null $handler instead of the callables
         * @param (callable(WebSocket, WebSocket\Message): mixed)|null $message
         * @param (callable(WebSocket): mixed)|null $open
         * @param (callable(WebSocket, int, string): mixed)|null $close
         * @param (callable(WebSocket\Upgrade): mixed)|null $upgrade
         * @param WebSocket\Options|null $options origins, subprotocols, limits, heartbeat, compression
         * @param list<callable> $middleware around the handshake, the first outermost. Inside of them $next($request)
         *        calls upgrade(); the Response it returns opens the WebSocket (status 101) or refuses it. See use()
         * @throws Exception\MisuseError when the pattern is malformed or taken for GET, neither a handler nor a callable or both
         *         were given, an option is out of range, or run() was called
         */
        public function websocket(
            string $path,
            ?WebSocketHandler $handler = null,
            ?callable $message = null,
            ?callable $open = null,
            ?callable $close = null,
            ?callable $upgrade = null,
            ?WebSocket\Options $options = null,
            array $middleware = [],
        ): static {}

        /**
         * Serves clients of the Pusher protocol, as Laravel Echo and pusher-js, without running PHP: their WebSockets at
         * `$path/app/KEY`, and the HTTP API for backends at `$path/apps/ID`. May be called for several applications.
         *
         * Where the application has closures that decide who may subscribe, they are asked by POST at its paths for that.
         *
         * @param string $path what stands in front of the paths of the protocol, such as "/ws"; the same for all applications
         * @param list<callable> $middleware around the requests that ask who may subscribe; see use()
         * @throws Exception\ConfigurationException when a value of the application cannot work
         * @throws Exception\MisuseError when a path is taken, or run() was called
         */
        public function pusher(Pusher $pusher, string $path = '', array $middleware = []): static {}

        /**
         * Serves clients of Mercure at /.well-known/mercure without running PHP. The program publishes by mercure_publish(), or by
         * Channel::publish() where the hub shares its channels.
         *
         * @throws Exception\ConfigurationException when a value of the hub cannot work, or there is one already
         * @throws Exception\MisuseError when run() was called
         */
        public function mercure(Mercure $mercure): static {}

        /**
         * Calls `$work` again and again, as a task that may wait, without arguments.
         *
         * The first time is one interval after the start. A run that takes longer than the interval is followed by the next
         * at the time that comes then. What it throws is logged.
         *
         * @param bool $inEachWorker instead of in one worker of the server
         * @throws Exception\MisuseError when the interval is not more than 0 seconds, or run() was called
         */
        public function every(float $seconds, callable $work, bool $inEachWorker = false): static {}

        /**
         * Calls `$work` when the handler or task that calls this has ended and its answer is on its way.
         *
         * It runs as a task without a client, has the Context of the handler, and may wait. What it throws is logged.
         *
         * @throws Exception\BackpressureException when tasks_queue_max tasks have not begun
         * @throws Exception\MisuseError outside of a handler or task
         */
        public function defer(callable $work): void {}

        /**
         * Processes for work that would hold a worker: see Jobs. Called once.
         *
         * @param int $processes how many jobs run at the same time
         * @param int $queue calls of one worker that may run or wait for a process; one more gets a BackpressureException
         * @param int $timeoutMs milliseconds from the call of Jobs::run() to its result; then the job is ended
         * @param int $messageBytes bytes of the arguments, and of the result, of a call
         * @throws Exception\MisuseError when a value is out of its range, it was called already, or run() was called
         */
        public function jobs(
            int $processes = 1,
            int $queue = 1000,
            int $timeoutMs = 30000,
            int $messageBytes = 8388608,
        ): Jobs {}

        /**
         * Takes the messages of Worker::send() and Worker::broadcast(), one after the other in each worker, as a task that may
         * wait. What it throws is logged.
         *
         * @param callable(mixed, int): mixed $handler with the number of the worker that has sent it; -1
         *     for a worker of another server of the cluster
         * @throws Exception\MisuseError when there is such a handler already, or run() was called
         */
        public function onMessage(callable $handler): static {}

        /**
         * What was added so far, for tools: `fermata routes` prints it.
         *
         * @return array list<array{kind: string, method: string, path: string, handler: string}>; the kind is "handler", "static",
         *         "fallback" (of the static one before it) or "websocket", an empty method stands for all, and the handler is where it is
         *         written, or the directory
         */
        public function routes(): array {}

        /**
         * Binds, forks the workers and supervises them until SIGTERM or SIGINT.
         *
         * Returns only in the master, after the last worker has ended. A worker never comes back to the caller:
         * it ends as if by exit(), so its shutdown functions and destructors run, the lines after run() do not.
         *
         * @throws Exception\ConfigurationException when a setting from the environment is wrong, settings exclude each other,
         *         or the address cannot be bound; the message says why
         * @throws Exception\MisuseError when called twice, inside a Fiber, or outside the command line
         */
        public function run(): void {}
    }

    /** An application of the Pusher protocol, version 7: see Server::pusher(). */
    final class Pusher
    {
        public readonly string $appId;

        public readonly string $key;

        /**
         * What is null has the default of `fermata hub`, which is Pusher's own bound or a larger one.
         *
         * @param string $appId what the HTTP API names it by
         * @param string $key what clients name it by
         * @param string $secret what signs for it
         * @param string|null $sharedPrefix its channels are the program's: "news" is Channel::get($sharedPrefix . 'news'), and what
         *        either publishes reaches the clients of both. Anybody with the key may then subscribe to all such channels whose
         *        names do not go on with "private-" or "presence-". Default: nothing is shared.
         * @param (callable(Request, string): (bool|array|Response|null))|null $authorize asked by POST at
         *        $authorizePath whether a client may subscribe to a private or presence channel: true, or for presence
         *        array{user_id: string|int, user_info?: mixed}. Default: the program's backend signs by itself.
         * @param string $authorizePath the path where pages ask for that; `authEndpoint` of Echo and pusher-js
         * @param (callable(Request): (array|Response|null))|null $signIn asked by POST at $signInPath who the user is:
         *        array{id: string|int, user_info?: mixed, watchlist?: list<string>}
         * @param string $signInPath `userAuthentication.endpoint` of pusher-js
         * @param list<string>|null $allowedOrigins of hosts of pages that may connect, such as "*.example.com". Default: all.
         * @param bool $clientEvents whether clients may send events to each other
         * @param bool $subscriptionCounts whether subscribers are told how many they are
         * @param list<Pusher\Webhook> $webhooks that are told of its channels
         * @throws Exception\MisuseError when a list has something else in it
         */
        public function __construct(
            string $appId,
            string $key,
            #[\SensitiveParameter] string $secret,
            ?string $sharedPrefix = null,
            ?callable $authorize = null,
            string $authorizePath = '/broadcasting/auth',
            ?callable $signIn = null,
            string $signInPath = '/broadcasting/user-auth',
            ?array $allowedOrigins = null,
            bool $clientEvents = true,
            bool $subscriptionCounts = false,
            array $webhooks = [],
            ?int $connectionsMax = null,
            ?int $messageBytesMax = null,
            ?int $eventNameCharsMax = null,
            ?int $eventDataBytesMax = null,
            ?int $channelsPerEventMax = null,
            ?int $batchEventsMax = null,
            ?int $clientEventsPerSecond = null,
            ?int $channelsPerConnectionMax = null,
            ?int $presenceMembersMax = null,
            ?int $userIdBytesMax = null,
            ?int $userInfoBytesMax = null,
            ?int $watchlistUsersMax = null,
            ?int $clockWindowSeconds = null,
        ) {}

        /**
         * Answers a page that asks whether it may subscribe (`socket_id`, `channel_name`), by the closure $authorize: what
         * Server::pusher() routes to, for routes of the program's own. 403 when it may not, 400 when it has not said what it wants.
         *
         * @throws Exception\MisuseError when there is no such closure, or it has returned something else
         */
        public function answerAuthorization(Request $request): Response {}

        /** Answers a page that asks who its user is (`socket_id`), by the closure $signIn; see answerAuthorization(). */
        public function answerSignIn(Request $request): Response {}
    }

    /** A Mercure hub: see Server::mercure(). */
    final class Mercure
    {
        /**
         * @param string|null $publisherKey secret, or public key as PEM, of the tokens of those who publish over HTTP. Default: only
         *        the program publishes.
         * @param Mercure\Algorithm $publisherAlgorithm how they are signed
         * @param string|null $publisherJwksFile a file with a set of keys (JWKS) in place of $publisherKey
         * @param string|null $subscriberKey the same of those who subscribe
         * @param bool $anonymous whether clients without a token get public updates
         * @param bool $subscriptions whether subscriptions are told, and can be asked for
         * @param string $cookieName the cookie that may have the token
         * @param list<string> $corsOrigins of pages that may read, such as "https://*.example.com"
         * @param list<string> $publishOrigins of pages that may publish by the cookie
         * @param int $heartbeatSeconds silence after which a comment is sent; 0 is never
         * @param int $streamSeconds after so long a stream ends and its client comes back; 0 is never
         * @param bool $position whether a subscriber is sent its position at once
         * @param int|null $templatesMax different templates of the subscribers of one worker
         * @param int|null $subscribersMax subscribers that are told about where $subscriptions is set
         * @param string|null $sharedPrefix topics are the program's channels: public updates of the topic "news" are events of
         *        Channel::get($sharedPrefix . 'news'), private ones of Channel::get($sharedPrefix . 'private-news'), and what either
         *        publishes reaches the clients of both. With the prefix of an application of Pusher's, also its channels.
         *        Default: nothing is shared.
         * @param string $version of the protocol: "0.x", which today's clients speak, or "1.0", a draft
         * @param string|null $resourceIdentifier the hub's URL, which tokens of version 1.0 are made for
         * @param string|null $issuer who makes these tokens
         * @param string|null $publisherJwksUrl https:// address of a set of keys (JWKS) in place of $publisherKey; it is fetched when
         *        the server starts, after $jwksRefreshSeconds, and when a token names a key that it does not have
         * @param string|null $subscriberJwksUrl the same of those who subscribe
         * @param int $jwksRefreshSeconds 1 to 604800
         * @throws Exception\MisuseError when a list has something else in it
         */
        public function __construct(
            #[\SensitiveParameter] ?string $publisherKey = null,
            Mercure\Algorithm $publisherAlgorithm = Mercure\Algorithm::HS256,
            ?string $publisherJwksFile = null,
            #[\SensitiveParameter] ?string $subscriberKey = null,
            Mercure\Algorithm $subscriberAlgorithm = Mercure\Algorithm::HS256,
            ?string $subscriberJwksFile = null,
            bool $anonymous = false,
            bool $subscriptions = false,
            string $cookieName = 'mercureAuthorization',
            array $corsOrigins = [],
            array $publishOrigins = [],
            int $heartbeatSeconds = 40,
            int $streamSeconds = 0,
            bool $position = true,
            ?int $templatesMax = null,
            ?int $subscribersMax = null,
            ?string $sharedPrefix = null,
            string $version = '0.x',
            ?string $resourceIdentifier = null,
            ?string $issuer = null,
            ?string $publisherJwksUrl = null,
            ?string $subscriberJwksUrl = null,
            int $jwksRefreshSeconds = 3600,
        ) {}
    }

    /**
     * Calls that run in processes of their own, beside the workers; made by Server::jobs().
     *
     * A job is a callable with a name. Its arguments and its result are serialised. A process runs one job at a time; one that
     * dies is replaced, and costs only the call that it ran.
     */
    final class Jobs
    {
        private function __construct() {}

        /**
         * @param callable $job runs outside of the server: it cannot wait as handlers do, but block as long as it likes
         * @throws Exception\MisuseError when the name is taken, or run() was called
         */
        public function add(string $name, callable $job): static {}

        /**
         * Runs a job in one of the processes and waits for its result.
         *
         * A call that is cancelled before a process has begun with it is not run; one that has begun runs to its end.
         *
         * @throws Exception\JobFailedException when the job has thrown
         * @throws Exception\JobCrashedException when its process has died
         * @throws Exception\TimeoutException when it has taken longer than timeoutMs, and was ended
         * @throws Exception\BackpressureException when `queue` calls of this worker have not ended
         * @throws Exception\MisuseError outside of a handler or task, for an unknown name, or arguments that are too large
         */
        public function run(string $name, mixed ...$arguments): mixed {}
    }

    /**
     * This worker, and messages to the other ones of its server.
     *
     * Messages are serialised and take at most 65536 bytes. Those of one worker to another keep their order. A message is
     * either sent whole or refused; one that was sent is lost only when the worker that takes it dies before it has.
     */
    final class Worker
    {
        private function __construct() {}

        /** The number of this worker, from 0. */
        public static function index(): int {}

        /**
         * Sends to the worker with that number; see Server::onMessage().
         *
         * @throws Exception\BackpressureException when it has not read the messages it has
         * @throws Exception\MisuseError outside of a worker, or when there is no such worker
         */
        public static function send(int $worker, mixed $message): void {}

        /**
         * Sends to all other workers, in a cluster to those of the other servers as well: through the log, which is not waited
         * for.
         *
         * @param bool $self to this one as well
         * @throws Exception\BackpressureException when one has not read the messages it has, or when there is a cluster and its log
         *     is not there; the others get it all the same
         */
        public static function broadcast(mixed $message, bool $self = false): void {}

        private static function receive(): void {}
    }

    /**
     * Waits for many streams, for signals and for a time at once. Fermata\Revolt\Driver is made of it; applications have
     * no need for it.
     *
     * In a handler or task of a server others go on meanwhile, elsewhere the process waits.
     */
    final class Poll
    {
        public function __construct() {}

        /** Whether a handler or task of a running server calls this. */
        public static function inHandler(): bool {}

        /**
         * @param resource $stream
         * @param bool $read report it when it can be read from
         * @param bool $write report it when it can be written to; when both are false it is not watched any more
         */
        public function watch($stream, bool $read, bool $write): void {}

        /** Reports a signal instead of having it do what it did before, or no longer. */
        public function signal(int $signal, bool $watch): void {}

        /**
         * Waits until something is ready, wake() is called, a signal comes or the time is over. May return early.
         *
         * @param float|null $seconds null = for ever
         * @param bool $background a worker that stops does not wait for the end of this
         * @return array array{array<int, int>, list<int>}: by the number of a stream's resource 1 for reading, 2 for writing or
         *         3 for both, and the signals
         */
        public function wait(?float $seconds = null, bool $background = false): array {}

        /** Ends wait(). */
        public function wake(): void {}
    }

    /**
     * A group of routes: what Server::group() hands to its callable. Paths are those behind the group's prefix; an empty one
     * is the prefix itself.
     */
    final class Routes
    {
        private function __construct() {}

        /** See Server::get(). */
        public function get(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** See Server::post(). */
        public function post(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** See Server::put(). */
        public function put(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** See Server::patch(). */
        public function patch(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** See Server::delete(). */
        public function delete(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** See Server::options(). */
        public function options(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** See Server::any(). */
        public function any(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** A group inside this one: its prefix and middleware come after those of this one. See Server::group(). */
        public function group(string $prefix, callable $routes, array $middleware = []): static {}

        /** Puts middleware around every handler of this group and of the groups inside it. See Server::use(). */
        public function use(callable ...$middleware): static {}

        /** A WebSocket whose handshake passes through the group's middleware. See Server::websocket(). */
        public function websocket(
            string $path,
            ?WebSocketHandler $handler = null,
            ?callable $message = null,
            ?callable $open = null,
            ?callable $close = null,
            ?callable $upgrade = null,
            ?WebSocket\Options $options = null,
            array $middleware = [],
        ): static {}

        /** See Server::static(). */
        public function static(
            string $prefix,
            string $directory,
            ?int $cacheSeconds = null,
            bool $immutable = false,
            string $index = 'index.html',
            bool $precompressed = true,
            bool $compress = true,
            bool $sources = false,
            ?callable $fallback = null,
        ): static {}
    }

    /** What comes after a middleware: the next one or the handler. Middleware gets it as a closure, named $next by custom. */
    final class Next
    {
        private function __construct() {}

        /** @throws \TypeError when what comes next returns neither a Response nor a Hold */
        public function __invoke(Request $request): Response|Hold {}
    }

    /**
     * Bounds of the server. Null means the default; the built-in one is named at each.
     *
     * Values are checked by the Server constructor.
     */
    final class Limits
    {
        /** Open connections per worker, default 10000. */
        public readonly ?int $connections;

        /** Open connections per remote address, default 0 = no limit. */
        public readonly ?int $connectionsPerAddress;

        /** Bytes of a request head, default 16384; over it the answer is 431. */
        public readonly ?int $headerBytes;

        /** Bytes of a request body, default 1048576; over it the answer is 413. */
        public readonly ?int $bodyBytes;

        /** Unsent bytes per client before it is no longer read from, default 1048576. */
        public readonly ?int $queueBytes;

        /** Bytes of one published event, default 65536. */
        public readonly ?int $eventBytes;

        /** Milliseconds to receive a request head, default 10000; then 408. */
        public readonly ?int $headerTimeoutMs;

        /** Milliseconds to receive a request body, default 30000; then 408. */
        public readonly ?int $bodyTimeoutMs;

        /** Milliseconds a kept-alive connection may stay silent between requests, default 75000. */
        public readonly ?int $idleTimeoutMs;

        /** Milliseconds without progress before an unread answer is given up, default 30000. */
        public readonly ?int $writeTimeoutMs;

        /** Milliseconds a stopping worker waits for its clients, default 10000. */
        public readonly ?int $drainTimeoutMs;

        /**
         * Handlers per worker that may be under way at a time, default 0: as many as there are fibers. 1 runs one request at a
         * time, for code that keeps the state of a request in global or static variables.
         */
        public readonly ?int $handlers;

        public function __construct(
            ?int $connections = null,
            ?int $connectionsPerAddress = null,
            ?int $headerBytes = null,
            ?int $bodyBytes = null,
            ?int $queueBytes = null,
            ?int $eventBytes = null,
            ?int $headerTimeoutMs = null,
            ?int $bodyTimeoutMs = null,
            ?int $idleTimeoutMs = null,
            ?int $writeTimeoutMs = null,
            ?int $drainTimeoutMs = null,
            ?int $handlers = null,
        ) {}
    }

    /**
     * How much the channels remember, for clients that come back with Last-Event-ID. Null means the default.
     *
     * Values are checked by the Server constructor.
     */
    final class History
    {
        /** Events per channel, default 1000. */
        public readonly ?int $count;

        /** Milliseconds an event is kept, default 86400000 (a day). */
        public readonly ?int $ageMs;

        /** Bytes of the ring all channels share, default 16777216. */
        public readonly ?int $bytes;

        /** File of the ring, so that history survives a restart. Default: memory only. */
        public readonly ?string $path;

        public function __construct(?int $count = null, ?int $ageMs = null, ?int $bytes = null, ?string $path = null) {}
    }

    /** The lines on standard error. Null means the default: text, level info. */
    final class Log
    {
        public readonly ?LogFormat $format;

        public readonly ?LogLevel $level;

        public function __construct(?LogFormat $format = null, ?LogLevel $level = null) {}
    }

    /**
     * A line for every request when it has ended: also refused ones, files, held clients and WebSockets.
     *
     * The file is opened anew when the master gets SIGUSR1 or SIGHUP. A line that cannot be written is left out and
     * counted; no request waits for it.
     */
    final class AccessLog
    {
        /** A file, or "stderr" or "stdout". */
        public readonly string $path;

        /** Default: Combined. */
        public readonly ?AccessLogFormat $format;

        /** Whether lines contain what follows the `?`, which often holds secrets. Default: no. */
        public readonly ?bool $query;

        public function __construct(string $path, ?AccessLogFormat $format = null, ?bool $query = null) {}
    }

    /**
     * What a server shows to clients of its https addresses, and what it asks of them. Null means the default.
     *
     * The files are read when the server runs, and again when the master gets SIGHUP; connections stay open meanwhile.
     */
    final readonly class Tls
    {
        /** @var string|list<string>|null PEM files with certificate chains */
        public readonly string|array|null $certificate;

        /** @var string|list<string>|null PEM files with their private keys */
        public readonly string|array|null $key;

        /** PEM file with the authorities that vouch for clients. Default: clients are not asked. */
        public readonly ?string $clientCa;

        /** Whether a client without a certificate is turned away when clientCa is given. Default true. */
        public readonly ?bool $clientRequired;

        /** Oldest version that is spoken. Default TLS 1.2. */
        public readonly ?TlsVersion $minVersion;

        /** A certificate for localhost is made when none is given. */
        public readonly ?bool $development;

        /**
         * @param string|array $certificate PEM files (a list of strings for several), the server's own certificate first in each; a client gets the one for
         *        the name it asks for, and the first when there is none
         * @param string|array $key PEM files with the private keys, in the same order
         */
        public function __construct(
            string|array $certificate,
            string|array $key,
            ?string $clientCa = null,
            ?bool $clientRequired = null,
            ?TlsVersion $minVersion = null,
        ) {}

        /**
         * A certificate for localhost, made once and kept in ~/.local/share/fermata; the log names the authority to trust.
         *
         * A certificate from FERMATA_TLS_CERTIFICATE is used in its place.
         */
        public static function development(): Tls {}
    }

    /** A version of TLS. */
    enum TlsVersion: string
    {
        case Tls12 = '1.2';
        case Tls13 = '1.3';
    }

    /** The certificate by which a client has proved who it is; it was verified by an authority of Tls::$clientCa. */
    final readonly class ClientCertificate
    {
        /** Its subject as RFC 4514 writes it, such as "CN=alice,O=Example". */
        public readonly string $subject;

        /** The certificate as PEM, for openssl_x509_parse(). */
        public readonly string $pem;

        private function __construct() {}
    }

    /** The trace that a request belongs to, as its sender says in the header `traceparent` (W3C Trace Context), or the server that records it. */
    final readonly class Trace
    {
        /** 32 lower-case hexadecimal digits; what the access log calls `trace_id`. */
        public readonly string $traceId;

        /** The span that the handler works below, 16 such digits: the sender's, or the server's own of a request that it records (otlp_endpoint). */
        public readonly string $parentId;

        /** Whether the request is recorded, which others that are asked for it do as well: by the sender as far as is known, or as the server has decided that sends spans (otlp_sampler). */
        public readonly bool $isSampled;

        /** The header `tracestate`, unread: what systems that trace tell each other. Empty when there is none. */
        public readonly string $state;

        private function __construct() {}
    }

    /** Shape of a log line. */
    enum LogFormat: string
    {
        /** For people. */
        case Text = 'text';

        /** One object per line. */
        case Json = 'json';
    }

    /** Shape of a line of the access log. */
    enum AccessLogFormat: string
    {
        /** The Common Log Format. */
        case Common = 'common';

        /** The same with Referer and User-Agent, as most programs expect it. */
        case Combined = 'combined';

        /** One JSON object per line, with the duration. */
        case Json = 'json';
    }

    /** The least severe line that is written. */
    enum LogLevel: string
    {
        case Error = 'error';
        case Warning = 'warning';
        case Info = 'info';
        case Debug = 'debug';
    }

    /** What happens to a held client that reads slower than its channels are written. */
    enum SlowPolicy: string
    {
        /** It gets an event named `gap` in place of what it missed, and goes on. */
        case Gap = 'gap';

        /** Its connection is closed; it comes back with Last-Event-ID. */
        case Close = 'close';
    }

    /** What publish() waits for where several machines share their channels (the setting `cluster`). On one machine it is the same. */
    enum Ack: string
    {
        /** The log of the cluster has the event. */
        case Cluster = 'cluster';

        /**
         * The event is on its way from this machine. It reaches everybody once or nobody, and nobody learns which: it is lost when
         * the log does not take it within publish_wait_ms_max, or when this machine ends.
         */
        case Local = 'local';
    }

    /** The SameSite attribute of a cookie (RFC 6265bis). */
    enum SameSite: string
    {
        case Strict = 'Strict';
        case Lax = 'Lax';

        /** Browsers accept it on secure cookies only. */
        case None = 'None';
    }

    /**
     * One request, as the handler sees it. Made by the server; values are built when asked for.
     *
     * It may be kept after the handler has returned: it then owns a copy of everything.
     */
    final class Request
    {
        private function __construct() {}

        /** The method as sent, such as "GET". */
        public function method(): string {}

        /** The path without the query, percent-decoded but for %2F: each of its slashes separates two segments. */
        public function path(): string {}

        /** The request target as sent, with the query. */
        public function target(): string {}

        /** The query as sent, without "?"; empty when there is none. */
        public function queryString(): string {}

        /** One query parameter; the default when it is absent or an array ("a[]=1"). */
        public function query(string $name, ?string $default = null): ?string {}

        /**
         * All query parameters, by the rules of parse_str().
         *
         * @return array<string, string|array>
         */
        public function queries(): array {}

        /** A header, the name in any case; several lines are joined with ", " (Cookie: "; "). */
        public function header(string $name, ?string $default = null): ?string {}

        /**
         * All headers by lower-case name.
         *
         * @return array<string, list<string>>
         */
        public function headers(): array {}

        /**
         * A route parameter, percent-decoded.
         *
         * @throws Exception\MisuseError when the route's pattern has no such name
         */
        public function route(string $name): string {}

        /** Whether the request has a body of at least one byte; on a route with streamBody whether one is announced. */
        public function hasBody(): bool {}

        /**
         * The body's bytes; empty when there is none, or when it was a multipart/form-data body: that was taken apart.
         *
         * @throws Exception\UploadException when the temporary file of a large body cannot be read
         */
        public function body(): string {}

        /**
         * The next bytes of the body, null at its end.
         *
         * On a route with streamBody the handler runs while the body arrives: what has come is returned at once, and when
         * nothing has, the handler waits and others go on. The client is not read from while the handler does not ask.
         *
         * @param int $bytes most that is returned; the setting body_piece_bytes_max bounds it as well
         * @throws Exception\BadRequestException when the rest is malformed (code 400), late (408) or too large (413); uncaught,
         *         the client is answered with that status
         * @throws Exception\ClientGoneException when the client has left before it had sent everything
         * @throws Exception\UploadException when the temporary file of a large body cannot be read
         */
        public function read(int $bytes = 65536): ?string {}

        /**
         * The body as a stream to read from. A body larger than the setting body_memory_bytes_max lies in a temporary file, so
         * reading it piece by piece takes no more memory than a piece.
         *
         * @return resource
         * @throws Exception\UploadException when the temporary file of a large body cannot be read
         */
        public function bodyStream() {}

        /**
         * The body decoded as JSON, objects as arrays.
         *
         * @throws Exception\BadRequestException when it is not valid JSON; left uncaught, the client is answered 400
         */
        public function json(): mixed {}

        /** One field of a form; the default when it is absent or an array. See forms(). */
        public function form(string $name, ?string $default = null): ?string {}

        /**
         * All fields of an application/x-www-form-urlencoded or multipart/form-data body, by the rules of parse_str().
         * Empty for any other Content-Type; files are in files().
         *
         * @return array<string, string|array>
         */
        public function forms(): array {}

        /** The file of a form's field; null when none was sent, or several under this name. */
        public function file(string $name): ?UploadedFile {}

        /**
         * All files of a form, by the rules of parse_str(): "photos[]" makes a list under "photos".
         *
         * @return array<string, UploadedFile|array>
         */
        public function files(): array {}

        /** One cookie, percent-decoded. */
        public function cookie(string $name, ?string $default = null): ?string {}

        /**
         * All cookies; of two with one name the first counts.
         *
         * @return array<string, string>
         */
        public function cookies(): array {}

        /**
         * Notes something for the middleware and handler that come after: who the user is, when the request came.
         *
         * Changes this request and returns it, so `$next($request->withAttribute('user', $user))` works as in PSR-15.
         */
        public function withAttribute(string $name, mixed $value): static {}

        /** What withAttribute() has noted under this name. */
        public function attribute(string $name, mixed $default = null): mixed {}

        /**
         * All that withAttribute() has noted.
         *
         * @return array<string, mixed>
         */
        public function attributes(): array {}

        /** The Last-Event-ID header, for Hold::since(); null when it is absent or empty. */
        public function lastEventId(): ?string {}

        /**
         * The client's address: as a proxy of the setting trusted_proxies says, else that of the connection's other end.
         * "unix" on a Unix socket.
         */
        public function remoteAddress(): string {}

        /** The port that belongs to remoteAddress(); 0 on a Unix socket, and where a proxy does not tell it. */
        public function remotePort(): int {}

        /**
         * The host the client asked for, with the port if it named one: as a proxy of the setting trusted_proxies says, else
         * that of the request. Empty for an HTTP/1.0 request without one.
         */
        public function host(): string {}

        /** "https" when the client speaks TLS, to this server or to a proxy of the setting trusted_proxies; otherwise "http". */
        public function scheme(): string {}

        /**
         * The request as $_SERVER has it with PHP-FPM: REQUEST_METHOD, REQUEST_URI, QUERY_STRING, SERVER_PROTOCOL, the addresses
         * and ports of both ends, HTTPS, REQUEST_TIME and REQUEST_TIME_FLOAT, the headers as HTTP_*, PHP_AUTH_USER and PHP_AUTH_PW.
         *
         * Headers with an underscore in their names, which could pass for others, and `Proxy` are left out.
         *
         * @param array<string, mixed> $others: further entries, such as SCRIPT_NAME; those of the request win
         * @return array<string, mixed>
         */
        public function serverParams(array $others = []): array {}

        /**
         * Shows this request to code that was written for PHP-FPM, until its handler has ended: fills $_SERVER, $_GET, $_POST,
         * $_COOKIE, $_FILES and $_REQUEST, has php://input give its body and move_uploaded_file() take its files.
         *
         * Meanwhile header(), setcookie() and http_response_code() keep what they are given, for headers_list(): whoever makes the
         * Response adds it. exit() answers with what was printed. PHP's sessions may be opened, and are closed with the handler.
         *
         * @param array<string, mixed> $server: further entries of $_SERVER; see serverParams()
         * @param int|null $uploadBytes a larger file is in $_FILES with UPLOAD_ERR_INI_SIZE and without its content
         * @throws Exception\MisuseError in a server that may run several handlers at a time (see Limits::$handlers), and outside of
         *         the handler of this request
         */
        public function fillGlobals(array $server = [], ?int $uploadBytes = null): void {}

        /**
         * What the handler has printed since fillGlobals(), which it is for the caller to answer with; empty without fillGlobals().
         * Buffers that are still open (ob_start()) end before, as at the end of a script.
         */
        public function takeOutput(): string {}

        /**
         * For a bridge: the one function that register_shutdown_function() has been given is short, so the answer may leave behind it,
         * with those of the other requests of the turn. To send each by itself wakes its client each time, which takes as long as a
         * small framework's request. Without effect when there are other functions, and without fillGlobals().
         */
        public function deferAnswer(): void {}

        /**
         * Sends `103 Early Hints` at once, ahead of the answer (RFC 8297): browsers fetch what its `Link` lines name while the handler
         * still works. It may be called several times.
         *
         * @param array<string, string|list<string> $headers>, such as ['Link' => '</app.css>; rel=preload; as=style']
         * @return bool false when nothing was sent: the client speaks HTTP/1.0, has left, or its answer has begun
         * @throws Exception\MisuseError for a malformed header, or one that is the server's to send
         */
        public function earlyHints(array $headers): bool {}

        /** The certificate that the client has shown; null without Tls::$clientCa, or when it has shown none. */
        public function clientCertificate(): ?ClientCertificate {}

        /** The trace that the sender says this request belongs to; null without a well-formed header `traceparent`, and with several, unless the server records the request. */
        public function trace(): ?Trace {}
    }

    /** A file that came with a form. It lies in a temporary file, which is removed when its request is over unless it was moved. */
    final class UploadedFile
    {
        /** The name it has at the client, without directories. Never use it as a path: clients choose it. */
        public readonly string $name;

        /** The media type the client says it has, such as "image/png"; empty when it says none. */
        public readonly string $type;

        /** Its bytes. */
        public readonly int $size;

        /** Where it lies until the request is over. */
        public readonly string $path;

        private function __construct() {}

        /**
         * Keeps the file under another path; a file that is there is replaced.
         *
         * @throws Exception\UploadException when that is not possible; the message says why
         * @throws Exception\MisuseError when it was moved already
         */
        public function moveTo(string $path): void {}

        /**
         * All its bytes.
         *
         * @throws Exception\UploadException when it cannot be read, because its request is over
         * @throws Exception\MisuseError when it was moved
         */
        public function contents(): string {}
    }

    /** An answer. Immutable: the with*() methods return a changed copy. */
    final class Response
    {
        /**
         * @param int $status 200 to 599
         * @param string $body any bytes. A body without a Content-Type header is sent as "text/plain; charset=utf-8".
         * @param array<string, string|list<string> $headers>; a list makes one line each
         * @throws Exception\MisuseError for a status out of range, a malformed header, or one that is the server's to send
         *         (Content-Length, Transfer-Encoding, Connection, …)
         */
        public function __construct(int $status = 200, string $body = '', array $headers = []) {}

        /**
         * The data as application/json, encoded with JSON_UNESCAPED_SLASHES and JSON_UNESCAPED_UNICODE.
         *
         * @throws \JsonException when the data cannot be encoded
         */
        public static function json(mixed $data, int $status = 200): Response {}

        /** The text as text/plain; charset=utf-8. */
        public static function text(string $text, int $status = 200): Response {}

        /** The markup as text/html; charset=utf-8. The caller escapes. */
        public static function html(string $html, int $status = 200): Response {}

        /**
         * Sends the client elsewhere.
         *
         * @param string $location absolute or relative reference for the Location header
         * @param int $status 300 to 399
         * @throws Exception\MisuseError for another status or a location that is no header value
         */
        public static function redirect(string $location, int $status = 302): Response {}

        /**
         * A body that is made while it is sent.
         *
         * The next piece is asked for when the client has taken the last one, so nothing piles up. HEAD sends the head and asks
         * for none. What goes wrong before the first piece is answered like any failure of a handler; after it the connection
         * ends, and the client sees that the body is not whole. When the client leaves, the generator is destroyed and its
         * `finally` blocks run.
         *
         * @param \Traversable|array|callable $body yields strings; a callable returns such an iterable and is called when a body is wanted
         * @param array $headers as for the constructor; without a Content-Type it is application/octet-stream
         * @param int|null $length bytes in all, if they are known: sent as Content-Length, and checked
         * @throws Exception\MisuseError for a status out of range, a header as for the constructor, or a negative length
         */
        public static function stream(\Traversable|array|callable $body, int $status = 200, array $headers = [], ?int $length = null): Response {}

        /**
         * Server-sent events that this handler goes on making: tokens of a language model, progress of a job. For events that
         * many clients get, Hold costs nothing while nothing happens.
         *
         * The callable is called when the head of the response is on its way, and may wait; HEAD does not call it. When it
         * returns, the stream ends. Its waits, and sending, end with a ClientGoneException when the client leaves. What else it
         * throws is logged, and the client sees that the stream has broken off.
         *
         * @param callable(EventSink): void $events
         * @param array $headers as for the constructor
         * @param float|null $keepAlive seconds of silence before the client is sent a comment, 0 for none;
         *        null = the setting keep_alive_ms
         * @throws Exception\MisuseError for a status out of range or a header as for the constructor
         */
        public static function events(callable $events, int $status = 200, array $headers = [], ?float $keepAlive = null): Response {}

        /**
         * A body that is printed: what the callable echoes is sent while it runs, as by PHP-FPM.
         *
         * The callable is called when the head of the response is on its way; HEAD does not call it. A client that takes less than
         * is printed makes it wait, and flush() waits until the client has everything. Printing throws a ClientGoneException when
         * the client has left. What else it throws is logged, and the client sees that the body is not whole; exit() ends the body.
         *
         * @param callable(): void $output
         * @param array $headers as for the constructor; without a Content-Type it is text/plain; charset=utf-8
         * @throws Exception\MisuseError for a status out of range or a header as for the constructor
         */
        public static function output(callable $output, int $status = 200, array $headers = []): Response {}

        /**
         * A file, sent by the kernel. Conditional requests and ranges are met; a file that is not there is answered 404.
         *
         * @param string $path a regular file; relative to $root when there is one
         * @param string|null $root the directory that the file must lie in: then the path may come from the client. Nothing
         *        hidden and no link out of it is sent.
         * @param string|null $download name under which browsers save the file instead of showing it
         * @param string|null $contentType null goes by the extension of the path
         * @throws Exception\MisuseError for an empty or an absolute path below a root, a malformed type, or what open_basedir
         *         does not allow
         */
        public static function file(
            string $path,
            ?string $root = null,
            ?string $download = null,
            ?string $contentType = null,
        ): Response {}

        /** 202 without a body. */
        public static function accepted(): Response {}

        /** 204 without a body. */
        public static function noContent(): Response {}

        /**
         * What a response of another library says, such as one of PSR-7. Headers that frame the message, which the server sends, are
         * left out, and so is null; other values become text, and of a Content-Type the last counts. Without one a body is HTML, as
         * PHP has it.
         *
         * After Request::fillGlobals() those join that header(), setcookie() and a session have set, where the response has none of
         * the name; cookies of both are sent. What the handler has printed goes in front of the body; see Request::takeOutput().
         *
         * @param array<string|int, mixed> $headers: by name in any case, each a value or a list of them
         * @throws Exception\MisuseError when the status is not from 200 to 599, or a name or value has a character that cannot be sent
         */
        public static function relayed(int $status, string $body, array $headers): Response {}

        /**
         * Sets the status, and what stands behind it in HTTP/1.
         *
         * @param string $reason the reason phrase; "" is the standard one. HTTP/2 has none, and programs should not read it.
         * @throws Exception\MisuseError when the status is not 200 to 599, or for control characters in the reason
         */
        public function withStatus(int $status, string $reason = ''): static {}

        /**
         * Sets a header, in place of all lines of that name.
         *
         * @throws Exception\MisuseError when name or value is malformed (so line breaks cannot get in) or reserved
         */
        public function withHeader(string $name, string $value): static {}

        /**
         * Adds a header line beside those of that name; a second Content-Type replaces the first.
         *
         * @throws Exception\MisuseError when name or value is malformed or reserved
         */
        public function withAddedHeader(string $name, string $value): static {}

        /**
         * Adds a Set-Cookie line (RFC 6265).
         *
         * @param string $value any bytes; percent-encoded as setcookie() does, Request::cookie() decodes it
         * @param int|null $maxAge seconds; null keeps the cookie until the browser closes, 0 or less deletes it
         * @param bool $partitioned one cookie per site that embeds the page (CHIPS); needs $secure
         * @throws Exception\MisuseError for a malformed name, path or domain, or for what browsers drop: SameSite::None, a
         *         partitioned cookie or the prefixes __Host- and __Secure- without $secure, __Host- with a domain or a path
         */
        public function withCookie(
            string $name,
            string $value,
            ?int $maxAge = null,
            string $path = '/',
            ?string $domain = null,
            bool $secure = false,
            bool $httpOnly = true,
            SameSite $sameSite = SameSite::Lax,
            bool $partitioned = false,
        ): static {}

        public function status(): int {}

        /** The body's bytes; empty for stream() and file(). */
        public function body(): string {}

        /** A header's value, the name in any case; several lines are joined with ", ". */
        public function header(string $name): ?string {}

        /**
         * All headers as they were given, without those the server adds.
         *
         * @return array<string, list<string>>
         */
        public function headers(): array {}
    }

    /**
     * Where the callable of Response::events() sends its events.
     *
     * What is sent goes out when the handler waits, or after 5 ms. A client that takes less than it is sent makes send() wait.
     */
    final class EventSink
    {
        /** The id of the last event that the client has seen before it came back; null if it has not said so. */
        public readonly ?string $lastEventId;

        private function __construct() {}

        /**
         * Sends an event.
         *
         * @param string|null $data UTF-8, of any number of lines; null sends only $id and $retry
         * @param string|null $event its name; without one browsers call it "message"
         * @param string|null $id what the client says as Last-Event-ID when it comes back
         * @param int|null $retry milliseconds after which the client is to come back when the stream has ended
         * @throws Exception\ClientGoneException when the client has left
         * @throws Exception\ConnectionClosedException after close()
         * @throws Exception\MisuseError when a name or id has a line break, data is not UTF-8, or it has more than
         *         event_bytes_max bytes
         */
        public function send(?string $data, ?string $event = null, ?string $id = null, ?int $retry = null): void {}

        /** Sends what clients ignore. */
        public function comment(string $text = ''): void {}

        /** Waits until the client has taken everything. */
        public function flush(): void {}

        /** Ends the stream; the callable may go on with something else. A second call does nothing. */
        public function close(): void {}

        /** Whether anything can be sent. */
        public function isOpen(): bool {}

        /** Whether the server stops and waits for this stream, for drain_timeout_ms at most: time for a loop without end to end. */
        public function isStopping(): bool {}
    }

    /** An answer that stays: the core holds the client while PHP is done. Each method changes this object and returns it. */
    final class Hold
    {
        private function __construct() {}

        /**
         * Server-sent events from one or several channels.
         *
         * @throws Exception\MisuseError for a channel name that is not 1 to 255 bytes without control characters
         */
        public static function sse(string $channel, string ...$channels): Hold {}

        /**
         * Counts the client as present in its channels while it is held, over all tabs and workers of the user.
         *
         * @param array|null $info JSON-encodable details that members() hands back; the first connection's are kept
         * @param bool $announce publish `join` and `leave` events to the channels when the user comes and goes
         * @throws Exception\MisuseError when the user is empty
         * @throws \JsonException when the info cannot be encoded
         */
        public function as(string $user, ?array $info = null, bool $announce = true): static {}

        /** Replays what was published after this event; null or an empty string replays nothing. */
        public function since(?string $eventId): static {}

        /**
         * Sends a comment before there were this many seconds of silence, so that proxies do not cut the line.
         *
         * @param int $seconds 1 to 3600; 0 = off. Default: the setting keep_alive_ms (25 seconds)
         * @throws Exception\MisuseError when out of range
         */
        public function keepAlive(int $seconds): static {}

        /** Sends events to this client alone, before replayed and live ones. They carry no id. */
        public function with(Event ...$events): static {}

        /** What happens when the client reads too slowly; default SlowPolicy::Gap. */
        public function slow(SlowPolicy $policy): static {}

        /**
         * Sets a header of the answer; a second call with the same name replaces the first.
         *
         * @throws Exception\MisuseError when name or value is malformed, reserved, or Content-Type
         */
        public function withHeader(string $name, string $value): static {}

        /**
         * Adds a header line beside those of that name, as for several Set-Cookie.
         *
         * @throws Exception\MisuseError when name or value is malformed, reserved, or Content-Type
         */
        public function withAddedHeader(string $name, string $value): static {}
    }

    /** One event of a channel. */
    final class Event
    {
        /** UTF-8 text; may have several lines. */
        public readonly string $data;

        /** The event name a browser dispatches on; null = "message". */
        public readonly ?string $name;

        /** Set on events that came from Channel::history(), else null. */
        public readonly ?string $id;

        /** When it was published, in Unix milliseconds; set on events that came from Channel::history(), else null. */
        public readonly ?int $timeMs;

        /** @throws Exception\MisuseError when the name is empty or has a line break or a NUL byte, or data is not UTF-8 */
        public function __construct(string $data, ?string $name = null) {}

        /**
         * An event whose data is JSON, encoded as by Response::json().
         *
         * @throws \JsonException when the data cannot be encoded
         * @throws Exception\MisuseError when the name is empty or has a line break or a NUL byte
         */
        public static function json(mixed $data, ?string $name = null): Event {}
    }

    /** A named log of events that any worker writes and held clients read. */
    final class Channel
    {
        public readonly string $name;

        private function __construct() {}

        /**
         * @param string $name 1 to 255 bytes without control characters; channels need no creation
         * @throws Exception\MisuseError for another name, or outside a running server (use Publisher there)
         */
        public static function get(string $name): Channel {}

        /**
         * Appends an event; when this returns, every subscriber in every worker will get it.
         * A string, or the message of a WebSocket, becomes the data of an event without a name.
         *
         * In a cluster a handler or task waits for its log while others go on; a client that leaves does not end that wait.
         *
         * @param WebSocket|null $except a connection that does not get it: the one it came from
         * @param Ack $ack what is waited for in a cluster
         * @return string the event's id, for Last-Event-ID; empty with Ack::Local in a cluster, where it is not known yet
         * @throws Exception\BackpressureException when a worker has not read the ring for too long, or the log of the cluster has
         *         not acknowledged the event in time
         * @throws Exception\MisuseError when the event is larger than the setting event_bytes_max
         */
        public function publish(Event|WebSocket\Message|string $event, ?WebSocket $except = null, Ack $ack = Ack::Cluster): string {}

        /**
         * Who is present; see Hold::as() and WebSocket::join().
         *
         * @param int|null $limit at most so many, the last to come first; null = all
         * @return list<Member>
         * @throws Exception\BackpressureException when another process keeps the table of who is present
         * @throws Exception\MisuseError when the limit is not positive
         */
        public function members(?int $limit = null): array {}

        /**
         * How many users are present: as many as members() would list, without listing them.
         *
         * @throws Exception\BackpressureException when another process keeps the table of who is present
         */
        public function memberCount(): int {}

        /**
         * Past events that are still kept, oldest first. In a cluster what this server has no more comes from the log, within
         * bounds: see docs/cluster.md.
         *
         * @param string|null $since only those after this event id
         * @param int|null $count at most so many, the newest; null = all
         * @return list<Event>
         * @throws Exception\BackpressureException in a cluster: this server does not have all of them, and the log does not answer
         * @throws Exception\MisuseError when the count is not positive
         */
        public function history(?string $since = null, ?int $count = null): array {}
    }

    /** A user present in a channel. */
    final class Member
    {
        public readonly string $user;

        /** What Hold::as() or WebSocket::join() was given. */
        public readonly ?array $info;

        /** Held clients and joined sockets of the user over all workers; 0 in the short time before the user counts as gone. */
        public readonly int $connections;

        private function __construct() {}
    }

    /** Publishes to a running server from another process: a queue worker, a cron job, PHP-FPM. */
    final class Publisher
    {
        /**
         * @param string|null $control the server's control socket, "unix:/path.sock"; null takes FERMATA_CONTROL
         * @param int $timeoutMs milliseconds publish() may take, 1 to 3600000
         * @throws Exception\ConfigurationException when no control socket is named, or a value is out of range
         */
        public function __construct(?string $control = null, int $timeoutMs = 2000) {}

        /**
         * Appends an event to a channel of the server; blocks until it is stored.
         *
         * @return string the event's id
         * @throws Exception\ConnectionException when the server cannot be reached
         * @throws Exception\TimeoutException when it does not answer in time; the event may have been stored
         * @throws Exception\BackpressureException when the server's ring is full
         * @throws Exception\MisuseError for a bad channel name, or an event larger than event_bytes_max
         */
        public function publish(string $channel, Event $event): string {}
    }

    /** What a WebSocket route does; see Server::websocket(). A method that is not overridden costs nothing. */
    abstract class WebSocketHandler
    {
        /** A client asks to be connected: accept, refuse, or do nothing to accept with the preferred subprotocol. */
        public function upgrade(WebSocket\Upgrade $upgrade): void {}

        /** The connection is there. */
        public function open(WebSocket $socket): void {}

        /** A whole message has come. */
        public function message(WebSocket $socket, WebSocket\Message $message): void {}

        /**
         * The connection has ended, whoever ended it; it cannot send any more. The socket's data is released afterwards.
         *
         * @param int $code see WebSocket\CloseCode::tryFrom(); 1006 when it broke without a word
         */
        public function close(WebSocket $socket, int $code, string $reason): void {}
    }

    /**
     * One WebSocket connection of this worker, made on demand: an idle connection has no PHP object.
     *
     * Every call of a handler may get another object for the same connection; they are equal (==), and have the same id().
     * It may be kept; when the connection has ended, sending throws and isOpen() is false.
     */
    final class WebSocket
    {
        private function __construct() {}

        /** An opaque name of the connection, for sendTo(): unique over all workers and restarts. */
        public function id(): string {}

        /**
         * Sends a message. It is queued and leaves, with all others of this turn, in one write.
         *
         * @param string|\Stringable|WebSocket\Message $data a text, or a message that came, which goes out as it is
         * @throws Exception\BackpressureException when the client does not read and QueuePolicy::Refuse applies
         * @throws Exception\ConnectionClosedException when the connection has ended
         * @throws Exception\MisuseError when the text is not UTF-8
         */
        public function send(string|\Stringable|WebSocket\Message $data): void {}

        /**
         * Sends a binary message; see send().
         *
         * @throws Exception\BackpressureException when the client does not read and QueuePolicy::Refuse applies
         * @throws Exception\ConnectionClosedException when the connection has ended
         */
        public function sendBinary(string $data): void {}

        /**
         * Sends a message unless the queue is full or the connection has ended.
         *
         * @param bool $binary whether a string is sent as a binary message; a Message keeps its kind
         * @return bool whether it was queued
         * @throws Exception\MisuseError when a text is not UTF-8
         */
        public function trySend(string|\Stringable|WebSocket\Message $data, bool $binary = false): bool {}

        /**
         * Sends a message to a connection of any worker, in a cluster of any machine. When that has ended meanwhile, nothing
         * happens. To another machine it goes through the log, which is not waited for.
         *
         * @param string $id what id() has returned
         * @throws Exception\BackpressureException when a worker has not read the ring for too long, or when the connection is
         *     another machine's and the log of the cluster is not there
         * @throws Exception\MisuseError when this is no id, the text is not UTF-8 or larger than event_bytes_max, or no server runs
         */
        public static function sendTo(string $id, string $data, bool $binary = false): void {}

        /**
         * Begins to close the connection; what was sent before still arrives. Closing twice does nothing.
         *
         * @param WebSocket\CloseCode|int $code a case that may be sent, or 3000 to 4999
         * @param string $reason UTF-8, at most 123 bytes
         * @throws Exception\MisuseError when the code must not be sent, or the reason is not UTF-8 or too long
         */
        public function close(WebSocket\CloseCode|int $code = WebSocket\CloseCode::Normal, string $reason = ''): void {}

        /**
         * Subscribes to a channel: what is published there reaches the client without PHP. Joining again replaces the subscription.
         *
         * @param string|null $user counts the client as present while it is joined, over all tabs and workers of the user
         * @param array|null $info JSON-encodable details that Channel::members() hands back; the first connection's are kept
         * @param bool $announce publish `join` and `leave` events to the channel when the user comes and goes
         * @param string|null $since replays what was published after this event; null or an empty string replays nothing
         * @throws Exception\ConnectionClosedException when the connection has ended
         * @throws Exception\BackpressureException when a worker has not read the ring for too long
         * @throws Exception\MisuseError for a bad channel name, or an empty user
         * @throws \JsonException when the info cannot be encoded
         */
        public function join(
            string $channel,
            ?string $user = null,
            ?array $info = null,
            bool $announce = true,
            ?string $since = null,
            WebSocket\Format $format = WebSocket\Format::Data,
        ): static {}

        /** Ends the subscription; without one nothing happens. */
        public function leave(string $channel): static {}

        /** What setData() has kept for this connection; null when there is nothing. */
        public function data(): mixed {}

        /**
         * Keeps a value for this connection, in this worker. It is released after close().
         *
         * @throws Exception\ConnectionClosedException when the connection has ended and its data was released
         */
        public function setData(mixed $data): void {}

        /** Whether it can still send. */
        public function isOpen(): bool {}

        /** Bytes that were sent and that the system has not taken yet. */
        public function queuedBytes(): int {}

        /** The subprotocol that was agreed on. */
        public function protocol(): ?string {}

        /**
         * The client's address: as a proxy of the setting trusted_proxies says, else that of the connection's other end.
         * "unix" on a Unix socket.
         */
        public function remoteAddress(): string {}

        /** The port that belongs to remoteAddress(); 0 on a Unix socket, and where a proxy does not tell it. */
        public function remotePort(): int {}
    }

    /**
     * Waits for so many seconds, to the millisecond; others go on meanwhile. 0 lets the others have their turn.
     *
     * As every function that waits, it can be called in handlers and tasks of a running server, and in Fibers that they
     * run. It cannot in a destructor (before PHP 8.4), a callback of ob_start(), an autoloader, or after the first piece of
     * a Response::stream().
     *
     * @throws Exception\CancelledException when the wait has to end: the task or a Cancellation was cancelled,
     *         or, as a ClientGoneException, the client of the handler has left
     * @throws Exception\TimeoutException when the time of a timeout() around it is over
     * @throws Exception\MisuseError where PHP cannot wait; the message says why
     */
    function delay(float $seconds): void {}

    /**
     * Begins a task: `$work` is called soon, without arguments, while this handler or task waits or when it has ended.
     *
     * The task works for the same client: when it leaves before it is answered, waits in the task end, too. It has a
     * copy of the Context. A failure that nobody awaits is logged.
     *
     * @throws Exception\BackpressureException when tasks_queue_max tasks have not begun
     * @template T
     * @param callable(): T $work
     * @return Future<T>
     */
    function async(callable $work): Future {}

    /**
     * The same as `$future->await()`.
     *
     * @template T
     * @param Future<T> $future
     * @return T
     */
    function await(Future $future): mixed {}

    /**
     * Runs all at the same time and waits for all. The results have the names of named arguments.
     *
     * When one fails, what was given as a callable and has not ended is cancelled, and the exception is thrown.
     * Each argument is a callable or a Future; the results are in their order.
     *
     * @template T
     * @param (callable(): T)|Future<T> ...$works
     * @return array<array-key, T>
     */
    function all(callable|Future ...$works): array {}

    /**
     * Runs all at the same time and waits for the first that ends; returns its result or throws its exception.
     * What was given as a callable and has not ended is cancelled. Each argument is a callable or a Future.
     *
     * @template T
     * @param (callable(): T)|Future<T> ...$works
     * @return T
     */
    function race(callable|Future ...$works): mixed {}

    /**
     * Calls `$work`, whose waits end with a TimeoutException when the time is over. Code that does not wait is not
     * interrupted.
     *
     * @template T
     * @param callable(): T $work
     * @return T
     */
    function timeout(float $seconds, callable $work): mixed {}

    /**
     * Calls `$work`, whose waits nothing from outside ends: neither a client that leaves, nor a cancelled task, nor a
     * timeout() around it.
     *
     * @template T
     * @param callable(): T $work
     * @return T
     */
    function shield(callable $work): mixed {}

    /**
     * The result of a task, now or later.
     *
     *
     * @template-covariant T
     */
    final class Future
    {
        private function __construct() {}

        /**
         * Waits for the end of the task and returns its result, or throws its exception. It may be asked again.
         *
         * @throws Exception\MisuseError when the task waits, maybe over others, for the one that asks
         * @return T
         */
        public function await(): mixed {}

        /** Whether the task has ended; then await() does not wait. */
        public function isDone(): bool {}

        /** Ends the waits of the task with a CancelledException, each one from now on. A task that has not begun never does. */
        public function cancel(): void {}
    }

    /** Ends the waits of everything that runs under it. */
    final class Cancellation
    {
        /** Waits in run() end with a CancelledException, those of now and those to come. */
        public function cancel(): void {}

        public function isCancelled(): bool {}

        /**
         * Calls `$work`, whose waits end when this is cancelled.
         *
         * @template T
         * @param callable(): T $work
         * @return T
         */
        public function run(callable $work): mixed {}
    }

    /** PHP's own functions that hold the worker while they wait, in groups. See Runtime::hook(). */
    enum Hook
    {
        /** sleep(), usleep(), time_nanosleep(), time_sleep_until() */
        case Sleep;

        /** Streams of sockets: TCP, TLS, UDP, Unix; and what uses them: http:// and ftp://, PDO MySQL, mysqli, Redis, SMTP. */
        case Streams;

        /** stream_select(), mysqli_poll() */
        case StreamSelect;

        /** The extension sockets: socket_read(), socket_select() … */
        case Sockets;

        /** Names of hosts: in connections, gethostbyname(), dns_get_record() … */
        case Dns;

        /** exec(), shell_exec(), passthru(), system(), popen(), proc_open() and their pipes */
        case Processes;

        /** Plain files: fopen(), fread(), fwrite(), file_get_contents(), copy(), unlink(), stat(), flock(), fsync() … */
        case Files;

        /** The extension curl: curl_exec(), curl_multi_select() */
        case Curl;

        /** The extensions pgsql and pdo_pgsql */
        case PostgreSql;

        /** The extensions pdo_sqlite and sqlite3 */
        case Sqlite;
    }

    /** What concerns the whole PHP process. */
    final class Runtime
    {
        /**
         * From now on these functions wait without holding the worker when a handler or task calls them: others go on.
         * Everywhere else, and in all other respects, they are as they were.
         *
         * To be called before Server::run(). A group whose extension is not loaded is passed over, so
         * `Runtime::hook(...Hook::cases())` means whatever there is.
         *
         * @throws Exception\MisuseError in a worker
         * @throws Exception\ConfigurationException when this PHP cannot be hooked
         */
        public static function hook(Hook ...$hooks): void {}

        /** @return list<Hook> those that are on */
        public static function hooks(): array {}

        /**
         * Whether the server that run() has returned from is to be started anew: SIGUSR2 has ended it, and no signal to stop
         * came since. What runs the program does so, by exec() for example.
         */
        public static function isToRestart(): bool {}

        /**
         * A connection that goes on when a wait in it is ended (by a client that left, timeout(), a cancelled task), where it
         * would be shut down otherwise. The next who reads from it gets what the one that was ended has not read, so it is for
         * protocols that tell by a number in each message whom it is for, and for streams of one-sided messages. Handlers do not
         * queue for it either: one may read while another writes.
         *
         * @param resource|\Socket $connection a stream over a socket, or a socket; until it is closed
         */
        public static function keepOnCancel(mixed $connection): void {}
    }

    /**
     * Rows that all workers and jobs of a server share, in memory: counters, who is signed in, what was computed.
     *
     * A table is made in the program, before run(), and used in handlers, tasks and jobs, without waiting. It has a fixed number
     * of rows of fixed columns, found by a key. Each call sees and changes a whole row: a worker that is killed in the middle of
     * it has changed nothing. Rows are gone when the server ends.
     *
     * foreach gives copies of the rows by key. One that stays where it is comes once; one that is deleted and set again
     * meanwhile may come twice or not at all.
     *
     *
     * @implements \IteratorAggregate<string, array<string, int|float|string>>
     */
    final class Table implements \Countable, \IteratorAggregate
    {
        /** Rows that it has room for. */
        public readonly int $rows;

        /** @var list<Table\Column> */
        public readonly array $columns;

        /** Bytes that a key may have. */
        public readonly int $keyBytes;

        /** Memory that it takes when all rows are used. */
        public readonly int $bytes;

        /**
         * @param int $rows 1 to 16,777,216
         * @param array<Table\Column> $columns with different names, at least one
         * @param int $keyBytes 1 to 1024
         * @throws Exception\MisuseError when a value is out of its range, and in a running server
         * @throws Exception\ConfigurationException when there is no such memory
         */
        public function __construct(int $rows, array $columns, int $keyBytes = 64) {}

        /**
         * Changes the columns that are named of a row, or adds it; columns of a new row that are not named are zero or empty.
         *
         * @param array<string, int|float|string> $row values by the names of their columns
         * @throws Exception\BackpressureException when the table has all of its rows, or another process keeps it locked
         * @throws Exception\MisuseError when the key is too long, and for an unknown column or a value that does not fit
         */
        public function set(string $key, array $row): void {}

        /**
         * A copy of a row; null when there is none.
         *
         * @return array<string, int|float|string>|null
         * @throws Exception\MisuseError when the key is too long
         */
        public function get(string $key): ?array {}

        /**
         * One column of a row; null when there is no such row.
         *
         * @throws Exception\MisuseError when the key is too long, or for an unknown column
         */
        public function value(string $key, string $column): int|float|string|null {}

        /** @throws Exception\MisuseError when the key is too long */
        public function exists(string $key): bool {}

        /**
         * Adds to a number, from zero when there is no such row, and returns the sum: no other process comes between.
         *
         * @throws Exception\BackpressureException as set()
         * @throws Exception\MisuseError as set(), for a column of strings, and when the sum is more than an int can be
         */
        public function increment(string $key, string $column, int|float $by = 1): int|float {}

        /** As increment(), with the opposite of `$by`. */
        public function decrement(string $key, string $column, int|float $by = 1): int|float {}

        /**
         * False when there is no such row.
         *
         * @throws Exception\BackpressureException when another process keeps the table locked
         */
        public function delete(string $key): bool {}

        /** Deletes the rows that are there, one after the other; those that are added meanwhile may stay. */
        public function clear(): void {}

        /** Rows that are there. */
        public function count(): int {}

        /**
         * What foreach uses.
         *
         * @return \Iterator<string, array<string, int|float|string>>
         */
        public function getIterator(): \Iterator {}
    }

    /**
     * Connections to a database or another server that the handlers and tasks of a worker borrow, at most so many.
     *
     *
     * @template C
     */
    final class Pool
    {
        /**
         * Opens nothing yet, so it may be made before run().
         *
         * @param int $size connections of one worker at most, 1 to 10,000
         * @param float $waitSeconds how long use() waits while all are borrowed
         * @param float $checkAfterSeconds one that has been idle for longer is asked before it is lent
         * @throws Exception\MisuseError when a value is out of its range
         * @param \Closure(): C $connect
         * @param (\Closure(C): bool)|null $check
         * @param (\Closure(C): void)|null $reset
         */
        public function __construct(
            \Closure $connect,
            int $size,
            float $waitSeconds = 5.0,
            float $checkAfterSeconds = 30.0,
            ?\Closure $check = null,
            ?\Closure $reset = null,
        ) {}

        /**
         * Calls `$work` with a connection, and takes it back when that has ended, however that was.
         *
         * @throws Exception\TimeoutException when all were borrowed for longer than waitSeconds
         * @throws Exception\ConnectionClosedException after close()
         * @template T
         * @param callable(C): T $work
         * @return T
         */
        public function use(callable $work): mixed {}

        /** Nobody gets one any more: those that are idle are closed now, the others when they come back. */
        public function close(): void {}

        /** Connections that nobody uses. */
        public function idle(): int {}

        /** Connections that are used, or are being opened. */
        public function borrowed(): int {}

        /** Handlers and tasks that wait for one. */
        public function waiting(): int {}
    }

    /** Values that belong to one handler and the tasks it begins, such as a user or a trace id. */
    final class Context
    {
        public static function get(string $name, mixed $default = null): mixed {}

        /** Tasks begun later have the value; it is gone when the handler or task ends. */
        public static function set(string $name, mixed $value): void {}
    }

    /**
     * Files, without holding the loop: in a handler or task every call waits as delay() does while others go on, and
     * what the kernel has in its memory is there at once. Elsewhere (in scripts, in destructors) calls do the same and block.
     *
     * What is written to one path, or through one File, is written in the order of the calls. A write whose caller is ended
     * meanwhile is finished all the same, and a worker that stops finishes what has begun.
     *
     * Paths are those of the file system, without wrappers such as php://. Permissions are those of open(2): the umask applies.
     */
    final class File
    {
        /** As given to open() or temporary(), or what keep() has made of it. */
        public readonly string $path;

        private function __construct() {}

        /**
         * Reads a file, or a part of it.
         *
         * @param int $offset where to begin; behind the end nothing is read
         * @param int|null $length at most so many bytes; null = to the end
         * @throws Exception\FileException why it cannot be read, by one of its subclasses where there is one; also when it has
         *         more than file_read_bytes_max bytes
         * @throws Exception\CancelledException when the wait has to end, as delay() does
         */
        public static function read(string $path, int $offset = 0, ?int $length = null): string {}

        /**
         * Writes a file.
         *
         * @param File\WriteMode $mode what becomes of a file that is there; Atomic leaves it as it was until all is written
         * @param bool $sync whether to return only when the disk has it, for what has to survive a loss of power
         * @param int $permissions of a file that is made
         * @return int bytes written: all of them
         * @throws Exception\DiskFullException when there is no room, and says how much of it is in the file
         * @throws Exception\FileException for any other reason
         */
        public static function write(
            string $path,
            string $data,
            File\WriteMode $mode = File\WriteMode::Replace,
            bool $sync = false,
            int $permissions = 0666,
        ): int {}

        /**
         * Copies a file with its permissions. The target is there at once and whole, or not at all.
         *
         * @return int bytes copied
         * @throws Exception\FileExistsException without $overwrite
         */
        public static function copy(string $from, string $to, bool $overwrite = true): int {}

        /** @param bool $followLinks whether to look at what a symbolic link points to */
        public static function stat(string $path, bool $followLinks = true): File\Stat {}

        /** Whether there is anything of that name; false as well below a directory that may not be searched. */
        public static function exists(string $path): bool {}

        /**
         * The names in a directory, sorted by their bytes, without "." and "..".
         *
         * @return list<string>
         */
        public static function list(string $path): array {}

        /**
         * Removes a file, a link or an empty directory.
         *
         * @param bool $recursive a directory with everything in it; links in it are removed and not followed
         * @throws Exception\FileNotFoundException
         * @throws Exception\DirectoryNotEmptyException without $recursive
         */
        public static function remove(string $path, bool $recursive = false): void {}

        /** Gives a file or directory another name on the same file system. */
        public static function rename(string $from, string $to, bool $overwrite = true): void {}

        /** @param bool $recursive makes the directories above it, too, and is content when it is there already */
        public static function makeDirectory(string $path, bool $recursive = true, int $permissions = 0777): void {}

        /**
         * The lines of a file, one after the other, without their ends (\n or \r\n).
         *
         * @param int $bytesMax bytes that a line may have
         */
        public static function lines(string $path, int $bytesMax = 1048576): File\Pieces {}

        /** The bytes of a file, so many at a time. */
        public static function blocks(string $path, int $bytes = 65536): File\Pieces {}

        /** Opens a file; it is closed by close(), or with the object. */
        public static function open(string $path, File\OpenMode $mode = File\OpenMode::Read, int $permissions = 0666): File {}

        /**
         * Makes a file of its own name that only this user can read. It is removed when it is closed, unless keep() was called.
         *
         * @param string|null $directory null = the system's directory for temporary files
         */
        public static function temporary(?string $directory = null, string $prefix = 'fermata-'): File {}

        /** The next bytes, fewer only at the end; null behind it. */
        public function readBlock(int $bytes = 65536): ?string {}

        /**
         * The next line without its end (\n or \r\n); null behind the last.
         *
         * @param int $bytesMax bytes that the line may have
         * @throws Exception\FileException when it has more
         */
        public function readLine(int $bytesMax = 1048576): ?string {}

        /**
         * Writes at the position; behind the end of a file that was opened with OpenMode::Append.
         *
         * @return int bytes written: all of them
         */
        public function writeBlock(string $data): int {}

        /** Goes to a place, counted from the beginning. */
        public function seek(int $position): void {}

        public function position(): int {}

        public function size(): int {}

        /** Cuts the file off, or makes it longer with zero bytes. */
        public function truncate(int $size): void {}

        /** Returns when the disk has everything. */
        public function sync(): void {}

        /**
         * Waits until it has the lock, which all processes and all other File objects see that ask for it (flock).
         *
         * The lock ends with unlock(), or when the file is closed.
         *
         * @param bool $exclusive alone, or together with others that do not want it alone
         */
        public function lock(bool $exclusive = true): void {}

        /** As lock(), but returns false when another has it. */
        public function tryLock(bool $exclusive = true): bool {}

        public function unlock(): void {}

        /**
         * Makes a temporary file a lasting one.
         *
         * @param string $path on the same file system; what is there is replaced
         * @throws Exception\MisuseError when it is no temporary file
         */
        public function keep(string $path): void {}

        /** Closes it; calls that have not returned are finished. A second call does nothing. */
        public function close(): void {}
    }
}

namespace Fermata\File {
    /** What becomes of a file that is there. */
    enum WriteMode: int
    {
        /** It is emptied first. */
        case Replace = 0;

        /** It is replaced by a new one when that is whole: readers find the old content or the new, also after a failure. */
        case Atomic = 1;

        /** The bytes go behind its end. */
        case Append = 2;

        /** It stays as it is, and the call throws a FileExistsException. */
        case New = 3;
    }

    /** What a file is opened for. */
    enum OpenMode: int
    {
        /** Reading; the file has to be there. */
        case Read = 0;

        /** Reading and writing; it is made if it is not there. */
        case Update = 1;

        /** Reading and writing; it is made, or emptied. */
        case Replace = 2;

        /** Writing behind its end; it is made if it is not there. */
        case Append = 3;

        /** Reading and writing; there must be none. */
        case New = 4;
    }

    /** What has a name in a directory. */
    enum Type: int
    {
        case File = 0;
        case Directory = 1;
        case Link = 2;

        /** A pipe, a socket or a device. */
        case Other = 3;
    }

    /** What the file system says about a file. */
    final class Stat
    {
        public readonly Type $type;

        /** In bytes. */
        public readonly int $size;

        /** The last twelve bits of the mode, such as 0644. */
        public readonly int $permissions;

        public readonly int $owner;

        public readonly int $group;

        public readonly int $inode;

        public readonly int $device;

        /** How many names it has. */
        public readonly int $links;

        /** When its content was last changed, in Unix seconds. */
        public readonly float $modifiedAt;

        /** When it was last read, as far as the file system notes it. */
        public readonly float $accessedAt;

        /** When anything about it was last changed. */
        public readonly float $changedAt;

        private function __construct() {}

        public function isFile(): bool {}

        public function isDirectory(): bool {}
    }

    /**
     * The lines or blocks of a file, read as they are asked for. They can be gone through once.
     *
     *
     * @implements \Iterator<int, string>
     */
    final class Pieces implements \Iterator
    {
        private function __construct() {}

        public function current(): string {}

        /** The piece's number, from 0. */
        public function key(): int {}

        public function next(): void {}

        public function rewind(): void {}

        public function valid(): bool {}
    }
}

namespace Fermata\Sync {
    /** One at a time, first come, first served. It belongs to the handler or task that has locked it, in this worker. */
    final class Mutex
    {
        /**
         * Waits until it is free, and locks it.
         *
         * @throws \Fermata\Exception\MisuseError when that would be a deadlock; the message says where the other waits
         */
        public function lock(): void {}

        /** Locks it if it is free. */
        public function tryLock(): bool {}

        /** Gives it to the first who waits. */
        public function unlock(): void {}

        public function isLocked(): bool {}

        /**
         * Calls `$work` with it locked, and unlocks it also when that throws.
         *
         * @template T
         * @param callable(): T $work
         * @return T
         */
        public function synchronized(callable $work): mixed {}
    }

    /** So many at a time, first come, first served. */
    final class Semaphore
    {
        /** @param int $permits 1 or more */
        public function __construct(int $permits) {}

        /** Waits for a permit. */
        public function acquire(): void {}

        /** Takes a permit if there is one. */
        public function tryAcquire(): bool {}

        /** Gives a permit back, to the first who waits. Any handler or task may. */
        public function release(): void {}

        /**
         * Calls `$work` with a permit, and gives it back also when that throws.
         *
         * @template T
         * @param callable(): T $work
         * @return T
         */
        public function run(callable $work): mixed {}
    }

    /**
     * Values from some handlers or tasks to others of the same worker, in order.
     *
     * foreach takes one value after the other out of it, waits while it is empty, and ends when it is closed and empty.
     *
     *
     * @template T
     * @implements \IteratorAggregate<int, T>
     */
    final class Queue implements \Countable, \IteratorAggregate
    {
        /** @param int $capacity values that may be between push() and pop() */
        public function __construct(int $capacity = 1) {}

        /**
         * Waits while it is full.
         *
         * @throws \Fermata\Exception\QueueClosedException
         * @param T $item
         */
        public function push(mixed $item): void {}

        /**
         * False when it is full.
         *
         * @param T $item
         */
        public function tryPush(mixed $item): bool {}

        /**
         * Waits while it is empty.
         *
         * @throws \Fermata\Exception\QueueClosedException when it is closed and empty
         * @return T
         */
        public function pop(): mixed {}

        /**
         * The default when it is empty.
         *
         * @template D
         * @param D $default
         * @return T|D
         */
        public function tryPop(mixed $default = null): mixed {}

        /** Nothing more is taken in; what is in it can still be taken out. */
        public function close(): void {}

        public function isClosed(): bool {}

        /** Values in it. */
        public function count(): int {}

        /**
         * What foreach uses.
         *
         * @return \Iterator<int, T>
         */
        public function getIterator(): \Iterator {}
    }
}

namespace Fermata\Table {
    /** What a column holds. */
    enum Type: string
    {
        /** 64 bits with a sign. */
        case Int = 'int';
        case Float = 'float';

        /** Any bytes, at most as many as the column says. */
        case String = 'string';
    }

    /** A column of a Table. */
    final readonly class Column
    {
        public readonly string $name;
        public readonly Type $type;

        /** Bytes that a string may have; 8 for numbers. */
        public readonly int $bytes;

        private function __construct() {}

        public static function int(string $name): Column {}

        public static function float(string $name): Column {}

        /**
         * @param int $bytes 1 to 67,108,864, for all columns of a row
         * @throws \Fermata\Exception\MisuseError
         */
        public static function string(string $name, int $bytes): Column {}
    }
}

namespace Fermata\WebSocket {
    /**
     * A client that asks to be connected; see WebSocketHandler::upgrade(). Decided when the handler returns:
     * one that throws answers 500 as for requests.
     */
    final class Upgrade
    {
        private function __construct() {}

        /** The request with path, headers, cookies and route parameters. */
        public function request(): \Fermata\Request {}

        /**
         * The subprotocols the client offers, its favourite first.
         *
         * @return list<string>
         */
        public function protocols(): array {}

        /** The page's origin, such as "https://example.org"; null when no browser asks. It has passed Options::$origins. */
        public function origin(): ?string {}

        /**
         * Accepts the connection.
         *
         * @param string|null $protocol one of protocols(); null takes the first of Options::$protocols that the client offers
         * @param array<string, string|list<string> $headers> for the answer; a list makes one line each
         * @throws \Fermata\Exception\MisuseError when the client does not offer the protocol, a header is malformed or reserved,
         *         or the upgrade is decided
         */
        public function accept(?string $protocol = null, array $headers = []): void {}

        /**
         * Answers the request instead.
         *
         * @param \Fermata\Response|int $response a whole answer, or a status from 300 to 599
         * @throws \Fermata\Exception\MisuseError when the status is out of range, or the upgrade is decided
         */
        public function refuse(\Fermata\Response|int $response = 403): void {}

        /** What WebSocket::data() returns from the beginning. */
        public function setData(mixed $data): void {}
    }

    /** A message that came. Its bytes become a PHP string when asked for. It may be kept. */
    final class Message implements \Stringable, \JsonSerializable
    {
        private function __construct() {}

        /** The bytes; of a text they are UTF-8. */
        public function data(): string {}

        public function isBinary(): bool {}

        /**
         * The message decoded as JSON, objects as arrays.
         *
         * @throws \Fermata\Exception\BadRequestException when it is not valid JSON; left uncaught, the connection is closed with 1007
         */
        public function json(): mixed {}

        /** Same as data(). */
        public function __toString(): string {}

        /** Same as data(): json_encode() makes a JSON string of a text, and refuses binary bytes that are no UTF-8. */
        public function jsonSerialize(): string {}
    }

    /** What happens when a client reads slower than it is sent to, and its queue is full. */
    enum QueuePolicy: string
    {
        /** send() throws a BackpressureException, trySend() returns false. */
        case Refuse = 'refuse';

        /** The oldest messages that wait are dropped. */
        case DropOldest = 'drop-oldest';

        /** The connection is closed with 1013. */
        case Close = 'close';
    }

    /** What a subscriber gets of an event. */
    enum Format: string
    {
        /** The event's data as a text message. */
        case Data = 'data';

        /** `{"channel":…,"id":…,"event":…,"data":…}` with the data as a string; has names and ids, `join`, `leave` and `gap`. */
        case Json = 'json';
    }

    /** How a route treats its connections. Null means the setting of the server. */
    final class Options
    {
        /** Pages that may connect, as "scheme://host" or "scheme://host:port"; null = those of the same host, ['*'] = all. */
        public readonly ?array $origins;

        /** Subprotocols the server speaks, its favourite first. */
        public readonly array $protocols;

        /** Bytes of a message, all fragments together; over it the connection is closed with 1009. */
        public readonly ?int $messageBytes;

        /** Bytes of one frame; over it the connection is closed with 1009. */
        public readonly ?int $frameBytes;

        /** Unsent bytes per connection before the policy applies. */
        public readonly ?int $queueBytes;

        public readonly QueuePolicy $queuePolicy;

        /** Milliseconds of silence before the client is pinged; 0 = never. */
        public readonly ?int $pingIntervalMs;

        /** Milliseconds a ping may stay unanswered before the connection is given up; 0 = for ever. */
        public readonly ?int $pongTimeoutMs;

        /** Milliseconds without a message from the client before it is closed; 0 = for ever. */
        public readonly ?int $idleTimeoutMs;

        /** Null = messages are not compressed. */
        public readonly ?Compression $compression;

        /**
         * @param list<string>|null $origins
         * @param list<string> $protocols
         * @throws \Fermata\Exception\MisuseError when a list has something else than strings, or a number is out of range
         */
        public function __construct(
            ?array $origins = null,
            array $protocols = [],
            ?int $messageBytes = null,
            ?int $frameBytes = null,
            ?int $queueBytes = null,
            QueuePolicy $queuePolicy = QueuePolicy::Close,
            ?int $pingIntervalMs = null,
            ?int $pongTimeoutMs = null,
            ?int $idleTimeoutMs = null,
            ?Compression $compression = null,
        ) {}
    }

    /** Compression of messages (RFC 7692), for clients that offer it. */
    final class Compression
    {
        /** Whether what was sent helps to compress what follows: smaller messages for at most 8 KiB of memory per connection. */
        public readonly bool $serverContextTakeover;

        /** Whether the client may do so; its memory is the server's too. */
        public readonly bool $clientContextTakeover;

        /** Base-2 logarithm of the window, 9 to 15. */
        public readonly int $windowBits;

        /** 1 (fast) to 9 (small). */
        public readonly int $level;

        /** Shorter messages are sent as they are. */
        public readonly int $minBytes;

        /** @throws \Fermata\Exception\MisuseError when a number is out of range */
        public function __construct(
            bool $serverContextTakeover = false,
            bool $clientContextTakeover = false,
            int $windowBits = 15,
            int $level = 1,
            int $minBytes = 64,
        ) {}
    }

    /** Frames of RFC 6455 for programs that bring their own connection. */
    final class Codec
    {
        private function __construct() {}

        /**
         * The value of Sec-WebSocket-Accept for a client's Sec-WebSocket-Key.
         *
         * @throws \Fermata\Exception\BadRequestException when the key is not base64 of 16 bytes
         */
        public static function acceptKey(string $key): string {}

        /**
         * One frame, ready to be sent.
         *
         * @param bool $masked true for what a client sends; the key is drawn from the system's random source
         * @param bool $fin false when the message goes on in another frame
         * @param bool $rsv1 set by an extension, such as permessage-deflate on the first frame of a compressed message;
         *        the payload of a text is then not checked
         * @throws \Fermata\Exception\MisuseError when the frame would break the protocol: text that is not UTF-8, a control frame that
         *         is fragmented, longer than 125 bytes or has a reserved bit, a close frame with a malformed payload
         */
        public static function encode(
            string $payload,
            Opcode $opcode = Opcode::Text,
            bool $masked = false,
            bool $fin = true,
            bool $rsv1 = false,
            bool $rsv2 = false,
            bool $rsv3 = false,
        ): string {}

        /**
         * A close frame with code and reason. One without is `encode('', Opcode::Close)`.
         *
         * @param CloseCode|int $code a case that may be sent, or 3000 to 4999
         * @param string $reason UTF-8, at most 123 bytes
         * @throws \Fermata\Exception\MisuseError when the code must not be sent, or the reason is not UTF-8 or too long
         */
        public static function encodeClose(CloseCode|int $code = CloseCode::Normal, string $reason = '', bool $masked = false): string {}

        /**
         * Reads one frame.
         *
         * Each frame is judged by itself: putting fragments together, and their order, is the caller's. A text must be UTF-8;
         * of a fragmented one the first frame may end inside a character, and continuations are not checked.
         *
         * @param int $offset where in $bytes the frame starts; the next one starts Frame::$bytesConsumed later
         * @param bool|null $masked true = frames come from a client and must be masked, false = from a server and must not be,
         *        null = either
         * @param bool $rsv1 whether a negotiated extension uses this bit; as $rsv2 and $rsv3
         * @param int $payloadBytesMax bytes of payload a data frame may have. A longer one throws as soon as its header is there.
         * @return Frame|null null when bytes are missing; read more and try again
         * @throws \Fermata\Exception\ProtocolException when the peer broke the protocol; close with its closeCode() and read no further
         * @throws \Fermata\Exception\MisuseError when the offset lies outside $bytes, or the limit is negative
         */
        public static function decode(
            string $bytes,
            int $offset = 0,
            ?bool $masked = null,
            bool $rsv1 = false,
            bool $rsv2 = false,
            bool $rsv3 = false,
            int $payloadBytesMax = 16777216,
        ): ?Frame {}
    }

    /**
     * A blocking client for tests and scripts, over ws:// and wss://. It answers pings while it receives.
     *
     * In a handler of a server it would hold up the whole worker. When the object goes, the connection ends without
     * close(), which the server sees as 1006.
     */
    final class Client
    {
        private function __construct() {}

        /**
         * Opens a connection.
         *
         * @param string $url ws://host/path or wss://host/path, with port and query if need be
         * @param list<string> $subprotocols, the favourite first
         * @param array<string, string|list<string> $headers>, such as Cookie, Origin and Authorization
         * @param float $timeout seconds until the connection has to be open; later, seconds that sending may take
         * @param bool $compression whether to offer permessage-deflate
         * @param int $messageBytes longest message that is accepted; over it the connection is closed with 1009
         * @param resource|null $context a stream context; its "ssl" options say which certificates wss:// trusts
         * @throws \Fermata\Exception\ConnectionException when the server cannot be reached, or answers with another status,
         *         which is then the exception's code
         * @throws \Fermata\Exception\TimeoutException when it does not answer in time
         * @throws \Fermata\Exception\ProtocolException when its answer is not what was asked for
         * @throws \Fermata\Exception\MisuseError when the URL, a header or a subprotocol is malformed
         */
        public static function connect(
            string $url,
            array $subprotocols = [],
            array $headers = [],
            float $timeout = 10.0,
            bool $compression = false,
            int $messageBytes = 16777216,
            $context = null,
        ): Client {}

        /**
         * Sends a message.
         *
         * @param Message|string $data a text, or a message that came, which goes out as it is
         * @throws \Fermata\Exception\ConnectionClosedException when the connection has ended
         * @throws \Fermata\Exception\TimeoutException when the server does not take it; the connection is then given up
         * @throws \Fermata\Exception\MisuseError when the text is not UTF-8
         */
        public function send(Message|string $data): void {}

        /**
         * Sends a binary message; see send().
         *
         * @throws \Fermata\Exception\ConnectionClosedException when the connection has ended
         * @throws \Fermata\Exception\TimeoutException when the server does not take it; the connection is then given up
         */
        public function sendBinary(string $data): void {}

        /**
         * Waits for a message.
         *
         * @param float|null $timeout seconds; 0 takes only what has come, null waits without end
         * @return Message|null null when none has come in time
         * @throws \Fermata\Exception\ConnectionClosedException when the connection has ended; its code is the close code
         * @throws \Fermata\Exception\ProtocolException when the server breaks the protocol; the connection is then closed
         */
        public function receive(?float $timeout = null): ?Message {}

        /**
         * Sends a ping. The answer comes while receiving; see lastPong().
         *
         * @param string $payload at most 125 bytes
         * @throws \Fermata\Exception\ConnectionClosedException when the connection has ended
         * @throws \Fermata\Exception\TimeoutException when the server does not take it; the connection is then given up
         * @throws \Fermata\Exception\MisuseError when the payload is too long
         */
        public function ping(string $payload = ''): void {}

        /**
         * Closes the connection and waits for the server's answer. Messages that still come are lost. Closing twice does nothing.
         *
         * @param CloseCode|int $code a case that may be sent, or 3000 to 4999
         * @param string $reason UTF-8, at most 123 bytes
         * @param float $timeout seconds to wait for the answer
         * @throws \Fermata\Exception\ProtocolException when the server breaks the protocol meanwhile
         * @throws \Fermata\Exception\MisuseError when the code must not be sent, or the reason is not UTF-8 or too long
         */
        public function close(CloseCode|int $code = CloseCode::Normal, string $reason = '', float $timeout = 5.0): void {}

        /** Whether it can send, as far as is known: that the server has left shows when it is received from or sent to. */
        public function isOpen(): bool {}

        /** The subprotocol the server has chosen. */
        public function protocol(): ?string {}

        /** The payload of the last pong; null when none came. */
        public function lastPong(): ?string {}

        /** What the server has closed with, or answered to close(): 1005 when it gave no code, 1006 when it gave no answer; null while open. */
        public function closeCode(): ?int {}

        /** The reason that came with it; may be empty. */
        public function closeReason(): ?string {}
    }

    /** A frame that Codec::decode() has read. */
    final class Frame
    {
        public readonly Opcode $opcode;

        /** Unmasked. Of a close frame code and reason together. */
        public readonly string $payload;

        /** Whether this frame ends its message. */
        public readonly bool $fin;

        public readonly bool $masked;

        public readonly bool $rsv1;

        public readonly bool $rsv2;

        public readonly bool $rsv3;

        /** Length of the whole frame in the bytes that were decoded. */
        public readonly int $bytesConsumed;

        /** The code of a close frame; null when it has none, and on other frames. See CloseCode::tryFrom(). */
        public readonly ?int $closeCode;

        /** The reason of a close frame, empty when it has none; null on other frames. */
        public readonly ?string $closeReason;

        private function __construct() {}
    }

    /** What a frame is (RFC 6455, 11.8). */
    enum Opcode: int
    {
        /** A further frame of a message. */
        case Continuation = 0;

        /** The first frame of a text message. */
        case Text = 1;

        /** The first frame of a binary message. */
        case Binary = 2;

        case Close = 8;
        case Ping = 9;
        case Pong = 10;
    }

    /** Why a connection is closed (RFC 6455, 7.4.1 and the IANA registry). 3000 to 4999 are free for programs. */
    enum CloseCode: int
    {
        case Normal = 1000;
        case GoingAway = 1001;
        case ProtocolError = 1002;
        case Unsupported = 1003;

        /** The close frame had no code. Never sent. */
        case NoStatus = 1005;

        /** The connection ended without a close frame. Never sent. */
        case Abnormal = 1006;

        /** Text that is not UTF-8. */
        case InvalidPayload = 1007;
        case PolicyViolation = 1008;
        case MessageTooBig = 1009;
        case ExtensionRequired = 1010;
        case InternalError = 1011;
        case ServiceRestart = 1012;
        case TryAgainLater = 1013;
        case BadGateway = 1014;

        /** The TLS handshake failed. Never sent. */
        case TlsHandshake = 1015;
    }
}

namespace Fermata\Testing {
    /**
     * A worker of a server in the process of a test: no port, no other process, and a clock that stands still until the test
     * sets it forward. It is what `TestApplication` of the Composer package is made of, which is easier to use.
     *
     * There is one at a time, outside of Fibers. Handlers run while run() does, and nothing else of the server.
     */
    final class Engine
    {
        /**
         * @param \Fermata\Server $server with its routes; its addresses and its number of workers do not count, and it cannot
         *        be run any more
         * @param float $waitSeconds how long run() waits for what goes on outside of this process, such as queries
         * @throws \Fermata\Exception\MisuseError when another one is open
         * @throws \Fermata\Exception\ConfigurationException as Server::run()
         */
        public function __construct(\Fermata\Server $server, float $waitSeconds = 10.0) {}

        /**
         * Has the server accept a connection: one of the two streams of stream_socket_pair(). The other one is the client's.
         *
         * @param resource $stream
         * @param string $address from which the client comes; an empty one stands for a Unix socket
         */
        public function connect($stream, string $address = '127.0.0.1', int $port = 50000): void {}

        /** Runs the server until nothing is left to do at this time. */
        public function run(): void {}

        /**
         * Sets the clock forward to the next time at which something is due, or by so many milliseconds, and runs the server.
         *
         * @return int by how many milliseconds, at most $ms
         */
        public function advance(int $ms): int {}

        /** What a handler has thrown last; null when nothing was thrown since the last call. */
        public function takeException(): ?\Throwable {}

        /**
         * How a handler has held its client last; null when none was held since the last call. `info` is JSON, and a
         * `keepAlive` of null stands for that of the settings.
         *
         * @return array|null array{channels: list<string>, since: ?string, user: ?string, info: ?string, announces: bool,
         *         keepAlive: ?int, closesOnGap: bool}
         */
        public function takeHold(): ?array {}

        /** What the server has logged so far. */
        public function log(): string {}

        /** Ends handlers that wait and all connections; does nothing when it was called before. */
        public function stop(): void {}
    }
}

namespace Fermata\Pusher {
    /** A URL that is told what happens to the channels of an application, as Pusher's webhooks do. */
    final class Webhook
    {
        public readonly string $url;

        public readonly ?array $events;

        public readonly int $timeoutMs;

        public readonly int $retrySeconds;

        public readonly int $queueEventsMax;

        /**
         * @param string $url http:// or https://
         * @param list<WebhookEvent>|null $events of what is told. Default: everything.
         * @param int $timeoutMs how long one attempt may take
         * @param int $retrySeconds after which an event that was not taken is given up; 0: after one attempt
         * @param int $queueEventsMax events that wait to be sent
         * @throws \Fermata\Exception\MisuseError when $events has something else in it
         */
        public function __construct(
            string $url,
            ?array $events = null,
            int $timeoutMs = 5000,
            int $retrySeconds = 300,
            int $queueEventsMax = 10000,
        ) {}
    }

    /** What webhooks are told. */
    enum WebhookEvent: string
    {
        case ChannelOccupied = 'channel_occupied';

        /** Nobody has been subscribed for 3 seconds. */
        case ChannelVacated = 'channel_vacated';

        case MemberAdded = 'member_added';

        case MemberRemoved = 'member_removed';

        case ClientEvent = 'client_event';

        case CacheMiss = 'cache_miss';

        case SubscriptionCount = 'subscription_count';
    }
}

namespace Fermata\Mercure {
    /** How tokens are signed. */
    enum Algorithm: string
    {
        case HS256 = 'HS256';

        case HS384 = 'HS384';

        case HS512 = 'HS512';

        case RS256 = 'RS256';

        case RS384 = 'RS384';

        case RS512 = 'RS512';

        case PS256 = 'PS256';

        case PS384 = 'PS384';

        case PS512 = 'PS512';

        case ES256 = 'ES256';

        case ES384 = 'ES384';

        case EdDSA = 'EdDSA';
    }
}

namespace Fermata\Exception {
    /** Everything that Fermata throws on its own account. */
    interface FermataException extends \Throwable {}

    /** A mistake in the program; the message says what to call instead. */
    final class MisuseError extends \Error implements FermataException {}

    /** A setting that cannot work; the message names it, the cause and the fix. */
    final class ConfigurationException extends \RuntimeException implements FermataException {}

    /**
     * A queue is full: the ring of events of what a worker has not read, or a WebSocket of what its client has
     * not, or the tasks that have not begun; or a table has all of its rows; try again.
     */
    final class BackpressureException extends \RuntimeException implements FermataException {}

    /**
     * The client sent nonsense. Left uncaught in a handler, the client is answered with the message and 400, or with the
     * exception's code where that is 400 to 499; its WebSocket is closed with 1007.
     */
    final class BadRequestException extends \RuntimeException implements FermataException {}

    /** An uploaded file or the temporary file of a body cannot be read or moved. */
    final class UploadException extends \RuntimeException implements FermataException {}

    /** The WebSocket has ended and cannot send any more. */
    final class ConnectionClosedException extends \RuntimeException implements FermataException {}

    /** The control socket cannot be reached. */
    final class ConnectionException extends \RuntimeException implements FermataException {}

    /** The control socket did not answer in time, or the time given to timeout() is over. */
    final class TimeoutException extends \RuntimeException implements FermataException {}

    /** What waited was told to end. */
    class CancelledException extends \RuntimeException implements FermataException {}

    /** The client has left while its handler waited. Left uncaught it is no failure. */
    final class ClientGoneException extends CancelledException {}

    /** The queue takes nothing more, and nothing is left in it. */
    final class QueueClosedException extends \RuntimeException implements FermataException {}

    /** A job has thrown, and this says what and where. */
    final class JobFailedException extends \RuntimeException implements FermataException
    {
        /** The class of what it has thrown. */
        public string $thrown = '';
    }

    /** The process that ran a job has died: a fatal error, its memory limit, exit by a signal. */
    final class JobCrashedException extends \RuntimeException implements FermataException {}

    /** A file cannot be worked on; the message names it, the cause and the fix. Its subclasses tell the frequent causes apart. */
    class FileException extends \RuntimeException implements FermataException
    {
        /** The file, as it was given. */
        public readonly string $path;
    }

    /** There is no such file or directory. */
    final class FileNotFoundException extends FileException {}

    /** Permissions, open_basedir or a file system that is mounted for reading forbid it. */
    final class AccessDeniedException extends FileException {}

    /** There is one already. */
    final class FileExistsException extends FileException {}

    /** The file system, or what this user may have of it, is full. */
    final class DiskFullException extends FileException {}

    /** It is a directory where a file is wanted. */
    final class IsDirectoryException extends FileException {}

    /** A part of the path is no directory. */
    final class NotDirectoryException extends FileException {}

    /** The directory is not empty. */
    final class DirectoryNotEmptyException extends FileException {}

    /** The peer broke the protocol; the message says how. */
    final class ProtocolException extends \RuntimeException implements FermataException
    {
        /** The code to close the connection with; getCode() is its number. */
        public function closeCode(): \Fermata\WebSocket\CloseCode {}
    }
}
