<?php

declare(strict_types=1);

namespace Fermata\Testing;

/** What a server has answered to a test. */
final readonly class Answer
{
    /** @param array<string, list<string>> $headers by lower-case name */
    public function __construct(
        public int $status,
        public array $headers,
        public string $body,
    ) {}

    /** The first line of that name, in any case. */
    public function header(string $name): ?string
    {
        return $this->headers[strtolower($name)][0] ?? null;
    }

    /** @throws \JsonException when the body is no JSON */
    public function json(): mixed
    {
        return json_decode($this->body, true, flags: JSON_THROW_ON_ERROR);
    }

    /**
     * The cookies that were set, as a client sends them back.
     *
     * @return array<string, string>
     */
    public function cookies(): array
    {
        $cookies = [];
        foreach ($this->headers['set-cookie'] ?? [] as $line) {
            [$name, $value] = explode('=', strtok($line, ';'), 2) + [1 => ''];
            $cookies[$name] = $value;
        }
        return $cookies;
    }
}
