<?php

declare(strict_types=1);

namespace Fermata\Grip;

use Fermata\Grip\Internal\{Deadline, Failure, Http, Zmq};

/**
 * Publishes to GRIP edges and to the workers of a local server.
 *
 * Class Address describes the addresses: control ports and ZeroMQ sockets of edges, and control sockets of servers
 * (`unix:/run/app.sock`), which require the extension. The default is the addresses in `GRIP_URL` and `FERMATA_CONTROL`,
 * separated by spaces.
 */
final class Publisher
{
    /** Seconds before the second attempt; doubled before each further attempt. */
    private const PAUSE = 0.1;

    /** @var list<Address> */
    private readonly array $addresses;

    /**
     * @param string|list<string> $addresses
     * @param float $timeout seconds for all attempts at one address
     * @param int $tries maximum number of attempts at an address that cannot be reached or is overloaded. An item that may have
     *        arrived is sent again only if it has an id, so that edges can detect the duplicate.
     * @throws \ValueError if an address is malformed, or no address is configured
     */
    public function __construct(
        #[\SensitiveParameter] string|array $addresses = [],
        private readonly float $timeout = 5.0,
        private readonly int $tries = 3,
    ) {
        $addresses = array_values((array) $addresses);
        if ($addresses === []) {
            $named = getenv('GRIP_URL') . ' ' . getenv('FERMATA_CONTROL');
            $addresses = preg_split('/\s+/', $named, -1, PREG_SPLIT_NO_EMPTY);
        }
        if ($addresses === []) {
            throw new \ValueError('nobody to publish to; pass an address such as http://localhost:5561, or set GRIP_URL');
        }
        if ($timeout <= 0 || $tries < 1) {
            throw new \ValueError('the timeout is more than 0 seconds, and there is at least one try');
        }
        $this->addresses = array_map(fn (string $address) => new Address($address), $addresses);
    }

    /**
     * Publishes an item, or a string as an event for browsers.
     *
     * @throws PublishFailed if an address did not accept the item, after all addresses were tried
     * @throws \JsonException if a header or a metadata value is not UTF-8
     */
    public function publish(string $channel, Item|string $item): void
    {
        $item = is_string($item) ? Item::event($item) : $item;
        $failures = [];
        $previous = null;
        foreach ($this->addresses as $address) {
            try {
                $this->publishTo($address, $channel, $item);
            } catch (Failure|\Fermata\Exception\FermataException $failure) {
                $failures[$address->name] = $failure->getMessage();
                $previous ??= $failure;
            }
        }
        if ($failures !== []) {
            throw new PublishFailed($failures, $previous);
        }
    }

    /**
     * Returns true if a request came through one of the edges, which means that the key of an address verifies the request's
     * `Grip-Sig`.
     *
     * @param string|null $token the value of the header, such as `$_SERVER['HTTP_GRIP_SIG'] ?? null`
     */
    public function isProxied(?string $token): bool
    {
        foreach ($this->addresses as $address) {
            if ($address->hasSigned($token) === true) {
                return true;
            }
        }
        return false;
    }

    private function publishTo(Address $address, string $channel, Item $item): void
    {
        $deadline = new Deadline($this->timeout);
        if ($address->control !== null) {
            $this->publishToWorkers($address->control, $channel, $item);
            return;
        }
        $value = $item->toArray($channel);
        $flags = JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE;
        $pause = self::PAUSE;
        for ($try = 1;; ++$try) {
            try {
                $address->zmq === null
                    ? Http::publish($address, json_encode(['items' => [$value]], $flags), $deadline)
                    : Zmq::publish($address, json_encode($value, $flags), $deadline);
                return;
            } catch (Failure $failure) {
                $isSafe = !$failure->wasSent || $item->id !== null;
                if (!$failure->mayHelp || !$isSafe || $try >= $this->tries || $pause >= $deadline->left()) {
                    throw $failure;
                }
            }
            $deadline->pause($pause);
            $pause *= 2;
        }
    }

    private function publishToWorkers(string $control, string $channel, Item $item): void
    {
        if (!extension_loaded('fermata')) {
            throw new Failure('needs the extension fermata', mayHelp: false, wasSent: false);
        }
        $event = $item->toEvent() ?? throw new Failure('takes events only; publish Item::event()', mayHelp: false, wasSent: false);
        (new \Fermata\Publisher($control, max(1, (int) ($this->timeout * 1000))))->publish($channel, $event);
    }
}
