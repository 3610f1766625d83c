<?php

declare(strict_types=1);

namespace Chat;

use Fermata\Ack;
use Fermata\Channel;
use Fermata\Event;
use Fermata\Exception\BackpressureException;
use Fermata\Exception\BadRequestException;
use Fermata\Hold;
use Fermata\Member;
use Fermata\Request;
use Fermata\Response;
use Fermata\SameSite;
use Fermata\Server;
use Fermata\Worker;

/**
 * Handles the chat's requests.
 *
 * A message is committed to the database, then published to the channel of everyone, or to those of its sender and
 * recipient. The core writes it to every tab held on the channel. A reconnecting tab receives missed messages from the
 * channel's log by `Last-Event-ID`; older ones it fetches from the database.
 */
final readonly class Application
{
    public const COOKIE = 'chat_session';
    /** Recipient name of messages to everyone. */
    public const EVERYONE = 'all';
    /** Channel of messages to everyone. */
    public const CHANNEL = Doors::PREFIX . 'all';
    /** Maximum number of online users whose names a page receives; of the others it receives the number. */
    private const ONLINE_LISTED_MAX = 500;
    private const SIGNAL_KILL = 9;

    private Users $users;
    private Sessions $sessions;
    private Messages $messages;
    private Attempts $attempts;
    private Guard $guard;
    private Sockets $sockets;
    private Typing $typing;
    private Doors $doors;

    public function __construct(private Configuration $configuration, Database $database, private Page $page, Passwords $passwords)
    {
        $this->users = new Users($database, $passwords);
        $this->sessions = new Sessions($database);
        $this->messages = new Messages($database);
        $this->attempts = new Attempts($database);
        $this->guard = new Guard($configuration->origin);
        $this->sockets = new Sockets($this->sessions, $this->greeting(...), $this->post(...));
        $this->typing = new Typing();
        $this->doors = new Doors($database->secret('doors'));
    }

    public function register(Server $server): void
    {
        $server->get('/', fn (Request $request): Response => $this->page->response());
        $server->get('/echo', fn (Request $request): Response => $this->page->response('echo'));
        $server->get('/mercure', fn (Request $request): Response => $this->page->response('mercure'));
        $this->doors->register($server, $this->session(...));
        $server->post('/mercure', $this->handler($this->enterMercure(...), changes: true));
        $server->get('/session', $this->handler($this->showSession(...)));
        $server->post('/session', $this->handler($this->signIn(...), changes: true));
        $server->delete('/session', $this->handler($this->signOut(...), changes: true));
        $server->post('/users', $this->handler($this->signUp(...), changes: true));
        $server->get('/users', $this->handler($this->findUsers(...)));
        $server->get('/online', $this->handler($this->showOnline(...)));
        $server->get('/events', $this->handler($this->listen(...)));
        $server->websocket('/socket', $this->sockets, options: Sockets::options($this->configuration));
        $server->get('/messages', $this->handler($this->listMessages(...)));
        $server->post('/messages', $this->handler($this->sendMessage(...), changes: true));
        $server->post('/typing', $this->handler($this->tellTyping(...), changes: true));
        $server->get('/inside', $this->handler($this->showInside(...)));
        if ($this->configuration->isDemo) {
            $server->post('/worker/kill', $this->handler(fn (Request $request): Response => $this->killWorker($server, $request), changes: true));
            $server->onMessage(fn (mixed $message, int $from) => $message === ['die' => self::workerId()] ? $this->die() : null);
        }
        $server->post('/seen', $this->handler($this->seeMessages(...), changes: true));
    }

    private function showSession(Request $request): Response
    {
        $session = $this->session($request);

        return $this->sessionResponse($session);
    }

    private function signIn(Request $request): Response
    {
        $data = $this->data($request);
        $name = is_string($data['name'] ?? null) ? mb_substr($data['name'], 0, Input::NAME_LENGTH_MAX + 1) : '';
        $password = is_string($data['password'] ?? null) ? $data['password'] : '';
        if (!mb_check_encoding($name, 'UTF-8') || trim($name) === '' || $password === '') {
            throw Problem::invalid($password === '' && trim($name) !== '' ? 'password' : 'name', 'Please give your name and password.');
        }
        if (strlen($password) > Input::PASSWORD_BYTES_MAX || str_contains($password, "\0")) {
            throw Problem::wrongPassword();
        }
        $address = $request->remoteAddress();
        $this->attempts->beforeSignIn($name, $address);
        $user = $this->users->withPassword(trim($name), $password);
        $this->attempts->signedIn($name, $address);

        return $this->startSession($user, 200);
    }

    private function signUp(Request $request): Response
    {
        $data = $this->data($request);
        $name = Input::name($data['name'] ?? null);
        $password = Input::password($data['password'] ?? null);
        $this->attempts->beforeRegistration($request->remoteAddress());

        return $this->startSession($this->users->register($name, $password), 201);
    }

    private function signOut(Request $request): Response
    {
        $session = $this->signedIn($request);
        $this->sessions->end($session);
        Channel::get($session->user->channel())->publish(Event::json(['session' => $session->id], 'signout'));
        $this->sockets->end($session);

        return $this->withMercureCookie($this->withSessionCookie(Response::noContent(), '', 0), '', 0);
    }

    private function findUsers(Request $request): Response
    {
        $this->signedIn($request);
        $words = mb_substr(mb_scrub($request->query('search', ''), 'UTF-8'), 0, Input::NAME_LENGTH_MAX);

        return Response::json(['users' => array_map(
            static fn (User $user): array => $user->toArray() + ['isOnline' => Channel::get($user->channel())->memberCount() > 0],
            $this->users->find(trim($words)),
        )]);
    }

    /** Returns the online users, for a tab that uses another tab's stream. */
    private function showOnline(Request $request): Response
    {
        $this->signedIn($request);

        return Response::json($this->hello());
    }

    /** Holds the client: the core sends it events after this handler returned, without PHP. */
    private function listen(Request $request): Hold
    {
        $session = $this->signedIn($request);
        $user = $session->user;

        return Hold::sse(self::CHANNEL, $user->channel())
            ->as((string) $user->id, ['name' => $user->name])
            ->since($request->lastEventId())
            ->keepAlive($this->configuration->keepAliveSeconds)
            ->with(Event::json($this->greeting(), 'hello'))
            // Prevents nginx from buffering the stream.
            ->withHeader('X-Accel-Buffering', 'no');
    }

    /** Sets the cookie for the Mercure hub and returns the topics that it authorizes. */
    private function enterMercure(Request $request): Response
    {
        $user = $this->signedIn($request)->user;

        $response = Response::json(['topics' => Doors::namesFor($user)]);

        return $this->withMercureCookie($response, $this->doors->tokenFor($user), Doors::TOKEN_S);
    }

    /**
     * Returns the first event of a stream, with data of the worker that holds the client.
     *
     * @return array<string, mixed>
     */
    private function greeting(): array
    {
        return $this->hello() + [
            'server' => [
                'id' => self::workerId(),
                'worker' => Worker::index(),
                'pid' => getmypid(),
                'isDemo' => $this->configuration->isDemo,
                'isAlone' => !$this->configuration->isCluster,
            ],
        ];
    }

    /**
     * Returns the online users.
     *
     * @return array{online: list<array{id: int, name: string}>, onlineCount: int}
     */
    private function hello(): array
    {
        $everyone = Channel::get(self::CHANNEL);

        return [
            'online' => array_map(
                static fn (Member $member): array => ['id' => (int) $member->user, 'name' => $member->info['name'] ?? ''],
                $everyone->members(self::ONLINE_LISTED_MAX),
            ),
            'onlineCount' => $everyone->memberCount(),
        ];
    }

    private function showInside(Request $request): Response
    {
        $this->signedIn($request);
        $members = Channel::get(self::CHANNEL)->members(self::ONLINE_LISTED_MAX);

        return Response::json([
            'held' => array_sum(array_map(static fn (Member $member): int => $member->connections, $members)),
            'memoryBytes' => self::memoryBytes(),
        ]);
    }

    /** Returns the private memory of the workers and job processes, in bytes; null if the kernel does not report it. */
    private static function memoryBytes(): ?int
    {
        $master = posix_getppid();
        $processes = @file_get_contents("/proc/$master/task/$master/children");
        $bytes = 0;
        foreach (explode(' ', trim((string) $processes)) as $process) {
            $pages = @file_get_contents("/proc/$process/smaps_rollup");
            if (!preg_match_all('/^Private_(?:Clean|Dirty): +(\d+) kB$/m', (string) $pages, $found)) {
                return null;
            }
            $bytes += array_sum($found[1]) * 1024;
        }

        return $bytes;
    }

    /** Kills the page's worker, to show that its clients reconnect without loss. */
    private function killWorker(Server $server, Request $request): Response
    {
        $this->signedIn($request);
        $worker = $this->data($request)['worker'] ?? null;
        if (!is_string($worker)) {
            throw Problem::invalid('worker', 'A worker has an id.');
        }
        if ($worker === self::workerId()) {
            $server->defer($this->die(...));
        } else {
            // This request may have reached a different server than the page's stream.
            Worker::broadcast(['die' => $worker]);
        }

        return Response::accepted();
    }

    /** Returns an id of this worker that is unique among all servers; worker numbers are unique only within a server. */
    private static function workerId(): string
    {
        static $id = null;

        return $id ??= bin2hex(random_bytes(8));
    }

    private function die(): never
    {
        posix_kill(getmypid(), self::SIGNAL_KILL);
        exit;
    }

    private function tellTyping(Request $request): Response
    {
        $user = $this->signedIn($request)->user;
        $recipient = $this->recipient($this->data($request)['to'] ?? null);
        if ($this->typing->admits($user)) {
            $event = Event::json(['from' => $user->toArray(), 'to' => $recipient?->toArray()], 'typing');
            // Do not wait for the cluster's log: a typing notice may be lost while the log is unreachable.
            Channel::get($recipient?->channel() ?? self::CHANNEL)->publish($event, ack: Ack::Local);
        }

        return Response::noContent();
    }

    private function listMessages(Request $request): Response
    {
        $user = $this->signedIn($request)->user;
        $after = Input::id($request->query('after'));
        if ($after !== null) {
            $messages = $this->messages->after($user, $after);
            $more = count($messages) > Messages::PAGE_MAX;

            return $this->messagesResponse(array_slice($messages, 0, Messages::PAGE_MAX), ['more' => $more]);
        }
        $before = Input::id($request->query('before'));
        [$messages, $more] = $this->messages->before($user, $before);
        if ($before !== null) {
            return $this->messagesResponse($messages, ['more' => $more]);
        }
        // First request of a page: add the private messages that arrived while the user was away, regardless of their age.
        $missed = $messages === [] ? [] : $this->messages->missed($user, $messages[0]->id);

        return $this->messagesResponse($messages, [
            'more' => $more,
            'missed' => array_map(static fn (Message $message): array => $message->toArray(), $missed),
            'seenId' => $user->seenId,
        ]);
    }

    private function sendMessage(Request $request): Response
    {
        $message = $this->post($this->signedIn($request)->user, $this->data($request));

        return Response::json(['message' => $message->toArray()], 201);
    }

    /**
     * Stores and publishes a message, received by POST or WebSocket.
     *
     * @param array<string, mixed> $data
     */
    private function post(User $user, array $data): Message
    {
        $text = Input::text($data['text'] ?? null);
        $key = Input::key($data['key'] ?? null);
        $recipient = $this->recipient($data['to'] ?? null);
        try {
            $offline = $recipient !== null
                && $recipient->id !== $user->id
                && Channel::get($recipient->channel())->memberCount() === 0;

            $message = $this->messages->add($user, $recipient, $text, $key, $offline);
            $this->publish($message);
        } catch (BackpressureException) {
            throw Problem::busy();
        }

        return $message;
    }

    private function seeMessages(Request $request): Response
    {
        $user = $this->signedIn($request)->user;
        $id = $this->data($request)['id'] ?? null;
        if (!is_int($id) || $id < 0) {
            throw Problem::invalid('id', 'A message id is a number.');
        }
        $this->users->seen($user, $id);

        return Response::noContent();
    }

    /**
     * Publishes a message, also if it was stored before: a worker may have crashed between storing and publishing. Pages
     * ignore duplicate ids.
     */
    private function publish(Message $message): void
    {
        if ($message->to === null) {
            $previous = $this->messages->previousPublic($message->id);
            Channel::get(self::CHANNEL)->publish(Event::json($message->toArray($previous), 'message'));

            return;
        }
        foreach ([$message->from->id => $message->from, $message->to->id => $message->to] as $user) {
            $previous = $this->messages->previousPrivate($user, $message->id);
            Channel::get($user->channel())->publish(Event::json($message->toArray($previous), 'message'));
        }
    }

    private function recipient(mixed $name): ?User
    {
        if (!is_string($name) || $name === '' || strlen($name) > 4 * Input::NAME_LENGTH_MAX || !mb_check_encoding($name, 'UTF-8')) {
            throw Problem::invalid('to', 'Please say who the message is for.');
        }
        if (Input::nameKey($name) === self::EVERYONE) {
            return null;
        }

        return $this->users->named($name) ?? throw Problem::unknownRecipient($name);
    }

    /**
     * @param callable(Request): (Response|Hold) $handle
     * @return \Closure(Request): (Response|Hold)
     */
    private function handler(callable $handle, bool $changes = false): \Closure
    {
        return function (Request $request) use ($handle, $changes): Response|Hold {
            try {
                if ($changes) {
                    $this->admit($request);
                }
                $response = $handle($request);
            } catch (Problem $problem) {
                $response = $this->problemResponse($problem);
            } catch (BackpressureException) {
                // The channels are temporarily unavailable, for example while a server of a cluster starts.
                $response = $this->problemResponse(Problem::busy());
            } catch (BadRequestException $failure) {
                $response = $this->problemResponse(new Problem(400, 'bad_request', $failure->getMessage()));
            }
            if ($response instanceof Hold) {
                return $response;
            }

            return $response->withHeader('Cache-Control', 'no-store')->withHeader('X-Content-Type-Options', 'nosniff');
        };
    }

    private function admit(Request $request): void
    {
        $this->guard->admit(
            $request->header('content-type'),
            $request->header('origin'),
            $request->header('sec-fetch-site'),
            $request->header('host'),
        );
        // CSRF needs a session. A request with a session must also have the page's token.
        $session = $this->session($request);
        if ($session !== null && !$session->isCsrfToken($request->header('x-csrf-token'))) {
            throw new Problem(403, 'session_changed', 'This browser signed in again in another tab. Please reload this one.');
        }
    }

    private function session(Request $request): ?Session
    {
        return $this->sessions->find($request->cookie(self::COOKIE));
    }

    private function signedIn(Request $request): Session
    {
        return $this->session($request) ?? throw Problem::signedOut();
    }

    private function startSession(User $user, int $status): Response
    {
        $session = $this->sessions->start($user);

        return $this->withSessionCookie(
            $this->sessionResponse($session)->withStatus($status),
            $session->token,
            Sessions::LIFETIME_S,
        );
    }

    private function sessionResponse(?Session $session): Response
    {
        return Response::json([
            'user' => $session?->user->toArray(),
            'session' => $session?->id,
            'csrfToken' => $session?->csrfToken(),
            'keepAliveSeconds' => $this->configuration->keepAliveSeconds,
            'limits' => [
                'nameLength' => Input::NAME_LENGTH_MAX,
                'passwordLengthMin' => Input::PASSWORD_LENGTH_MIN,
                'textBytes' => Input::TEXT_BYTES_MAX,
            ],
        ]);
    }

    private function withMercureCookie(Response $response, string $token, int $maxAge): Response
    {
        return $response->withCookie(
            Doors::COOKIE,
            $token,
            maxAge: $maxAge,
            path: Doors::HUB_PATH,
            secure: $this->configuration->isSecure(),
            sameSite: SameSite::Strict,
        );
    }

    private function withSessionCookie(Response $response, string $token, int $maxAge): Response
    {
        // SameSite=Lax is the default: the browser sends the cookie with links from other sites, but not with their POSTs.
        return $response->withCookie(self::COOKIE, $token, maxAge: $maxAge, secure: $this->configuration->isSecure());
    }

    /**
     * @param list<Message> $messages
     * @param array<string, mixed> $more
     */
    private function messagesResponse(array $messages, array $more): Response
    {
        return Response::json(
            ['messages' => array_map(static fn (Message $message): array => $message->toArray(), $messages)] + $more,
        );
    }

    private function problemResponse(Problem $problem): Response
    {
        $response = Response::json($problem->toArray(), $problem->status);

        return $problem->retryAfterSeconds === null
            ? $response
            : $response->withHeader('Retry-After', (string) $problem->retryAfterSeconds);
    }

    /** @return array<string, mixed> */
    private function data(Request $request): array
    {
        $data = $request->json();
        if (!is_array($data)) {
            throw new Problem(400, 'bad_request', 'Please send a JSON object.');
        }

        return $data;
    }
}
