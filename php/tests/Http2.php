<?php

declare(strict_types=1);

namespace Fermata\Tests;

use PHPUnit\Framework\TestCase;

/** HTTP/2 client. */
final class Http2
{
    /** POSTs a body without Content-Length and returns the response's body. */
    public static function post(string $url, string $body): string
    {
        if (!extension_loaded('curl')) {
            TestCase::markTestSkipped('the extension curl is not loaded');
        }
        $sent = 0;
        $curl = curl_init($url);
        curl_setopt_array($curl, [
            CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE,
            CURLOPT_UPLOAD => true,
            CURLOPT_CUSTOMREQUEST => 'POST',
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT => 60,
            CURLOPT_READFUNCTION => static function ($curl, $file, int $bytes) use ($body, &$sent): string {
                $piece = substr($body, $sent, $bytes);
                $sent += strlen($piece);
                return $piece;
            },
        ]);
        $answer = curl_exec($curl);
        TestCase::assertIsString($answer, curl_error($curl));
        TestCase::assertSame(CURL_HTTP_VERSION_2_0, curl_getinfo($curl, CURLINFO_HTTP_VERSION));
        return $answer;
    }
}
