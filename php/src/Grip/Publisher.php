<?php

declare(strict_types=1);

namespace Fermata\Grip;

/**
 * Publishes to GRIP edges and to the workers of a local server alike.
 *
 * An address is the URL of an edge's control port, as libraries have it in `GRIP_URL`
 * (`http://localhost:5561?iss=pushpin&key=…`), or the control socket of a server (`unix:/run/app.sock`), for which the
 * extension is needed. Without any, `GRIP_URL` and `FERMATA_CONTROL` name them, several separated by blanks.
 */
final class Publisher
{
    /** @var list<string> */
    private readonly array $addresses;

    /** @param float $timeout seconds for one address */
    public function __construct(string|array $addresses = [], private readonly float $timeout = 5.0)
    {
        $addresses = array_values((array) $addresses);
        if ($addresses === []) {
            $named = getenv('GRIP_URL') . ' ' . getenv('FERMATA_CONTROL');
            $addresses = preg_split('/\s+/', $named, -1, PREG_SPLIT_NO_EMPTY);
        }
        if ($addresses === []) {
            throw new \ValueError('nobody to publish to; pass an address such as http://localhost:5561, or set GRIP_URL');
        }
        foreach ($addresses as $address) {
            $scheme = strstr($address, ':', true);
            if (!in_array($scheme, ['http', 'https', 'unix'], true)) {
                throw new \ValueError("an address begins with http://, https:// or unix:, not \"$scheme\"");
            }
        }
        $this->addresses = $addresses;
    }

    /**
     * Publishes an item, or a text as an event for browsers.
     *
     * @throws PublishFailed when one of the addresses has not taken it; all of them were tried
     */
    public function publish(string $channel, Item|string $item): void
    {
        $item = is_string($item) ? Item::event($item) : $item;
        $failures = [];
        foreach ($this->addresses as $address) {
            try {
                str_starts_with($address, 'unix:')
                    ? $this->publishToWorkers($address, $channel, $item)
                    : $this->publishToEdge($address, $channel, $item);
            } catch (PublishFailed $failure) {
                $failures[] = $failure->getMessage();
            }
        }
        if ($failures !== []) {
            throw new PublishFailed(implode('; ', $failures));
        }
    }

    private function publishToWorkers(string $address, string $channel, Item $item): void
    {
        if (!extension_loaded('fermata')) {
            throw new PublishFailed("$address needs the extension fermata");
        }
        $event = $item->toEvent() ?? throw new PublishFailed("$address takes events only; publish Item::event()");
        try {
            (new \Fermata\Publisher($address, (int) ($this->timeout * 1000)))->publish($channel, $event);
        } catch (\Fermata\Exception\FermataException $error) {
            throw new PublishFailed("$address: {$error->getMessage()}", previous: $error);
        }
    }

    private function publishToEdge(string $address, string $channel, Item $item): void
    {
        $url = parse_url($address);
        if ($url === false || !isset($url['host'])) {
            throw new PublishFailed('the address of an edge has no host');
        }
        $place = "{$url['scheme']}://{$url['host']}" . (isset($url['port']) ? ":{$url['port']}" : '');
        $headers = ['Content-Type: application/json', 'Connection: close'];
        $authorization = self::authorization($url);
        if ($authorization !== null) {
            if ($url['scheme'] === 'http' && !self::isLocal($url['host'])) {
                throw new PublishFailed("$place: a password or token would go unencrypted; give an https:// address");
            }
            $headers[] = "Authorization: $authorization";
        }
        $body = json_encode(['items' => [$item->toArray($channel)]], JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES);
        $context = stream_context_create(['http' => [
            'method' => 'POST', 'header' => $headers, 'content' => $body, 'timeout' => $this->timeout,
            'ignore_errors' => true, 'follow_location' => 0, 'protocol_version' => 1.1,
        ]]);
        $path = rtrim($url['path'] ?? '', '/') . '/publish/';
        $stream = @fopen($place . $path, 'rb', false, $context);
        if ($stream === false) {
            throw new PublishFailed("$place: " . (error_get_last()['message'] ?? 'no connection'));
        }
        $status = (int) (explode(' ', stream_get_meta_data($stream)['wrapper_data'][0] ?? '')[1] ?? 0);
        $answer = (string) stream_get_contents($stream, 500);
        fclose($stream);
        if ($status < 200 || $status > 299) {
            throw new PublishFailed("$place refuses with $status: " . trim($answer));
        }
    }

    /** @param array<string, string|int> $url */
    private static function authorization(array $url): ?string
    {
        if (isset($url['user'])) {
            $user = rawurldecode($url['user']) . ':' . rawurldecode($url['pass'] ?? '');
            return 'Basic ' . base64_encode($user);
        }
        parse_str($url['query'] ?? '', $query);
        if (!is_string($query['key'] ?? null)) {
            return null;
        }
        $issuer = is_string($query['iss'] ?? null) ? $query['iss'] : '';
        return 'Bearer ' . Signature::sign($issuer, Signature::key($query['key']));
    }

    private static function isLocal(string $host): bool
    {
        return $host === 'localhost' || $host === '[::1]' || str_starts_with($host, '127.');
    }
}
