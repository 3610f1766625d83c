<?php

declare(strict_types=1);

namespace Chat;

use Fermata\Exception\BackpressureException;
use Fermata\Exception\BadRequestException;
use Fermata\Response;
use Fermata\WebSocket;
use Fermata\WebSocket\CloseCode;
use Fermata\WebSocket\Format;
use Fermata\WebSocket\Message as Frame;
use Fermata\WebSocket\Options;
use Fermata\WebSocket\Upgrade;
use Fermata\WebSocketHandler;

/**
 * Serves the chat over WebSocket: one connection replaces `GET /events` and `POST /messages`.
 *
 * The same checks apply. Browsers connect only from this site's page, with the session's cookie. The page first sends the
 * session's CSRF token and its last event id (`since`). From then on the core sends the channels' events, and PHP runs only for
 * messages of the page.
 */
final class Sockets extends WebSocketHandler
{
    private const SESSION_ENDED = 4401;
    private const SESSION_CHANGED = 4403;
    /** Maximum size of a frame: JSON may need six bytes for a character of a message. */
    private const MESSAGE_BYTES_MAX = 6 * Input::TEXT_BYTES_MAX + 1024;
    /** Idle limit. Pages ping earlier, but browsers run timers of background tabs only once a minute. */
    private const IDLE_TIMEOUT_MS = 180_000;
    private const EVENT_ID_BYTES_MAX = 100;

    /** @var array<string, array<string, WebSocket>> open sockets of this worker by session and id */
    private array $open = [];

    /**
     * @param \Closure(): array<string, mixed> $hello returns the data of the first event
     * @param \Closure(User, array<string, mixed>): Message $post stores and publishes a message
     */
    public function __construct(private readonly Sessions $sessions, private readonly \Closure $hello, private readonly \Closure $post)
    {
    }

    public static function options(Configuration $configuration): Options
    {
        return new Options(
            origins: $configuration->origin === null ? null : [$configuration->origin],
            messageBytes: self::MESSAGE_BYTES_MAX,
            pingIntervalMs: $configuration->keepAliveSeconds * 1000,
            idleTimeoutMs: self::IDLE_TIMEOUT_MS,
        );
    }

    public function upgrade(Upgrade $upgrade): void
    {
        $session = $this->sessions->find($upgrade->request()->cookie(Application::COOKIE));
        if ($session === null) {
            $upgrade->refuse(Response::json(Problem::signedOut()->toArray(), 401));

            return;
        }
        $upgrade->setData(new Visit($session));
    }

    public function open(WebSocket $socket): void
    {
        $this->open[$socket->data()->session->id][$socket->id()] = $socket;
    }

    public function message(WebSocket $socket, Frame $message): void
    {
        $visit = $socket->data();
        if ($this->sessions->find($visit->session->token) === null) {
            $socket->close(self::SESSION_ENDED, 'You are signed out.');

            return;
        }
        try {
            $this->handle($socket, $visit, $message->json());
        } catch (BadRequestException $nonsense) {
            $socket->close(CloseCode::InvalidPayload, $nonsense->getMessage());
        } catch (BackpressureException) {
            // The channels are temporarily unavailable; the page reconnects.
            $socket->close(CloseCode::TryAgainLater, 'Please try again.');
        }
    }

    public function close(WebSocket $socket, int $code, string $reason): void
    {
        $session = $socket->data()->session->id;
        unset($this->open[$session][$socket->id()]);
        if (($this->open[$session] ?? null) === []) {
            unset($this->open[$session]);
        }
    }

    /**
     * Closes this worker's sockets of a session after the sign-out. Pages disconnect when they receive the event; other
     * workers close a socket at its next message.
     */
    public function end(Session $session): void
    {
        foreach ($this->open[$session->id] ?? [] as $socket) {
            $socket->close(self::SESSION_ENDED, 'You are signed out.');
        }
    }

    private function handle(WebSocket $socket, Visit $visit, mixed $data): void
    {
        $what = is_array($data) ? $data['do'] ?? null : null;
        if ($what !== 'hello' && !$visit->isWelcome) {
            throw new BadRequestException('Please say hello first.');
        }
        match ($what) {
            'hello' => $this->welcome($socket, $visit, $data),
            'ping' => $this->tell($socket, 'pong', []),
            'send' => $this->send($socket, $visit->session->user, $data),
            default => throw new BadRequestException('Please do hello, ping or send.'),
        };
    }

    /** @param array<string, mixed> $data */
    private function welcome(WebSocket $socket, Visit $visit, array $data): void
    {
        if (!$visit->session->isCsrfToken(is_string($data['token'] ?? null) ? $data['token'] : null)) {
            $socket->close(self::SESSION_CHANGED, 'This browser signed in again in another tab.');

            return;
        }
        $since = is_string($data['since'] ?? null) ? substr($data['since'], 0, self::EVENT_ID_BYTES_MAX) : null;
        $user = $visit->session->user;
        $this->tell($socket, 'hello', ($this->hello)());
        $socket->join(Application::CHANNEL, (string) $user->id, ['name' => $user->name], since: $since, format: Format::Json);
        $socket->join($user->channel(), (string) $user->id, announce: false, since: $since, format: Format::Json);
        $visit->isWelcome = true;
    }

    /** @param array<string, mixed> $data */
    private function send(WebSocket $socket, User $user, array $data): void
    {
        $reply = ['reference' => is_int($data['reference'] ?? null) ? $data['reference'] : null];
        try {
            $reply += ['status' => 201, 'message' => ($this->post)($user, $data)->toArray()];
        } catch (Problem $problem) {
            $reply += ['status' => $problem->status, 'retryAfterSeconds' => $problem->retryAfterSeconds] + $problem->toArray();
        }
        $this->tell($socket, 'reply', $reply);
    }

    /** Sends an event in the format of the channels' events, so that the page parses only one format. */
    private function tell(WebSocket $socket, string $event, array $data): void
    {
        $encode = static fn (array $value): string
            => json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
        $socket->trySend($encode(['event' => $event, 'data' => $encode($data)]));
    }
}
