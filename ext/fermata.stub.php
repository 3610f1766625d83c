<?php

/** @generate-class-entries */

namespace Fermata {
    /**
     * HTTP server that runs as `php server.php`.
     *
     * The script registers routes and calls run(), which binds the addresses, forks the workers and supervises them.
     * A handler receives the Request and returns a Response or a Hold. If a handler throws, calls exit() or fails fatally, its
     * client gets 500 and the server continues; after a fatal error the worker is replaced.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Server
    {
        /**
         * Creates a server with these settings. An environment variable, such as FERMATA_WORKERS for $workers, overrides an
         * argument. An omitted argument has the value of its INI setting, such as `fermata.workers`, else the default.
         *
         * @param string|array|null $listen "http://HOST:PORT", "https://HOST:PORT" or "unix:/path.sock", or a list of them.
         *        Port 0: any free port. Default: http://127.0.0.1:8080. The environment variable PORT replaces the port of the
         *        first address; FERMATA_LISTEN replaces all addresses.
         * @param int|null $workers number of worker processes, 1 to 256. 0, the default: one per usable core, up to 64.
         * @param string|null $control "unix:/path.sock", the control socket on which Publisher clients publish. Default: none.
         * @param Limits|null $limits limits on connections, sizes and times
         * @param History|null $history number, age and size of the stored events
         * @param Log|null $log format and level of the log lines on standard error
         * @param Tls|null $tls certificates for https addresses
         * @param array|null $trustedProxies list<string> addresses, networks such as "10.0.0.0/8", or "unix" for all peers on
         *        Unix sockets: proxies whose headers ($proxyHeaders) contain the client's address. Default: none.
         * @param AccessLog|null $accessLog log with a line for every request. Default: none.
         * @param string|null $metrics "http://HOST:PORT", the address of GET /metrics, /health/live and /health/ready. Default:
         *        none.
         * @param string|null $gripUrl control URLs of the GRIP edges in front, separated by spaces, such as
         *        "http://localhost:5561?key=SECRET". The edge that has signed a request holds the client of that request;
         *        all edges receive the published events. Default: the environment variable GRIP_URL, else none.
         * @param array|null $proxyHeaders list<string> headers that the proxies of $trustedProxies write: "forwarded", or some
         *        of "x-forwarded-for", "x-forwarded-proto" and "x-forwarded-host". Default: "x-forwarded-for" and
         *        "x-forwarded-proto".
         * @param string|null $cluster servers of the log that several machines share, separated by commas: "nats://HOST:PORT"
         *        or "redis://HOST:PORT", over TLS "tls://HOST:PORT" or "rediss://HOST:PORT". An event published on one machine
         *        reaches the clients of all. Default: none.
         * @throws Exception\ConfigurationException if a value is out of range; the message names the setting
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
         * Registers a handler for GET. HEAD requests get its response without the body.
         *
         * @param string $path literal segments, `{name}` for one non-empty segment, and at the end `{name...}` for the rest of
         *        the path. A literal segment takes precedence over `{name}`, and `{name}` over `{name...}`.
         * @param callable $handler function (Request $request): Response|Hold; a parameter with the name of a path parameter
         *        receives its value
         * @param array $middleware list<callable> around this handler only; the first is outermost. See use().
         * @param int|null $bodyBytes maximum size of a request body in bytes; a larger one gets 413. Replaces the settings
         *        body_bytes_max, multipart_bytes_max and upload_bytes_max for this route.
         * @param bool $streamBody true: calls the handler when the headers have arrived. The handler reads the body while it
         *        arrives, with Request::read() or bodyStream(); forms are not parsed.
         * @throws Exception\MisuseError if the pattern is malformed or already registered for this method, the handler requires
         *        a parameter that is neither the Request nor a path parameter, $bodyBytes is negative, or run() was called
         */
        public function get(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** Registers a handler for POST; see get() for the arguments. */
        public function post(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** Registers a handler for PUT; see get() for the arguments. */
        public function put(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** Registers a handler for PATCH; see get() for the arguments. */
        public function patch(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** Registers a handler for DELETE; see get() for the arguments. */
        public function delete(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** Registers a handler for OPTIONS, which replaces the built-in response with `Allow`; see get() for the arguments. */
        public function options(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /** Registers a handler for the methods of a path that have no handler of their own; see get() for the arguments. */
        public function any(string $path, callable $handler, array $middleware = [], ?int $bodyBytes = null, bool $streamBody = false): static {}

        /**
         * Adds routes with a common prefix and common middleware.
         *
         * @param string $prefix such as "/api"; may contain path parameters
         * @param callable $routes function (Routes $routes): mixed, called immediately to add the routes
         * @param array $middleware list<callable> around the group's handlers; the first is outermost. See use().
         * @throws Exception\MisuseError if the prefix is malformed or run() was called
         */
        public function group(string $prefix, callable $routes, array $middleware = []): static {}

        /**
         * Adds middleware around all handlers, including those registered earlier. The first callable is outermost.
         *
         * A middleware is a function (Request $request, callable $next): Response|Hold. It returns its own response, or the
         * result of $next($request), changed or unchanged.
         * Middleware also runs for unknown paths, methods without a handler, OPTIONS, static files and WebSocket handshakes.
         *
         * @throws Exception\MisuseError if run() was called
         */
        public function use(callable ...$middleware): static {}

        /**
         * Sets the handler for unknown paths. Without it, they get the built-in 404. Middleware of use() runs around it.
         *
         * @param callable $handler function (Request $request): Response|Hold
         * @throws Exception\MisuseError if there already is such a handler, or run() was called
         */
        public function notFound(callable $handler): static {}

        /**
         * Sets the handler for exceptions of handlers and middleware. Without an error handler, the client gets the
         * built-in 500; after a BadRequestException, it gets the exception's code if that is 400 to 499, else 400.
         *
         * Exceptions are logged in any case. If the error handler throws, the client gets the built-in 500.
         * Fatal errors and exit() do not reach the error handler; the client gets 500.
         *
         * @param callable $handler function (Throwable $error, Request $request): Response|Hold
         * @throws Exception\MisuseError if there already is such a handler, or run() was called
         */
        public function error(callable $handler): static {}

        /**
         * Serves the files below a directory without running PHP.
         *
         * Hidden files and symbolic links that lead out of the directory get 404. For a directory, its index file is sent.
         * Conditional requests and ranges are supported (RFC 9110, sections 13 and 14). Clients that accept br, zstd or gzip
         * receive text compressed.
         *
         * @param string $prefix path prefix such as "/assets"
         * @param string $directory an existing directory
         * @param int|null $cacheSeconds time in seconds for which clients may use a file without revalidation (Cache-Control:
         *        max-age). 0: they revalidate every time. null: no Cache-Control.
         * @param bool $immutable true: files never change under their name, so clients need no revalidation even on a reload;
         *        needs $cacheSeconds
         * @param string $index file that is sent for a path that ends with a slash; "" for none
         * @param bool $precompressed sends app.js.br, app.js.zst or app.js.gz instead of app.js if it exists
         * @param bool $compress compresses text without such a sibling, within the settings compression_bytes_min and
         *        compression_bytes_max
         * @param bool $sources true: sends PHP scripts (.php*, .phtml, .phar, .inc, also their backup copies and archives) as
         *        text. false: they get 404.
         * @param callable|null $fallback function (Request $request): Response|Hold; called for paths below the prefix that
         *        have no file, and for all methods except GET and HEAD, for example a front controller
         * @throws Exception\MisuseError if the prefix is malformed, the directory cannot be read or an option is invalid
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
         * Forwards requests below a prefix to PHP-FPM, or to another FastCGI server, unless another route matches. The server
         * runs no PHP, no Fiber and no middleware for these requests.
         *
         * Files below the root are sent as by static(); sources of scripts are never sent. A path that names a script below
         * the root runs it, and the rest of the path is PATH_INFO. A directory runs its index.php. All other paths run the
         * index. The client gets 502 if PHP-FPM cannot be reached or closes the connection before its response is complete.
         * The client gets 504 if PHP-FPM does not respond in time. The log has the cause.
         *
         * @param string $prefix "/" for all paths, or a prefix such as "/old": the path /old/a.php then runs a.php in the root
         * @param string $socket address of PHP-FPM: the path of its Unix socket, or HOST:PORT
         * @param string $root directory of the scripts on the machine of PHP-FPM
         * @param string|null $index script below the root for all other paths; null: a path must name a script
         * @param bool $files true: the root is also a directory on this machine. false: no file is looked up, and the index
         *        handles every path.
         * @param int $connections maximum number of connections of each worker to PHP-FPM, 1 to 1,024. Each request in progress
         *        needs one.
         * @param int $queue maximum number of requests of a worker that wait for a connection, 1 to 65,536; one more gets 503
         * @param float $timeout maximum time in seconds for which PHP-FPM sends and reads nothing, and maximum time for
         *        which a request waits for a connection
         * @param float $keepAlive time in seconds for which an idle connection is kept for another request. It occupies a
         *        PHP-FPM child meanwhile, so pm.max_children must exceed the connections of all workers. 0: each request opens
         *        a connection.
         * @param int|null $bodyBytes maximum size of a request body in bytes; a larger one gets 413. Replaces the setting
         *        body_bytes_max.
         * @param bool $streamBody true: forwards a body with a Content-Length while it arrives, so a slow client occupies a
         *        PHP-FPM child. false: the body is received first, a large one into a file.
         * @throws Exception\MisuseError if an argument is invalid, the prefix is already registered, or run() was called
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
         * Accepts WebSocket connections. Their events call the methods of a handler object, or one callable per event.
         *
         * Each worker has one handler object for all its connections. Data of one connection belongs in WebSocket::setData().
         * By default, browsers may connect only from pages of the same host; see WebSocket\Options.
         * If a handler throws, exits or fails fatally, its connection is closed with code 1011.
         *
         * @param string $path see get() for the pattern; $upgrade can read its parameters from the request
         * @param WebSocketHandler|null $handler instead of the callables
         * @param callable|null $message function (WebSocket $socket, WebSocket\Message $message): mixed
         * @param callable|null $open function (WebSocket $socket): mixed
         * @param callable|null $close function (WebSocket $socket, int $code, string $reason): mixed
         * @param callable|null $upgrade function (WebSocket\Upgrade $upgrade): mixed
         * @param WebSocket\Options|null $options origins, subprotocols, limits, heartbeat, compression
         * @param array $middleware list<callable> around the handshake; the first is outermost. The innermost
         *        $next($request) calls $upgrade. The Response of the outermost middleware opens the WebSocket (status 101)
         *        or refuses it. See use().
         * @throws Exception\MisuseError if the pattern is malformed or already registered for GET, there is neither a handler
         *        nor a callable, there are both, an option is out of range, or run() was called
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
         * Serves clients of the Pusher protocol, such as Laravel Echo and pusher-js, without running PHP. Clients open
         * WebSockets at `$path/app/KEY`; backends use the HTTP API at `$path/apps/ID`. May be called once for each application.
         *
         * If the application has the closures $authorize or $signIn, they handle POST requests to its $authorizePath and
         * $signInPath, and decide who may subscribe.
         *
         * @param string $path prefix of the protocol's paths, such as "/ws"; all applications need the same
         * @param array $middleware list<callable> around the requests that these closures handle; see use()
         * @throws Exception\ConfigurationException if a value of the application is invalid
         * @throws Exception\MisuseError if a path is already registered, or run() was called
         */
        public function pusher(Pusher $pusher, string $path = '', array $middleware = []): static {}

        /**
         * Serves clients of Mercure at /.well-known/mercure without running PHP. The script publishes with mercure_publish(),
         * or with Channel::publish() if the hub shares its channels.
         *
         * @throws Exception\ConfigurationException if a value of the hub is invalid, or the server already has a hub
         * @throws Exception\MisuseError if run() was called
         */
        public function mercure(Mercure $mercure): static {}

        /**
         * Calls `$work` at an interval, without arguments, as a task that may wait.
         *
         * The first run is one interval after the start. If a run takes longer than the interval, the runs due meanwhile are
         * skipped. Exceptions are logged.
         *
         * @param float $seconds interval in seconds, more than 0 and at most a year; the resolution is 1 ms
         * @param bool $inEachWorker true: runs in each worker. false: runs in worker 0 only.
         * @throws Exception\MisuseError if the interval is out of range, or run() was called
         */
        public function every(float $seconds, callable $work, bool $inEachWorker = false): static {}

        /**
         * Calls `$work` after the current handler or task has finished and its response is sent.
         *
         * `$work` runs as a task without a client, has the Context of the handler, and may wait. Exceptions are logged.
         *
         * @throws Exception\BackpressureException if tasks_queue_max tasks have not started, or this request has
         *        tasks_per_request_max tasks
         * @throws Exception\MisuseError outside a handler or task
         */
        public function defer(callable $work): void {}

        /**
         * Configures the processes for jobs, which run work that would block a worker; see Jobs. May be called once.
         *
         * @param int $processes number of jobs that run concurrently, 1 to 1,024
         * @param int $queue maximum number of unfinished calls of one worker, 1 to 1,000,000; one more throws
         *        BackpressureException
         * @param int $timeoutMs maximum time in milliseconds from the call of Jobs::run() to its result, 1 to 86,400,000.
         *        After that time, the job's process is killed.
         * @param int $messageBytes maximum size in bytes of a call's serialized arguments, and of its result, 1 to 1 GiB
         * @throws Exception\MisuseError if a value is out of range, jobs() was already called, or run() was called
         */
        public function jobs(
            int $processes = 1,
            int $queue = 1000,
            int $timeoutMs = 30000,
            int $messageBytes = 8388608,
        ): Jobs {}

        /**
         * Sets the handler for messages of Worker::send() and Worker::broadcast(). Each worker passes it one message at a time,
         * in a task that may wait. Exceptions are logged.
         *
         * @param callable $handler function (mixed $message, int $from): mixed; $from is the number of the sending worker; -1
         *        for a worker of another server of the cluster.
         * @throws Exception\MisuseError if there already is such a handler, or run() was called
         */
        public function onMessage(callable $handler): static {}

        /**
         * Returns the routes registered so far, for tools; `fermata routes` prints them.
         *
         * @return array list<array{kind: string, method: string, path: string, handler: string}>. The kind is "handler",
         *        "static", "fallback" (of the preceding "static") or "websocket". An empty method means all methods. The
         *        handler is its location in the source, its name, or the directory.
         */
        public function routes(): array {}

        /**
         * Binds the addresses, forks the workers and supervises them until SIGTERM or SIGINT.
         *
         * run() returns only in the master, after the last worker has exited. A worker exits as if by exit(): its shutdown
         * functions and destructors run, but no code after run().
         *
         * @throws Exception\ConfigurationException if a setting from the environment is invalid, settings exclude each other,
         *        or an address cannot be bound; the message has the cause
         * @throws Exception\MisuseError if called twice, inside a Fiber, or outside the command line
         */
        public function run(): void {}
    }

    /**
     * Application of the Pusher protocol, version 7: see Server::pusher().
     *
     * @strict-properties
     * @not-serializable
     */
    final class Pusher
    {
        /** Id of the application in the paths of the HTTP API. */
        public readonly string $appId;

        /** Public key with which clients connect. */
        public readonly string $key;

        /**
         * A limit that is null has the default of `fermata hub`, which is Pusher's own limit or a larger one.
         *
         * @param string $appId id of the application in the paths of the HTTP API
         * @param string $key public key with which clients connect
         * @param string $secret secret that signs requests of the HTTP API and subscriptions
         * @param string|null $sharedPrefix makes the application's channels available to the script: "news" is
         *        Channel::get($sharedPrefix . 'news'). An event that the application or the script publishes then reaches
         *        the clients of both. Anyone with the key may subscribe to all channels behind the prefix whose names do
         *        not continue with "private-" or "presence-". Default: nothing is shared.
         * @param callable|null $authorize function (Request $request, string $channel): bool|array|Response|null; called
         *        for a POST to $authorizePath, it decides if a client may subscribe to a private or presence channel. To
         *        allow the subscription, it returns true, for a presence channel
         *        array{user_id: string|int, user_info?: mixed}, or for an encrypted channel array{shared_secret: string},
         *        the key in Base64. Default: the application's backend signs subscriptions itself.
         * @param string $authorizePath path to which pages send these requests; `authEndpoint` of Echo and pusher-js
         * @param callable|null $signIn function (Request $request): array|Response|null; called for a POST to $signInPath, it
         *        returns the page's user: array{id: string|int, user_info?: mixed, watchlist?: list<string>}.
         * @param string $signInPath `userAuthentication.endpoint` of pusher-js
         * @param array|null $allowedOrigins list<string> hosts of pages that may connect, such as "*.example.com". Default:
         *        all.
         * @param bool $clientEvents allows clients to send events to each other
         * @param bool $subscriptionCounts sends the number of subscribers to the subscribers of a channel
         * @param array $webhooks list<Pusher\Webhook> that receive events of the application's channels
         * @throws Exception\MisuseError if $webhooks contains anything other than Pusher\Webhook
         * @throws \TypeError if $allowedOrigins contains anything other than strings
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
         * Calls the closure $authorize for a page that requests a subscription (`socket_id`, `channel_name`), and returns the
         * signed response. Server::pusher() routes requests here; call it from routes of your own. The response is 403 if the
         * closure refuses, and 400 if a field is missing or invalid.
         *
         * @throws Exception\MisuseError if the closure is not set, or returned another type
         */
        public function answerAuthorization(Request $request): Response {}

        /**
         * Calls the closure $signIn for a page that requests its user (`socket_id`), and returns the signed response; see
         * answerAuthorization().
         */
        public function answerSignIn(Request $request): Response {}
    }

    /**
     * Mercure hub: see Server::mercure().
     *
     * @strict-properties
     * @not-serializable
     */
    final class Mercure
    {
        /**
         * @param string|null $publisherKey secret, or public key as PEM, that verifies the tokens of publishers over HTTP.
         *        Default: only the script publishes.
         * @param Mercure\Algorithm $publisherAlgorithm algorithm that signs these tokens
         * @param string|null $publisherJwksFile file with a key set (JWKS, RFC 7517) instead of $publisherKey
         * @param string|null $subscriberKey secret, or public key as PEM, that verifies the tokens of subscribers
         * @param Mercure\Algorithm $subscriberAlgorithm algorithm that signs these tokens
         * @param string|null $subscriberJwksFile file with a key set (JWKS) instead of $subscriberKey
         * @param bool $anonymous true: clients without a token receive public updates
         * @param bool $subscriptions enables subscription events and the subscription API
         * @param string $cookieName cookie that may contain the token
         * @param array $corsOrigins list<string> origins whose pages may read, such as "https://*.example.com"
         * @param array $publishOrigins list<string> origins whose pages may publish with the cookie
         * @param int $heartbeatSeconds time in seconds without an update after which a comment is sent; 0: never
         * @param int $streamSeconds time in seconds after which a stream ends and its client reconnects; 0: never
         * @param bool $position sends a new subscriber its position immediately
         * @param int|null $templatesMax maximum number of different templates of one worker's subscribers. Default: 10,000.
         * @param int|null $subscribersMax maximum number of subscribers that are reported with $subscriptions. Default: 16,384.
         * @param string|null $sharedPrefix makes topics available to the script as channels: public updates of the topic
         *        "news" are events of Channel::get($sharedPrefix . 'news'), private updates of Channel::get($sharedPrefix .
         *        'private-news'). An event that the hub or the script publishes then reaches the clients of both. If a
         *        Pusher application has the same prefix, the hub shares its channels with that application as well.
         *        Default: nothing is shared.
         * @param string $version version of the protocol: "0.x", which today's clients support, or "1.0", a draft
         * @param string|null $resourceIdentifier URL of the hub, for which tokens of version 1.0 are issued
         * @param string|null $issuer issuer of these tokens
         * @param string|null $publisherJwksUrl https:// URL of a key set (JWKS) instead of $publisherKey. It is fetched at the
         *        start, every $jwksRefreshSeconds, and if a token names a key that the set lacks.
         * @param string|null $subscriberJwksUrl https:// URL of a key set (JWKS) instead of $subscriberKey, fetched in the same
         *        way
         * @param int $jwksRefreshSeconds interval in seconds, 1 to 604,800
         * @throws \TypeError if a list contains anything other than strings
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
     * Calls that run in separate processes; created by Server::jobs().
     *
     * A job is a callable with a name. Its arguments and its result are serialized. A process runs one job at a time. If a
     * process crashes, only its current call fails, and the process is replaced.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Jobs
    {
        private function __construct() {}

        /**
         * Adds a job.
         *
         * @param callable $job runs outside the server: it cannot wait like a handler, but may block
         * @throws Exception\MisuseError if the name is already used, or run() was called
         */
        public function add(string $name, callable $job): static {}

        /**
         * Runs a job in one of the processes and waits for its result.
         *
         * A call that is cancelled before a process has started it does not run. A started call runs to its end or its time
         * limit.
         *
         * @throws Exception\JobFailedException if the job threw an exception, or its result is larger than messageBytes
         * @throws Exception\JobCrashedException if its process crashed
         * @throws Exception\TimeoutException if the call took longer than timeoutMs; the job's process is killed
         * @throws Exception\BackpressureException if `queue` calls of this worker are unfinished
         * @throws Exception\MisuseError outside a handler or task, for an unknown name or a missing argument, or if the
         *        arguments are larger than messageBytes
         */
        public function run(string $name, mixed ...$arguments): mixed {}
    }

    /**
     * The current worker, and messages to the other workers of its server.
     *
     * A message is serialized and has at most 65,536 bytes. Messages from one worker to another arrive in order. A message is
     * sent completely or refused. A sent message is lost only if the receiving worker crashes between reading and handling it;
     * its replacement reads the unread messages.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Worker
    {
        private function __construct() {}

        /**
         * Returns the number of this worker, from 0.
         *
         * @throws Exception\MisuseError outside a worker
         */
        public static function index(): int {}

        /**
         * Sends a message to one worker; see Server::onMessage().
         *
         * @param int $worker number of the worker, from 0
         * @throws Exception\BackpressureException if the queue of that worker's unread messages is full
         * @throws Exception\MisuseError outside a worker, if there is no such worker, or if the message is too large
         */
        public static function send(int $worker, mixed $message): void {}

        /**
         * Sends a message to all other workers, in a cluster also to all workers of the other servers. Other servers are
         * reached through the cluster's log, without waiting for it.
         *
         * @param bool $self true: sends it to this worker as well
         * @throws Exception\BackpressureException if the queue of a worker's unread messages is full, or the log of the
         *        cluster is unavailable; the message still reaches all other workers
         */
        public static function broadcast(mixed $message, bool $self = false): void {}

        private static function receive(): void {}
    }

    /**
     * Waits for several streams, for signals and for a timeout. Fermata\Revolt\Driver is based on it; applications do not need
     * it.
     *
     * In a handler or task of a server, other handlers run during the wait. Elsewhere, the process blocks.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Poll
    {
        public function __construct() {}

        /** Returns true if a handler or task of a running server makes this call. */
        public static function inHandler(): bool {}

        /**
         * Sets the events of a stream that wait() reports.
         *
         * @param resource $stream
         * @param bool $read reports when the stream is readable
         * @param bool $write reports when the stream is writable; if both are false, the stream is no longer watched
         * @throws Exception\MisuseError if the stream has no descriptor
         * @throws Exception\BackpressureException if the kernel refuses to watch the stream
         */
        public function watch($stream, bool $read, bool $write): void {}

        /**
         * Starts or stops watching a signal. A watched signal is reported by wait() and its previous action does not run.
         *
         * @throws Exception\MisuseError for SIGKILL, SIGSTOP and invalid numbers, and for SIGTERM in a worker
         */
        public function signal(int $signal, bool $watch): void {}

        /**
         * Waits until a stream is ready, a signal arrives, wake() is called or the time is over. May return early.
         *
         * @param float|null $seconds maximum time in seconds; null: no limit
         * @param bool $background true: a stopping worker does not wait for this call
         * @return array array{array<int, int>, list<int>}: the ready streams by resource id, with 1 for readable, 2 for
         *        writable and 3 for both; and the signals
         * @throws Exception\MisuseError if $seconds is negative, or another handler or task is waiting with this object
         */
        public function wait(?float $seconds = null, bool $background = false): array {}

        /** Makes the running wait() return; if none is running, the next one. */
        public function wake(): void {}
    }

    /**
     * Group of routes; Server::group() passes it to its callable. Paths are relative to the group's prefix; "" is the prefix
     * itself.
     *
     * @strict-properties
     * @not-serializable
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

        /** Adds a group inside this one: its prefix and middleware follow those of this group. See Server::group(). */
        public function group(string $prefix, callable $routes, array $middleware = []): static {}

        /** Adds middleware around all handlers of this group and of the groups inside it. See Server::use(). */
        public function use(callable ...$middleware): static {}

        /** Accepts WebSocket connections; the group's middleware runs for their handshakes. See Server::websocket(). */
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

    /**
     * The next middleware, or the handler. A middleware receives it as a closure, by convention named $next.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Next
    {
        private function __construct() {}

        /**
         * Calls the next middleware or the handler and returns its result.
         *
         * @throws \TypeError if the result is neither a Response nor a Hold
         */
        public function __invoke(Request $request): Response|Hold {}
    }

    /**
     * Limits of the server. null: the default, which each property states.
     *
     * The Server constructor checks the values.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Limits
    {
        /** Maximum number of open connections per worker. Default: 10,000. One more gets 503. */
        public readonly ?int $connections;

        /** Maximum number of open connections per client address and worker. Default: 0, no limit. One more gets 429. */
        public readonly ?int $connectionsPerAddress;

        /** Maximum size of a request's headers in bytes. Default: 16,384. Larger headers get 431. */
        public readonly ?int $headerBytes;

        /** Maximum size of a request body in bytes. Default: 1,048,576. A larger body gets 413. */
        public readonly ?int $bodyBytes;

        /** Unsent bytes of a connection above which the server stops reading from it. Default: 1,048,576. */
        public readonly ?int $queueBytes;

        /** Maximum size of a published event in bytes, name and data together. Default: 65,536. */
        public readonly ?int $eventBytes;

        /** Time in milliseconds to receive a request's headers; then 408. Default: 10,000. */
        public readonly ?int $headerTimeoutMs;

        /** Time in milliseconds to receive a request body; then 408. Default: 30,000. */
        public readonly ?int $bodyTimeoutMs;

        /** Time in milliseconds for which a connection may stay open without a request. Default: 75,000. */
        public readonly ?int $idleTimeoutMs;

        /**
         * Time in milliseconds for which a client may read nothing while bytes wait for it; then its connection is closed.
         * Default: 30,000.
         */
        public readonly ?int $writeTimeoutMs;

        /** Time in milliseconds for which a stopping worker waits for open requests and held clients. Default: 10,000. */
        public readonly ?int $drainTimeoutMs;

        /**
         * Maximum number of handlers per worker that may run or wait concurrently. Default: 0, the number of fibers. 1 runs
         * one request at a time, for code that stores a request's state in global or static variables.
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
     * Limits of the stored events, which clients that reconnect with Last-Event-ID receive. null: the default.
     *
     * The Server constructor checks the values.
     *
     * @strict-properties
     * @not-serializable
     */
    final class History
    {
        /** Number of stored events per channel. Default: 1,000. */
        public readonly ?int $count;

        /** Age in milliseconds after which an event is no longer replayed. Default: 86,400,000 (one day). */
        public readonly ?int $ageMs;

        /** Size in bytes of the ring in shared memory that stores the events of all channels. Default: 16,777,216. */
        public readonly ?int $bytes;

        /** File that stores the ring, so that history survives a restart. Default: memory only. */
        public readonly ?string $path;

        public function __construct(?int $count = null, ?int $ageMs = null, ?int $bytes = null, ?string $path = null) {}
    }

    /**
     * Log lines on standard error. null: the default, which is text at level info.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Log
    {
        /** Format of the lines. Default: text. */
        public readonly ?LogFormat $format;

        /** Lowest level that is logged. Default: info. */
        public readonly ?LogLevel $level;

        public function __construct(?LogFormat $format = null, ?LogLevel $level = null) {}
    }

    /**
     * Log with a line for every request, written when it ends. It includes refused requests, files, held clients and
     * WebSockets.
     *
     * On SIGUSR1 or SIGHUP to the master, the file is reopened. Logging never blocks: a line that cannot be written is dropped
     * and counted.
     *
     * @strict-properties
     * @not-serializable
     */
    final class AccessLog
    {
        /** Path of the file, or "stderr" or "stdout". */
        public readonly string $path;

        /** Format of the lines. Default: Combined. */
        public readonly ?AccessLogFormat $format;

        /** Includes the queries of targets and referers, which often contain secrets. Default: false. */
        public readonly ?bool $query;

        public function __construct(string $path, ?AccessLogFormat $format = null, ?bool $query = null) {}
    }

    /**
     * Certificates of the server's https addresses, and its requirements on clients. null: the default.
     *
     * The files are read when the server starts, and again on SIGHUP to the master. Open connections stay open.
     *
     * @strict-properties
     * @not-serializable
     */
    final readonly class Tls
    {
        /** @var string|list<string>|null PEM files with certificate chains */
        public readonly string|array|null $certificate;

        /** @var string|list<string>|null PEM files with their private keys */
        public readonly string|array|null $key;

        /** PEM file with the authorities that sign client certificates. Default: no client certificate is requested. */
        public readonly ?string $clientCa;

        /** Refuses clients without a certificate if $clientCa is set. Default: true. */
        public readonly ?bool $clientRequired;

        /** Oldest accepted version of TLS. Default: TLS 1.2. */
        public readonly ?TlsVersion $minVersion;

        /** Creates a certificate for localhost if $certificate is empty. */
        public readonly ?bool $development;

        /**
         * @param string|array $certificate PEM file, or a list of PEM files, each with the server's own certificate first, then
         *        its chain. A client receives the certificate for the name that it requests (SNI), else the first.
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
         * Returns settings with a certificate for localhost. It is created once and stored in ~/.local/share/fermata; the log
         * names the authority that clients must trust.
         *
         * A certificate from FERMATA_TLS_CERTIFICATE replaces it.
         */
        public static function development(): Tls {}
    }

    /** Version of TLS. */
    enum TlsVersion: string
    {
        case Tls12 = '1.2';
        case Tls13 = '1.3';
    }

    /**
     * Certificate of a client, verified against the authorities of Tls::$clientCa.
     *
     * @strict-properties
     * @not-serializable
     */
    final readonly class ClientCertificate
    {
        /** Subject in the form of RFC 4514, such as "CN=alice,O=Example". */
        public readonly string $subject;

        /** Certificate as PEM, for openssl_x509_parse(). */
        public readonly string $pem;

        private function __construct() {}
    }

    /**
     * Trace of a request, from its header `traceparent` (W3C Trace Context) or from the server, if that records the request.
     *
     * @strict-properties
     * @not-serializable
     */
    final readonly class Trace
    {
        /** Trace id, 32 lower-case hexadecimal digits; `trace_id` in the access log. */
        public readonly string $traceId;

        /**
         * Parent of the handler's spans, 16 lower-case hexadecimal digits: the server's span if it records the request
         * (otlp_endpoint), else the span in the header `traceparent`.
         */
        public readonly string $parentId;

        /**
         * true: the trace is recorded, so services that receive it should record it as well. The sender decides; if the server
         * sends spans, its setting otlp_sampler decides.
         */
        public readonly bool $isSampled;

        /** Header `tracestate`, unparsed: data of tracing systems. Empty if there is none. */
        public readonly string $state;

        private function __construct() {}
    }

    /** Format of log lines. */
    enum LogFormat: string
    {
        /** Plain text. */
        case Text = 'text';

        /** One JSON object per line. */
        case Json = 'json';
    }

    /** Format of the lines of the access log. */
    enum AccessLogFormat: string
    {
        /** Common Log Format. */
        case Common = 'common';

        /** Common Log Format with Referer and User-Agent, which most log readers expect. */
        case Combined = 'combined';

        /** One JSON object per line, with the duration. */
        case Json = 'json';
    }

    /** Lowest level that is logged. */
    enum LogLevel: string
    {
        case Error = 'error';
        case Warning = 'warning';
        case Info = 'info';
        case Debug = 'debug';
    }

    /** Policy for a held client that reads more slowly than its channels are published to. */
    enum SlowPolicy: string
    {
        /** The client receives an event named `gap` instead of the events that it missed, and continues. */
        case Gap = 'gap';

        /** The connection is closed; the client reconnects with Last-Event-ID. */
        case Close = 'close';
    }

    /**
     * Acknowledgement that publish() waits for if several machines share their channels (the setting `cluster`). On one machine
     * both cases do the same.
     */
    enum Ack: string
    {
        /** Waits until the log of the cluster has stored the event. */
        case Cluster = 'cluster';

        /**
         * Does not wait for the log. The event reaches all clients once, or none: it is lost if the log does not accept it
         * within publish_wait_ms_max, or if this machine fails first. The loss is not reported to the caller.
         */
        case Local = 'local';
    }

    /** SameSite attribute of a cookie (RFC 6265bis). */
    enum SameSite: string
    {
        case Strict = 'Strict';
        case Lax = 'Lax';

        /** Browsers accept it only for cookies with Secure. */
        case None = 'None';
    }

    /**
     * HTTP request, created by the server. Each value is converted when its method is called.
     *
     * The object may be stored after its handler has returned; it then owns a copy of all values.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Request
    {
        private function __construct() {}

        /** Returns the method as sent, such as "GET". */
        public function method(): string {}

        /**
         * Returns the path without the query, percent-decoded except for %2F. So each slash of the result separates two
         * segments.
         */
        public function path(): string {}

        /** Returns the request target as sent, with the query. */
        public function target(): string {}

        /** Returns the query as sent, without "?"; empty if there is none. */
        public function queryString(): string {}

        /** Returns a query parameter; the default if it is absent or an array ("a[]=1"). */
        public function query(string $name, ?string $default = null): ?string {}

        /**
         * Returns all query parameters, parsed as by parse_str().
         *
         * @return array<string, string|array>
         */
        public function queries(): array {}

        /** Returns a header; its name is case-insensitive. Several lines are joined with ", " (Cookie: "; "). */
        public function header(string $name, ?string $default = null): ?string {}

        /**
         * Returns all headers by lower-case name.
         *
         * @return array<string, list<string>>
         */
        public function headers(): array {}

        /**
         * Returns a path parameter of the route, percent-decoded.
         *
         * @throws Exception\MisuseError if the route's pattern has no such parameter
         */
        public function route(string $name): string {}

        /**
         * Returns true if the request has a body of at least one byte. On a route with streamBody: true if a body is announced.
         */
        public function hasBody(): bool {}

        /**
         * Returns the body; empty if there is none. A multipart/form-data body that was parsed is empty, too.
         *
         * @throws Exception\UploadException if the temporary file of a large body cannot be read
         */
        public function body(): string {}

        /**
         * Returns the next bytes of the body; null at its end.
         *
         * On a route with streamBody, the handler runs while the body arrives. read() returns the bytes that have arrived. If
         * there are none, the handler waits and other handlers run. While the handler does not read, the server reads nothing
         * from the client.
         *
         * @param int $bytes maximum number of bytes to return; the setting body_piece_bytes_max limits it as well
         * @throws Exception\BadRequestException if the rest is malformed (code 400), too slow (408) or too large (413). If
         *        uncaught, the client gets that status.
         * @throws Exception\ClientGoneException if the client left before it had sent the complete body
         * @throws Exception\UploadException if the temporary file of a large body cannot be read
         */
        public function read(int $bytes = 65536): ?string {}

        /**
         * Returns the body as a readable stream. A body larger than the setting body_memory_bytes_max is in a temporary file,
         * so the stream reads it in pieces without loading it into memory.
         *
         * @return resource
         * @throws Exception\UploadException if the temporary file of a large body cannot be read
         */
        public function bodyStream() {}

        /**
         * Returns the body decoded as JSON, objects as arrays.
         *
         * @throws Exception\BadRequestException if it is not valid JSON. If uncaught, the client gets 400.
         */
        public function json(): mixed {}

        /** Returns a field of a form; the default if it is absent or an array. See forms(). */
        public function form(string $name, ?string $default = null): ?string {}

        /**
         * Returns all fields of an application/x-www-form-urlencoded or multipart/form-data body, parsed as by parse_str().
         * Empty for any other Content-Type. files() returns the files.
         *
         * @return array<string, string|array>
         */
        public function forms(): array {}

        /** Returns the file of a form field; null if there is none, or several with this name. */
        public function file(string $name): ?UploadedFile {}

        /**
         * Returns all files of a form, with names parsed as by parse_str(): "photos[]" is a list under "photos".
         *
         * @return array<string, UploadedFile|array>
         */
        public function files(): array {}

        /** Returns a cookie, percent-decoded. */
        public function cookie(string $name, ?string $default = null): ?string {}

        /**
         * Returns all cookies; of several with one name, the first.
         *
         * @return array<string, string>
         */
        public function cookies(): array {}

        /**
         * Stores a value for later middleware and the handler, such as the user.
         *
         * Changes this object and returns it, so `$next($request->withAttribute('user', $user))` works as in PSR-15.
         */
        public function withAttribute(string $name, mixed $value): static {}

        /** Returns a value stored by withAttribute(). */
        public function attribute(string $name, mixed $default = null): mixed {}

        /**
         * Returns all values stored by withAttribute().
         *
         * @return array<string, mixed>
         */
        public function attributes(): array {}

        /** Returns the header Last-Event-ID, for Hold::since(); null if it is absent or empty. */
        public function lastEventId(): ?string {}

        /**
         * Returns the client's address. If the peer is a proxy of the setting trusted_proxies, the address comes from its
         * header; otherwise it is the peer address of the connection. "unix" on a Unix socket.
         */
        public function remoteAddress(): string {}

        /** Returns the port of remoteAddress(); 0 on a Unix socket, or if a proxy does not send it. */
        public function remotePort(): int {}

        /**
         * Returns the requested host, with the port if the client sent one. If the peer is a proxy of the setting
         * trusted_proxies, the host may come from its header; otherwise it comes from the request. Empty for an HTTP/1.0
         * request without a host.
         */
        public function host(): string {}

        /**
         * Returns "https" if the client uses TLS to this server, or to a proxy of the setting trusted_proxies; otherwise
         * "http".
         */
        public function scheme(): string {}

        /**
         * Returns the request as $_SERVER has it under PHP-FPM: REQUEST_METHOD, REQUEST_URI, QUERY_STRING, SERVER_PROTOCOL,
         * addresses and ports of both peers, HTTPS, REQUEST_TIME and REQUEST_TIME_FLOAT, the headers as HTTP_*, PHP_AUTH_USER
         * and PHP_AUTH_PW.
         *
         * Headers with an underscore in the name, which could imitate other headers, and `Proxy` are omitted.
         *
         * @param array $others array<string, mixed>: further entries, such as SCRIPT_NAME; the request's own entries take
         *        precedence
         * @return array<string, mixed>
         */
        public function serverParams(array $others = []): array {}

        /**
         * Provides this request to code written for PHP-FPM, until its handler has finished. Fills $_SERVER, $_GET, $_POST,
         * $_COOKIE, $_FILES and $_REQUEST; php://input returns the body, and move_uploaded_file() accepts the files.
         *
         * Until then header(), setcookie() and http_response_code() store their arguments, and headers_list() returns the
         * stored headers. Response::relayed() adds them to the response. exit() sends the printed output as the response.
         * PHP sessions may be opened, and are closed when the handler finishes.
         *
         * @param array $server array<string, mixed>: further entries of $_SERVER; see serverParams()
         * @param int|null $uploadBytes maximum size of a file in bytes; a larger one is in $_FILES with UPLOAD_ERR_INI_SIZE and
         *        without its content
         * @throws Exception\MisuseError if the server may run several handlers concurrently (see Limits::$handlers), or outside
         *        this request's handler
         */
        public function fillGlobals(array $server = [], ?int $uploadBytes = null): void {}

        /**
         * Removes and returns the output that the handler has printed since fillGlobals(); the caller adds it to the
         * response. Empty without fillGlobals(). Open output buffers (ob_start()) are flushed first, as at the end of a
         * script.
         */
        public function takeOutput(): string {}

        /**
         * For framework bridges: declares that the only registered shutdown function returns quickly. The server may then
         * send the response after that function has run, together with other responses of the same turn of the loop. This
         * saves a wake-up per client, which takes as long as a request of a small framework. No effect if there are other
         * shutdown functions, or without fillGlobals().
         */
        public function deferAnswer(): void {}

        /**
         * Sends `103 Early Hints` immediately, before the response (RFC 8297). Browsers fetch the resources in its `Link` lines
         * while the handler still works. May be called several times.
         *
         * @param array $headers array<string, string|list<string>>, such as ['Link' => '</app.css>; rel=preload; as=style']
         * @return bool false if nothing was sent: the client uses HTTP/1.0 or has left, or the response has started
         * @throws Exception\MisuseError for a malformed header, or one that only the server may set
         */
        public function earlyHints(array $headers): bool {}

        /** Returns the client's certificate; null without Tls::$clientCa, or if the client sent none. */
        public function clientCertificate(): ?ClientCertificate {}

        /**
         * Returns the request's trace. null if the server does not record the request and the header `traceparent` is missing,
         * malformed or repeated.
         */
        public function trace(): ?Trace {}
    }

