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
 * The chat by WebSocket: what `GET /events` and `POST /messages` do, over one connection.
 *
 * The same rules hold. Browsers connect from our own page only, with the session's cookie; the page then proves by the
 * session's token that it is this session's page, and says where it was (`since`). From then on the core writes the events
 * of the channels to it, and PHP runs for what the page sends.
 */
final class Sockets extends WebSocketHandler
{
    private const SESSION_ENDED = 4401;
    private const SESSION_CHANGED = 4403;
    /** Every character of a message may need six as JSON. */
    private const MESSAGE_BYTES_MAX = 6 * Input::TEXT_BYTES_MAX + 1024;
    /** A page asks a silent line sooner, but browsers wake tabs in the background only once a minute. */
    private const IDLE_TIMEOUT_MS = 180_000;
    private const EVENT_ID_BYTES_MAX = 100;

    /** @var array<string, array<string, WebSocket>> the open ones of this worker by session and id */
    private array $open = [];

    /**
     * @param \Closure(): array<string, mixed> $hello what a page is told first
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
            // The channels are not there for a moment; the page comes again.
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
     * Signed out. Pages leave by themselves when they hear it; the sockets of other workers are closed with the next
     * thing they say.
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

    /** In the form in which events of channels come, so that the page reads one kind of thing. */
    private function tell(WebSocket $socket, string $event, array $data): void
    {
        $encode = static fn (array $value): string
            => json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
        $socket->trySend($encode(['event' => $event, 'data' => $encode($data)]));
    }
}
