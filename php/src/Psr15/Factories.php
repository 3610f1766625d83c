<?php

declare(strict_types=1);

namespace Fermata\Psr15;

use Psr\Http\Message\{ServerRequestFactoryInterface, StreamFactoryInterface, UriFactoryInterface};

/** PSR-17 factories that create requests: passed explicitly, or those of an installed library. */
final readonly class Factories
{
    public function __construct(
        public ServerRequestFactoryInterface $requests,
        public StreamFactoryInterface $streams,
        public UriFactoryInterface $uris,
    ) {}

    /**
     * Returns the factories of the first installed library of nyholm/psr7, guzzlehttp/psr7, laminas/laminas-diactoros, slim/psr7
     * and httpsoft/http-message.
     *
     * @throws \RuntimeException if none is installed
     */
    public static function find(): self
    {
        // Either one class that implements all three factories, or one class for each.
        $known = [
            [\Nyholm\Psr7\Factory\Psr17Factory::class],
            [\GuzzleHttp\Psr7\HttpFactory::class],
            ['Laminas\Diactoros\ServerRequestFactory', 'Laminas\Diactoros\StreamFactory', 'Laminas\Diactoros\UriFactory'],
            ['Slim\Psr7\Factory\ServerRequestFactory', 'Slim\Psr7\Factory\StreamFactory', 'Slim\Psr7\Factory\UriFactory'],
            ['HttpSoft\Message\ServerRequestFactory', 'HttpSoft\Message\StreamFactory', 'HttpSoft\Message\UriFactory'],
        ];
        foreach ($known as $classes) {
            if (class_exists($classes[0])) {
                $made = array_map(static fn(string $class): object => new $class(), $classes);
                return new self($made[0], $made[1] ?? $made[0], $made[2] ?? $made[0]);
            }
        }
        throw new \RuntimeException('no factories of PSR-17 were found; install nyholm/psr7, or pass those of your library');
    }
}