    /**
     * Uploaded file of a form, stored in a temporary file. The file is removed when its request ends, unless it was moved.
     *
     * @strict-properties
     * @not-serializable
     */
    final class UploadedFile
    {
        /** File name at the client, without directories. The client chooses it: never use it as a path. */
        public readonly string $name;

        /** Media type that the client claims, such as "image/png"; empty if there is none. */
        public readonly string $type;

        /** Size in bytes. */
        public readonly int $size;

        /** Path of the temporary file, which exists until the request ends. */
        public readonly string $path;

        private function __construct() {}

        /**
         * Moves the file to another path; an existing file is replaced.
         *
         * @throws Exception\UploadException if that fails; the message has the cause
         * @throws Exception\MisuseError if the file was already moved
         */
        public function moveTo(string $path): void {}

        /**
         * Returns the file's bytes.
         *
         * @throws Exception\UploadException if the file cannot be read, because its request has ended
         * @throws Exception\MisuseError if the file was moved
         */
        public function contents(): string {}
    }

    /**
     * HTTP response. Immutable: the with*() methods return a changed copy.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Response
    {
        /**
         * @param int $status 200 to 599
         * @param string $body any bytes. Without a Content-Type header, a body is sent as "text/plain; charset=utf-8".
         * @param array $headers array<string, string|list<string>>; a list creates one line per value
         * @throws Exception\MisuseError for a status out of range, a malformed header, or a header that only the server may set
         *        (Content-Length, Transfer-Encoding, Connection, …)
         */
        public function __construct(int $status = 200, string $body = '', array $headers = []) {}

