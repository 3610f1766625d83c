<?php

declare(strict_types=1);

namespace Fermata\Internal;

/**
 * Parses numbers in command-line options and configuration files.
 *
 * @internal
 */
final class Number
{
    /** @throws \InvalidArgumentException if the text is not a number; a cast would yield 0 or a part of it */
    public static function of(string $name, mixed $value): int
    {
        $text = is_int($value) ? (string) $value : $value;
        if (!is_string($text) || !ctype_digit($text) || (string) (int) $text !== (ltrim($text, '0') ?: '0')) {
            throw new \InvalidArgumentException("$name is a number from 0 on, not " . (is_scalar($value) ? var_export($value, true) : get_debug_type($value)));
        }
        return (int) $text;
    }
}
