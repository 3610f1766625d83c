<?php

declare(strict_types=1);

namespace App;

/** Stores the notes in a file. */
final readonly class Notes
{
    /** Maximum number of notes; the oldest are deleted. */
    private const MAX = 100;

    public function __construct(private string $file) {}

    /** @return list<array{by: string, text: string}> */
    public function all(): array
    {
        return is_file($this->file) ? json_decode((string) file_get_contents($this->file), true) : [];
    }

    public function add(string $by, string $text): void
    {
        $file = fopen($this->file, 'c+');
        flock($file, LOCK_EX);
        $notes = json_decode((string) stream_get_contents($file), true) ?? [];
        $notes[] = ['by' => $by, 'text' => $text];
        ftruncate($file, 0);
        rewind($file);
        fwrite($file, json_encode(array_slice($notes, -self::MAX), JSON_THROW_ON_ERROR));
        fclose($file);
    }
}
