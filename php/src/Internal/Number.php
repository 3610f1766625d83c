<?php

declare(strict_types=1);

namespace Fermata\Internal;

/**
 * Numbers that options of commands and configuration files give as text.
 *
 * @internal
 */
final class Number
{
    /** @throws \InvalidArgumentException for what a cast would take for 0, or for a part of what was meant */
    public static function of(string $name, mixed $value): int
    {
        $text = is_int($value) ? (string) $value : $value;
        if (!is_string($text) || !ctype_digit($text) || (string) (int) $text !== (ltrim($text, '0') ?: '0')) {
            throw new \InvalidArgumentException("$name is a number from 0 on, not " . (is_scalar($value) ? var_export($value, true) : get_debug_type($value)));
        }
        return (int) $text;
    }
}
