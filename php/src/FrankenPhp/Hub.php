<?php

declare(strict_types=1);

namespace Fermata\FrankenPhp;

use Fermata\Mercure;

/** The hub of Mercure that FrankenPHP would have by the environment, as its Caddyfile for Docker reads it. */
final class Hub
{
    private const PUBLISHER = 'MERCURE_PUBLISHER_JWT_', SUBSCRIBER = 'MERCURE_SUBSCRIBER_JWT_', EXTRA = 'MERCURE_EXTRA_DIRECTIVES';

    /**
     * @param array<string, string> $environment
     * @return Mercure|null null where there is no key: then there is no hub, and mercure_publish() publishes to the channels with
     *         the names of the topics
     * @throws \ValueError when a variable asks for something that cannot be had
     */
    public static function ofEnvironment(array $environment): ?Mercure
    {
        $keys = [];
        foreach ([self::PUBLISHER, self::SUBSCRIBER] as $name) {
            $keys[$name] = ($environment["{$name}KEY"] ?? '') ?: null;
        }
        if (array_filter($keys) === []) {
            return null;
        }
        $directives = self::directives($environment[self::EXTRA] ?? '');
        return new Mercure(
            publisherKey: $keys[self::PUBLISHER],
            publisherAlgorithm: self::algorithm($environment, self::PUBLISHER),
            subscriberKey: $keys[self::SUBSCRIBER],
            subscriberAlgorithm: self::algorithm($environment, self::SUBSCRIBER),
            anonymous: isset($directives['anonymous']),
            subscriptions: isset($directives['subscriptions']),
            corsOrigins: $directives['cors_origins'] ?? [],
            publishOrigins: $directives['publish_origins'] ?? [],
            cookieName: $directives['cookie_name'][0] ?? 'mercureAuthorization',
        );
    }

    /** @param array<string, string> $environment */
    private static function algorithm(array $environment, string $name): Mercure\Algorithm
    {
        $asked = ($environment["{$name}ALG"] ?? '') ?: 'HS256';
        return Mercure\Algorithm::tryFrom($asked)
            ?? throw new \ValueError("{$name}ALG is $asked, expected one of " . implode(', ', array_column(Mercure\Algorithm::cases(), 'value')));
    }

    /** @return array<string, list<string>> the words behind each directive */
    private static function directives(string $text): array
    {
        $known = ['anonymous', 'subscriptions', 'cors_origins', 'publish_origins', 'cookie_name'];
        $found = [];
        foreach (explode("\n", $text) as $line) {
            $words = preg_split('/\s+/', trim($line), -1, PREG_SPLIT_NO_EMPTY);
            if ($words === [] || str_starts_with($words[0], '#')) {
                continue;
            }
            $name = array_shift($words);
            if (!in_array($name, $known, true)) {
                throw new \ValueError(self::EXTRA . " has $name, which is not known here: give a Worker a server with its Mercure, "
                    . 'or leave it out; known are ' . implode(', ', $known));
            }
            $found[$name] = [...$found[$name] ?? [], ...$words];
        }
        return $found;
    }
}
