<?php

declare(strict_types=1);

namespace Fermata\FrankenPhp;

use Fermata\Mercure;

/** The hub of Mercure that FrankenPHP would have by the environment, as its Caddyfile for Docker reads it. */
final class Hub
{
    private const PUBLISHER = 'MERCURE_PUBLISHER_JWT_', SUBSCRIBER = 'MERCURE_SUBSCRIBER_JWT_', EXTRA = 'MERCURE_EXTRA_DIRECTIVES';

    private const KNOWN = ['anonymous', 'subscriptions', 'cors_origins', 'publish_origins', 'cookie_name'];

    /** Those that change nothing here: where events are kept, and pages for trying it out. */
    private const IDLE = ['transport', 'transport_url', 'dispatch_timeout', 'demo', 'ui', 'playground', 'debugger', 'cache', 'topic_selector_cache',
        'topic_matcher_cache', 'subscriber_list_cache_size', 'protocol_version_compatibility', 'name'];

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
     * As `fermata hub` reads the same variable (crates/gateway/src/mercure/settings.rs).
     *
     * @param array<string, string> $environment
     * @return array<string, list<string>> the words behind each directive
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
            // Of those that have a block, none means anything here.
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
     * The words of a line as Caddy reads it: quoted by " or `, with variables ({$NAME:default}, {env.NAME}), up to a comment.
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