        /**
         * Returns a response with the data as application/json, encoded with JSON_UNESCAPED_SLASHES and JSON_UNESCAPED_UNICODE.
         *
         * @throws \JsonException if the data cannot be encoded
         */
        public static function json(mixed $data, int $status = 200): Response {}

        /** Returns a response with the text as text/plain; charset=utf-8. */
        public static function text(string $text, int $status = 200): Response {}

        /** Returns a response with the markup as text/html; charset=utf-8. The caller escapes values in it. */
        public static function html(string $html, int $status = 200): Response {}

        /**
         * Returns a redirect.
         *
         * @param string $location absolute or relative reference for the Location header
         * @param int $status 300 to 399
         * @throws Exception\MisuseError for another status, or a location that is empty or no valid header value
         */
        public static function redirect(string $location, int $status = 302): Response {}

        /**
         * Returns a response whose body is generated while it is sent.
         *
         * The server requests the next piece when the kernel has accepted the last one, so a slow client fills no memory.
         * The generator may wait between pieces. A worker has at most streams_max open streams; one more gets 503. For
         * HEAD, only the headers are sent and no piece is requested. An exception before the first piece is handled like
         * any other. Later, the connection is closed, and the client can detect that the body is incomplete. If the client
         * leaves, the generator is destroyed and its `finally` blocks run.
         *
         * @param \Traversable|array|callable $body yields strings; a callable is called when the body is needed, and returns a
         *        Traversable or array
         * @param array $headers as for the constructor; the default Content-Type is application/octet-stream
         * @param int|null $length size of the body in bytes, if known. It is sent as Content-Length; a body of another size is
         *        cut and logged.
         * @throws Exception\MisuseError for a status out of range, an invalid header (see the constructor), or a negative
         *        length
         */
        public static function stream(\Traversable|array|callable $body, int $status = 200, array $headers = [], ?int $length = null): Response {}

