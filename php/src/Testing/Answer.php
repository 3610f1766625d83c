<?php

declare(strict_types=1);

namespace Fermata\Testing;

/** A server's response to a test request. */
final readonly class Answer
{
    /** @param array<string, list<string>> $headers by lower-case name */
    public function __construct(
        public int $status,
        public array $headers,
        public string $body,
    ) {}

    /**
     * Returns the first value of a header, whose name is case-insensitive. Returns null if there is
     * no such header.
     */
    public function header(string $name): ?string
    {
        return $this->headers[strtolower($name)][0] ?? null;
    }

    /** @throws \JsonException if the body is not JSON */
    public function json(): mixed
    {
        return json_decode($this->body, true, flags: JSON_THROW_ON_ERROR);
    }

    /**
     * Returns the values of the cookies that the response set, by name.
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
