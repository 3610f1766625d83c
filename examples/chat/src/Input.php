<?php

declare(strict_types=1);

namespace Chat;

/** Validates user input. Every method returns the normalized value or throws a Problem with a message for the field. */
final class Input
{
    public const NAME_LENGTH_MAX = 32;
    public const PASSWORD_LENGTH_MIN = 8;
    /** Maximum length of a password. bcrypt ignores further bytes, so longer passwords are rejected. */
    public const PASSWORD_BYTES_MAX = 72;
    public const TEXT_BYTES_MAX = 16384;

    /** Names that no user may have, because they denote special recipients. */
    private const NAMES_RESERVED = ['all', 'everyone'];
    /**
     * Invisible letters and marks: Unicode's Default_Ignorable_Code_Point without the variation selectors of emoji, and the
     * blank Braille pattern. Listed explicitly because older PCRE versions do not support the property.
     */
    private const NOT_SHOWN = '\x{034F}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{180B}-\x{180F}\x{2065}\x{2800}\x{3164}\x{FFA0}'
        . '\x{FFF0}-\x{FFF8}\x{E0000}-\x{E0FFF}';

    /**
     * Accepts all scripts and characters, including `<script>`: names are always shown as text. Only invisible characters are
     * rejected, because with them two different names could look the same.
     */
    public static function name(mixed $value): string
    {
        if (!is_string($value) || !mb_check_encoding($value, 'UTF-8')) {
            throw Problem::invalid('name', 'Please choose a name.');
        }
        $name = preg_replace('/^[\s\p{Z}]+|[\s\p{Z}]+$/u', '', $value);
        if ($name === '') {
            throw Problem::invalid('name', 'Please choose a name.');
        }
        if (preg_match('/[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}' . self::NOT_SHOWN . ']/u', $name) || self::nameKey($name) === '') {
            throw Problem::invalid('name', 'A name cannot contain invisible characters.');
        }
        $name = preg_replace('/\p{Zs}+/u', ' ', $name);
        if (mb_strlen($name) > self::NAME_LENGTH_MAX) {
            throw Problem::invalid('name', 'A name can have at most ' . self::NAME_LENGTH_MAX . ' characters.');
        }
        if (in_array(self::nameKey($name), self::NAMES_RESERVED, true)) {
            throw Problem::invalid('name', 'This name means "everyone" here. Please choose another.');
        }

        return $name;
    }

    /**
     * Returns a key that is equal for equal names: Mary, mary and MARY, with or without the variation selectors that keyboards
     * insert after an emoji.
     */
    public static function nameKey(string $name): string
    {
        return mb_convert_case(preg_replace('/[\x{FE00}-\x{FE0F}]/u', '', $name), MB_CASE_FOLD, 'UTF-8');
    }

    public static function password(mixed $value): string
    {
        if (!is_string($value) || !mb_check_encoding($value, 'UTF-8') || preg_match('/[\x00-\x1f\x7f]/', $value)) {
            throw Problem::invalid('password', 'Please choose a password without control characters.');
        }
        if (mb_strlen($value) < self::PASSWORD_LENGTH_MIN) {
            throw Problem::invalid(
                'password',
                'A password needs at least ' . self::PASSWORD_LENGTH_MIN . ' characters.',
            );
        }
        if (strlen($value) > self::PASSWORD_BYTES_MAX) {
            throw Problem::invalid('password', 'A password can have at most ' . self::PASSWORD_BYTES_MAX . ' bytes.');
        }

        return $value;
    }

    /** Removes control characters except line breaks and tabs. */
    public static function text(mixed $value): string
    {
        if (!is_string($value) || !mb_check_encoding($value, 'UTF-8')) {
            throw Problem::invalid('text', 'The message is not readable text.');
        }
        $text = preg_replace('/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/', '', strtr($value, ["\r\n" => "\n", "\r" => "\n"]));
        $text = preg_replace('/^\n+|[\s\p{Z}]+$/u', '', $text);
        if ($text === '') {
            throw Problem::invalid('text', 'The message is empty.');
        }
        if (strlen($text) > self::TEXT_BYTES_MAX) {
            throw Problem::invalid(
                'text',
                'The message is too long: ' . strlen($text) . ' of at most ' . self::TEXT_BYTES_MAX . ' bytes.',
            );
        }

        return $text;
    }

    /** Validates the key that a page assigns to a message. It detects duplicates when a message is sent again. */
    public static function key(mixed $value): string
    {
        if (!is_string($value) || !preg_match('/^[A-Za-z0-9-]{8,64}$/D', $value)) {
            throw Problem::invalid('key', 'The message has no valid key.');
        }

        return $value;
    }

    /** Parses a message id from a query string; 0 means from the first message. */
    public static function id(?string $value): ?int
    {
        if ($value === null) {
            return null;
        }
        if (!preg_match('/^\d{1,18}$/D', $value)) {
            throw new Problem(400, 'bad_request', 'A message id is a number.');
        }

        return (int) $value;
    }
}