        /**
         * Returns a stream of server-sent events that this handler generates, such as tokens of a language model or the
         * progress of a job. For events that many clients receive, use Hold, which needs no running handler.
         *
         * The callable is called after the response's headers were sent, and may wait; HEAD does not call it. When it
         * returns, the stream ends. After the client has left, every wait and every EventSink::send() throws a
         * ClientGoneException. Other exceptions are logged, and the client can detect that the stream was interrupted.
         *
         * @param callable $events function (EventSink $sink): void
         * @param array $headers as for the constructor
         * @param float|null $keepAlive time in seconds without an event after which a comment is sent; 0: never; null: the
         *        setting keep_alive_ms
         * @throws Exception\MisuseError for a status out of range, or an invalid header (see the constructor)
         */
        public static function events(callable $events, int $status = 200, array $headers = [], ?float $keepAlive = null): Response {}

        /**
         * Returns a response whose body is the output of a callable, sent while the callable runs, as under PHP-FPM.
         *
         * The callable is called after the response's headers were sent; HEAD does not call it. The callable waits while
         * the client reads slowly, and flush() waits until the client has received all output. If the client has left,
         * output throws a ClientGoneException. Other exceptions are logged, and the client can detect that the body is
         * incomplete. exit() ends the body normally.
         *
         * @param callable $output function (): void
         * @param array $headers as for the constructor; the default Content-Type is text/plain; charset=utf-8
         * @throws Exception\MisuseError for a status out of range, or an invalid header (see the constructor)
         */
        public static function output(callable $output, int $status = 200, array $headers = []): Response {}

        /**
         * Returns a response with a file, which the kernel sends. Conditional requests and ranges are supported (RFC 9110,
         * sections 13 and 14). A missing file gets 404.
         *
         * @param string $path a regular file; relative to $root if that is set
         * @param string|null $root directory that must contain the file; then the path may come from the client. Hidden files
         *        and links out of the directory get 404.
         * @param string|null $download file name under which browsers save the file instead of showing it
         * @param string|null $contentType media type; null: from the extension of the path
         * @throws Exception\MisuseError for an empty path, an absolute path below a root, a malformed media type, or a path
         *        outside open_basedir
         */
        public static function file(
            string $path,
            ?string $root = null,
            ?string $download = null,
            ?string $contentType = null,
        ): Response {}

        /** Returns a 202 response without a body. */
        public static function accepted(): Response {}

        /** Returns a 204 response without a body. */
        public static function noContent(): Response {}

        /**
         * Converts a response of another library, such as PSR-7. Headers that frame the message, such as Content-Length,
         * are skipped, since the server sets them. Values that are null are skipped as well; other values become strings.
         * Of several Content-Type headers the last applies. A body without a Content-Type gets PHP's default, usually
         * text/html.
         *
         * After Request::fillGlobals(), headers of header(), setcookie() and a session are added if the response has no header
         * of that name; cookies of both are sent. Output that the handler has printed precedes the body; see
         * Request::takeOutput(). The function registered with header_register_callback() is called first.
         *
         * @param int $status 200 to 599; 0 after Request::fillGlobals(): the status of http_response_code(), of a status line
         *        or of a `Status` header
         * @param array $headers array<string|int, mixed>: by case-insensitive name, each a value or a list of values
         * @throws Exception\MisuseError if the status is out of range, or a name or value contains a character that cannot be
         *        sent
         */
        public static function relayed(int $status, string $body, array $headers): Response {}

        /**
         * Returns a copy with another status and reason phrase.
         *
         * @param string $reason reason phrase, at most 256 bytes; "": the standard phrase. Only HTTP/1 has one, and clients
         *        should ignore it.
         * @throws Exception\MisuseError if the status is not 200 to 599, or the reason is too long or contains control
         *        characters
         */
        public function withStatus(int $status, string $reason = ''): static {}

        /**
         * Returns a copy in which this header replaces all lines of the same name.
         *
         * @throws Exception\MisuseError if the name or value is malformed (line breaks included), or only the server may set
         *        the header
         */
        public function withHeader(string $name, string $value): static {}

        /**
         * Returns a copy with a further line of this header; a second Content-Type replaces the first.
         *
         * @throws Exception\MisuseError if the name or value is malformed, or only the server may set the header
         */
        public function withAddedHeader(string $name, string $value): static {}

        /**
         * Returns a copy with a further Set-Cookie line (RFC 6265).
         *
         * @param string $value any bytes; percent-encoded like setcookie(), and decoded by Request::cookie()
         * @param int|null $maxAge lifetime in seconds; null: until the browser closes; 0 or less: deletes the cookie
         * @param bool $partitioned a separate cookie for each site that embeds the page (CHIPS); needs $secure
         * @throws Exception\MisuseError for a malformed name, path or domain, or a cookie that browsers drop: SameSite::None, a
         *        partitioned cookie, or the prefix __Host- or __Secure- without $secure; __Host- with a domain or another path
         *        than "/"
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

        /** Returns the status code. */
        public function status(): int {}

        /** Returns the body; empty for stream() and file(). */
        public function body(): string {}

        /**
         * Returns the value of a header; its name is case-insensitive. Several lines are joined with ", ". null if there is
         * none.
         */
        public function header(string $name): ?string {}

