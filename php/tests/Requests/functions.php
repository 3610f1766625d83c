<?php

declare(strict_types=1);

// Functions for rows.php.

/** Prints values in a comparable form. */
function show(mixed ...$values): void
{
    echo json_encode($values, JSON_UNESCAPED_SLASHES | JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}

/** @param list<string> $names keys of $_SERVER; nginx passes empty variables, which Fermata omits */
function variables(array $names): void
{
    foreach ($names as $name) {
        show($name, ($_SERVER[$name] ?? '') === '' ? null : $_SERVER[$name]);
    }
}

function warnings(): void
{
    set_error_handler(static function (int $level, string $message): bool {
        echo "($level: ", preg_replace('/ \(output started at .*\)$/', '', $message), ")\n";
        return true;
    });
}

/** @param array<string, array{string, string, string}> $parts file name, type and content by field name */
function form(array $fields, array $parts): string
{
    $body = '';
    foreach ($fields as [$name, $value]) {
        $body .= "--B\r\nContent-Disposition: form-data; name=\"$name\"\r\n\r\n$value\r\n";
    }
    foreach ($parts as [$name, $file, $type, $content]) {
        $body .= "--B\r\nContent-Disposition: form-data; name=\"$name\"; filename=\"$file\"\r\n" . ($type === '' ? '' : "Content-Type: $type\r\n") . "\r\n$content\r\n";
    }
    return "$body--B--\r\n";
}

final class FailsToSerialize
{
    public function __serialize(): array
    {
        throw new RuntimeException('cannot be serialized');
    }
}

const URLENCODED = ['Content-Type' => 'application/x-www-form-urlencoded'];
const MULTIPART = ['Content-Type' => 'multipart/form-data; boundary=B'];
const SESSION = ['Cookie' => 'PHPSESSID=abcdefabcdefabcdefabcdefabcdef00'];
