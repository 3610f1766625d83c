<?php

declare(strict_types=1);

namespace Fermata\Grip;

/**
 * Signs and verifies `Grip-Sig` JSON Web Tokens, which authenticate edges to backends and publishers to edges.
 *
 * The key determines the algorithm: HS256 for a secret, ES256 for a PEM key on curve P-256, RS256 for an RSA PEM key. PEM keys
 * require PHP's openssl extension.
 */
final class Signature
{
    /** Length of each of the two integers of an ES256 signature. */
    private const NUMBER_BYTES = 32;

    /** Parses a key: literal text, `base64:TEXT`, `file:PATH` (PEM or a hexadecimal secret), or inline PEM. */
    public static function key(#[\SensitiveParameter] string $text): string
    {
        if (str_starts_with($text, 'base64:')) {
            $key = base64_decode(substr($text, 7), true);
            return $key === false ? throw new \ValueError('the key after base64: is not base64') : $key;
        }
        if (!str_starts_with($text, 'file:')) {
            return $text;
        }
        $content = @file_get_contents(substr($text, 5));
        if ($content === false) {
            throw new \ValueError('the key file cannot be read: ' . (error_get_last()['message'] ?? ''));
        }
        $content = trim($content);
        if (!self::isSecret($content)) {
            return $content;
        }
        $isHex = $content !== '' && strlen($content) % 2 === 0 && ctype_xdigit($content);
        return $isHex ? hex2bin($content) : throw new \ValueError('the key file holds neither PEM nor a secret in hexadecimal');
    }

    /** Returns true if the key is a shared secret, not PEM. */
    public static function isSecret(#[\SensitiveParameter] string $key): bool
    {
        return !str_starts_with($key, '-----BEGIN ');
    }

    /**
     * Returns a token that expires after the given seconds.
     *
     * @throws \ValueError if the key cannot sign
     */
    public static function sign(?string $issuer, #[\SensitiveParameter] string $key, int $seconds = 600): string
    {
        $algorithm = self::algorithm($key);
        $claims = ($issuer === null ? [] : ['iss' => $issuer]) + ['exp' => time() + $seconds];
        $parts = [['typ' => 'JWT', 'alg' => $algorithm], $claims];
        $text = implode('.', array_map(fn (array $part) => self::encode(json_encode($part, JSON_THROW_ON_ERROR)), $parts));
        if ($algorithm === 'HS256') {
            return $text . '.' . self::encode(hash_hmac('sha256', $text, $key, true));
        }
        $private = openssl_pkey_get_private($key);
        if ($private === false || !openssl_sign($text, $signature, $private, OPENSSL_ALGO_SHA256)) {
            throw new \ValueError('the key is a public one; signing needs the private key');
        }
        return $text . '.' . self::encode($algorithm === 'ES256' ? self::fromDer($signature) : $signature);
    }

    /** Returns true if the token is signed with this key, is currently valid, and names the issuer if one is given. */
    public static function isValid(?string $token, #[\SensitiveParameter] string $key, ?string $issuer = null): bool
    {
        $parts = explode('.', $token ?? '');
        if (count($parts) !== 3 || $key === '') {
            return false;
        }
        [$header, $claims] = array_map(self::decode(...), $parts);
        // The key determines the algorithm. Reject a token that names another algorithm.
        if (($header['alg'] ?? null) !== self::algorithm($key)) {
            return false;
        }
        $signature = base64_decode(strtr($parts[2], '-_', '+/'), true);
        if ($signature === false || !self::isRight("$parts[0].$parts[1]", $signature, $key, $header['alg'])) {
            return false;
        }
        $expires = $claims['exp'] ?? null;
        $begins = $claims['nbf'] ?? 0;
        return (is_int($expires) || is_float($expires)) && $expires > time()
            && (is_int($begins) || is_float($begins)) && $begins <= time()
            && ($issuer === null || ($claims['iss'] ?? null) === $issuer);
    }

    private static function isRight(string $text, string $signature, #[\SensitiveParameter] string $key, string $algorithm): bool
    {
        if ($algorithm === 'HS256') {
            return hash_equals(hash_hmac('sha256', $text, $key, true), $signature);
        }
        if ($algorithm === 'ES256') {
            if (strlen($signature) !== 2 * self::NUMBER_BYTES) {
                return false;
            }
            $signature = self::toDer($signature);
        }
        $public = self::publicKey($key);
        return $public !== null && openssl_verify($text, $signature, $public, OPENSSL_ALGO_SHA256) === 1;
    }

    private static function algorithm(#[\SensitiveParameter] string $key): string
    {
        if (self::isSecret($key)) {
            return 'HS256';
        }
        $public = self::publicKey($key);
        $details = $public === null ? [] : openssl_pkey_get_details($public);
        return match (true) {
            ($details['type'] ?? null) === OPENSSL_KEYTYPE_RSA && $details['bits'] >= 2048 => 'RS256',
            ($details['ec']['curve_name'] ?? null) === 'prime256v1' => 'ES256',
            default => throw new \ValueError('the PEM is no key for P-256 or RSA of 2048 bits or more'),
        };
    }

    private static function publicKey(#[\SensitiveParameter] string $key): ?\OpenSSLAsymmetricKey
    {
        if (!extension_loaded('openssl')) {
            throw new \ValueError("a key of PEM needs PHP's extension openssl");
        }
        $private = openssl_pkey_get_private($key);
        $public = $private === false ? $key : openssl_pkey_get_details($private)['key'];
        return openssl_pkey_get_public($public) ?: null;
    }

    /** Converts a DER signature to the format of tokens: two integers of fixed length. */
    private static function fromDer(string $der): string
    {
        // The DER form is a SEQUENCE, its length, and two INTEGERs. With P-256 every length is below 128, so it fits into one byte.
        $first = ord($der[3]);
        $numbers = [substr($der, 4, $first), substr($der, 6 + $first, ord($der[5 + $first]))];
        return implode('', array_map(
            fn (string $number) => str_pad(ltrim($number, "\0"), self::NUMBER_BYTES, "\0", STR_PAD_LEFT),
            $numbers,
        ));
    }

    /** Converts a token's signature to DER, which OpenSSL expects. */
    private static function toDer(string $signature): string
    {
        $integers = array_map(function (string $number): string {
            $number = ltrim($number, "\0");
            // A leading zero byte keeps the integer positive.
            $number = $number === '' || ord($number[0]) > 127 ? "\0$number" : $number;
            return "\x02" . chr(strlen($number)) . $number;
        }, str_split($signature, self::NUMBER_BYTES));
        return "\x30" . chr(strlen(implode('', $integers))) . implode('', $integers);
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