        /**
         * Returns all headers that were set, without those that the server adds.
         *
         * @return array<string, list<string>>
         */
        public function headers(): array {}
    }

    /**
     * Sends the events of a Response::events() stream.
     *
     * Events are buffered until the handler waits, for at most 5 ms. While 64 KiB of the stream are unsent, send() waits
     * for the client.
     *
     * @strict-properties
     * @not-serializable
     */
    final class EventSink
    {
        /** Header Last-Event-ID: the id of the last event that a reconnecting client has received. null if there is none. */
        public readonly ?string $lastEventId;

        private function __construct() {}

        /**
         * Sends an event.
         *
         * @param string|null $data UTF-8 text, may have several lines; null: sends only $id and $retry
         * @param string|null $event name of the event; null: browsers dispatch it as "message"
         * @param string|null $id value that the client sends as Last-Event-ID when it reconnects
         * @param int|null $retry time in milliseconds after which the client reconnects when the stream has ended
         * @throws Exception\ClientGoneException if the client has left
         * @throws Exception\ConnectionClosedException after close()
         * @throws Exception\MisuseError if the name or id contains a line break, the data is not UTF-8, the event is larger
         *        than event_bytes_max, an event with a name has no data, or $retry is negative
         */
        public function send(?string $data, ?string $event = null, ?string $id = null, ?int $retry = null): void {}

        /** Sends a comment, which clients ignore. */
        public function comment(string $text = ''): void {}

        /** Waits until the client has received all events sent so far. */
        public function flush(): void {}

        /** Ends the stream; the callable may continue with other work. A second call does nothing. */
        public function close(): void {}

        /** Returns true if the stream is open and the client has not left. */
        public function isOpen(): bool {}

        /**
         * Returns true if the server is stopping, or the stream is closed. A stopping server waits for the stream at most
         * drain_timeout_ms, so an endless loop should return.
         */
        public function isStopping(): bool {}
    }

    /**
     * Response that keeps the client connected. The core sends the client the events of the hold's channels without running
     * PHP. Each method changes this object and returns it.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Hold
    {
        private function __construct() {}

        /**
         * Returns a stream of server-sent events from one or several channels.
         *
         * @throws Exception\MisuseError for a channel name that is not 1 to 255 bytes without control characters
         */
        public static function sse(string $channel, string ...$channels): Hold {}

        /**
         * Counts the client as present in its channels while it is held. A user with several tabs, on any worker, is one
         * member.
         *
         * @param array|null $info JSON-encodable data that Channel::members() returns. The user's latest connection
         *        determines the data. A change publishes another `join` event with `"changed": true`.
         * @param bool $announce publishes `join` and `leave` events to the channels when the user's first connection opens and
         *        the last one closes
         * @throws Exception\MisuseError if the user is empty
         * @throws \JsonException if $info cannot be encoded
         */
        public function as(string $user, ?array $info = null, bool $announce = true): static {}

        /**
         * Replays the events published after the event with this id, usually the client's Last-Event-ID. With null or "",
         * the position is that of fromStart() or fromNow().
         */
        public function since(?string $eventId): static {}

        /**
         * Replays all stored events to a client without an id, then sends it new ones. No event is missed or repeated in
         * between. If older events of the channels may have been dropped, a `gap` event comes first.
         */
        public function fromStart(): static {}

        /** Sends a client without an id only the events published from now on. This is the default. */
        public function fromNow(): static {}

        /**
         * Sets the time without an event after which a comment is sent, so that proxies keep the connection open.
         *
         * @param int $seconds 1 to 3,600; 0: no comments. Default: the setting keep_alive_ms (25 seconds).
         * @throws Exception\MisuseError if out of range
         */
        public function keepAlive(int $seconds): static {}

        /** Sends events to this client only, before replayed and live events. They have no id. */
        public function with(Event ...$events): static {}

        /** Sets the policy for a client that reads too slowly. Default: SlowPolicy::Gap. */
        public function slow(SlowPolicy $policy): static {}

        /**
         * Sets a header of the response; a second call with the same name replaces the first.
         *
         * @throws Exception\MisuseError if the name or value is malformed, only the server may set the header, or it is
         *        Content-Type
         */
        public function withHeader(string $name, string $value): static {}

        /**
         * Adds a header line to those of the same name, for example a further Set-Cookie.
         *
         * @throws Exception\MisuseError if the name or value is malformed, only the server may set the header, or it is
         *        Content-Type
         */
        public function withAddedHeader(string $name, string $value): static {}
    }

    /**
     * Event of a channel.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Event
    {
        /** UTF-8 text, may have several lines. */
        public readonly string $data;

        /** Name under which browsers dispatch the event; null: "message". */
        public readonly ?string $name;

        /** Id of an event that Channel::history() or a ChannelReader returned; otherwise null. */
        public readonly ?string $id;

        /** Time of publishing in Unix milliseconds, for an event that Channel::history() or a ChannelReader returned; otherwise null. */
        public readonly ?int $timeMs;

        /** @throws Exception\MisuseError if the name is empty or contains a line break or NUL, or the data is not UTF-8 */
        public function __construct(string $data, ?string $name = null) {}

        /**
         * Returns an event whose data is JSON, encoded like Response::json().
         *
         * @throws \JsonException if the data cannot be encoded
         * @throws Exception\MisuseError if the name is empty or contains a line break or NUL
         */
        public static function json(mixed $data, ?string $name = null): Event {}
    }

    /**
     * Named sequence of events that any worker publishes and that subscribed clients receive.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Channel
    {
        /** Name of the channel. */
        public readonly string $name;

        private function __construct() {}

        /**
         * Returns the channel with this name. A channel need not be created before it is used.
         *
         * @param string $name 1 to 255 bytes without control characters
         * @throws Exception\MisuseError for another name, or outside a running server (use Publisher there)
         */
        public static function get(string $name): Channel {}

        /**
         * Publishes an event. When this method returns, the event is stored (see $ack), and every subscriber on every worker
         * will receive it. A string or a WebSocket message is the data of an event without a name.
         *
         * In a cluster, the handler or task waits for the cluster's log while other handlers run; a client that leaves does not
         * end that wait.
         *
         * @param WebSocket|null $except connection that does not receive the event, usually its sender
         * @param Ack $ack acknowledgement that the call waits for in a cluster
         * @return string id of the event, for Last-Event-ID; empty with Ack::Local in a cluster, where it is not yet known
         * @throws Exception\BackpressureException if a slow worker has kept the ring of events full for
         *        publish_wait_ms_max, or the log of the cluster did not acknowledge the event in time
         * @throws Exception\MisuseError if the event is larger than the setting event_bytes_max
         */
        public function publish(Event|WebSocket\Message|string $event, ?WebSocket $except = null, Ack $ack = Ack::Cluster): string {}

        /**
         * Publishes to all clients except one of the Pusher protocol, usually the page that caused the event (toOthers() in
         * Laravel). In a cluster, the worker blocks until the log acknowledges the event.
         *
         * @param string $socketId the page's header X-Socket-ID; the id of a connection to another server skips no client
         * @return string id of the event, for Last-Event-ID
         * @throws Exception\BackpressureException see publish()
         * @throws Exception\MisuseError see publish()
         */
        public function publishExcept(Event $event, string $socketId): string {}

        /**
         * Returns the users who are present; see Hold::as() and WebSocket::join().
         *
         * @param int|null $limit maximum number of users, the most recent first; null: all
         * @return list<Member>
         * @throws Exception\BackpressureException if another process keeps the table of present users locked, or if a
         *        starting server of a cluster has not yet received the users of the other servers
         * @throws Exception\MisuseError if the limit is not positive
         */
        public function members(?int $limit = null): array {}

        /**
         * Returns the number of users who are present: the length of members() without a limit.
         *
         * @throws Exception\BackpressureException if another process keeps the table of present users locked, or if a
         *        starting server of a cluster has not yet received the users of the other servers
         */
        public function memberCount(): int {}

        /**
         * Returns the stored events, oldest first. In a cluster, events that this server lacks are read from the log, within
         * the limits in docs/cluster-guarantees.md.
         *
         * @param string|null $since only events after the event with this id
         * @param int|null $count maximum number of events, the newest; null: all
         * @return list<Event>
         * @throws Exception\BackpressureException in a cluster, if this server lacks some of the events and the log is
         *        unavailable
         * @throws Exception\MisuseError if the count is not positive
         */
        public function history(?string $since = null, ?int $count = null): array {}

        /**
         * Returns a reader of the channel's events, for a foreach loop in a handler or task. The loop waits for the next event;
         * meanwhile other handlers run. It ends by break, by an exception, and if its handler or task is cancelled.
         *
         * @param string|null $since read the events after the event with this id; null: only events published after this call
         * @param bool $fromStart without $since: start with the oldest stored event
         * @param bool $gapEvents where events are missing, return an event named `gap` (data: `{"reason": …}`, no id), as clients
         *        receive it, instead of throwing a GapException
         * @throws Exception\MisuseError if the worker has 65,536 open readers
         */
        public function read(?string $since = null, bool $fromStart = false, bool $gapEvents = false): ChannelReader {}
    }

    /**
     * Reader of a channel; see Channel::read(). Each event is read once, in publish order. Users who join or leave are not events
     * of a reader. The keys of a foreach loop are the ids of the events.
     *
     * A reader stores only its position. If it is slower than the publishers, it finds older events in the history, until
     * history_bytes has room for no more; then it has a gap.
     *
     * @strict-properties
     * @not-serializable
     * @implements \IteratorAggregate<string|null, Event>
     */
    final class ChannelReader implements \IteratorAggregate
    {
        private function __construct() {}

        /**
         * Returns the next event; waits while there is none.
         *
         * @throws Exception\GapException if events before the next one are missing; the next call continues after the gap
         * @throws Exception\CancelledException if the handler's client disconnects, or the task is cancelled
         * @throws Exception\TimeoutException inside timeout()
         * @throws Exception\MisuseError if another handler or task waits with this reader, or PHP cannot wait at this point
         */
        public function receive(): Event {}

        /** Used by foreach. */
        public function getIterator(): \Iterator {}
    }

    /**
     * User who is present in a channel.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Member
    {
        /** Argument $user of Hold::as() or WebSocket::join(). */
        public readonly string $user;

        /** Argument $info of Hold::as() or WebSocket::join(). */
        public readonly ?array $info;

        /**
         * Number of the user's held clients and joined WebSockets over all workers. 0 during leave_delay_ms after the last one
         * closed.
         */
        public readonly int $connections;

        private function __construct() {}
    }

    /**
     * Publishes to a running server from another process, such as a queue worker, a cron job or PHP-FPM.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Publisher
    {
        /**
         * @param string|null $control control socket of the server, "unix:/path.sock"; null: the environment variable
         *        FERMATA_CONTROL
         * @param int $timeoutMs time limit of publish() in milliseconds, 1 to 3,600,000
         * @throws Exception\ConfigurationException if there is no control socket, or a value is invalid
         */
        public function __construct(?string $control = null, int $timeoutMs = 2000) {}

        /**
         * Publishes an event to a channel of the server; blocks until the server has stored it.
         *
         * @return string id of the event
         * @throws Exception\ConnectionException if the server cannot be reached
         * @throws Exception\TimeoutException if the server does not respond in time; the event may have been stored
         * @throws Exception\BackpressureException if a slow worker of the server keeps the ring of events full
         * @throws Exception\MisuseError for an invalid channel name, or an event larger than event_bytes_max
         */
        public function publish(string $channel, Event $event): string {}
    }

    /**
     * Handler of a WebSocket route; see Server::websocket(). A method that is not overridden costs nothing.
     *
     * @not-serializable
     */
    abstract class WebSocketHandler
    {
        /**
         * Called for the handshake of a client: accept it or refuse it. If the method does neither, the client is accepted with
         * the first of Options::$protocols that it offers.
         */
        public function upgrade(WebSocket\Upgrade $upgrade): void {}

        /** Called when the connection is open. */
        public function open(WebSocket $socket): void {}

        /** Called for each complete message. */
        public function message(WebSocket $socket, WebSocket\Message $message): void {}

        /**
         * Called once when the connection has closed, by either side or by an error. The socket can no longer send. Its data is
         * released afterwards.
         *
         * @param int $code see WebSocket\CloseCode::tryFrom(); 1006 if the connection broke without a close frame
         */
        public function close(WebSocket $socket, int $code, string $reason): void {}
    }

    /**
     * A WebSocket connection of this worker. The object is created on demand: an idle connection has no PHP object.
     *
     * Handlers may receive different objects for one connection; they are equal (==) and have the same id(). The object may be
     * stored. When the connection has closed, sending throws and isOpen() returns false.
     *
     * @strict-properties
     * @not-serializable
     */
    final class WebSocket
    {
        private function __construct() {}

        /** Returns an opaque id of the connection for sendTo(), unique over all workers and restarts. */
        public function id(): string {}

        /**
         * Queues a message. One write sends all messages that are queued for the connection in this turn of the loop.
         *
         * @param string|\Stringable|WebSocket\Message $data a text, or a received message, which is sent unchanged
         * @throws Exception\BackpressureException if the client does not read and QueuePolicy::Refuse applies
         * @throws Exception\ConnectionClosedException if the connection has closed
         * @throws Exception\MisuseError if the text is not UTF-8
         */
        public function send(string|\Stringable|WebSocket\Message $data): void {}

        /**
         * Queues a binary message; see send().
         *
         * @throws Exception\BackpressureException if the client does not read and QueuePolicy::Refuse applies
         * @throws Exception\ConnectionClosedException if the connection has closed
         */
        public function sendBinary(string $data): void {}

        /**
         * Queues a message unless the queue is full or the connection has closed.
         *
         * @param bool $binary true: sends a string as a binary message; a Message keeps its type
         * @return bool true if the message was queued
         * @throws Exception\MisuseError if a text is not UTF-8
         */
        public function trySend(string|\Stringable|WebSocket\Message $data, bool $binary = false): bool {}

        /**
         * Sends a message to a connection of any worker, in a cluster of any machine. If the connection has closed, nothing
         * happens. Another machine is reached through the cluster's log, without waiting for it.
         *
         * @param string $id result of id()
         * @throws Exception\BackpressureException if a slow worker has kept the ring of events full for
         *        publish_wait_ms_max, or if the connection is on another machine and the log of the cluster is unavailable
         * @throws Exception\MisuseError if the id is malformed, the text is not UTF-8 or larger than event_bytes_max, or
         *        outside a running server
         */
        public static function sendTo(string $id, string $data, bool $binary = false): void {}

        /**
         * Starts the closing handshake (RFC 6455, section 7); earlier messages still arrive. A second call does nothing.
         *
         * @param WebSocket\CloseCode|int $code a case that may be sent, or 3000 to 4999
         * @param string $reason UTF-8 text, at most 123 bytes
         * @throws Exception\MisuseError if the code must not be sent, or the reason is not UTF-8 or too long
         */
        public function close(WebSocket\CloseCode|int $code = WebSocket\CloseCode::Normal, string $reason = ''): void {}

        /**
         * Subscribes to a channel: its events reach the client without running PHP. A second call for the same channel replaces
         * the subscription.
         *
         * @param string|null $user user as whom the client is present while it is subscribed. A user with several tabs, on
         *        any worker, is one member.
         * @param array|null $info JSON-encodable data that Channel::members() returns. The user's latest connection
         *        determines the data. A change publishes another `join` event with `"changed": true`. Needs $user.
         * @param bool $announce publishes `join` and `leave` events to the channel when the user's first connection opens and
         *        the last one closes
         * @param string|null $since replays the events published after the event with this id; null or "": see $fromStart
         * @param bool $fromStart replays all stored events to a client without an id; see Hold::fromStart()
         * @throws Exception\ConnectionClosedException if the connection has closed
         * @throws Exception\BackpressureException if a slow worker has kept the ring of events full for
         *        publish_wait_ms_max, or too many users are present (members_max and related settings)
         * @throws Exception\MisuseError for an invalid channel name, an empty user, or $info without $user
         * @throws \JsonException if $info cannot be encoded
         */
        public function join(
            string $channel,
            ?string $user = null,
            ?array $info = null,
            bool $announce = true,
            ?string $since = null,
            WebSocket\Format $format = WebSocket\Format::Data,
            bool $fromStart = false,
        ): static {}

        /** Ends the subscription to a channel; does nothing if there is none. */
        public function leave(string $channel): static {}

        /** Returns the value that setData() stored for this connection; null if there is none. */
        public function data(): mixed {}

        /**
         * Stores a value for this connection, in this worker. The value is released after close().
         *
         * @throws Exception\ConnectionClosedException if the connection has closed and its data was released
         */
        public function setData(mixed $data): void {}

        /** Returns true if the connection can send. */
        public function isOpen(): bool {}

        /** Returns the number of queued bytes that the kernel has not yet accepted. */
        public function queuedBytes(): int {}

        /** Returns the negotiated subprotocol; null if there is none. */
        public function protocol(): ?string {}

        /**
         * Returns the client's address. If the peer is a proxy of the setting trusted_proxies, the address comes from its
         * header; otherwise it is the peer address of the connection. "unix" on a Unix socket.
         */
        public function remoteAddress(): string {}

        /** Returns the port of remoteAddress(); 0 on a Unix socket, or if a proxy does not send it. */
        public function remotePort(): int {}
    }

    /**
     * Waits for a time in seconds, with a resolution of 1 ms; other handlers run meanwhile. 0 lets the other handlers run
     * first.
     *
     * Like every function that waits, it may be called in handlers and tasks of a running server, and in Fibers that they run.
     * It cannot wait in a destructor (before PHP 8.4), a callback of ob_start(), an autoloader or a shutdown function.
     *
     * @throws Exception\CancelledException if the task or a surrounding Cancellation is cancelled; its subclass
     *        ClientGoneException if the handler's client has left
     * @throws Exception\TimeoutException if the time of a surrounding timeout() is over
     * @throws Exception\MisuseError where PHP cannot wait; the message has the cause
     */
    function delay(float $seconds): void {}

    /**
     * Starts a task: `$work` is called without arguments while this handler or task waits, or when it has finished.
     *
     * The task works for the same client: if the client leaves before its response is sent, waits in the task end as well.
     * The task has a copy of the Context. A failure is logged if the Future is never awaited.
     *
     * @throws Exception\BackpressureException if tasks_queue_max tasks have not started, or this request has
     *        tasks_per_request_max tasks
     */
    function async(callable $work): Future {}

    /** Returns the result of `$future->await()`. */
    function await(Future $future): mixed {}

    /**
     * Runs all arguments concurrently and waits for all. Each argument is a callable or a Future. Returns the results in their
     * order, with the names of named arguments as keys.
     *
     * If one of them throws, the unfinished tasks of callables are cancelled, and all() throws that exception.
     */
    function all(callable|Future ...$works): array {}

    /**
     * Runs all arguments concurrently and waits for the first that finishes; returns its result or throws its exception. Each
     * argument is a callable or a Future. The unfinished tasks of callables are cancelled.
     */
    function race(callable|Future ...$works): mixed {}

    /**
     * Calls `$work` with a time limit in seconds. After that time, waits in `$work` throw a TimeoutException. Code that
     * does not wait is not interrupted.
     */
    function timeout(float $seconds, callable $work): mixed {}

    /**
     * Calls `$work` and protects its waits: a client that leaves, a cancelled task or a surrounding timeout() does not end
     * them. After a client has left, a handler may wait here for at most abandoned_wait_ms_max.
     */
    function shield(callable $work): mixed {}

    /**
     * Result of a task that may be unfinished.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Future
    {
        private function __construct() {}

        /**
         * Waits until the task has finished, and returns its result or throws its exception. May be called several times.
         *
         * @throws Exception\MisuseError if the task waits, directly or through others, for the caller
         */
        public function await(): mixed {}

        /** Returns true if the task has finished; then await() does not wait. */
        public function isDone(): bool {}

        /**
         * Cancels the task: its current wait and all later ones throw a CancelledException. A task that has not started never
         * starts.
         */
        public function cancel(): void {}
    }

    /**
     * Cancels the waits of all code that runs inside run().
     *
     * @strict-properties
     * @not-serializable
     */
    final class Cancellation
    {
        /** Ends all waits inside run(), current and later ones, with a CancelledException. */
        public function cancel(): void {}

        /** Returns true after cancel(). */
        public function isCancelled(): bool {}

        /** Calls `$work`, whose waits end when this object is cancelled. */
        public function run(callable $work): mixed {}
    }

    /** Groups of PHP's own functions that otherwise block the worker while they wait. See Runtime::hook(). */
    enum Hook
    {
        /** sleep(), usleep(), time_nanosleep(), time_sleep_until() */
        case Sleep;

        /** Socket streams (TCP, TLS, UDP, Unix) and their users: http:// and ftp:// URLs, PDO MySQL, mysqli, Redis, SMTP */
        case Streams;

        /** stream_select(), mysqli_poll() */
        case StreamSelect;

        /** Extension sockets: socket_read(), socket_select() … */
        case Sockets;

        /** Host names: in connections, gethostbyname(), dns_get_record() … */
        case Dns;

        /** exec(), shell_exec(), passthru(), system(), popen(), proc_open() and their pipes */
        case Processes;

        /** Plain files: fopen(), fread(), fwrite(), file_get_contents(), copy(), unlink(), stat(), flock(), fsync() … */
        case Files;

        /** Extension curl: curl_exec(), curl_multi_select() */
        case Curl;

        /** Extensions pgsql and pdo_pgsql */
        case PostgreSql;

        /** Extensions pdo_sqlite and sqlite3 */
        case Sqlite;
    }

    /** Settings of the PHP process. */
    final class Runtime
    {
        /**
         * Turns hooks on: in handlers and tasks, these functions wait without blocking the worker. Elsewhere they are
         * unchanged.
         *
         * Without an argument, turns all hooks on. A group whose extension is not loaded is skipped. Call this before
         * Server::run().
         *
         * @throws Exception\MisuseError in a worker
         * @throws Exception\ConfigurationException if this PHP cannot be hooked
         */
        public static function hook(Hook ...$hooks): void {}

        /**
         * Returns the hooks that are on.
         *
         * @return list<Hook>
         */
        public static function hooks(): array {}

        /**
         * Sets the value of PHP_SAPI and php_sapi_name() for the rest of this process and its workers, also in files that
         * are already compiled. Libraries use the name to distinguish a web request from a command line. A name other than
         * `cli` hides the constant STDIN.
         *
         * The setting sapi_name (FERMATA_SAPI_NAME) overrides this name. Worker scripts and the bridges for frameworks set
         * `frankenphp`. Default: `cli`, PHP's own.
         *
         * @param string $name 1 to 32 letters, digits, `-` and `_`
         * @throws \ValueError for another name
         * @throws Exception\MisuseError in a worker
         */
        public static function setSapiName(string $name): void {}

        /**
         * Replaces this worker, which starts no further requests. Requests that no handler has started move with their
         * connections to other workers or to the replacement. Excluded are requests over TLS or HTTP/2, and requests whose
         * body is larger than 64 KiB, multipart or in a file: this worker still handles those.
         *
         * Running handlers and held clients end as when the server stops.
         *
         * @throws Exception\MisuseError outside a worker
         */
        public static function replaceWorker(): void {}

        /**
         * Returns true if SIGUSR2 stopped the server, and no stop signal has arrived since. After run(), the caller should then
         * start the server again, for example with exec().
         */
        public static function isToRestart(): bool {}

        /**
         * Keeps a connection open if a wait on it is ended by a client that left, timeout() or a cancelled task; otherwise the
         * connection would be shut down. The next reader receives the unread rest of the ended exchange. So this is only for
         * protocols whose messages identify their recipient by a number, and for streams of one-way messages. Handlers do not
         * queue for the connection: one may read while another writes.
         *
         * @param resource|\Socket $connection stream over a socket, or a socket; applies until it is closed
         * @throws \TypeError for anything else
         */
        public static function keepOnCancel(mixed $connection): void {}
    }

    /**
     * Rows in memory that all workers and jobs of a server share, such as counters, signed-in users or computed values.
     *
     * A table is created before run(), and used in handlers, tasks and jobs without waiting. It has a fixed number of rows with
     * fixed columns; each row has a key. Each call reads or changes one complete row, so a worker that is killed leaves no
     * partial change. The rows are lost when the server stops.
     *
     * foreach returns copies of the rows by key. A row that exists throughout the loop is returned once; a row that is deleted
     * and set again meanwhile may be returned twice or not at all.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Table implements \Countable, \IteratorAggregate
    {
        /** Maximum number of rows. */
        public readonly int $rows;

        /** @var list<Table\Column> */
        public readonly array $columns;

        /** Maximum size of a key in bytes. */
        public readonly int $keyBytes;

        /** Memory in bytes that the table occupies when all rows are used. */
        public readonly int $bytes;

        /**
         * @param int $rows maximum number of rows, 1 to 16,777,216
         * @param array $columns array<Table\Column> 1 to 256 columns with different names
         * @param int $keyBytes maximum size of a key in bytes, 1 to 1,024
         * @throws Exception\MisuseError if a value is out of range, or in a running server
         * @throws Exception\ConfigurationException if the memory cannot be allocated
         */
        public function __construct(int $rows, array $columns, int $keyBytes = 64) {}

        /**
         * Changes columns of a row, or adds the row. Columns that $row lacks are unchanged; in a new row they are zero or
         * empty.
         *
         * @param array $row array<string, int|float|string> values by column name
         * @throws Exception\BackpressureException if the table is full, or another process keeps it locked
         * @throws Exception\MisuseError if the key is too long, a column is unknown, or a value does not fit its column
         */
        public function set(string $key, array $row): void {}

        /**
         * Returns a copy of a row; null if there is none.
         *
         * @return array<string, int|float|string>|null
         * @throws Exception\MisuseError if the key is too long
         */
        public function get(string $key): ?array {}

        /**
         * Returns one column of a row; null if there is no such row.
         *
         * @throws Exception\MisuseError if the key is too long, or the column is unknown
         */
        public function value(string $key, string $column): int|float|string|null {}

        /**
         * Returns true if there is a row with this key.
         *
         * @throws Exception\MisuseError if the key is too long
         */
        public function exists(string $key): bool {}

        /**
         * Adds to a number atomically and returns the sum. A missing row is added and starts at zero.
         *
         * @throws Exception\BackpressureException see set()
         * @throws Exception\MisuseError see set(); also for a column of strings, and if the sum overflows an int
         */
        public function increment(string $key, string $column, int|float $by = 1): int|float {}

        /** Subtracts from a number; see increment(). */
        public function decrement(string $key, string $column, int|float $by = 1): int|float {}

        /**
         * Deletes a row; returns false if there is none.
         *
         * @throws Exception\BackpressureException if another process keeps the table locked
         */
        public function delete(string $key): bool {}

        /** Deletes all rows, one after the other; rows that are added meanwhile may remain. */
        public function clear(): void {}

        /** Returns the number of rows. */
        public function count(): int {}

        /** Used by foreach. */
        public function getIterator(): \Iterator {}
    }

    /**
     * Bounded set of connections to a database or another server, which handlers and tasks of a worker borrow.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Pool
    {
        /**
         * Creates a pool without connections, so it may be created before run().
         *
         * @param \Closure $connect function (): object|resource; returns a new connection
         * @param int $size maximum number of connections per worker, 1 to 10,000
         * @param float $waitSeconds time in seconds for which use() waits while all connections are borrowed
         * @param float $checkAfterSeconds idle time in seconds after which a connection is checked before it is lent
         * @param \Closure|null $check function ($connection): bool; returns true if the connection works. Default: the ping of
         *        MySQL, PostgreSQL or Redis.
         * @param \Closure|null $reset function ($connection): void; called each time a connection returns, after its open
         *        transactions and locks have ended
         * @throws Exception\MisuseError if a value is out of range
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
         * Calls `$work` with a connection and returns its result. The connection returns to the pool when `$work` ends in any
         * way.
         *
         * @param callable $work function ($connection): mixed
         * @throws Exception\TimeoutException if all connections were borrowed for longer than waitSeconds
         * @throws Exception\ConnectionClosedException after close()
         */
        public function use(callable $work): mixed {}

        /** Closes the pool: it lends no more connections. Idle connections are closed now, borrowed ones when they return. */
        public function close(): void {}

        /** Returns the number of idle connections. */
        public function idle(): int {}

        /** Returns the number of connections that are borrowed or being opened. */
        public function borrowed(): int {}

        /** Returns the number of handlers and tasks that wait for a connection. */
        public function waiting(): int {}
    }

    /** Values of one handler and the tasks it starts, such as a user or a trace id. */
    final class Context
    {
        /**
         * Returns a value of the current handler or task; the default if it is not set.
         *
         * @throws Exception\MisuseError outside a handler or task
         */
        public static function get(string $name, mixed $default = null): mixed {}

        /**
         * Sets a value of the current handler or task. Tasks that are started later have it, too. It is released when the
         * handler or task ends.
         *
         * @throws Exception\MisuseError outside a handler or task
         */
        public static function set(string $name, mixed $value): void {}
    }

    /**
     * Reads and writes files without blocking the worker: in a handler or task, each call waits like delay() while other
     * handlers run. Data in the page cache is returned immediately. Elsewhere, for example in scripts and destructors, the same
     * calls block.
     *
     * Writes to one path, or through one File, happen in the order of the calls. If a caller is cancelled during a write, the
     * write still finishes. A stopping worker finishes started operations.
     *
     * Paths are file system paths, without wrappers such as php://. Permissions are those of open(2), so the umask applies.
     *
     * @strict-properties
     * @not-serializable
     */
    final class File
    {
        /** Path passed to open(), or created by temporary(); after keep(), the path passed to keep(). */
        public readonly string $path;

        private function __construct() {}

        /**
         * Reads a file, or a part of it.
         *
         * @param int $offset position of the first byte; after the end of the file the result is ""
         * @param int|null $length maximum number of bytes; null: to the end
         * @throws Exception\FileException if the file cannot be read, or has more than file_read_bytes_max bytes; frequent
         *        causes have their own subclasses
         * @throws Exception\CancelledException if the wait is cancelled; see delay()
         */
        public static function read(string $path, int $offset = 0, ?int $length = null): string {}

        /**
         * Writes a file.
         *
         * @param File\WriteMode $mode effect on an existing file; Atomic leaves it unchanged until all bytes are written
         * @param bool $sync true: returns when the disk has stored the data, so that it survives a power failure
         * @param int $permissions permissions of a new file
         * @return int number of bytes written, which is the size of $data
         * @throws Exception\DiskFullException if there is no space; the message has the number of bytes written
         * @throws Exception\FileException for any other cause
         */
        public static function write(
            string $path,
            string $data,
            File\WriteMode $mode = File\WriteMode::Replace,
            bool $sync = false,
            int $permissions = 0666,
        ): int {}

        /**
         * Copies a file with its permissions. Other processes see the complete target or none.
         *
         * @return int number of bytes copied
         * @throws Exception\FileExistsException if the target exists and $overwrite is false
         */
        public static function copy(string $from, string $to, bool $overwrite = true): int {}

        /**
         * Returns the metadata of a file.
         *
         * @param bool $followLinks true: returns metadata of the file that a symbolic link points to. false: of the link
         *        itself.
         */
        public static function stat(string $path, bool $followLinks = true): File\Stat {}

        /** Returns true if the path exists; false also below a directory that may not be searched. */
        public static function exists(string $path): bool {}

        /**
         * Returns the names in a directory, sorted by their bytes, without "." and "..".
         *
         * @return list<string>
         */
        public static function list(string $path): array {}

        /**
         * Removes a file, a link or an empty directory.
         *
         * @param bool $recursive true: removes a directory with its contents; links in it are removed, not followed
         * @throws Exception\FileNotFoundException if the path does not exist
         * @throws Exception\DirectoryNotEmptyException if the directory is not empty and $recursive is false
         */
        public static function remove(string $path, bool $recursive = false): void {}

        /** Renames a file or directory within one file system. */
        public static function rename(string $from, string $to, bool $overwrite = true): void {}

        /**
         * Creates a directory.
         *
         * @param bool $recursive true: creates missing parent directories as well, and accepts an existing directory
         */
        public static function makeDirectory(string $path, bool $recursive = true, int $permissions = 0777): void {}

        /**
         * Returns the lines of a file, one after the other, without line breaks (\n or \r\n).
         *
         * @param int $bytesMax maximum size of a line in bytes
         */
        public static function lines(string $path, int $bytesMax = 1048576): File\Pieces {}

        /** Returns the bytes of a file in blocks of $bytes bytes. */
        public static function blocks(string $path, int $bytes = 65536): File\Pieces {}

        /** Opens a file. It is closed by close(), or when the object is destroyed. */
        public static function open(string $path, File\OpenMode $mode = File\OpenMode::Read, int $permissions = 0666): File {}

        /**
         * Creates a file with a unique name that only this user can read. It is removed when it is closed, unless keep() was
         * called.
         *
         * @param string|null $directory null: the system's directory for temporary files
         */
        public static function temporary(?string $directory = null, string $prefix = 'fermata-'): File {}

        /** Returns the next $bytes bytes, fewer only at the end of the file; null after the end. */
        public function readBlock(int $bytes = 65536): ?string {}

        /**
         * Returns the next line without its line break (\n or \r\n); null after the last.
         *
         * @param int $bytesMax maximum size of the line in bytes
         * @throws Exception\FileException if the line is longer
         */
        public function readLine(int $bytesMax = 1048576): ?string {}

        /**
         * Writes at the current position; with OpenMode::Append, at the end of the file.
         *
         * @return int number of bytes written, which is the size of $data
         */
        public function writeBlock(string $data): int {}

        /** Sets the position, in bytes from the start of the file. */
        public function seek(int $position): void {}

        /** Returns the position, in bytes from the start of the file. */
        public function position(): int {}

        /** Returns the size of the file in bytes. */
        public function size(): int {}

        /** Sets the size of the file: cuts it, or extends it with zero bytes. */
        public function truncate(int $size): void {}

        /** Waits until the disk has stored the data (fsync). */
        public function sync(): void {}

        /**
         * Waits for an advisory lock on the file (flock(2)), which other processes and other File objects respect if they lock
         * as well.
         *
         * unlock() or closing the file releases it.
         *
         * @param bool $exclusive true: an exclusive lock. false: a lock shared with other shared locks.
         */
        public function lock(bool $exclusive = true): void {}

        /** Acquires the lock like lock(), but returns false immediately if another holder has it. */
        public function tryLock(bool $exclusive = true): bool {}

        /** Releases the lock. */
        public function unlock(): void {}

        /**
         * Turns a temporary file into a permanent one.
         *
         * @param string $path path on the same file system; an existing file is replaced
         * @throws Exception\MisuseError if this is not a temporary file
         */
        public function keep(string $path): void {}

        /** Closes the file after its unfinished calls. A second call does nothing. */
        public function close(): void {}
    }
}

