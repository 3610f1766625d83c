<?php

declare(strict_types=1);

namespace Chat;

/** What people may type. Every method returns the accepted form or throws a Problem with a sentence for the field. */
final class Input
{
    public const NAME_LENGTH_MAX = 32;
    public const PASSWORD_LENGTH_MIN = 8;
    /** bcrypt ignores what follows; refusing is more honest than cutting. */
    public const PASSWORD_BYTES_MAX = 72;
    public const TEXT_BYTES_MAX = 16384;

    /** Recipients with a meaning of their own, so nobody may be called that. */
    private const NAMES_RESERVED = ['all', 'everyone'];
    /**
     * Letters and marks that are drawn as nothing: Unicode's Default_Ignorable_Code_Point without the variation selectors
     * of emoji, and the empty Braille pattern. Spelled out because older PCRE does not know the property.
     */
    private const NOT_SHOWN = '\x{034F}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{180B}-\x{180F}\x{2065}\x{2800}\x{3164}\x{FFA0}'
        . '\x{FFF0}-\x{FFF8}\x{E0000}-\x{E0FFF}';

    /**
     * Any script and any sign, `<script>` included: names are shown as text and never interpreted. Refused are only
     * invisible characters, because with them two different names could look the same.
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
     * Two names with the same key are the same name: Mary, mary and MARY, with or without the variation selectors that
     * keyboards put behind an emoji and that change nothing behind a letter.
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

    /** Line breaks and tabs stay, other control characters are dropped. */
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

    /** The page's own name for a message. Sent again with the message when the answer got lost, it prevents a double. */
    public static function key(mixed $value): string
    {
        if (!is_string($value) || !preg_match('/^[A-Za-z0-9-]{8,64}$/D', $value)) {
            throw Problem::invalid('key', 'The message has no valid key.');
        }

        return $value;
    }

    /** A message id from a query string; 0 stands for "from the beginning". */
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
