<?php

declare(strict_types=1);

namespace Fermata\FrankenPhp;

use Fermata\Mercure;

/** Configures a Mercure hub from the environment variables that the Caddyfile of FrankenPHP's Docker image reads. */
final class Hub
{
    private const PUBLISHER = 'MERCURE_PUBLISHER_JWT_', SUBSCRIBER = 'MERCURE_SUBSCRIBER_JWT_', EXTRA = 'MERCURE_EXTRA_DIRECTIVES';

    private const KNOWN = ['anonymous', 'subscriptions', 'cors_origins', 'publish_origins', 'cookie_name'];

    /** Directives without effect in Fermata: event storage, demo pages and caches. */
    private const IDLE = ['transport', 'transport_url', 'dispatch_timeout', 'demo', 'ui', 'playground', 'debugger', 'cache', 'topic_selector_cache',
        'topic_matcher_cache', 'subscriber_list_cache_size', 'protocol_version_compatibility', 'name'];

    /**
     * @param array<string, string> $environment
     * @return Mercure|null null without a key: no hub is opened, and mercure_publish() publishes to channels named like the topics
     * @throws \ValueError if a variable requests an unsupported feature
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
        $directives = self::directives($environment[self::EXTRA] ?? '', $environment);
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

    /**
     * Parses MERCURE_EXTRA_DIRECTIVES like `fermata hub` does (crates/gateway/src/mercure/settings.rs).
     *
     * @param array<string, string> $environment
     * @return array<string, list<string>> the arguments of each directive
     */
    private static function directives(string $text, array $environment): array
    {
        $found = [];
        $depth = 0;
        foreach (preg_split('/\R/', $text) as $line) {
            $words = self::words($line, $environment);
            $isInside = $depth > 0;
            $depth = max(0, $depth + match (end($words)) { '{' => 1, '}' => -1, default => 0 });
            $name = array_shift($words);
            // Ignore the contents of blocks, because no directive with a block has an effect here.
            if ($name === null || $isInside || $name === '}' || in_array($name, self::IDLE, true)) {
                continue;
            }
            if (!in_array($name, self::KNOWN, true)) {
                throw new \ValueError(self::EXTRA . " has $name, which is not known here: give a Worker a server with its Mercure, "
                    . 'or leave it out; known are ' . implode(', ', self::KNOWN));
            }
            $found[$name] = $words;
        }
        return $found;
    }

    /**
     * Splits a line into tokens like Caddy: quotes are " or `, variables are {$NAME:default} or {env.NAME}, # starts a comment.
     *
     * @param array<string, string> $environment
     * @return list<string>
     */
    private static function words(string $line, array $environment): array
    {
        preg_match_all('/\G\s*(?:"([^"]*)"?|`([^`]*)`?|([^\s#"`]\S*))/', $line, $found, PREG_SET_ORDER | PREG_UNMATCHED_AS_NULL);
        return array_map(static function (array $word) use ($environment): string {
            $text = $word[1] ?? $word[2] ?? $word[3] ?? '';
            return preg_match('/^\{(?:\$|env\.)([^:]*)(?::(.*))?\}$/s', $text, $variable) ? $environment[$variable[1]] ?? $variable[2] ?? '' : $text;
        }, $found);
    }
}