namespace Fermata\File {
    /** Effect of File::write() on an existing file. */
    enum WriteMode: int
    {
        /** The file is truncated first. */
        case Replace = 0;

        /** The file is replaced when the new one is complete: readers find the old or the new content, also after a failure. */
        case Atomic = 1;

        /** The bytes are appended at its end. */
        case Append = 2;

        /** The file stays unchanged, and the call throws a FileExistsException. */
        case New = 3;
    }

    /** Access to an opened file. */
    enum OpenMode: int
    {
        /** Reading; the file must exist. */
        case Read = 0;

        /** Reading and writing; a missing file is created. */
        case Update = 1;

        /** Reading and writing; the file is created or truncated. */
        case Replace = 2;

        /** Writing at the end; a missing file is created. */
        case Append = 3;

        /** Reading and writing; the file must not exist, and is created. */
        case New = 4;
    }

    /** Type of a directory entry. */
    enum Type: int
    {
        case File = 0;
        case Directory = 1;
        case Link = 2;

        /** Pipe, socket or device. */
        case Other = 3;
    }

    /**
     * Metadata of a file; see File::stat().
     *
     * @strict-properties
     * @not-serializable
     */
    final class Stat
    {
        /** Type of the file. */
        public readonly Type $type;

        /** Size in bytes. */
        public readonly int $size;

