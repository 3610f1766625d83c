<?php

declare(strict_types=1);

namespace Fermata\Grip;

/** `Grip-Sig`: a JSON web token (HS256) by which a backend knows its edge, and an edge its publishers. */
final class Signature
{
    /** A key as in settings: a text, or `base64:` and one. */
    public static function key(#[\SensitiveParameter] string $text): string
    {
        if (!str_starts_with($text, 'base64:')) {
            return $text;
        }
        $key = base64_decode(substr($text, 7), true);
        return $key === false ? throw new \ValueError('the key after base64: is not base64') : $key;
    }

    /** Makes a token that is good for so long. */
    public static function sign(string $issuer, #[\SensitiveParameter] string $key, int $seconds = 600): string
    {
        $parts = [['typ' => 'JWT', 'alg' => 'HS256'], ['iss' => $issuer, 'exp' => time() + $seconds]];
        $text = implode('.', array_map(fn (array $part) => self::encode(json_encode($part, JSON_THROW_ON_ERROR)), $parts));
        return $text . '.' . self::encode(hash_hmac('sha256', $text, $key, true));
    }

    /** Whether a request came through the edge that has this key: its signature is right, and it has not expired. */
    public static function isValid(?string $token, #[\SensitiveParameter] string $key, ?string $issuer = null): bool
    {
        $parts = explode('.', $token ?? '');
        if (count($parts) !== 3) {
            return false;
        }
        [$header, $claims] = array_map(self::decode(...), $parts);
        // The key decides the algorithm; a token that names another one is not read any further.
        if (($header['alg'] ?? null) !== 'HS256' || !is_int($claims['exp'] ?? null)) {
            return false;
        }
        $expected = self::encode(hash_hmac('sha256', "$parts[0].$parts[1]", $key, true));
        return hash_equals($expected, $parts[2])
            && $claims['exp'] > time()
            && ($claims['nbf'] ?? 0) <= time()
            && ($issuer === null || ($claims['iss'] ?? null) === $issuer);
    }

    private static function encode(string $bytes): string
    {
        return rtrim(strtr(base64_encode($bytes), '+/', '-_'), '=');
    }

    /** @return array<string, mixed> */
    private static function decode(string $text): array
    {
        $json = base64_decode(strtr($text, '-_', '+/'), true);
        $value = $json === false ? null : json_decode($json, true, 8);
        return is_array($value) ? $value : [];
    }
}