        /** Lower twelve bits of the mode, such as 0644. */
        public readonly int $permissions;

        /** User id. */
        public readonly int $owner;

        /** Group id. */
        public readonly int $group;

        /** Inode number. */
        public readonly int $inode;

        /** Number of the device that contains the file. */
        public readonly int $device;

        /** Number of hard links. */
        public readonly int $links;

        /** Time of the last change of the content, in Unix seconds. */
        public readonly float $modifiedAt;

        /** Time of the last read in Unix seconds, if the file system records it. */
        public readonly float $accessedAt;

        /** Time of the last change of content or metadata, in Unix seconds. */
        public readonly float $changedAt;

        private function __construct() {}

        /** Returns true for a regular file. */
        public function isFile(): bool {}

        /** Returns true for a directory. */
        public function isDirectory(): bool {}
    }

    /**
     * Lines or blocks of a file, which are read during the iteration. Only one iteration is possible.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Pieces implements \Iterator
    {
        private function __construct() {}

        /**
         * Returns the current piece.
         *
         * @throws \Fermata\Exception\MisuseError after the last piece
         */
        public function current(): string {}

        /** Returns the number of the piece, from 0. */
        public function key(): int {}

        /** Reads the next piece. */
        public function next(): void {}

        /**
         * Reads the first piece.
         *
         * @throws \Fermata\Exception\MisuseError if the iteration has passed the first piece
         */
        public function rewind(): void {}

        /** Returns true if there is a current piece. */
        public function valid(): bool {}
    }
}

namespace Fermata\Sync {
    /**
     * Lock that one handler or task of this worker has at a time; waiters acquire it in the order of arrival.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Mutex
    {
        /**
         * Waits until the mutex is unlocked, and locks it.
         *
         * @throws \Fermata\Exception\MisuseError if this would be a deadlock; the message has the place where the other handler
         *        waits
         */
        public function lock(): void {}

        /** Locks the mutex if it is unlocked; otherwise returns false immediately. */
        public function tryLock(): bool {}

        /**
         * Unlocks the mutex; the first waiter acquires it.
         *
         * @throws \Fermata\Exception\MisuseError if the caller has not locked it
         */
        public function unlock(): void {}

        /** Returns true if a handler or task has the mutex locked. */
        public function isLocked(): bool {}

        /** Calls `$work` with the mutex locked and returns its result. Unlocks it also if `$work` throws. */
        public function synchronized(callable $work): mixed {}
    }

    /**
     * Limit on concurrent work of this worker; waiters receive permits in the order of arrival.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Semaphore
    {
        /** @param int $permits number of permits, 1 or more */
        public function __construct(int $permits) {}

        /** Waits for a permit and acquires it. */
        public function acquire(): void {}

        /** Acquires a permit if one is available; otherwise returns false immediately. */
        public function tryAcquire(): bool {}

        /**
         * Releases a permit; the first waiter receives it. Any handler or task may call this.
         *
         * @throws \Fermata\Exception\MisuseError if all permits are already released
         */
        public function release(): void {}

        /** Calls `$work` with a permit and returns its result. Releases the permit also if `$work` throws. */
        public function run(callable $work): mixed {}
    }

    /**
     * Queue of values between handlers and tasks of this worker, first in, first out.
     *
     * foreach removes the values one after the other, waits while the queue is empty, and ends when it is closed and empty.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Queue implements \Countable, \IteratorAggregate
    {
        /** @param int $capacity maximum number of values in the queue, 1 to 16,777,216 */
        public function __construct(int $capacity = 1) {}

        /**
         * Adds a value; waits while the queue is full.
         *
         * @throws \Fermata\Exception\QueueClosedException if the queue is closed
         */
        public function push(mixed $item): void {}

        /**
         * Adds a value; returns false immediately if the queue is full.
         *
         * @throws \Fermata\Exception\QueueClosedException if the queue is closed
         */
        public function tryPush(mixed $item): bool {}

        /**
         * Removes and returns the first value; waits while the queue is empty.
         *
         * @throws \Fermata\Exception\QueueClosedException if the queue is closed and empty
         */
        public function pop(): mixed {}

        /** Removes and returns the first value; returns the default if the queue is empty. */
        public function tryPop(mixed $default = null): mixed {}

        /** Closes the queue: it accepts no more values. The values in it can still be removed. */
        public function close(): void {}

        /** Returns true if the queue is closed. */
        public function isClosed(): bool {}

        /** Returns the number of values in the queue. */
        public function count(): int {}

        /** Used by foreach. */
        public function getIterator(): \Iterator {}
    }
}

namespace Fermata\Table {
    /** Type of a column. */
    enum Type: string
    {
        /** 64-bit signed integer. */
        case Int = 'int';
        case Float = 'float';

        /** Any bytes, up to the size of the column. */
        case String = 'string';
    }

    /**
     * Column of a Table.
     *
     * @strict-properties
     * @not-serializable
     */
    final readonly class Column
    {
        /** Name of the column. */
        public readonly string $name;
        /** Type of its values. */
        public readonly Type $type;

        /** Maximum size of a string in bytes; 8 for numbers. */
        public readonly int $bytes;

        private function __construct() {}

        /**
         * Returns a column of 64-bit signed integers.
         *
         * @param string $name 1 to 64 bytes
         * @throws \Fermata\Exception\MisuseError for another name
         */
        public static function int(string $name): Column {}

        /**
         * Returns a column of floats.
         *
         * @param string $name 1 to 64 bytes
         * @throws \Fermata\Exception\MisuseError for another name
         */
        public static function float(string $name): Column {}

        /**
         * Returns a column of strings with any bytes.
         *
         * @param string $name 1 to 64 bytes
         * @param int $bytes maximum size in bytes, 1 to 67,108,864. The columns of a row together have the same limit.
         * @throws \Fermata\Exception\MisuseError for another name or size
         */
        public static function string(string $name, int $bytes): Column {}
    }
}

namespace Fermata\WebSocket {
    /**
     * WebSocket handshake of a client; see WebSocketHandler::upgrade(). The decision takes effect when the handler returns. If
     * the handler throws, the client gets 500.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Upgrade
    {
        private function __construct() {}

        /** Returns the request with path, headers, cookies and path parameters. */
        public function request(): \Fermata\Request {}

        /**
         * Returns the subprotocols that the client offers, in its order of preference.
         *
         * @return list<string>
         */
        public function protocols(): array {}

        /**
         * Returns the page's origin, such as "https://example.org"; null if the client sends none, as outside browsers. The
         * origin has passed the check of Options::$origins.
         */
        public function origin(): ?string {}

        /**
         * Accepts the connection.
         *
         * @param string|null $protocol one of protocols(); null: the first of Options::$protocols that the client offers
         * @param array $headers array<string, string|list<string>> for the response; a list creates one line per value
         * @throws \Fermata\Exception\MisuseError if the client does not offer the protocol, a header is malformed or only the
         *        server may set it, or the upgrade is already decided
         */
        public function accept(?string $protocol = null, array $headers = []): void {}

        /**
         * Refuses the connection with a response.
         *
         * @param \Fermata\Response|int $response a response, or a status from 300 to 599
         * @throws \Fermata\Exception\MisuseError if the status is out of range, or the upgrade is already decided
         */
        public function refuse(\Fermata\Response|int $response = 403): void {}

        /** Sets the initial value of WebSocket::data(). */
        public function setData(mixed $data): void {}
    }

    /**
     * Received message. Its bytes are converted to a PHP string on demand. The object may be stored.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Message implements \Stringable, \JsonSerializable
    {
        private function __construct() {}

        /** Returns the bytes; those of a text message are UTF-8. */
        public function data(): string {}

        /** Returns true for a binary message, false for a text message. */
        public function isBinary(): bool {}

        /**
         * Returns the message decoded as JSON, objects as arrays.
         *
         * @throws \Fermata\Exception\BadRequestException if it is not valid JSON. If uncaught, the connection is closed with
         *        1007.
         */
        public function json(): mixed {}

        /** Returns data(). */
        public function __toString(): string {}

        /**
         * Returns data(). So json_encode() converts a text message to a JSON string, and fails for binary bytes that are not
         * UTF-8.
         */
        public function jsonSerialize(): string {}
    }

    /** Policy for a message that does not fit in the queue of a client that reads too slowly. */
    enum QueuePolicy: string
    {
        /** send() throws a BackpressureException, and trySend() returns false. */
        case Refuse = 'refuse';

        /** The oldest queued messages are dropped. */
        case DropOldest = 'drop-oldest';

        /** The connection is closed with 1013. */
        case Close = 'close';
    }

    /** Format in which a subscriber receives an event. */
    enum Format: string
    {
        /** The event's data as a text message. */
        case Data = 'data';

        /**
         * `{"channel":…,"id":…,"event":…,"data":…}` with the data as a string. Includes names and ids, and the events `join`,
         * `leave` and `gap`.
         */
        case Json = 'json';
    }

    /**
     * Options of a WebSocket route. null: the server's setting.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Options
    {
        /** Origins whose pages may connect, as "scheme://host" or "scheme://host:port"; null: the same host; ['*']: all. */
        public readonly ?array $origins;

        /** Subprotocols that the server supports, in its order of preference. */
        public readonly array $protocols;

        /** Maximum size of a message in bytes, over all frames; a larger one closes the connection with 1009. */
        public readonly ?int $messageBytes;

        /** Maximum size of a frame in bytes; a larger one closes the connection with 1009. */
        public readonly ?int $frameBytes;

        /** Unsent bytes per connection above which the queue policy applies. */
        public readonly ?int $queueBytes;

        /** Policy for a message that does not fit in the queue. */
        public readonly QueuePolicy $queuePolicy;

        /** Time in milliseconds without data from the client after which it is pinged; 0: never. */
        public readonly ?int $pingIntervalMs;

        /** Time in milliseconds for which a client may stay silent after a ping; then the connection is closed. 0: no limit. */
        public readonly ?int $pongTimeoutMs;

        /** Time in milliseconds without a message from the client after which the connection is closed; 0: no limit. */
        public readonly ?int $idleTimeoutMs;

        /** Compression of messages; null: none. */
        public readonly ?Compression $compression;

        /**
         * @param array|null $origins list<string>
         * @param array $protocols list<string>
         * @throws \Fermata\Exception\MisuseError if a list contains anything other than strings, or a number is out of range
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

    /**
     * Compression of messages (permessage-deflate, RFC 7692), for clients that offer it.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Compression
    {
        /**
         * true: the server compresses each message with the help of its earlier ones. Messages become smaller, and each
         * connection needs up to 8 KiB more memory.
         */
        public readonly bool $serverContextTakeover;

        /** true: the client may do the same, which also needs memory in the server. */
        public readonly bool $clientContextTakeover;

        /** Base-2 logarithm of the window size, 9 to 15. */
        public readonly int $windowBits;

        /** Compression level, from 1 (fast) to 9 (small). */
        public readonly int $level;

        /** Minimum size in bytes of a message that is compressed. */
        public readonly int $minBytes;

        /** @throws \Fermata\Exception\MisuseError if a number is out of range */
        public function __construct(
            bool $serverContextTakeover = false,
            bool $clientContextTakeover = false,
            int $windowBits = 15,
            int $level = 1,
            int $minBytes = 64,
        ) {}
    }

    /**
     * Encodes and decodes frames (RFC 6455, section 5) for scripts that have their own connection.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Codec
    {
        private function __construct() {}

        /**
         * Returns the value of Sec-WebSocket-Accept for a client's Sec-WebSocket-Key.
         *
         * @throws \Fermata\Exception\BadRequestException if the key is not 16 bytes in Base64
         */
        public static function acceptKey(string $key): string {}

        /**
         * Returns an encoded frame.
         *
         * @param bool $masked true for frames of a client; the masking key is random
         * @param bool $fin false if the message continues in another frame
         * @param bool $rsv1 set by an extension, such as permessage-deflate in the first frame of a compressed message. The
         *        payload of a text frame is then not checked.
         * @throws \Fermata\Exception\MisuseError if the frame would violate the protocol: text that is not UTF-8; a control
         *        frame that is fragmented, longer than 125 bytes or has a reserved bit; a close frame with a malformed payload
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
         * Returns an encoded close frame with a code and a reason. `encode('', Opcode::Close)` returns one without a code.
         *
         * @param CloseCode|int $code a case that may be sent, or 3000 to 4999
         * @param string $reason UTF-8 text, at most 123 bytes
         * @throws \Fermata\Exception\MisuseError if the code must not be sent, or the reason is not UTF-8 or too long
         */
        public static function encodeClose(CloseCode|int $code = CloseCode::Normal, string $reason = '', bool $masked = false): string {}

        /**
         * Decodes one frame.
         *
         * Each frame is checked separately; the caller joins fragments and checks their order. A text must be UTF-8. The first
         * frame of a fragmented text may end inside a character, and continuations are not checked.
         *
         * @param int $offset position of the frame in $bytes; the next frame starts Frame::$bytesConsumed bytes later
         * @param bool|null $masked true: frames come from a client and must be masked. false: they come from a server and must
         *        not be masked. null: both are accepted.
         * @param bool $rsv1 true if a negotiated extension uses this bit; the same for $rsv2 and $rsv3
         * @param int $payloadBytesMax maximum size in bytes of a data frame's payload. For a longer one the method throws as
         *        soon as the frame's header is complete.
         * @return Frame|null null if the frame is incomplete; call again with more bytes
         * @throws \Fermata\Exception\ProtocolException if the peer violated the protocol; close the connection with its
         *        closeCode()
         * @throws \Fermata\Exception\MisuseError if the offset is outside $bytes, or the limit is negative
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
     * Blocking WebSocket client for tests and scripts, for ws:// and wss://. It answers pings during receive() and close().
     *
     * In a handler of a server it blocks the worker. If the object is destroyed without close(), the connection is closed
     * without a handshake, which the server reports as 1006.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Client
    {
        private function __construct() {}

        /**
         * Opens a connection.
         *
         * @param string $url ws://host/path or wss://host/path, optionally with port and query
         * @param array $subprotocols list<string> in the order of preference
         * @param array $headers array<string, string|list<string>>, such as Cookie, Origin and Authorization
         * @param float $timeout time limit in seconds for opening the connection, and later for each send()
         * @param bool $compression true: offers permessage-deflate
         * @param int $messageBytes maximum size in bytes of a received message; a larger one closes the connection with 1009
         * @param resource|null $context stream context; its "ssl" options set the trusted certificates of wss://
         * @throws \Fermata\Exception\ConnectionException if the server cannot be reached, or refuses with another status, which
         *        is then the exception's code
         * @throws \Fermata\Exception\TimeoutException if the server does not respond in time
         * @throws \Fermata\Exception\ProtocolException if its response violates the protocol
         * @throws \Fermata\Exception\MisuseError if the URL, a header or a subprotocol is malformed
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
         * @param Message|string $data a text, or a received message, which is sent unchanged
         * @throws \Fermata\Exception\ConnectionClosedException if the connection has closed
         * @throws \Fermata\Exception\TimeoutException if the server does not read in time; the connection is then closed
         * @throws \Fermata\Exception\MisuseError if the text is not UTF-8
         */
        public function send(Message|string $data): void {}

        /**
         * Sends a binary message; see send().
         *
         * @throws \Fermata\Exception\ConnectionClosedException if the connection has closed
         * @throws \Fermata\Exception\TimeoutException if the server does not read in time; the connection is then closed
         */
        public function sendBinary(string $data): void {}

        /**
         * Waits for a message and returns it.
         *
         * @param float|null $timeout time limit in seconds; 0: only a message that has already arrived; null: no limit
         * @return Message|null null if none arrived in time
         * @throws \Fermata\Exception\ConnectionClosedException if the connection has closed; its code is the close code
         * @throws \Fermata\Exception\ProtocolException if the server violates the protocol; the connection is then closed
         */
        public function receive(?float $timeout = null): ?Message {}

        /**
         * Sends a ping. Its pong is read during receive(); see lastPong().
         *
         * @param string $payload at most 125 bytes
         * @throws \Fermata\Exception\ConnectionClosedException if the connection has closed
         * @throws \Fermata\Exception\TimeoutException if the server does not read in time; the connection is then closed
         * @throws \Fermata\Exception\MisuseError if the payload is too long
         */
        public function ping(string $payload = ''): void {}

        /**
         * Closes the connection and waits for the server's close frame. Messages that arrive meanwhile are discarded. A second
         * call does nothing.
         *
         * @param CloseCode|int $code a case that may be sent, or 3000 to 4999
         * @param string $reason UTF-8 text, at most 123 bytes
         * @param float $timeout time limit in seconds for the server's close frame
         * @throws \Fermata\Exception\ProtocolException if the server violates the protocol meanwhile
         * @throws \Fermata\Exception\MisuseError if the code must not be sent, or the reason is not UTF-8 or too long
         */
        public function close(CloseCode|int $code = CloseCode::Normal, string $reason = '', float $timeout = 5.0): void {}

        /** Returns true if the connection is open. Only receive() and send() detect that the server has left. */
        public function isOpen(): bool {}

        /** Returns the subprotocol that the server selected; null if there is none. */
        public function protocol(): ?string {}

        /** Returns the payload of the last pong; null if none has arrived. */
        public function lastPong(): ?string {}

        /**
         * Returns the code of the server's close frame: 1005 if it had no code, 1006 if there was no close frame; null while
         * the connection is open.
         */
        public function closeCode(): ?int {}

        /** Returns the reason of the server's close frame; may be empty. */
        public function closeReason(): ?string {}
    }

    /**
     * Frame decoded by Codec::decode().
     *
     * @strict-properties
     * @not-serializable
     */
    final class Frame
    {
        /** Opcode of the frame. */
        public readonly Opcode $opcode;

        /** Unmasked payload; in a close frame, the code and the reason. */
        public readonly string $payload;

        /** true if this is the last frame of its message. */
        public readonly bool $fin;

        /** true if the payload was masked. */
        public readonly bool $masked;

        /** First reserved bit. */
        public readonly bool $rsv1;

        /** Second reserved bit. */
        public readonly bool $rsv2;

        /** Third reserved bit. */
        public readonly bool $rsv3;

        /** Size of the complete frame in the decoded bytes. */
        public readonly int $bytesConsumed;

        /** Code of a close frame; null if it has none, and for other frames. See CloseCode::tryFrom(). */
        public readonly ?int $closeCode;

        /** Reason of a close frame, empty if it has none; null for other frames. */
        public readonly ?string $closeReason;

        private function __construct() {}
    }

    /** Opcode of a frame (RFC 6455, section 11.8). */
    enum Opcode: int
    {
        /** Further frame of a message. */
        case Continuation = 0;

        /** First frame of a text message. */
        case Text = 1;

        /** First frame of a binary message. */
        case Binary = 2;

        case Close = 8;
        case Ping = 9;
        case Pong = 10;
    }

    /** Close code of a connection (RFC 6455, section 7.4.1, and the IANA registry). Applications may use 3000 to 4999. */
    enum CloseCode: int
    {
        /** The purpose of the connection is fulfilled. */
        case Normal = 1000;
        /** The page was left, or the server is stopping. */
        case GoingAway = 1001;
        /** The peer violated the protocol. */
        case ProtocolError = 1002;
        /** The peer does not accept this type of message. */
        case Unsupported = 1003;

        /** The close frame had no code. Never sent. */
        case NoStatus = 1005;

        /** The connection closed without a close frame. Never sent. */
        case Abnormal = 1006;

        /** Text that is not UTF-8. */
        case InvalidPayload = 1007;
        /** A message violates a policy of the peer. */
        case PolicyViolation = 1008;
        /** A message is too large. */
        case MessageTooBig = 1009;
        /** The client needs an extension that the server did not negotiate. */
        case ExtensionRequired = 1010;
        /** The handler failed. */
        case InternalError = 1011;
        /** The service restarts; the client may reconnect. */
        case ServiceRestart = 1012;
        /** The peer is overloaded, or the client reads too slowly. */
        case TryAgainLater = 1013;
        /** A gateway received an invalid response from its upstream server. */
        case BadGateway = 1014;

        /** The TLS handshake failed. Never sent. */
        case TlsHandshake = 1015;
    }
}

namespace Fermata\Testing {
    /**
     * Worker of a server in the process of a test: no port, no other process, and a clock that only the test advances.
     * `TestApplication` of the Composer package is based on it and easier to use.
     *
     * Only one Engine may be open at a time, and only outside Fibers. The server runs only during run() and advance().
     *
     * @strict-properties
     * @not-serializable
     */
    final class Engine
    {
        /**
         * @param \Fermata\Server $server server with routes; its addresses and number of workers have no effect. Its method
         *        run() can no longer be called.
         * @param float $waitSeconds maximum time in seconds for which run() waits for events outside this process, such as
         *        replies to queries
         * @throws \Fermata\Exception\MisuseError if another Engine is open
         * @throws \Fermata\Exception\ConfigurationException see Server::run()
         */
        public function __construct(\Fermata\Server $server, float $waitSeconds = 10.0) {}

        /**
         * Opens a connection to the server over one of the two streams of stream_socket_pair(). The client uses the other one.
         *
         * @param resource $stream
         * @param string $address address of the client; "": a Unix socket
         * @throws \Fermata\Exception\MisuseError if the stream is not a socket
         */
        public function connect($stream, string $address = '127.0.0.1', int $port = 50000): void {}

        /** Runs the server until it has no more work at the current time. */
        public function run(): void {}

        /**
         * Advances the clock to the next timer, by at most $ms milliseconds, and runs the server.
         *
         * @return int number of milliseconds by which the clock was advanced
         */
        public function advance(int $ms): int {}

        /** Returns the last exception of a handler since the previous call; null if there was none. */
        public function takeException(): ?\Throwable {}

        /**
         * Returns the last Hold of a handler since the previous call; null if there was none. `info` is JSON. A `keepAlive` of
         * null means the setting.
         *
         * @return array|null array{channels: list<string>, since: ?string, fromStart: bool, user: ?string, info: ?string, announces: bool,
         *        keepAlive: ?int, closesOnGap: bool}
         */
        public function takeHold(): ?array {}

        /** Returns the server's log so far. */
        public function log(): string {}

        /** Ends waiting handlers and all connections. A second call does nothing. */
        public function stop(): void {}
    }
}

namespace Fermata\Pusher {
    /**
     * URL that receives events of an application's channels, as with Pusher's webhooks.
     *
     * @strict-properties
     * @not-serializable
     */
    final class Webhook
    {
        /** URL that receives the events. */
        public readonly string $url;

        /** Events that are sent; null: all. */
        public readonly ?array $events;

        /** Time limit of one attempt in milliseconds. */
        public readonly int $timeoutMs;

        /** Time in seconds after which an event that was not accepted is dropped; 0: after one attempt. */
        public readonly int $retrySeconds;

        /** Maximum number of events that wait to be sent. */
        public readonly int $queueEventsMax;

        /**
         * @param string $url http:// or https://
         * @param array|null $events list<WebhookEvent> that are sent. Default: all.
         * @param int $timeoutMs time limit of one attempt in milliseconds
         * @param int $retrySeconds time in seconds after which an event that was not accepted is dropped; 0: after one attempt
         * @param int $queueEventsMax maximum number of events that wait to be sent
         * @throws \Fermata\Exception\MisuseError if $events contains anything other than WebhookEvent
         */
        public function __construct(
            string $url,
            ?array $events = null,
            int $timeoutMs = 5000,
            int $retrySeconds = 300,
            int $queueEventsMax = 10000,
        ) {}
    }

    /** Events that webhooks receive. */
    enum WebhookEvent: string
    {
        /** A channel has its first subscriber. */
        case ChannelOccupied = 'channel_occupied';

        /** The channel has had no subscriber for 3 seconds. */
        case ChannelVacated = 'channel_vacated';

        /** A user joined a presence channel. */
        case MemberAdded = 'member_added';

        /** A user left a presence channel. */
        case MemberRemoved = 'member_removed';

        /** A client sent an event to a channel. */
        case ClientEvent = 'client_event';

        /** A client subscribed to a cache channel that has no stored event. */
        case CacheMiss = 'cache_miss';

        /** The number of subscribers of a channel has changed. */
        case SubscriptionCount = 'subscription_count';
    }
}

namespace Fermata\Mercure {
    /** Signature algorithm of tokens. */
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
    /** Implemented by all exceptions that Fermata throws itself. */
    interface FermataException extends \Throwable {}

    /** Programming error; the message names the correct call. */
    final class MisuseError extends \Error implements FermataException {}

    /** Invalid setting; the message has its name, the cause and the fix. */
    final class ConfigurationException extends \RuntimeException implements FermataException {}

    /**
     * A bounded queue or table is full: the ring of events that a worker has not read, the queue of a WebSocket, the tasks that
     * have not started, or the rows of a table. Try again later.
     */
    final class BackpressureException extends \RuntimeException implements FermataException {}

    /**
     * Invalid input of the client. If uncaught in a handler, the client gets the message with the exception's code if that is
     * 400 to 499, else with 400. A WebSocket is closed with 1007.
     */
    final class BadRequestException extends \RuntimeException implements FermataException {}

    /** An uploaded file or the temporary file of a body cannot be read or moved. */
    final class UploadException extends \RuntimeException implements FermataException {}

    /** The WebSocket, event stream or pool is closed. */
    final class ConnectionClosedException extends \RuntimeException implements FermataException {}

    /** The control socket or the server of a WebSocket client cannot be reached. */
    final class ConnectionException extends \RuntimeException implements FermataException {}

    /** A time limit was reached, for example that of timeout(), of a job, of Pool::use() or of the control socket. */
    final class TimeoutException extends \RuntimeException implements FermataException {}

    /** A wait was cancelled. */
    class CancelledException extends \RuntimeException implements FermataException {}

    /** The client left while its handler waited. If uncaught, it is not a failure: the log has it at level debug. */
    final class ClientGoneException extends CancelledException {}

    /**
     * A handler used a transaction (a savepoint, commit or rollback) that another handler had begun. Both share an object
     * that counts nested transactions in PHP, such as a connection of Doctrine DBAL or Eloquent. Give each handler its own
     * object with a Pool.
     */
    final class SharedTransactionException extends \RuntimeException implements FermataException {}

    /** A value was added to a closed queue, or removed from a closed and empty one. */
    final class QueueClosedException extends \RuntimeException implements FermataException {}

    /** A ChannelReader has missed events: they are no longer stored. The reader continues with the oldest stored event after them. */
    final class GapException extends \RuntimeException implements FermataException
    {
        /**
         * `expired`: the events are older than the history; `too slow`: the reader was slower than the publishers; `log lost`: the
         * log of the cluster has lost them; `unknown id`: the server does not know the event id of $since.
         */
        public string $reason = '';
    }

    /** A job threw an exception; the message has its class, text, place and trace. */
    final class JobFailedException extends \RuntimeException implements FermataException
    {
        /** Class of the job's exception. */
        public string $thrown = '';
    }

    /** The process of a job crashed: a fatal error, its memory limit or a signal. */
    final class JobCrashedException extends \RuntimeException implements FermataException {}

    /** A file operation failed; the message has the file, the cause and the fix. Subclasses distinguish the frequent causes. */
    class FileException extends \RuntimeException implements FermataException
    {
        /** Path of the file, as passed to the call. */
        public readonly string $path;
    }

    /** The file or directory does not exist. */
    final class FileNotFoundException extends FileException {}

    /** Permissions, open_basedir or a read-only file system forbid the operation. */
    final class AccessDeniedException extends FileException {}

    /** The file already exists. */
    final class FileExistsException extends FileException {}

    /** The file system, or the user's quota, is full. */
    final class DiskFullException extends FileException {}

    /** The path is a directory, but a file is needed. */
    final class IsDirectoryException extends FileException {}

    /** A part of the path is not a directory. */
    final class NotDirectoryException extends FileException {}

    /** The directory is not empty. */
    final class DirectoryNotEmptyException extends FileException {}

    /** The peer violated the protocol; the message has the violation. */
    final class ProtocolException extends \RuntimeException implements FermataException
    {
        /** Returns the code to close the connection with; getCode() is its number. */
        public function closeCode(): \Fermata\WebSocket\CloseCode {}
    }
}
